//! Tests that sensing by trains finds the true properties of a path.
//!
//! The median errors of capacity, available bandwidth, delay, queue and loss are at most 15 % over windows of ten
//! seconds. The trains use a hundredth of the capacity. The command `cargo run --release -p weft-sim --example sensing`
//! prints the table.
//!
//! The tests also show the limits. Two tight links in a row are busy at different times. The path is then without a
//! queue less often than either link, so the estimate is a lower bound. Rare losses give few samples: at a loss
//! probability of 1 in 1000, two minutes show only a handful.

mod mix;
mod place;
mod run;
mod table;
mod world;

use mix::{MIXES, Mix};
use table::{Errors, errors};

const SECONDS: u64 = 120;
const WITHIN: f64 = 0.15;
const OWN_SHARE: f64 = 0.01;
/// Minimum loss probability at which the tests check the estimated loss.
///
/// Losses of a lower probability do not occur often enough.
const LEAST_LOSS: f64 = 0.02;

/// Senses a path with five seeds. A single link takes long to simulate and has two seeds, unless `WEFT_CHECK` is set.
fn sense(mix: &Mix) -> Errors {
    let seeds = if mix.hops.len() > 1 || std::env::var_os("WEFT_CHECK").is_some() { 1..=5 } else { 1..=2 };
    errors(mix, &seeds.map(|seed| run::sense(mix, seed, SECONDS)).collect::<Vec<_>>())
}

fn has_two_tight_links(mix: &Mix) -> bool {
    let free = |hop: &mix::Hop| hop.mbps * (1.0 - hop.load);
    matches!(mix.hops, [a, b] if (free(a) / free(b) - 1.0).abs() < 0.1)
}

fn assert_all_but_available(mix: &Mix, errors: &Errors) {
    assert!(errors.capacity < WITHIN, "{mix}: {errors:?}");
    assert!(errors.least_delay < WITHIN, "{mix}: {errors:?}");
    assert!(errors.queue.is_none_or(|off| off < WITHIN), "{mix}: {errors:?}");
    assert!(errors.loss.is_none_or(|off| off < WITHIN || mix.loss < LEAST_LOSS), "{mix}: {errors:?}");
    assert!(errors.own_share < OWN_SHARE, "{mix}: {errors:?}");
}

fn assert_sensed(hops: usize, mbps: std::ops::Range<f64>) {
    let is_meant = |mix: &&Mix| mix.hops.len() == hops && mbps.contains(&mix.hops[0].mbps) && !has_two_tight_links(mix);
    let meant: Vec<&Mix> = MIXES.iter().filter(is_meant).collect();
    assert!(meant.len() > 1);
    for mix in meant {
        let errors = sense(mix);
        assert!(errors.available < WITHIN, "{mix}: {errors:?}");
        assert_all_but_available(mix, &errors);
    }
}

#[test]
fn one_slow_link() {
    assert_sensed(1, 0.0..15.0);
}

#[test]
fn one_fast_link() {
    assert_sensed(1, 15.0..1e3);
}

#[test]
fn two_links_one_of_them_tight() {
    assert_sensed(2, 0.0..1e3);
}

#[test]
fn two_tight_links_leave_a_lower_bound() {
    for mix in MIXES.iter().filter(|mix| has_two_tight_links(mix)) {
        let outcome = run::sense(mix, 1, SECONDS);
        let below = |(truth, estimate): &&(run::Truth, weft_core::sense::active::PathEstimate)| {
            estimate.available.is_some_and(|rate| (rate.bps() as f64) < truth.available_bps)
        };
        let share = outcome.seconds.iter().filter(below).count() as f64 / outcome.seconds.len() as f64;
        assert!(share > 0.95, "{mix}: {share}");
        let errors = errors(mix, &[outcome]);
        assert!(errors.available < 0.45, "{mix}: {errors:?}");
        assert_all_but_available(mix, &errors);
    }
}
