//! Row B9: the utilisation of a link behind an engine's port with flow state.

use super::super::Estimate;
use super::super::case::{MIXED_PORT, read_pair};
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Row, RowFinding};
use crate::pair::{EngineSettings, PairRun};
use weft_engine::{FlowsConfig, PortSettings};
use weft_flows::port::DEFAULT_TARGET_USE;
use weft_flows::router::RouterConfig;
use weft_flows::rules::{FlowRule, FlowRules};
use weft_scenario::{Capacity, Scenario, VariantRun};
use weft_units::Rate;

pub(super) const B9: Row = Row {
    id: "B9",
    figure: "Paper 001, §III",
    claim: "a port's use is controlled within 5 %, and is above 80 % on average",
    accept: "with 100 mixed TCP connections each second's use within 5 points of the target of 95 %, and the mean above 80 %",
    setup: "the engine's port with flow state and a target use of 95 %; 60 CUBIC, 30 Reno and 10 BBR connections, and 20 sources of short ones with a mean of 14 packets, over a link of 20 ms round trip (`scenarios/mixed-port.toml`, also at five times its rate); use: IP bytes on the link over its capacity, with the tunnel's headers; delay of the port: what 95 % of the packets of 20 ms did not exceed, as the port reports it",
    examine,
};

/// Rates of the link in Mbit/s. The first is that of the scenario file.
const RATES_MBPS: [u64; 2] = [100, 500];
/// Length of the intervals for which the utilisation is checked, in seconds.
const WINDOW_S: f64 = 1.0;
/// Maximum difference between each second's utilisation (0 to 1) and weft's target utilisation.
///
/// *Standard*: paper 001, section III.
const WITHIN: f64 = 0.05;
/// Minimum of the mean utilisation of the link (0 to 1). *Standard*: paper 001, section III.
const LEAST_MEAN: f64 = 0.80;
/// Share of the measured capacity that may be guaranteed: the default of weft.
const RESERVABLE: f64 = 0.75;

/// Returns the settings of engines that keep flow state, with the built-in classes and these rules.
pub(super) fn with_flow_state(rules: Vec<FlowRule>) -> EngineSettings {
    let router = RouterConfig { rules: FlowRules::new(rules), ..RouterConfig::default() };
    let flows = FlowsConfig { own_name: String::new(), router, port: PortSettings::reserving(RESERVABLE) };
    EngineSettings { flows: Some(flows), ..EngineSettings::default() }
}

/// Returns the settings of engines whose ports keep to the default target use.
fn kept_to_target() -> EngineSettings {
    let mut settings = with_flow_state(Vec::new());
    settings.flows.iter_mut().for_each(|flows| flows.port.target_use = Some(DEFAULT_TARGET_USE));
    settings
}

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let (mut measured, mut checks, mut beyond) = (Measured::default(), Checks::default(), Checks::default());
    for mbps in RATES_MBPS {
        let scenario = at_rate(read_pair(MIXED_PORT)?, Rate::from_mbps(mbps));
        let played = lab.play_whole(&scenario, &kept_to_target())?;
        let name = format!("{mbps} Mbit/s");
        let of = |figure: fn(&VariantRun) -> Option<f64>| -> Vec<f64> { runs(&played).filter_map(figure).collect() };
        let means = of(|run| Some(run.links.first()?.utilisation));
        let uses = uses(&played, &scenario, mbps);
        let [least, most] =
            [uses.iter().copied().fold(f64::INFINITY, f64::min), uses.iter().copied().fold(0.0, f64::max)];
        let delays = of(|run| Some(run.ports.first()?.queue_ms_p95));
        let mean = Estimate::of(means);
        measured.add(&name, "mean use, %", percent(mean));
        measured.add(&name, "least use of a second, %", Estimate::exact(least * 100.0));
        measured.add(&name, "greatest, %", Estimate::exact(most * 100.0));
        measured.add(
            &name,
            "delay of the port, median, ms",
            Estimate::of(of(|run| Some(run.ports.first()?.queue_ms_p50))),
        );
        measured.add(&name, "95 %, ms", Estimate::of(delays.iter().copied()));
        measured.add(
            &name,
            "delay of the link's queue, 95 %, ms",
            Estimate::of(of(|run| Some(run.links.first()?.queue_ms_p95))),
        );
        let off = (least - DEFAULT_TARGET_USE).abs().max((most - DEFAULT_TARGET_USE).abs());
        checks.at_least(&format!("the mean use at {name}"), mean.mean, LEAST_MEAN);
        checks.check(off <= WITHIN, || format!("at {name} a second's use is {:.2} points off the target", off * 100.0));
        beyond.at_least(&format!("the mean use at {name}"), mean.mean, 0.95);
        beyond.check(off <= 0.02, || format!("at {name} a second's use is {:.2} points off the target", off * 100.0));
        beyond.check(delays.iter().all(|ms| *ms <= 5.0), || {
            format!("at {name} the port's delay is {:.1} ms", Estimate::of(delays.iter().copied()).mean)
        });
    }
    let mut finding = checks.finding(measured);
    let missed = beyond.into_remarks();
    finding.remarks.push(format!("{BEYOND} {}", missed.first().map_or("Met.", String::as_str)));
    Ok(finding)
}

/// Text of a requirement of the project that goes beyond the checklist.
const BEYOND: &str =
    "Asked beyond the checklist: mean ≥ 95 %, each second within 2 points of the target, delay of the port ≤ 5 ms.";

/// Returns the scenario with this rate in both directions of every link.
fn at_rate(mut scenario: Scenario, rate: Rate) -> Scenario {
    for link in &mut scenario.links {
        (link.up.capacity, link.down.capacity) = (Capacity::Rate(rate), Capacity::Rate(rate));
    }
    scenario
}

/// Returns the runs of all variants. The scenarios of this row and of B10 have one variant.
pub(super) fn runs(played: &PairRun) -> impl Iterator<Item = &VariantRun> {
    played.result.variants.iter().flat_map(|variant| &variant.runs)
}

/// Returns the utilisation (0 to 1) of the link in the direction up, in each second after the warm-up of all runs.
fn uses(played: &PairRun, scenario: &Scenario, mbps: u64) -> Vec<f64> {
    let link = scenario.links.first().map_or(String::new(), |link| format!("{}.up", link.name));
    let series = played.series.values().flatten().flat_map(|run| &run.series).filter(|series| series.name == link);
    let seconds = series.flat_map(|series| series.averaged(WINDOW_S));
    let counted = seconds.filter(|(end, _)| *end >= scenario.warmup.as_secs_f64() + WINDOW_S - 1e-9);
    counted.map(|(_, bps)| bps / (mbps as f64 * 1e6)).collect()
}

fn percent(share: Estimate) -> Estimate {
    Estimate { mean: share.mean * 100.0, half_width: share.half_width * 100.0 }
}
