//! The program `weft`, which puts a configuration on trial, keeps it or undoes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use weft_config::beside;
use weft_config::outcome::Outcome;

/// Maximum length of an error message of `weft` that is stored, in bytes.
const MAX_TEXT: usize = 2 << 10;

/// Result of the start of a trial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TrialStart {
    /// The node runs the configuration.
    Runs,
    /// No node is running.
    NoNode,
    /// The check before the trial, or the node, refuses the configuration for this reason.
    Refused(String),
}

/// The node on this machine.
pub struct LocalNode {
    weft: PathBuf,
    config: PathBuf,
    control: PathBuf,
    trial: Duration,
}

impl LocalNode {
    /// Returns the node with this configuration file and control socket.
    ///
    /// The node undoes a configuration on trial that is not confirmed within `trial`.
    pub fn new(config: &Path, control: &Path, trial: Duration) -> LocalNode {
        let weft = beside::program("weft").unwrap_or_else(|| "weft".into());
        LocalNode { weft, config: config.to_owned(), control: control.to_owned(), trial }
    }

    /// Lets the node run the configuration in a file on trial.
    ///
    /// # Errors
    /// Fails if `weft` cannot be run.
    pub fn try_out(&self, file: &Path) -> Result<TrialStart, String> {
        let time = format!("{}s", self.trial.as_secs());
        let output = self.run("apply", |command| _ = command.arg("--confirm").arg(&time).arg("--").arg(file))?;
        Ok(match output.status.code() {
            Some(0) => TrialStart::Runs,
            Some(code) if code == Outcome::NoDaemon as i32 => TrialStart::NoNode,
            _ => TrialStart::Refused(said(&output)),
        })
    }

    /// Keeps the configuration that is on trial.
    ///
    /// # Errors
    /// Returns why it is not kept.
    pub fn confirm(&self) -> Result<(), String> {
        let output = self.run("confirm", |_| ())?;
        if output.status.success() { Ok(()) } else { Err(said(&output)) }
    }

    /// Ends the trial, so that the previous configuration returns.
    ///
    /// If this fails, the node does the same when the time of the trial is over.
    pub fn undo(&self) {
        let mut command = Command::new(&self.weft);
        command.args(["--color", "never", "undo", "--control"]).arg(&self.control).stdin(Stdio::null());
        let _ = command.output();
    }

    fn run(&self, verb: &str, more: impl FnOnce(&mut Command)) -> Result<Output, String> {
        let mut command = Command::new(&self.weft);
        command.args(["--color", "never", verb, "--config"]).arg(&self.config).arg("--control").arg(&self.control);
        more(&mut command);
        command.stdin(Stdio::null());
        command.output().map_err(|why| {
            format!("cannot run the program weft: {why}: install it in the directory of the program weft-controller")
        })
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr[..output.stderr.len().min(MAX_TEXT)]).trim().to_owned();
    if !text.is_empty() {
        return text;
    }
    format!(
        "the program weft could not change the node's configuration, and printed no reason ({}): look in the log of \
         the node: journalctl -u weft",
        output.status
    )
}
