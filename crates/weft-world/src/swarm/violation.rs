//! The report of a violated invariant.

use std::fmt;
use weft_units::Instant;

/// A violated invariant that a run showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind of the invariant, as in the table of [`super`].
    pub kind: &'static str,
    /// The time at which the run showed the violation.
    pub at: Instant,
    /// A description of the violation, for a reader.
    pub what: String,
}

impl Violation {
    pub(super) fn new(kind: &'static str, at: Instant, what: impl Into<String>) -> Violation {
        Violation { kind, at, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.3} ms: {}", self.kind, self.at.as_micros() as f64 / 1e3, self.what)
    }
}
