//! Runs five scenarios and checks that their results do not get worse than in earlier versions.

use crate::check::{Bound, Check};
use crate::play::{flow, for_each, play, variant};
use crate::swarm;
use crate::topic::Context;
use std::time::Duration;
use weft_scenario::{Action, EventSummary, RunResult, Scenario, Variant, VariantKind};

/// A condition on a scenario.
#[derive(Clone, Copy)]
enum Ask {
    /// Least ratio of the goodput to the bound.
    Efficiency(f64),
    /// Name of a ping, and its largest p95 in ms.
    Ping(&'static str, f64),
    /// Requirements on the time after cuts of a link, and after a step of its loss.
    Cuts,
}

/// A scenario that is part of the program.
struct Case {
    name: &'static str,
    text: &'static str,
    asks: &'static [Ask],
}

macro_rules! shipped {
    ($name:literal, $asks:expr) => {
        Case { name: $name, text: include_str!(concat!("../../../../../scenarios/", $name, ".toml")), asks: $asks }
    };
}

/// The scenarios. The longest is first, so that at the end no other thread waits for it.
const CASES: [Case; 5] = [
    shipped!("cut-and-restore", &[Ask::Cuts]),
    shipped!("clean-links", &[Ask::Efficiency(0.98)]),
    shipped!("paper-002-access", &[Ask::Efficiency(0.97)]),
    shipped!("home-office", &[Ask::Efficiency(0.96), Ask::Ping("sparse", 21.0)]),
    shipped!("paper-002-heterogeneous", &[Ask::Efficiency(0.95)]),
];

/// Time after which a short run of `cut-and-restore` has no cut. Four cuts of each kind remain.
const SHORT_CUTS: Duration = Duration::from_secs(140);
/// Largest median gap of `cut-and-restore`, in ms.
///
/// The row of this scenario in the README gives the results on the kernel for these bounds.
const GAP_MEDIAN_MS: f64 = 55.0;
/// Largest gap of `cut-and-restore` over all cuts, in ms.
const GAP_WORST_MS: f64 = 100.0;
/// Largest median time until a restored link of `cut-and-restore` carries its share of the traffic again, in seconds.
const SHARE_BACK_S: f64 = 1.0;
/// Largest time until 15 % loss on a link of `cut-and-restore` is detected, in seconds.
const DEMOTED_S: f64 = 0.3;

/// A seed that once found a leak of buffers.
const LEAK_SEED: u64 = 1_000_651;

/// Runs and judges the scenarios and the swarm.
pub fn run(context: &Context) -> Vec<Check> {
    let judged = for_each(context, "scenarios", &CASES, |case| judge(case, context.full));
    let swarm = [swarm::seeds(context), LEAK_SEED..LEAK_SEED + 1];
    judged.into_iter().flatten().chain(swarm.map(|seeds| swarm::check(context, seeds))).collect()
}

fn judge(case: &Case, full: bool) -> Vec<Check> {
    let played = scenario(case, full).and_then(|scenario| play(&scenario, None));
    match played {
        Ok(run) => case.asks.iter().flat_map(|ask| ask.judge(case.name, &run.result)).collect(),
        Err(why) => vec![Check::skipped(case.name, Bound::AtMost(0.0), "failures", why)],
    }
}

/// Returns a scenario with weft's variant only. A short run has one repetition.
fn scenario(case: &Case, full: bool) -> Result<Scenario, String> {
    let mut scenario = Scenario::parse(case.text, case.name).map_err(|why| why.to_string())?;
    scenario.variants = vec![Variant::plain(VariantKind::Weft)];
    if !full {
        scenario.repeats = 1;
        shorten(&mut scenario);
    }
    Ok(scenario)
}

/// Ends a long scenario and its flows early.
///
/// Events after its last cut move earlier by the same time.
fn shorten(scenario: &mut Scenario) {
    let cuts = |scenario: &Scenario| {
        scenario.events.iter().filter(|event| event.action == Action::Cut).map(|event| event.at).max()
    };
    let Some(last) = cuts(scenario).filter(|last| *last > SHORT_CUTS) else { return };
    scenario.events.retain(|event| event.action != Action::Cut || event.at <= SHORT_CUTS);
    let saved = last - cuts(scenario).unwrap_or_default();
    scenario.events.iter_mut().filter(|event| event.at > last).for_each(|event| event.at -= saved);
    scenario.duration -= saved;
    scenario.flows.iter_mut().for_each(|flow| flow.stop = scenario.duration);
}

impl Ask {
    fn judge(self, name: &str, result: &RunResult) -> Vec<Check> {
        let weft = variant(result, "weft");
        match self {
            Ask::Efficiency(least) => {
                let figure = weft.map(|weft| weft.efficiency);
                vec![Check::new(format!("{name}: efficiency"), figure, Bound::AtLeast(least), "of capacity")]
            }
            Ask::Ping(ping, most) => {
                let figure = weft.and_then(|weft| flow(weft, ping)?.rtt_ms_p95);
                vec![Check::new(format!("{name}: ping p95"), figure, Bound::AtMost(most), "ms")]
            }
            Ask::Cuts => weft.map_or_else(Vec::new, |weft| cut_checks(name, &weft.events)),
        }
    }
}

fn cut_checks(name: &str, events: &[EventSummary]) -> Vec<Check> {
    let cuts = |event: &EventSummary| {
        let check = |what: &str, figure, most, unit| {
            Check::new(format!("{name}: cut {}, {what}", event.direction), figure, Bound::AtMost(most), unit)
        };
        let back_ms = event.share_back_s_median.map(|s| s * 1e3);
        [
            check("median gap", event.gap_ms_median, GAP_MEDIAN_MS, "ms"),
            check("worst gap", event.gap_ms_worst, GAP_WORST_MS, "ms"),
            check("share back after, median", back_ms, SHARE_BACK_S * 1e3, "ms"),
        ]
    };
    let demoted = |event: &EventSummary| {
        let figure = event.demoted_s_worst.map(|s| s * 1e3);
        Check::new(format!("{name}: 15 % loss seen after"), figure, Bound::AtMost(DEMOTED_S * 1e3), "ms")
    };
    let of = |action: &'static str| events.iter().filter(move |event| event.action == action);
    of("cut").flat_map(cuts).chain(of("loss").map(demoted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_a_scenario_that_weft_plays() {
        for case in &CASES {
            let [short, full] = [false, true].map(|full| scenario(case, full).unwrap());
            assert!(short.duration <= full.duration && short.repeats == 1, "{}", case.name);
            assert!(short.events.iter().all(|event| event.at < short.duration));
            assert!(short.flows.iter().all(|flow| flow.stop == short.duration));
        }
    }

    #[test]
    fn a_shortened_run_still_has_every_kind_of_event() {
        let short = scenario(&CASES[0], false).unwrap();
        let groups: std::collections::BTreeSet<usize> = short.events.iter().map(|event| event.group).collect();
        assert_eq!(groups.len(), 4);
    }

    #[test]
    fn cuts_are_judged_by_median_and_worst() {
        let event = |action: &str| EventSummary {
            action: action.into(),
            gap_ms_median: Some(44.0),
            gap_ms_worst: Some(187.0),
            share_back_s_median: Some(0.6),
            demoted_s_worst: None,
            ..EventSummary::default()
        };
        let verdicts: Vec<bool> = cut_checks("c", &[event("cut"), event("loss")]).iter().map(Check::is_ok).collect();
        assert_eq!(verdicts, [true, false, true, false]);
    }
}
