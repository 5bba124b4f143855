//! Computes the errors of estimates.

use super::mix::Mix;
use super::run::{Outcome, Truth};
use weft_core::sense::active::PathEstimate;
use weft_units::Rate;

/// Median errors for one path, as fractions of the true values.
#[derive(Clone, Copy, Debug)]
pub struct Errors {
    pub capacity: f64,
    pub available: f64,
    pub least_delay: f64,
    /// Error of the queueing delay, on a path with a queue.
    pub queue: Option<f64>,
    /// Error of the loss, on a path with loss.
    pub loss: Option<f64>,
    /// The traffic of the trains as a fraction of the capacity.
    pub own_share: f64,
}

/// Returns the errors of the `outcomes` of `mix`.
pub fn errors(mix: &Mix, outcomes: &[Outcome]) -> Errors {
    let error = |compare: &dyn Fn(&Truth, &PathEstimate) -> Option<f64>| median_error(outcomes, compare);
    let least_delay_s = least_delay_s(mix);
    let is_loaded = mix.hops.iter().any(|hop| hop.load > 0.0);
    let all: Vec<f64> =
        outcomes.iter().flat_map(|outcome| &outcome.seconds).map(|(truth, _)| truth.own_share).collect();
    Errors {
        capacity: error(&|truth, estimate| off(estimate.capacity, truth.capacity_bps)),
        available: error(&|truth, estimate| off(estimate.available, truth.available_bps)),
        least_delay: error(&|_, estimate| estimate.least_delay_us.map(|us| us as f64 / 1e6 / least_delay_s - 1.0)),
        queue: is_loaded
            .then(|| error(&|truth, estimate| estimate.queue.map(|queue| queue.as_secs_f64() / truth.queue_s - 1.0))),
        loss: (mix.loss > 0.0).then(|| error(&|_, estimate| Some(estimate.loss / mix.loss - 1.0))),
        own_share: all.iter().sum::<f64>() / all.len() as f64,
    }
}

/// Returns the error of the rate as a fraction of `truth_bps`.
pub fn off(rate: Option<Rate>, truth_bps: f64) -> Option<f64> {
    rate.map(|rate| rate.bps() as f64 / truth_bps - 1.0)
}

/// Returns the median over all seconds of the absolute error that `compare` returns.
///
/// The error of a second without an estimate is infinite.
pub fn median_error(outcomes: &[Outcome], compare: &dyn Fn(&Truth, &PathEstimate) -> Option<f64>) -> f64 {
    let seconds = outcomes.iter().flat_map(|outcome| &outcome.seconds);
    median(seconds.map(|(truth, estimate)| compare(truth, estimate).map_or(f64::INFINITY, f64::abs)).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}

/// Returns the delay of a single packet without queueing, in seconds.
///
/// It is the propagation delay plus the transmission time on each link.
fn least_delay_s(mix: &Mix) -> f64 {
    let bits = 64.0 * 8.0;
    let hops = mix.hops.len() as f64;
    let links: f64 = mix.hops.iter().map(|hop| bits / (hop.mbps * 1e6)).sum();
    0.010 * hops + 0.002 + links + 2.0 * bits / 10e9
}
