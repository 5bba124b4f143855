//! Result of a command: the exit statuses, and failures with their messages.

use crate::escape;
use std::fmt;
use std::process::ExitCode;

/// Exit status of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// 0: success.
    Well = 0,
    /// 1: failure.
    Failed = 1,
    /// 2: the command line is wrong.
    Usage = 2,
    /// 3: the node works, but with less than it should have.
    Degraded = 3,
    /// 4: no daemon is running.
    NoDaemon = 4,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(outcome as u8)
    }
}

/// Reason why a command ended without its result.
#[derive(Debug)]
pub struct Failure {
    outcome: Outcome,
    text: String,
}

impl Failure {
    /// Creates a failure with exit status 1.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure::with(Outcome::Failed, text)
    }

    /// Creates a failure with the given exit status.
    pub fn with(outcome: Outcome, text: impl Into<String>) -> Failure {
        Failure { outcome, text: text.into() }
    }

    /// Returns the exit status of the failure.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Passes the message to `say`. Returns the failure without it, so that no caller prints it a second time.
    pub fn say(self, say: impl FnOnce(String)) -> Failure {
        say(self.to_string());
        Failure { text: String::new(), ..self }
    }

    /// Returns the message.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Returns one JSON object with its line end. Characters that act on a terminal are escaped.
///
/// # Errors
/// The value has no form in JSON.
pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value).map_err(|why| Failure::new(why.to_string()))?;
    Ok(escape::json(&text).into_owned() + "\n")
}

impl fmt::Display for Failure {
    /// Writes the message. It ends with a line break.
    ///
    /// A message that already ends with a line break contains the names of its file and line. Any other gets the prefix
    /// `weft:`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = escape::lines(&self.text);
        if text.is_empty() || text.ends_with('\n') { f.write_str(&text) } else { writeln!(f, "weft: {text}") }
    }
}
