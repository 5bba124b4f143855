//! A promise not kept.

use std::fmt;
use weft_units::Instant;

/// What a run showed that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub kind: &'static str,
    /// When.
    pub at: Instant,
    /// What happened.
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
