//! Rows C7 and C8: changing weights when a link's rate falls, and the goodput that the tunnel costs.
//!
//! In C7, TCP's explicit rate is the rate of the engine's paths.

use super::super::Estimate;
use super::super::case::{CLEAN, STEP, read_pair};
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Picture, Row, RowChart, RowCurve, RowFinding, RowVerdict};
use crate::pair::EngineSettings;
use weft_engine::{Policy, Schedule};
use weft_scenario::{RunSeries, Scenario, Series, Variant, VariantKind};

pub(super) const ROWS: [Row; 2] = [
    Row {
        id: "C7",
        figure: "Paper 002, §II",
        claim: "weights can be changed in real time; the sum of the paths' rates is TCP-ER's rate",
        accept: "when the link of 100 Mbit/s falls to 50, with every seed a second with 90 % of the new optimum ends less than 5 s later, and the mean from then on is no less",
        setup: "the engine over 50, 75 and 100 Mbit/s with 0.005 loss, packets by weights; the weights are the capacities that the engine measures, and the explicit rate is 1.04 of what its paths carry; the step comes after 12 s of 24; optimum: Σ rates × 0.94, which the tunnel leaves to payload (C8), × (1 − loss); goodput of each second",
        examine: step,
    },
    Row {
        id: "C8",
        figure: "Paper 002, §III",
        claim: "the tunnel's own cost is negligible",
        accept: "recorded: goodput through the engine over that of the links without it",
        setup: "one CUBIC connection over 50, 75 and 100 Mbit/s without loss; the tunnel as it is by default, over each link alone and over all of them",
        examine: overhead,
    },
];

const STEP_S: f64 = 12.0;
const RATES_AFTER_MBPS: f64 = 175.0;
const LOSS: f64 = 0.005;
/// Fraction of the link rate that is TCP payload, after all headers including the tunnel's.
const PAYLOAD: f64 = 0.94;
/// Length of the intervals over which goodput is averaged, in seconds.
const WINDOW_S: f64 = 1.0;
/// Maximum time from the change of the link's rate until goodput has reached 90 % of its new optimum, in seconds.
const SOON_S: f64 = 5.0;

fn step(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let policy = Policy { schedule: Schedule::WeightedRoundRobin, ..Policy::default() };
    let played = lab.play(&read_pair(STEP)?, &EngineSettings { policy, ..EngineSettings::default() })?;
    let optimum_mbps = RATES_AFTER_MBPS * PAYLOAD * (1.0 - LOSS);
    let goodput: Vec<Vec<(f64, f64)>> = played.get("weft").into_iter().flatten().filter_map(seconds).collect();
    let least_mbps = 0.9 * optimum_mbps;
    let mean_of = |from: f64, to: f64| -> Vec<f64> {
        goodput.iter().map(|run| mean(run.iter().filter(|(at, _)| *at > from && *at <= to))).collect()
    };
    let back: Vec<f64> = goodput.iter().map(|run| back_after(run, least_mbps)).collect();
    let afterwards = mean_of(STEP_S + SOON_S, f64::INFINITY);
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    measured.add("before the step, Mbit/s", "", Estimate::of(mean_of(0.0, STEP_S)));
    measured.add("from 5 s after it on, Mbit/s", "", Estimate::of(afterwards.iter().copied()));
    measured.add("90 % of the new optimum, Mbit/s", "", Estimate::exact(least_mbps));
    measured.add("first second at that, s after the step", "", Estimate::of(back.iter().copied()));
    checks.check(!back.is_empty(), || "nothing ran".to_owned());
    for (seed, (back, afterwards)) in (1..).zip(back.iter().zip(&afterwards)) {
        checks.check(*back < SOON_S, || format!("with seed {seed} goodput is back after {back:.1} s"));
        checks.at_least(&format!("with seed {seed} goodput from 5 s after on"), *afterwards, least_mbps);
    }
    let curves = goodput.iter().zip(1..).map(|(run, seed)| RowCurve {
        name: format!("seed {seed}"),
        points: run.iter().map(|(at, mbps)| (*at, Estimate::exact(*mbps))).collect(),
    });
    let chart = RowChart {
        title: "goodput of each second, Mbit/s; one link falls from 100 to 50 Mbit/s at 12 s".into(),
        x_label: "seconds".into(),
        categories: Vec::new(),
        curves: curves.collect(),
    };
    let picture = Picture {
        row: "C7",
        file: "paper-002-step.svg",
        title: "Paper 002, §II: a link loses half of its rate",
        charts: vec![chart],
    };
    Ok(RowFinding { picture: Some(picture), ..checks.finding(measured) })
}

/// Returns the goodput of each second of a run after the warm-up: the end of the second, and Mbit/s.
///
/// `None` if the run has no flow `bulk`.
fn seconds(run: &RunSeries) -> Option<Vec<(f64, f64)>> {
    let flow: &Series = run.series.iter().find(|series| series.name == "bulk")?;
    Some(flow.averaged(WINDOW_S).into_iter().map(|(at, bps)| (at, bps / 1e6)).filter(|(at, _)| *at > 6.0).collect())
}

fn mean<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> f64 {
    let (sum, count) = points.fold((0.0, 0.0), |(sum, count), (_, value)| (sum + value, count + 1.0));
    sum / count
}

/// Returns the time in seconds from the change of the link's rate to the end of the first second with this goodput.
///
/// If a run has no such second, its time is the rest of the run.
fn back_after(run: &[(f64, f64)], least_mbps: f64) -> f64 {
    let after = || run.iter().filter(|(at, _)| *at > STEP_S);
    let back = after().find(|(_, mbps)| *mbps >= least_mbps).or(after().next_back());
    back.map_or(f64::INFINITY, |(at, _)| at - STEP_S)
}

fn overhead(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let kinds = [VariantKind::EachLink, VariantKind::WeftEachLink, VariantKind::Weft];
    let scenario = Scenario { variants: kinds.map(Variant::plain).into(), ..read_pair(CLEAN)? };
    let played = lab.play(&scenario, &EngineSettings::default())?;
    let mbps =
        |name: &str| -> Vec<f64> { played.get(name).into_iter().flatten().map(|run| run.goodput_bps / 1e6).collect() };
    let mut measured = Measured::default();
    let mut add = |row: &str, plain: &[f64], tunnel: &[f64]| {
        measured.add(row, "without, Mbit/s", Estimate::of(plain.iter().copied()));
        measured.add(row, "through it, Mbit/s", Estimate::of(tunnel.iter().copied()));
        let cost = plain.iter().zip(tunnel).map(|(plain, tunnel)| (1.0 - tunnel / plain) * 100.0);
        measured.add(row, "cost, %", Estimate::of(cost));
    };
    let mut sum: Vec<f64> = Vec::new();
    for link in &scenario.links {
        let plain = mbps(&format!("link:{}", link.name));
        add(&link.name, &plain, &mbps(&format!("weft:{}", link.name)));
        sum.resize(plain.len(), 0.0);
        sum.iter_mut().zip(&plain).for_each(|(sum, plain)| *sum += plain);
    }
    add("all three; without: their sum", &sum, &mbps("weft"));
    Ok(RowFinding { measured, verdict: RowVerdict::Reported, ..RowFinding::default() })
}
