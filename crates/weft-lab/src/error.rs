//! The errors of the lab.

use std::fmt;
use std::io;

/// An error of the lab.
#[derive(Debug)]
pub enum LabError {
    /// The system refused an operation, or a program failed.
    Io(io::Error),
    /// A program that this variant needs is missing or does not start. Other variants can run.
    Missing(String),
    /// The scenario asks for a feature that the lab lacks, or an option names something unknown.
    Scenario(String),
    /// The user pressed Ctrl-C.
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
