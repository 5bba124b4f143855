//! The tests that show what the topic claims. A check counts the tests that fail, and falls short where none was run.

use crate::check::{Bound, Check};
use crate::topic::Context;
use std::process::{Command, Stdio};

/// A claim and the tests that show it.
pub struct Claim {
    what: &'static str,
    package: &'static str,
    /// `--lib` or `--test` and its name.
    target: &'static [&'static str],
    /// Tests with this in their name; all with an empty one.
    filter: &'static str,
}

/// The claim that `package`'s tests of `target` with `filter` in their name show.
pub const fn claim(
    what: &'static str,
    package: &'static str,
    target: &'static [&'static str],
    filter: &'static str,
) -> Claim {
    Claim { what, package, target, filter }
}

/// A crate's own tests.
pub const LIB: &[&str] = &["--lib"];

/// Runs the tests of each claim.
pub fn run(context: &Context, claims: &[Claim]) -> Vec<Check> {
    let check = |(number, claim): (usize, &Claim)| {
        context.progress.tell(claim.what, number, claims.len());
        let name = format!("{} ({})", claim.what, claim.package);
        let bound = Bound::AtMost(0.0);
        match failures(claim) {
            Ok(failures) => Check::new(name, Some(failures), bound, "failures"),
            Err(why) => Check::skipped(name, bound, "failures", why),
        }
    };
    claims.iter().enumerate().map(check).collect()
}

/// Runs a claim's tests: how many fail.
///
/// # Errors
/// When they cannot be built or run, or there are none.
fn failures(claim: &Claim) -> Result<f64, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--locked", "--quiet", "--no-fail-fast", "-p", claim.package]).args(claim.target);
    cargo.args(["--", claim.filter]).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = cargo.output().map_err(|why| format!("cargo: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (mut passed, mut failed) = (0, 0);
    for line in said.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        passed += count(line, " passed");
        failed += count(line, " failed");
    }
    match passed + failed {
        0 if output.status.success() => Err("there is no such test".to_owned()),
        0 => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("cargo said nothing").to_owned()),
        _ => Ok(f64::from(failed)),
    }
}

/// The number before `word` in a summary such as `ok. 3 passed; 0 failed`.
fn count(line: &str, word: &str) -> u32 {
    let before = line.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn summaries_are_read() {
        let line = "FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.5s";
        assert_eq!((count(line, " passed"), count(line, " failed"), count("nothing", " passed")), (12, 3, 0));
    }
}
