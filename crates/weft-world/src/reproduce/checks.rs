//! Conditions, and which of them were not met.

use super::row::{Finding, Measured};

/// The conditions of a row.
#[derive(Default)]
pub(super) struct Checks {
    missed: Vec<String>,
}

impl Checks {
    /// `what` ought to be.
    pub fn check(&mut self, is_met: bool, what: impl FnOnce() -> String) {
        if !is_met {
            self.missed.push(what());
        }
    }

    /// `value`, called `what`, ought to be at least `least`.
    pub fn at_least(&mut self, what: &str, value: f64, least: f64) {
        self.check(value >= least, || format!("{what} is {value:.2}, below {least:.2}"));
    }

    /// `value`, called `what`, ought to be below `bound`.
    pub fn below(&mut self, what: &str, value: f64, bound: f64) {
        self.check(value < bound, || format!("{what} is {value:.2}, not below {bound:.2}"));
    }

    /// What was measured, with whether all was met.
    pub fn finding(self, measured: Measured) -> Finding {
        Finding { measured, pass: self.pass(), remarks: self.into_remarks(), ..Finding::default() }
    }

    /// Whether all were met.
    pub fn pass(&self) -> bool {
        self.missed.is_empty()
    }

    /// A sentence for what was missed, if anything was.
    pub fn into_remarks(self) -> Vec<String> {
        if self.missed.is_empty() { Vec::new() } else { vec![format!("Missed: {}.", self.missed.join("; "))] }
    }
}
