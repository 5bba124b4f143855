//! Row B10: the paper's mean flow, and the class of its calls.

use super::super::Estimate;
use super::super::case::{EXCHANGE, whole_case};
use super::super::checks::Checks;
use super::super::laboratory::Laboratory;
use super::super::row::{Measured, Row, RowFinding};
use crate::network::NetworkRun;
use weft_flows::Classes;
use weft_scenario::Traffic;
use weft_units::Duration;

pub(super) const B10: Row = Row {
    id: "B10",
    figure: "Paper 001, §III",
    claim: "a flow has 14 packets on average; a call has GR = 82 kbit/s and DV < 10 ms",
    accept: "the generator of short flows has a mean of 14 packets; the class of calls gives those values",
    setup: "short TCP flows, one begins every 20 ms on average, over Figure 2's path without losses for 300 s; the class `voice` of flow state, as built in",
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
    Ok(checks.finding(measured))
}
