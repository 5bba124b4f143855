//! Errors of estimates.

use super::run::{Outcome, Truth};
use weft_core::sense::active::Estimate;
use weft_units::Rate;

/// The median of what is left of `values` where there is none missing; infinite when half are missing.
pub fn median(values: impl Iterator<Item = Option<f64>>) -> f64 {
    let mut sorted: Vec<f64> = values.map(|value| value.unwrap_or(f64::INFINITY)).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// The median of relative errors without sign.
pub fn median_error(outcome: &Outcome, compare: impl Fn(&Truth, &Estimate) -> Option<f64>) -> f64 {
    median(outcome.seconds.iter().map(|(truth, estimate)| compare(truth, estimate).map(f64::abs)))
}

/// How far a rate is off, of the true one.
pub fn off(rate: Option<Rate>, truth_bps: f64) -> Option<f64> {
    rate.map(|rate| rate.bps() as f64 / truth_bps - 1.0)
}
