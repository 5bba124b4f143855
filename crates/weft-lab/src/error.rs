use std::fmt;
use std::io;

/// Why the lab could not do what was asked.
#[derive(Debug)]
pub enum LabError {
    /// The system refused something, or a program failed.
    Io(io::Error),
    /// A program that this variant needs is not there or does not start; the other variants can go on.
    Missing(String),
    /// The scenario asks for what the lab cannot do, or the options name what the scenario has not.
    Scenario(String),
    /// Ctrl-C.
    Interrupted,
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Io(error) => error.fmt(f),
            LabError::Missing(text) | LabError::Scenario(text) => f.write_str(text),
            LabError::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for LabError {}

impl From<io::Error> for LabError {
    fn from(error: io::Error) -> LabError {
        LabError::Io(error)
    }
}
