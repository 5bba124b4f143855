//! The tests that show what the topic claims. A check counts the tests that fail, and falls short where none was run.

use crate::check::{Bound, Check};
use crate::topic::Context;
use std::process::{Command, Stdio};

/// A claim and the tests that show it.
struct Claim {
    what: &'static str,
    package: &'static str,
    /// `--lib` or `--test` and its name.
    target: &'static [&'static str],
    /// Tests with this in their name; all with an empty one.
    filter: &'static str,
}

const fn claim(
    what: &'static str,
    package: &'static str,
    target: &'static [&'static str],
    filter: &'static str,
) -> Claim {
    Claim { what, package, target, filter }
}

const LIB: &[&str] = &["--lib"];

pub fn secrets(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("memory at t + 181 s opens nothing recorded before t", "weft-session", LIB, "memory"),
            claim("suspended and copied machines start new sessions", "weft-engine", &["--test", "renewal"], ""),
            claim("a shared secret is needed where one is set", "weft-engine", &["--test", "preshared"], ""),
            claim("certificates and revocations hold", "weft-engine", &["--test", "trust"], ""),
        ],
    )
}

pub fn costs(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("every kind of datagram costs a bounded time", "weft-engine", &["--test", "costs"], ""),
            claim("a peer takes no buffers from others", "weft-engine", &["--test", "room"], ""),
            claim("no bytes from the network make a node panic", "weft-engine", &["--test", "hostile"], ""),
        ],
    )
}

pub fn many_peers(context: &Context) -> Vec<Check> {
    run(context, &[claim("work does not grow with the number of peers", "weft-engine", &["--test", "many_peers"], "")])
}

pub fn files(context: &Context) -> Vec<Check> {
    run(context, &[claim("links, pipes and directories lead no command outside", "weft", &["--test", "planted"], "")])
}

pub fn machine(context: &Context) -> Vec<Check> {
    run(context, &[claim("the machine is as before; networks here stay reachable", "weft", &["--test", "machine"], "")])
}

pub fn stays_up(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("peers are served with damaged state", "weft", &["--test", "daemon"], "damaged_state"),
            claim("an unread log holds up nobody; lost state costs no session", "weft", &["--test", "stays_up"], ""),
            claim("a thread that dies or hangs ends the process", "weft", &["--bin", "weft"], "threads"),
            claim("whatever became of stamps, recordings stay refused", "weft-session", LIB, "stamps"),
        ],
    )
}

pub fn paths(context: &Context) -> Vec<Check> {
    run(
        context,
        &[claim("an unproved address gets three times what came from it", "weft-engine", &["--test", "moved"], "")],
    )
}

pub fn clients(context: &Context) -> Vec<Check> {
    run(
        context,
        &[
            claim("names from outside are escaped; the metrics endpoint is guarded", "weft", &["--bin", "weft"], ""),
            claim("clients are kept apart, and leak nothing beside the tunnel", "weft", &["--test", "access"], ""),
            claim("proxies connect only where rules let them", "weft", &["--test", "proxy"], ""),
        ],
    )
}

fn run(context: &Context, claims: &[Claim]) -> Vec<Check> {
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
