//! Runs one variant of a network once, and collects the figures.

use super::build::{Built, BuiltFlow, build, counts_responses};
use super::events::Timeline;
use super::loops::{self, LoopRun};
use super::node::NetworkNode;
use super::signalling::booked_bps;
use std::borrow::Cow;
use weft_scenario::{FlowResult, LinkResult, NetworkScenario, Traces, VariantRun};
use weft_scenario::{NetworkFlow, NetworkVariant};
use weft_sim::host::{FlowAgent, Lateness, TcpSource, TransferStats};
use weft_sim::link::Histogram;
use weft_sim::signalling::{Asker, QuickAsker};
use weft_sim::tcp::SenderCounters;
use weft_sim::{FlowNo, NodeId, Simulator};
use weft_units::{Duration, Instant, Rate};

/// Time between the start of nodes with weft and the run, in which they find each other and their routes.
///
/// *Tuned*: the time that the experiments of [`crate::found_routes`] give their members.
const SETTLING: Duration = Duration::from_secs(20);

/// The figures of one run of a network variant.
#[derive(Clone, Debug, Default)]
pub struct NetworkRun {
    /// The figures in the format of all results.
    pub run: VariantRun,
    /// Counters of each flow's TCP sender over the whole run. They are zero for flows without TCP.
    pub senders: Vec<SenderCounters>,
    /// Counters of each flow's TCP sender at the end of the warm-up.
    pub senders_before: Vec<SenderCounters>,
    /// Number of payload bytes that each flow had delivered when each second of the run ended.
    ///
    /// The outer list has one entry for each flow.
    pub delivered_by_second: Vec<Vec<u64>>,
    /// Number of acknowledgments that all TCP receivers sent over the whole run.
    pub acknowledgments: u64,
    /// Distribution of the number of duplicate acknowledgments that each late TCP segment caused.
    ///
    /// It covers all TCP receivers, after the warm-up.
    pub lateness: Lateness,
    /// Number of packet transmissions that ended on any link over the whole run.
    pub packet_hops: u64,
    /// Statistics of the queues in both directions of each link after the warm-up, first the direction up.
    pub queues: Vec<[LinkQueue; 2]>,
    /// Results of the VPNs' loops that carried packets after the warm-up.
    pub loops: Vec<LoopRun>,
    /// Statistics of the transfers of each flow's TCP sender.
    pub transfers: Vec<TransferStats>,
    /// Rate granted to each flow at the end of the run, in bit/s.
    ///
    /// `None` if the flow does not ask for a rate.
    pub granted_bps: Vec<Option<u64>>,
    /// Rate that Quick-Start granted to each flow at its start, in bit/s.
    ///
    /// `None` if the flow did not ask or got no grant.
    pub quick_start_bps: Vec<Option<u64>>,
    /// Sum of the rates guaranteed to flows on each link when the run ended, in bit/s, first the direction up.
    pub booked_bps: Vec<[u64; 2]>,
}

/// Statistics of the queue in one direction of a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkQueue {
    /// Mean number of packets in the queue, including the packet in transmission (Little's law).
    pub mean_packets: f64,
    /// Longest time from the arrival of a packet in the queue until it left, in ms, within 6 %.
    pub longest_ms: f64,
}

impl NetworkRun {
    /// Returns the increase of a counter since the warm-up, summed over all TCP senders.
    pub fn counted(&self, counter: impl Fn(&SenderCounters) -> u64) -> u64 {
        self.sum(&counter) - self.senders_before.iter().map(counter).sum::<u64>()
    }

    /// Returns the value of a counter over the whole run, summed over all TCP senders.
    pub fn sum(&self, counter: impl Fn(&SenderCounters) -> u64) -> u64 {
        self.senders.iter().map(counter).sum()
    }
}

/// Builds and runs a variant.
///
/// # Errors
/// Returns an error if [`build`] fails.
pub fn run(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    seed: u64,
    traces: &Traces,
) -> Result<NetworkRun, String> {
    let later = settled(network, variant);
    let mut run = run_built(&later, &mut build(&later, variant, seed, traces)?);
    let settling = (later.duration - network.duration).as_secs_f64();
    run.run.disturbances.iter_mut().for_each(|disturbance| disturbance.at_s -= settling);
    Ok(run)
}

/// Returns the network as it must be run for a variant.
///
/// In a variant whose nodes find each other and their routes, the run begins [`SETTLING`] later.
pub(super) fn settled<'a>(network: &'a NetworkScenario, variant: &NetworkVariant) -> Cow<'a, NetworkScenario> {
    match variant.overlay.as_ref().is_some_and(|used| used.discovers) {
        true => Cow::Owned(network.begun_after(SETTLING)),
        false => Cow::Borrowed(network),
    }
}

/// Runs a built network to the end of the scenario, and returns its figures.
pub fn run_built(network: &NetworkScenario, built: &mut Built) -> NetworkRun {
    let mut by_second = vec![Vec::new(); network.flows.len()];
    let run = run_watched(network, built, |timeline, built, end| {
        while built.simulator.now() < end {
            let second = Instant::from_millis((built.simulator.now().as_nanos() / 1_000_000_000 + 1) * 1_000);
            timeline.run_until(network, built, second.min(end));
            if second <= end {
                let flows = built.flows.iter().zip(&network.flows);
                by_second.iter_mut().zip(flows).for_each(|(all, (b, flow))| all.push(delivered(built, b, flow)));
            }
        }
    });
    NetworkRun { delivered_by_second: by_second, ..run }
}

/// Runs a built network to the end of the scenario, and returns its figures.
///
/// `advance` is called for each part of the run. It must run the network until the given time.
pub(super) fn run_watched(
    network: &NetworkScenario,
    built: &mut Built,
    mut advance: impl FnMut(&mut Timeline, &mut Built, Instant),
) -> NetworkRun {
    let mut timeline = Timeline::new(network, built);
    let (warmup, end) = (Instant::ZERO + network.warmup, Instant::ZERO + network.duration);
    advance(&mut timeline, built, warmup);
    timeline.note(network, built);
    let hops_before = start_counting(built);
    let losses_before = loops::start_counting(built);
    let senders = |built: &Built| built.flows.iter().map(|flow| sender(&built.simulator, flow)).collect();
    let senders_before = senders(built);
    let before: Vec<u64> = built.flows.iter().zip(&network.flows).map(|(b, f)| delivered(built, b, f)).collect();
    advance(&mut timeline, built, end);
    timeline.note(network, built);
    let counted = end - warmup;
    let disturbances = timeline.marks.results(network);
    let flows: Vec<FlowResult> = (built.flows.iter().zip(&network.flows).zip(before))
        .map(|((b, flow), before)| flow_result(built, b, flow, before, counted))
        .collect();
    let bulk = network.flows.iter().zip(&flows).filter(|(flow, _)| flow.traffic.is_tcp());
    let goodput_bps = bulk.filter_map(|(_, result)| result.goodput_bps).sum();
    let links = link_results(network, built);
    let loops = loops::results(network, built, &losses_before, &timeline.shares, counted);
    let vpns = loops.iter().map(|this| this.result.clone()).collect();
    NetworkRun {
        senders: senders(built),
        senders_before,
        delivered_by_second: Vec::new(),
        acknowledgments: built.flows.iter().map(|flow| acknowledgments(&built.simulator, flow)).sum(),
        lateness: lateness(built),
        packet_hops: hops_before + hops_so_far(built),
        queues: link_queues(built, end, counted),
        loops,
        transfers: sources(built, |source| source.transfers().clone()),
        granted_bps: sources(built, |source| source.asker().and_then(Asker::rate).map(Rate::bps)),
        quick_start_bps: sources(built, |source| source.quick_asker().and_then(QuickAsker::granted).map(Rate::bps)),
        booked_bps: booked_bps(&built.simulator, &built.links),
        run: VariantRun { goodput_bps, flows, links, vpns, disturbances, ..VariantRun::default() },
    }
}

fn hops_so_far(built: &mut Built) -> u64 {
    let now = built.simulator.now();
    let links: Vec<_> = built.links.iter().flatten().copied().collect();
    links.into_iter().map(|link| built.simulator.link_mut(link).stats(now).sent_packets).sum()
}

/// Clears the statistics of links and hosts at the end of the warm-up.
///
/// Returns the number of packet transmissions on all links until now.
fn start_counting(built: &mut Built) -> u64 {
    let hops = hops_so_far(built);
    let now = built.simulator.now();
    for link in built.links.clone().into_iter().flatten() {
        built.simulator.link_mut(link).clear_stats(now);
    }
    built.offered.clear(&built.simulator);
    for flow in &built.flows {
        for node in [flow.from, flow.to] {
            let number = if node == flow.to { flow.arrives } else { flow.number };
            built.simulator.with_node(node, |station, _, _| match station.host_mut().agent_mut(number) {
                Some(FlowAgent::DatagramSink(sink)) => sink.clear(),
                Some(FlowAgent::Echo(echo)) => echo.clear(),
                Some(FlowAgent::TcpSink(sink)) => sink.clear(),
                _ => {}
            });
        }
    }
    hops
}

pub(super) fn agent(simulator: &Simulator<NetworkNode>, node: NodeId, flow: FlowNo) -> Option<&FlowAgent> {
    simulator.nodes().get(node.index())?.host().agent(flow)
}

/// Returns the number of payload bytes of a flow that have reached the application so far.
pub(super) fn delivered(built: &Built, flow: &BuiltFlow, spec: &NetworkFlow) -> u64 {
    let (node, number) = match counts_responses(spec) {
        true => (flow.from, FlowNo(flow.number.0 + 1)),
        false => (flow.to, flow.arrives),
    };
    match agent(&built.simulator, node, number) {
        Some(FlowAgent::TcpSink(sink)) => sink.delivered_bytes(),
        _ => 0,
    }
}

/// Returns a value of each flow's TCP source, or the type's default for a flow without TCP.
fn sources<T: Default>(built: &Built, of: impl Fn(&TcpSource) -> T) -> Vec<T> {
    let one = |flow: &BuiltFlow| match agent(&built.simulator, flow.from, flow.number) {
        Some(FlowAgent::TcpSource(source)) => of(source),
        _ => T::default(),
    };
    built.flows.iter().map(one).collect()
}

fn sender(simulator: &Simulator<NetworkNode>, flow: &BuiltFlow) -> SenderCounters {
    match agent(simulator, flow.from, flow.number) {
        Some(FlowAgent::TcpSource(source)) => source.counters(),
        _ => SenderCounters::default(),
    }
}

fn acknowledgments(simulator: &Simulator<NetworkNode>, flow: &BuiltFlow) -> u64 {
    match agent(simulator, flow.to, flow.arrives) {
        Some(FlowAgent::TcpSink(sink)) => sink.acknowledgments(),
        _ => 0,
    }
}

fn lateness(built: &Built) -> Lateness {
    let mut all = Lateness::default();
    for flow in &built.flows {
        if let Some(FlowAgent::TcpSink(sink)) = agent(&built.simulator, flow.to, flow.arrives) {
            all.add(sink.lateness());
        }
    }
    all
}

fn flow_result(built: &Built, flow: &BuiltFlow, spec: &NetworkFlow, before: u64, counted: Duration) -> FlowResult {
    let name = spec.name.clone();
    let bps = |bytes: u64| Some(bytes as f64 * 8.0 / counted.as_secs_f64());
    let ms = |histogram: &Histogram, q| histogram.quantile(q).map(|time| time.as_secs_f64() * 1e3);
    let gap_ms = |gap: Duration| Some(gap.as_secs_f64() * 1e3);
    if spec.traffic.is_tcp() {
        let goodput_bps = bps(delivered(built, flow, spec) - before);
        let longest_gap_ms = match agent(&built.simulator, flow.to, flow.arrives) {
            Some(FlowAgent::TcpSink(sink)) => gap_ms(sink.longest_gap()),
            _ => None,
        };
        return FlowResult { name, goodput_bps, longest_gap_ms, ..FlowResult::default() };
    }
    if let Some(FlowAgent::Echo(echo)) = agent(&built.simulator, flow.from, flow.number) {
        let (rtt_ms_p50, rtt_ms_p95) = (ms(echo.rtt(), 0.5), ms(echo.rtt(), 0.95));
        return FlowResult { name, rtt_ms_p50, rtt_ms_p95, ..FlowResult::default() };
    }
    let Some(FlowAgent::DatagramSink(sink)) = agent(&built.simulator, flow.to, flow.arrives) else {
        return FlowResult { name, ..FlowResult::default() };
    };
    FlowResult {
        name,
        goodput_bps: bps(sink.received_bytes()),
        longest_gap_ms: gap_ms(sink.longest_gap()),
        one_way_ms_p50: ms(sink.one_way(), 0.5),
        one_way_ms_p95: ms(sink.one_way(), 0.95),
        one_way_ms_p99: ms(sink.one_way(), 0.99),
        ..FlowResult::default()
    }
}

fn link_queues(built: &mut Built, now: Instant, counted: Duration) -> Vec<[LinkQueue; 2]> {
    let mut queue = |link| {
        let waits = &built.simulator.link_mut(link).stats(now).queue_delay;
        LinkQueue {
            mean_packets: waits.sum().as_secs_f64() / counted.as_secs_f64(),
            longest_ms: waits.quantile(1.0).map_or(0.0, |time| time.as_secs_f64() * 1e3),
        }
    };
    built.links.iter().map(|pair| pair.map(&mut queue)).collect()
}

fn link_results(network: &NetworkScenario, built: &mut Built) -> Vec<LinkResult> {
    let now = built.simulator.now();
    let mut results = Vec::new();
    for (spec, pair) in network.links.iter().zip(built.links.clone()) {
        for (link, direction) in pair.into_iter().zip(["up", "down"]) {
            let capacity = built.offered.bytes(&built.simulator, link);
            let stats = built.simulator.link_mut(link).stats(now);
            results.push(LinkResult {
                name: spec.name.clone(),
                direction: direction.into(),
                sent_bytes: stats.sent_bytes as f64,
                lost: (stats.dropped_packets + stats.lost_packets + stats.cut_packets) as f64,
                dropped: stats.dropped_packets as f64,
                queue_ms_p95: stats.queue_delay.quantile(0.95).map_or(0.0, |time| time.as_secs_f64() * 1e3),
                utilisation: stats.sent_bytes as f64 / (capacity as f64).max(1.0),
                packet_sizes: stats
                    .packet_sizes
                    .iter()
                    .flat_map(|sizes| sizes.most_frequent())
                    .filter(|size| size.packets > 0)
                    .collect(),
                ..LinkResult::default()
            });
        }
    }
    results
}
