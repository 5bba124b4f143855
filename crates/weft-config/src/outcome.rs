//! How a command ended: the exit statuses, and failures as people read them.

use crate::escape;
use std::fmt;
use std::process::ExitCode;

/// The exit status of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// 0: all is well.
    Well = 0,
    /// 1: it failed.
    Failed = 1,
    /// 2: the command line makes no sense.
    Usage = 2,
    /// 3: it works, but with less than it should have.
    Degraded = 3,
    /// 4: no daemon is running.
    NoDaemon = 4,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> ExitCode {
        ExitCode::from(outcome as u8)
    }
}

/// Why a command ended without its result.
#[derive(Debug)]
pub struct Failure {
    outcome: Outcome,
    text: String,
}

impl Failure {
    /// A failure to do what was asked.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure::with(Outcome::Failed, text)
    }

    /// A failure with its own exit status.
    pub fn with(outcome: Outcome, text: impl Into<String>) -> Failure {
        Failure { outcome, text: text.into() }
    }

    /// The exit status it leads to.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Says it by `say`; whoever shows it later shows nothing more.
    pub fn say(self, say: impl FnOnce(String)) -> Failure {
        say(self.to_string());
        Failure { text: String::new(), ..self }
    }

    /// What it says.
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
    /// One message, each line ended; messages that name a file and line already say where they come from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = escape::lines(&self.text);
        if text.is_empty() || text.ends_with('\n') { f.write_str(&text) } else { writeln!(f, "weft: {text}") }
    }
}
