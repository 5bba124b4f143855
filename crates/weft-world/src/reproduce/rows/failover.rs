//! Row B8: after a cut, a router changes to its stored alternate route without computing one.

use super::super::Estimate;
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Row, RowFinding};
use crate::diamond::{CutMeasurement, SilentCut, fail_over};

pub(super) const B8: Row = Row {
    id: "B8",
    figure: "Paper 001, §III",
    claim: "a router goes over to a stored alternate within tens of milliseconds, computing nothing",
    accept: "at most 50 ms after the cut was detected; the alternate is the one named before, nothing is made anew",
    setup: "a diamond of 10 Mbit/s links of 5 ms and up to 1 ms of jitter, two ends with a tunnel over either of two relays, a probe each millisecond; what probes pass by falls silent, 40 times each",
    examine,
};

const SEEDS: u64 = 40;
const MOST_MS: f64 = 50.0;
const CUTS: [(SilentCut, &str); 3] = [
    (SilentCut::NearLink, "the sender's link"),
    (SilentCut::FarLink, "the link behind the relay"),
    (SilentCut::Relay, "the relay"),
];

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    lab.ran_with(SEEDS);
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    for (cut, name) in CUTS {
        let outcomes: Vec<Option<CutMeasurement>> = (1..=SEEDS).map(|seed| fail_over(cut, seed)).collect();
        let found: Vec<CutMeasurement> = outcomes.iter().flatten().copied().collect();
        checks.check(found.len() == outcomes.len(), || {
            format!("{name}: {} of {} cuts found no other way", outcomes.len() - found.len(), outcomes.len())
        });
        let ms = |of: fn(&CutMeasurement) -> weft_units::Duration| -> Vec<f64> {
            found.iter().map(|failover| of(failover).as_secs_f64() * 1e3).collect()
        };
        let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let [detection, reroute, gap] = [ms(|f| f.detection), ms(|f| f.reroute), ms(|f| f.gap)];
        measured.add(name, "detected after, ms", Estimate::of(detection.iter().copied()));
        measured.add(name, "first probe by the alternate, ms after that", Estimate::of(reroute.iter().copied()));
        measured.add(name, "most of those, ms", Estimate::of([most(&reroute)]));
        measured.add(name, "gap, ms", Estimate::of(gap.iter().copied()));
        measured.add(name, "longest gap, ms", Estimate::of([most(&gap)]));
        checks.check(most(&reroute) <= MOST_MS, || format!("{name}: {:.1} ms after detection", most(&reroute)));
        checks.check(found.iter().all(|f| f.was_stored), || format!("{name}: not always the alternate that was named"));
        checks.check(found.iter().all(|f| f.made_anew == 0), || format!("{name}: something was made anew"));
    }
    Ok(checks.finding(measured))
}
