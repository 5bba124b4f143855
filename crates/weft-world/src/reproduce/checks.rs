//! Checks the conditions of a row, and lists those that were not met.

use super::row::{Measured, RowFinding, RowVerdict};

/// The conditions of a row that were checked. Only those that were not met are stored.
#[derive(Default)]
pub(super) struct Checks {
    missed: Vec<String>,
}

impl Checks {
    /// Checks a condition. If it is not met, records the text `what`.
    pub fn check(&mut self, is_met: bool, what: impl FnOnce() -> String) {
        if !is_met {
            self.missed.push(what());
        }
    }

    /// Checks the condition that `value` is at least `least`. `what` names the value.
    pub fn at_least(&mut self, what: &str, value: f64, least: f64) {
        self.check(value >= least, || format!("{what} is {value:.2}, below {least:.2}"));
    }

    /// Checks the condition that `value` is below `bound`. `what` names the value.
    pub fn below(&mut self, what: &str, value: f64, bound: f64) {
        self.check(value < bound, || format!("{what} is {value:.2}, not below {bound:.2}"));
    }

    /// Returns a finding with these measurements. Its verdict says whether all conditions were met.
    pub fn finding(self, measured: Measured) -> RowFinding {
        RowFinding { measured, verdict: self.verdict(), remarks: self.into_remarks(), ..RowFinding::default() }
    }

    /// Returns whether all conditions were met.
    pub fn verdict(&self) -> RowVerdict {
        RowVerdict::of(self.missed.is_empty())
    }

    /// Returns a sentence that lists the missed conditions, or nothing if there are none.
    pub fn into_remarks(self) -> Vec<String> {
        if self.missed.is_empty() { Vec::new() } else { vec![format!("Missed: {}.", self.missed.join("; "))] }
    }
}
