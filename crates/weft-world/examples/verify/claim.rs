//! Claims of a topic, and the project's tests that prove them.
//!
//! The figure of a check is the number of tests that fail. The check fails if no test ran.

use crate::check::{Bound, Check};
use crate::topic::Context;
use std::process::{Command, Stdio};

/// A claim and the tests that prove it.
pub struct Claim {
    what: &'static str,
    package: &'static str,
    /// The test target: `--lib`, or `--test` and its name.
    target: &'static [&'static str],
    /// Text that a test's name must contain. Empty for all tests.
    filter: &'static str,
}

/// Returns a claim that is proved by `package`'s tests in `target` whose names contain `filter`.
pub const fn claim(
    what: &'static str,
    package: &'static str,
    target: &'static [&'static str],
    filter: &'static str,
) -> Claim {
    Claim { what, package, target, filter }
}

/// The target of a crate's unit tests.
pub const LIB: &[&str] = &["--lib"];

/// Runs the tests of each claim.
pub fn run(context: &Context, claims: &[Claim]) -> Vec<Check> {
    let check = |(number, claim): (usize, &Claim)| {
        context.progress.tell(claim.what, number, claims.len());
        let name = format!("{} ({})", claim.what, claim.package);
        let bound = Bound::AtMost(0.0);
        match failures(claim, context.full) {
            Ok(failures) => Check::new(name, Some(failures), bound, "failures"),
            Err(why) => Check::skipped(name, bound, "failures", why),
        }
    };
    claims.iter().enumerate().map(check).collect()
}

/// Runs a claim's tests and returns the number of failures.
///
/// `full` sets `WEFT_CHECK=1`, with which tests draw and measure more. It also builds the tests as for a release,
/// because tests judge times only then.
///
/// # Errors
/// Returns an error if the tests cannot be built or run, or if there are none.
fn failures(claim: &Claim, full: bool) -> Result<f64, String> {
    let mut cargo = cargo();
    cargo.args(["test", "--locked", "--quiet", "--no-fail-fast", "-p", claim.package]).args(claim.target);
    if full {
        cargo.arg("--release").env("WEFT_CHECK", "1");
    }
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

/// Returns the command that builds and runs the project's crates.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Builds an example of weft-world with one of its features, and runs it.
///
/// Returns its standard output.
///
/// # Errors
/// Returns the last line of standard error if the example cannot be built or fails.
pub fn example(name: &str, feature: &str, arguments: &[&str]) -> Result<String, String> {
    let mut cargo = cargo();
    cargo.args(["run", "--release", "--locked", "--quiet", "-p", "weft-world", "--features", feature]);
    cargo.args(["--example", name, "--"]).args(arguments);
    said(cargo)
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// Returns the last line of its standard error if it fails.
pub fn said(mut command: Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|why| format!("{command:?}: {why}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no message").to_owned())
}

/// Returns the number before `word` in a summary such as `ok. 3 passed; 0 failed`.
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
