//! Row B10: the mean length of short flows, and the class of voice calls beside bulk flows.

use super::super::Estimate;
use super::super::case::{EXCHANGE, HOME_OFFICE, VOICE, read_pair, whole_case};
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Row, RowFinding};
use super::ports::{runs, with_flow_state};
use crate::network::NetworkRun;
use weft_flows::Classes;
use weft_flows::rules::{FlowRule, RuleMatch};
use weft_scenario::{App, Flow, FlowResult, Scenario, Traffic, VariantRun};
use weft_units::Duration;

pub(super) const B10: Row = Row {
    id: "B10",
    figure: "Paper 001, §III",
    claim: "a flow has 14 packets on average; a call has GR = 82 kbit/s and DV < 10 ms",
    accept: "the generator of short flows has a mean of 14 packets; the class of calls gives those values; beside bulk the delay of 99.9 % of each call's packets varies by less than 10 ms",
    setup: "short TCP flows, one begins every 20 ms on average, over Figure 2's path without losses for 300 s; the class `voice` of flow state, as built in; calls of 200 bytes each 20 ms beside 20 CUBIC connections that fill the links (`scenarios/voice-under-load.toml`), also with five times as many calls, and over the links of `scenarios/home-office.toml`; variation: the one-way delay above the least one of the call",
    examine,
};

const MEAN_PACKETS: f64 = 14.0;
const LENGTH: Duration = Duration::from_secs(300);

fn examine(lab: &mut Laboratory) -> Result<RowFinding, String> {
    let mut network = EXCHANGE.read()?;
    for flow in network.flows_mut("bulk") {
        flow.traffic = Traffic::ShortFlows { mean_packets: MEAN_PACKETS, interval: Duration::from_millis(20) };
        flow.stop = LENGTH;
    }
    (network.duration, network.warmup) = (LENGTH, Duration::ZERO);
    let outcomes = lab.measure(&[whole_case(&network, "short flows", "cubic")?])?;
    let flows = |run: &NetworkRun| run.transfers.iter().map(|transfers| transfers.completed).sum::<u64>() as f64;
    let of_flows = |run: &NetworkRun| run.sum(|sender| sender.segments) as f64 / flows(run).max(1.0);
    let mean = Estimate::of(outcomes[0].iter().map(of_flows));
    let (mut measured, mut checks) = (Measured::default(), Checks::default());
    measured.add("flows", "", Estimate::of(outcomes[0].iter().map(flows)));
    measured.add("packets of a flow", "", mean);
    checks.check((mean.mean / MEAN_PACKETS - 1.0).abs() <= 0.03, || {
        format!("a flow has {:.2} packets, not {MEAN_PACKETS}", mean.mean)
    });
    let classes = Classes::built_in();
    let voice = classes.find("voice").and_then(|id| classes.get(id)).ok_or("there is no class `voice`")?.treatment;
    let (rate, delay) = (voice.guaranteed.bps() as f64 / 1e3, voice.delay_variance);
    let delay_ms = delay.map_or(f64::INFINITY, |delay| delay.as_secs_f64() * 1e3);
    measured.add("guaranteed to a call, kbit/s", "", Estimate::exact(rate));
    measured.add("its delay variance, ms", "", Estimate::exact(delay_ms));
    checks.check(rate == 82.0, || format!("a call is guaranteed {rate} kbit/s"));
    checks.check(delay_ms <= 10.0, || format!("a call's delay variance is {delay_ms} ms"));
    for (name, scenario) in beside_bulk()? {
        let played = lab.play_whole(&scenario, &with_flow_state(vec![voice_rule()]))?;
        let worst = |of: fn(&FlowResult) -> Option<f64>| -> Vec<f64> {
            runs(&played).map(|run| calls(run).filter_map(of).fold(0.0, f64::max)).collect()
        };
        let [variation, lost] = [worst(|call| call.delay_variation_ms_p999), worst(|call| call.lost)];
        let bulk =
            runs(&played).map(|run| (run.goodput_bps - calls(run).filter_map(|c| c.goodput_bps).sum::<f64>()) / 1e6);
        measured.add(name, "variation of the worst call, 99.9 %, ms", Estimate::of(variation.iter().copied()));
        measured.add(name, "most packets lost of a call", Estimate::of(lost));
        measured.add(name, "bulk, Mbit/s", Estimate::of(bulk));
        let most = variation.iter().copied().fold(0.0, f64::max);
        checks.below(&format!("{name}: the worst call's variation in ms"), most, BOUND_MS);
    }
    Ok(checks.finding(measured))
}

/// Maximum variation of the delay of a voice call, in ms. *Standard*: paper 001, section III.
const BOUND_MS: f64 = 10.0;
/// Number of voice calls in the second case, divided by the number in the scenario file.
const MORE: usize = 5;

/// Returns the cases in which voice calls run beside bulk flows, with their names.
fn beside_bulk() -> Result<[(&'static str, Scenario); 3], String> {
    let mut one = read_pair(VOICE)?;
    one.variants.retain(|variant| !variant.weft.is_empty());
    let mut many = one.clone();
    let calls: Vec<Flow> = one.flows.iter().filter(|flow| flow.app == App::Cbr).cloned().collect();
    let more = (1..MORE)
        .flat_map(|n| calls.iter().map(move |call| Flow { name: format!("{}-{n}", call.name), ..call.clone() }));
    many.flows.extend(more);
    let bundle = Scenario { links: read_pair(HOME_OFFICE)?.links, ..one.clone() };
    Ok([("30 calls, 20 Mbit/s", one), ("150 calls, 20 Mbit/s", many), ("30 calls, three links", bundle)])
}

/// Returns the rule that gives every flow of UDP the class of voice calls.
pub(super) fn voice_rule() -> FlowRule {
    let matches = RuleMatch { protocol: Some(UDP), ..RuleMatch::default() };
    FlowRule { name: "calls".into(), class: "voice".into(), matches, ..FlowRule::default() }
}

/// IP protocol number of UDP.
pub(super) const UDP: u8 = 17;

/// Returns the results of the voice calls of a run.
fn calls(run: &VariantRun) -> impl Iterator<Item = &FlowResult> {
    run.flows.iter().filter(|flow| flow.name.starts_with("call"))
}
