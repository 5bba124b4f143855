//! Builds a path in virtual time.
//!
//! The path has a prober, routers with the sources and sinks of cross traffic, and a sink.

use super::mix::{Cross, Hop, Mix};
use super::place::{Place, Prober};
use weft_sim::forward::HopSelection;
use weft_sim::host::{DatagramSource, FlowAgent, FlowNodes, SimHost, Supply, TcpSink, TcpSource};
use weft_sim::link::LinkSpec;
use weft_sim::source::{ParetoBursts, Pattern};
use weft_sim::tcp::{LossRecovery, ReceiverConfig, SenderConfig};
use weft_sim::topology::{Graph, GraphEdge, shortest_routes};
use weft_sim::{FlowNo, LinkId, NodeId, Router, Simulator, Station};
use weft_units::{Duration, Instant, Rate, Rng};

pub const PROBER: NodeId = NodeId(0);
pub const FIRST_LINK: LinkId = LinkId(0);
/// One-way delay of each link of the path.
pub const HOP_DELAY: Duration = Duration::from_millis(10);
/// Rate of the links that lead to the path and away from it.
const ACCESS: Rate = Rate::from_mbps(10_000);
/// One-way delay of the links that lead to the path and away from it.
const ACCESS_DELAY: Duration = Duration::from_millis(1);
const BURST: Duration = Duration::from_millis(50);
const BURST_SHAPE: f64 = 1.5;
const MSS: u32 = 1448;
const HEADER_BYTES: u32 = 52;

/// Nodes and links before their routes are computed.
#[derive(Default)]
struct Plan {
    hosts: Vec<SimHost>,
    edges: Vec<(GraphEdge, LinkSpec)>,
    flows: u32,
}

impl Plan {
    fn node(&mut self) -> NodeId {
        self.hosts.push(SimHost::new());
        NodeId(self.hosts.len() as u32 - 1)
    }

    fn link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        self.edges.push((GraphEdge { from, to, cost: 1, weight: 1 }, spec));
        LinkId(self.edges.len() as u32 - 1)
    }

    fn access(&mut self, from: NodeId, to: NodeId) -> LinkId {
        self.link(from, to, LinkSpec { delay: ACCESS_DELAY, ..LinkSpec::with_rate(ACCESS) })
    }

    fn flow(&mut self, from: NodeId, to: NodeId, source: FlowAgent, sink: FlowAgent) {
        self.flows += 1;
        let flow = FlowNo(self.flows);
        self.hosts[from.index()].add(FlowNodes { flow, here: from, there: to }, source);
        self.hosts[to.index()].add(FlowNodes { flow, here: to, there: from }, sink);
    }
}

/// The simulated path and the numbers of its links.
pub struct World {
    pub simulator: Simulator<Place>,
    pub hops: Vec<LinkId>,
    pub sink: NodeId,
}

impl World {
    /// Builds the path of a mix. Its cross traffic lasts from the start until `stop`.
    pub fn new(mix: &Mix, seed: u64, stop: Instant) -> World {
        let rng = Rng::new(seed);
        let mut plan = Plan::default();
        let (prober, sink) = (plan.node(), plan.node());
        let mut router = plan.node();
        plan.access(prober, router);
        let mut hops = Vec::new();
        for (number, hop) in mix.hops.iter().enumerate() {
            let next = plan.node();
            let is_last = number + 1 == mix.hops.len();
            let loss = if is_last { mix.loss } else { 0.0 };
            let rate = Rate::from_bps((hop.mbps * 1e6) as u64);
            hops.push(plan.link(router, next, LinkSpec { delay: HOP_DELAY, loss, ..LinkSpec::with_rate(rate) }));
            plan.link(next, router, LinkSpec { delay: HOP_DELAY, ..LinkSpec::with_rate(ACCESS) });
            let (source, drain) = (plan.node(), plan.node());
            plan.access(source, router);
            plan.access(router, source);
            plan.access(next, drain);
            plan.access(drain, next);
            add_cross(&mut plan, hop, source, drain, &rng.split(number as u64), stop);
            router = next;
        }
        plan.access(router, sink);
        World { simulator: build(plan, sink, seed), hops, sink }
    }
}

fn build(plan: Plan, sink: NodeId, seed: u64) -> Simulator<Place> {
    let graph = Graph::new(plan.hosts.len(), plan.edges.iter().map(|(edge, _)| *edge).collect());
    let mut simulator = Simulator::new(seed);
    for (number, (host, table)) in plan.hosts.into_iter().zip(shortest_routes(&graph)).enumerate() {
        let id = NodeId(number as u32);
        let router = Router::new(table, HopSelection::RoundRobin, Rng::new(seed).split(1_000 + number as u64));
        simulator.add_node(match id {
            PROBER => Place::Prober(Prober { sink, ..Prober::default() }),
            id if id == sink => Place::Sink(Vec::new()),
            id => Place::Station(Box::new(Station::new(id, router, host))),
        });
    }
    for (edge, spec) in plan.edges {
        simulator.add_link(edge.from, edge.to, spec);
    }
    simulator
}

fn add_cross(plan: &mut Plan, hop: &Hop, from: NodeId, to: NodeId, rng: &Rng, stop: Instant) {
    let mean = Rate::from_bps((hop.mbps * hop.load * 1e6) as u64);
    let mut datagrams = |number: u64, pattern: Pattern, bytes: u32| {
        let source = DatagramSource::new(pattern, bytes, Instant::from_micros(137 * number), stop, rng.split(number));
        let sink = FlowAgent::DatagramSink(Box::default());
        plan.flow(from, to, FlowAgent::DatagramSource(source), sink);
    };
    match hop.cross {
        Cross::None => {}
        Cross::Constant { bytes } => datagrams(1, Pattern::constant(mean, bytes), bytes),
        Cross::Poisson { bytes } => datagrams(1, Pattern::poisson(mean, bytes), bytes),
        Cross::Sizes => {
            let kinds = [(40, 7.0), (576, 4.0), (1500, 1.0)];
            let all: f64 = kinds.iter().map(|(bytes, weight)| f64::from(*bytes) * weight).sum();
            for (number, (bytes, weight)) in (1..).zip(kinds) {
                datagrams(number, Pattern::poisson(mean.scaled(f64::from(bytes) * weight / all), bytes), bytes);
            }
        }
        Cross::Bursts { bytes } => {
            let bursts = ParetoBursts::new(mean.scaled(2.0), bytes, BURST, BURST, BURST_SHAPE);
            datagrams(1, Pattern::Pareto(bursts), bytes);
        }
        Cross::Tcp { connections } => add_tcp(plan, mean, connections, from, to, rng, stop),
    }
}

/// Adds the connections.
///
/// The window of each connection is its share of the load, times the round-trip time of the path without a queue.
fn add_tcp(plan: &mut Plan, mean: Rate, connections: u32, from: NodeId, to: NodeId, rng: &Rng, stop: Instant) {
    let rtt = 2 * (HOP_DELAY + 2 * ACCESS_DELAY);
    let window_bytes = mean.bytes_in(rtt) / u64::from(connections);
    let window = (window_bytes as f64 / f64::from(MSS + HEADER_BYTES)).round().max(1.0) as u32;
    for number in 0..connections {
        let sender = SenderConfig {
            mss: MSS,
            max_window_segments: window,
            recovery: LossRecovery::Sack,
            ..SenderConfig::default()
        };
        let receiver = ReceiverConfig { mss: MSS, window_segments: window, ..ReceiverConfig::default() };
        let start = Instant::from_millis(u64::from(number) * 7);
        let rng = rng.split(u64::from(number));
        let source = TcpSource::new(sender, HEADER_BYTES, Supply::Endless, start, stop, rng);
        let sink = TcpSink::new(receiver, HEADER_BYTES, None);
        plan.flow(from, to, FlowAgent::TcpSource(Box::new(source)), FlowAgent::TcpSink(Box::new(sink)));
    }
}
