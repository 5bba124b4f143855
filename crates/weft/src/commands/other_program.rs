//! `weft web`, `weft controller`, `weft lab` and `weft sim`: run other programs of the project, as git runs its parts.
//!
//! The web server, the controller, the emulator, the simulator and the papers' figures are programs of their own, so that
//! a node carries none of them.

use crate::outcome::{Failure, Outcome};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use weft_config::beside;

/// A program of this project beside `weft`.
struct SiblingProgram {
    name: &'static str,
    /// Debian, RPM or Alpine package that contains the program.
    package: &'static str,
    /// Cargo package that builds the program.
    source: &'static str,
}

const LAB: SiblingProgram = SiblingProgram { name: "weft-lab", package: "weft-lab", source: "weft-experiments" };
const WEB: SiblingProgram = SiblingProgram { name: "weft-web", package: "weft", source: "weft-web" };
const CONTROLLER: SiblingProgram =
    SiblingProgram { name: "weft-controller", package: "weft", source: "weft-controller" };

/// Replaces this process by `weft-controller`. Returns only if that fails.
pub fn controller(arguments: Vec<OsString>) -> Result<Outcome, Failure> {
    run(&CONTROLLER, arguments)
}

/// Replaces this process by `weft-web`. Returns only if that fails.
pub fn web(arguments: Vec<OsString>) -> Result<Outcome, Failure> {
    run(&WEB, arguments)
}

/// Replaces this process by `weft-lab` with the arguments of `weft lab`. Returns only if that fails.
pub fn lab(arguments: Vec<OsString>) -> Result<Outcome, Failure> {
    run(&LAB, from_lab(arguments))
}

/// Replaces this process by `weft-lab` with the arguments of `weft sim`. Returns only if that fails.
pub fn sim(arguments: Vec<OsString>) -> Result<Outcome, Failure> {
    run(&LAB, from_sim(arguments))
}

/// Translates the arguments of `weft lab` to those of `weft-lab`. Sweeps then run in the emulator, not the simulator.
fn from_lab(arguments: Vec<OsString>) -> Vec<OsString> {
    match arguments.split_first() {
        Some((verb, rest)) if verb == "sweep" => joined(&["sweep", "--world", "lab"], rest),
        _ => arguments,
    }
}

/// Translates the arguments of `weft sim` to those of `weft-lab`: `weft sim run` becomes `weft-lab sim`.
fn from_sim(arguments: Vec<OsString>) -> Vec<OsString> {
    match arguments.split_first() {
        Some((verb, rest)) if verb == "run" => joined(&["sim"], rest),
        _ => arguments,
    }
}

fn joined(verbs: &[&str], rest: &[OsString]) -> Vec<OsString> {
    verbs.iter().map(OsString::from).chain(rest.iter().cloned()).collect()
}

/// Runs a scenario in the simulator of `weft-lab`, and returns its result as JSON.
///
/// # Errors
/// Fails if the program is not installed, or if it refuses the scenario.
pub fn simulate(scenario: &str) -> Result<Vec<u8>, Failure> {
    let exchange = |command: &mut Command| -> io::Result<std::process::Output> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        // The program reads all of its input before it writes, so it never waits for this process to read.
        child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(scenario.as_bytes()))?;
        child.wait_with_output()
    };
    let output = exchange(LAB.command().args(["sim", "/dev/stdin", "--json", "--quiet"]));
    match output.map_err(|why| LAB.missing(&why))? {
        output if output.status.success() => Ok(output.stdout),
        output => Err(Failure::new(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

impl SiblingProgram {
    fn command(&self) -> Command {
        Command::new(beside::program(self.name).unwrap_or_else(|| self.name.into()))
    }

    fn missing(&self, why: &io::Error) -> Failure {
        let SiblingProgram { name, package, source } = self;
        if why.kind() != io::ErrorKind::NotFound {
            return Failure::new(format!("cannot run the program `{name}`: {why}: check the file's permissions"));
        }
        Failure::new(format!(
            "the program `{name}` is not installed: install the package `{package}`, or in the source tree run \
             `cargo build --release -p {source}`"
        ))
    }
}

fn run(of: &SiblingProgram, arguments: Vec<OsString>) -> Result<Outcome, Failure> {
    let why = of.command().args(arguments).exec();
    Err(of.missing(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(translate: fn(Vec<OsString>) -> Vec<OsString>, line: &str) -> String {
        let words = translate(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        let missing = |kind: io::ErrorKind| LAB.missing(&kind.into()).to_string();
        let text = missing(io::ErrorKind::NotFound);
        assert!(text.contains("install the package `weft-lab`") && text.contains("-p weft-experiments"), "{text}");
        assert!(!missing(io::ErrorKind::PermissionDenied).contains("install"));
    }

    #[test]
    fn the_verbs_of_lab_and_sim_become_those_of_the_program() {
        assert_eq!(translated(from_lab, "run a.toml --json"), "run a.toml --json");
        assert_eq!(translated(from_lab, "sweep a.toml"), "sweep --world lab a.toml");
        assert_eq!(translated(from_sim, "run a.toml"), "sim a.toml");
        assert_eq!(translated(from_sim, "sweep --seeds 1"), "sweep --seeds 1");
        assert_eq!(translated(from_sim, "reproduce A1"), "reproduce A1");
        assert_eq!(translated(from_sim, "--help"), "--help");
    }
}
