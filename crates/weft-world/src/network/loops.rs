//! The VPNs of a network: their edges and loops.
//!
//! The module makes the VPNs' edges in the simulator, adjusts the loops' windows while the network runs, and collects
//! each loop's result.

use super::build::{Built, node_id};
use super::events::EdgeShare;
use super::node::NetworkNode;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_core::control_loop::accumulation::{AccumulationConfig, AccumulationMeasure};
use weft_core::control_loop::aimd_window::{AimdConfig, AimdWindow};
use weft_core::control_loop::explicit_rate::ExplicitRateConfig;
use weft_core::control_loop::{ControlLoop, LoopConfig};
use weft_core::fair::aimd::Knob;
use weft_core::fair::controller::{self, ControllerConfig, WindowController};
use weft_core::service::{DEFAULT_GAMMA, Service, Share};
use weft_scenario::{AccumulationBy, ControlLaw, IngressSpec, Markers, NetworkScenario, NetworkVariant, NetworkVpn};
use weft_scenario::{Steering as SteeringWord, VpnResult, VpnService, WeightBy};
use weft_sim::edge::{LoopMeter, Membership, TunnelEdge, VpnMembership, VpnPlan};
use weft_sim::record::LoopSnapshot;
use weft_sim::{LinkId, NodeId, Simulator};
use weft_units::{Duration, Instant, Rate, Rng};

/// Additive increase a of a loop with a window, in packets per round trip (paper 003).
const WINDOW_INCREASE: f64 = 0.1;
/// Increase α of a loop with accumulation control, in packets per τ, which is about a round trip (paper 004).
const RATE_INCREASE: f64 = 1.0;
/// Rate with which the parameters of a VPN's queue discipline are computed, if they depend on a rate.
const NOMINAL_RATE: Rate = Rate::from_mbps(10);

/// The loop of one VPN from one edge to another.
#[derive(Clone, PartialEq, Debug)]
pub struct BuiltLoop {
    /// The index of the VPN in the scenario.
    pub vpn: u32,
    /// The loop's ingress edge.
    pub from: NodeId,
    /// The loop's egress edge.
    pub to: NodeId,
    /// The name of the loop in time series: the VPN and both edges.
    pub name: String,
    /// True if the ingress edge stands before the egress edge in the scenario file.
    pub is_up: bool,
}

/// The result of one loop, with more detail than its [`VpnResult`].
#[derive(Clone, PartialEq, Debug)]
pub struct LoopRun {
    /// The loop to which the result belongs.
    pub which: BuiltLoop,
    /// IP bytes that left at the egress edge in each [`weft_sim::edge::TICK`] of the run.
    pub by_tick: Vec<u32>,
    /// Number of congestion epochs that the accumulation control began after the warm-up.
    pub epochs: u32,
    /// The figures of the loop, in the format of all results.
    pub result: VpnResult,
}

/// Returns all possible loops: one for each VPN and each ordered pair of its edges.
pub(super) fn loops(network: &NetworkScenario) -> Vec<BuiltLoop> {
    let mut loops = Vec::new();
    for (number, vpn) in (0..).zip(&network.vpns) {
        let mut edges: Vec<usize> = vpn.hosts.iter().filter_map(|host| network.edge_of(*host)).collect();
        edges.sort_unstable();
        edges.dedup();
        for (from, to) in edges.iter().flat_map(|from| edges.iter().map(move |to| (*from, *to))) {
            if from != to {
                let [here, there] = [from, to].map(|edge| network.edges[edge].node);
                let name = format!("{}:{}>{}", vpn.name, network.nodes[here], network.nodes[there]);
                let (from_id, to_id) = (node_id(here), node_id(there));
                loops.push(BuiltLoop { vpn: number, from: from_id, to: to_id, name, is_up: from < to });
            }
        }
    }
    loops
}

/// Makes tunnel edges of those nodes that are edges in the scenario.
///
/// Returns the controllers that adjust the windows between the edges.
///
/// # Errors
/// Returns an error if a VPN's share is not valid.
pub(super) fn add_edges(
    network: &NetworkScenario,
    variant: &NetworkVariant,
    simulator: &mut Simulator<NetworkNode>,
    rng: &Rng,
) -> Result<NetworkSteering, String> {
    let steering = NetworkSteering::of(network, variant);
    let members = Arc::new(membership(network));
    let mean_weight = mean_weight(network);
    let plans: Result<Vec<VpnPlan>, String> =
        network.vpns.iter().map(|vpn| plan(vpn, mean_weight, &variant.ingress_of(vpn), &steering)).collect();
    let plans: Arc<[VpnPlan]> = plans?.into();
    let shared_events = network.vpns.iter().all(|vpn| hears(&variant.ingress_of(vpn)));
    for edge in &network.edges {
        let here = node_id(edge.node);
        let edge = TunnelEdge::new(here, members.clone(), plans.clone(), shared_events, &rng.split(u64::from(here.0)));
        simulator.with_node(here, |station, _, _| station.set_edge(edge));
    }
    if network.vpns.iter().any(|vpn| variant.ingress_of(vpn).law == ControlLaw::ExplicitRate) {
        let now = simulator.now();
        (0..simulator.links().len() as u32).for_each(|link| simulator.link_mut(LinkId(link)).grant_to_loops(now));
    }
    Ok(steering)
}

/// True if the loops of a VPN with this ingress also react to the losses of other loops.
fn hears(spec: &IngressSpec) -> bool {
    spec.shared_events && spec.law == ControlLaw::AimdWindow
}

fn membership(network: &NetworkScenario) -> Membership {
    let mut members = Membership::default();
    for (vpn, spec) in (0..).zip(&network.vpns) {
        for host in &spec.hosts {
            if let Some(edge) = network.edge_of(*host) {
                members.add(node_id(*host), VpnMembership { edge: node_id(network.edges[edge].node), vpn });
            }
        }
    }
    members
}

/// Converts the service of a VPN from the scenario's type into the type that engines use.
pub(crate) fn service(of: VpnService) -> Service {
    match of {
        VpnService::BestEffort => Service::BestEffort,
        VpnService::Assured(rate) => Service::Assured { rate, gamma: DEFAULT_GAMMA },
        VpnService::Leased(rate) => Service::LeasedLine { rate },
    }
}

/// Returns the share of a VPN as the edges use it. Its weight is divided by the mean of all weights at the start.
pub(super) fn share(network: &NetworkScenario, of: EdgeShare) -> Result<Share, String> {
    Share::new(of.weight / mean_weight(network), service(of.service)).map_err(|error| error.to_string())
}

/// Returns the mean of the VPNs' weights in the scenario.
///
/// The bounds H and L of the accumulation and the increase α (paper 004) are proportional to the weight. Weights are
/// therefore divided by this mean, so that the scenario's values apply to a VPN of mean weight.
fn mean_weight(network: &NetworkScenario) -> f64 {
    network.vpns.iter().map(|vpn| vpn.weight).sum::<f64>() / network.vpns.len().max(1) as f64
}

fn plan(vpn: &NetworkVpn, mean_weight: f64, spec: &IngressSpec, steering: &NetworkSteering) -> Result<VpnPlan, String> {
    let share = Share::new(vpn.weight / mean_weight, service(vpn.service))
        .map_err(|error| format!("VPN `{}`: {error}", vpn.name))?;
    let (queue, sizes, ecn) = spec.discipline.configured(spec.queue, NOMINAL_RATE, Duration::ZERO);
    let control = match spec.law {
        ControlLaw::None => None,
        ControlLaw::AimdWindow => Some(LoopConfig::AimdWindow(window(spec, steering.initial(vpn.weight)))),
        ControlLaw::Accumulation => Some(LoopConfig::Accumulation(Arc::new(accumulation(spec)))),
        ControlLaw::ExplicitRate => Some(LoopConfig::ExplicitRate(Arc::new(explicit_rate(spec)))),
    };
    Ok(VpnPlan { share, queue, sizes, ecn, control, carried: spec.markers == Markers::Carried })
}

fn window(spec: &IngressSpec, (increase, decrease): (f64, f64)) -> AimdConfig {
    AimdConfig {
        increase_packets: increase as f32,
        decrease: decrease as f32,
        packet_bytes: spec.packet_bytes.min(u32::from(u16::MAX)) as u16,
        marker_every: spec.marker_every,
        slow_start: spec.startup,
        ..AimdConfig::default()
    }
}

fn accumulation(spec: &IngressSpec) -> AccumulationConfig {
    let measure = match spec.accumulation {
        AccumulationBy::Delay => AccumulationMeasure::Delay,
        AccumulationBy::Counted => AccumulationMeasure::Counted,
    };
    AccumulationConfig {
        measure,
        beta: spec.beta as f32,
        increase_packets: spec.increase.unwrap_or(RATE_INCREASE) as f32,
        packet_bytes: spec.packet_bytes,
        burst_bytes: spec.packet_bytes,
        high_bursts: spec.high as f32,
        low_bursts: spec.low as f32,
        hold_packets: spec.hold as f32,
        tau: spec.tau,
        interval: spec.interval,
        // In the simulator no path paces the edge's packets, and an edge never sends late.
        late: Duration::ZERO,
        resolution: Duration::ZERO,
        startup: spec.startup,
        initial: spec.initial,
        cap: spec.cap,
        ..AccumulationConfig::default()
    }
}

fn explicit_rate(spec: &IngressSpec) -> ExplicitRateConfig {
    ExplicitRateConfig {
        burst_bytes: spec.packet_bytes,
        interval: spec.interval,
        late: Duration::ZERO,
        initial: spec.initial,
        cap: spec.cap,
        ..ExplicitRateConfig::default()
    }
}

/// Adjusts the windows of all loops with AIMD windows in a network.
///
/// One controller adjusts the windows from earlier to later edges of the scenario file. Another controller adjusts
/// the windows in the opposite direction.
pub struct NetworkSteering {
    /// The controller for windows up, and that for windows down. `None` if no loop has a window.
    ///
    /// Up means from an earlier to a later edge of the scenario file.
    controllers: Option<[WindowController; 2]>,
    nominal_weight: f64,
    /// The position of each edge in the scenario file.
    rank: BTreeMap<NodeId, usize>,
}

impl NetworkSteering {
    fn of(network: &NetworkScenario, variant: &NetworkVariant) -> NetworkSteering {
        let specs = network.vpns.iter().map(|vpn| (vpn.weight, variant.ingress_of(vpn)));
        let windows: Vec<(f64, IngressSpec)> = specs.filter(|(_, spec)| spec.law == ControlLaw::AimdWindow).collect();
        let rank = network.edges.iter().map(|edge| node_id(edge.node)).zip(0..).collect();
        let Some((_, spec)) = windows.first() else {
            return NetworkSteering { controllers: None, nominal_weight: 1.0, rank };
        };
        let config = ControllerConfig {
            steering: match spec.steering {
                SteeringWord::Off => controller::SteeringMethod::Off,
                SteeringWord::Rule => controller::SteeringMethod::Rule,
                SteeringWord::ClosedLoop => controller::SteeringMethod::ClosedLoop,
            },
            knob: match spec.weight_by {
                WeightBy::Increase => Knob::Increase,
                WeightBy::Decrease => Knob::Decrease,
            },
            increase: spec.increase.unwrap_or(WINDOW_INCREASE),
            decrease: spec.decrease,
            shared_events: spec.shared_events,
        };
        let weights = windows.iter().map(|(weight, _)| *weight);
        let nominal_weight = match spec.weight_by {
            WeightBy::Increase => weights.fold(0.0, f64::max),
            WeightBy::Decrease => weights.fold(f64::INFINITY, f64::min),
        };
        let controllers = [(); 2].map(|()| WindowController::new(config, Instant::ZERO));
        NetworkSteering { controllers: Some(controllers), nominal_weight, rank }
    }

    /// Returns the additive increase a and the decrease factor b of a new loop's window with this weight.
    pub(super) fn initial(&self, weight: f64) -> (f64, f64) {
        let first = self.controllers.as_ref().map(|[up, _]| up);
        first.map_or((WINDOW_INCREASE, 0.1), |controller| controller.initial(weight, self.nominal_weight))
    }

    /// Runs the simulator until `end`, and lets each controller adjust the windows when it is due.
    pub(super) fn run_until(&mut self, simulator: &mut Simulator<NetworkNode>, end: Instant) {
        while let Some(due) = self.deadline().filter(|due| *due <= end) {
            simulator.run_until(due);
            self.turn(due, simulator);
        }
        simulator.run_until(end);
    }

    fn deadline(&self) -> Option<Instant> {
        self.controllers.iter().flatten().filter_map(WindowController::deadline).min()
    }

    fn turn(&mut self, now: Instant, simulator: &mut Simulator<NetworkNode>) {
        let NetworkSteering { controllers: Some(controllers), rank, .. } = self else { return };
        let [up, down] = controllers;
        for (controller, is_up) in [(up, true), (down, false)] {
            if controller.deadline().is_none_or(|due| due > now) {
                continue;
            }
            let mut laws: Vec<(f64, &mut AimdWindow)> = Vec::new();
            for (here, station) in (0..).map(NodeId).zip(simulator.nodes_mut()) {
                let Some(edge) = station.edge_mut() else { continue };
                for (there, share, law) in edge.laws_mut() {
                    if let ControlLoop::AimdWindow(law) = law
                        && (rank.get(&here) < rank.get(&there)) == is_up
                    {
                        laws.push((share.weight(), law));
                    }
                }
            }
            controller.turn(now, &mut laws);
        }
    }
}

/// Clears the statistics of all edges at the end of the warm-up.
///
/// Returns the counters of each loop until now.
pub(super) fn start_counting(built: &mut Built) -> Vec<LoopCounters> {
    let before = built.loops.iter().map(|this| LoopCounters::of(&built.simulator, this)).collect();
    built.simulator.nodes_mut().iter_mut().filter_map(NetworkNode::edge_mut).for_each(TunnelEdge::clear_stats);
    before
}

/// Counters of a loop's ingress edge since the start of the run.
#[derive(Clone, Copy, Default)]
pub(super) struct LoopCounters {
    /// Packets lost between the edges.
    lost: f64,
    /// Packets that the VPN's queue at the ingress edge dropped.
    dropped: f64,
    /// Congestion epochs of the accumulation control.
    epochs: u32,
}

impl LoopCounters {
    fn of(simulator: &Simulator<NetworkNode>, this: &BuiltLoop) -> LoopCounters {
        let edge = simulator.nodes().get(this.from.index()).and_then(NetworkNode::edge);
        let Some((status, _)) = edge.and_then(|edge| edge.departures(this.vpn, this.to)) else {
            return LoopCounters::default();
        };
        LoopCounters {
            lost: status.control.map_or(0.0, |control| f64::from(control.lost_packets)),
            dropped: (status.counters.dropped_full + status.counters.dropped_aqm) as f64,
            epochs: status.control.map_or(0, |control| control.epochs),
        }
    }
}

fn arrivals<'a>(simulator: &'a Simulator<NetworkNode>, this: &BuiltLoop) -> Option<&'a LoopMeter> {
    simulator.nodes().get(this.to.index())?.edge()?.arrivals(this.vpn, this.from)
}

/// Returns the current state of a loop, as time series record it.
pub(super) fn snapshot(simulator: &Simulator<NetworkNode>, this: &BuiltLoop) -> LoopSnapshot {
    let edge = simulator.nodes().get(this.from.index()).and_then(NetworkNode::edge);
    let status = edge.and_then(|edge| edge.departures(this.vpn, this.to)).map(|(status, _)| status);
    LoopSnapshot {
        delivered_bytes: arrivals(simulator, this).map_or(0, |meter| meter.bytes()),
        queue_bytes: status.map_or(0, |status| status.queued_bytes),
        control: status.and_then(|status| status.control),
    }
}

/// Returns the results of all loops that carried packets since [`start_counting`].
///
/// `before` is the result of that function, and `counted` the time since then.
pub(super) fn results(
    network: &NetworkScenario,
    built: &Built,
    before: &[LoopCounters],
    shares: &[EdgeShare],
    counted: Duration,
) -> Vec<LoopRun> {
    let mut runs: Vec<LoopRun> = Vec::new();
    for (this, before) in built.loops.iter().zip(before) {
        let node = built.simulator.nodes().get(this.from.index()).and_then(NetworkNode::edge);
        let Some((status, waits)) = node.and_then(|edge| edge.departures(this.vpn, this.to)) else { continue };
        let Some(arrived) = arrivals(&built.simulator, this) else { continue };
        if status.sent_packets == 0 {
            continue;
        }
        let now = LoopCounters::of(&built.simulator, this);
        let ms = |q| Some(waits.waits().quantile(q).map_or(0.0, |time| time.as_secs_f64() * 1e3));
        let (vpn, share) = (&network.vpns[this.vpn as usize], shares[this.vpn as usize]);
        let [from, to] = [this.from, this.to].map(|node| network.nodes[node.index()].clone());
        let result = VpnResult {
            name: vpn.name.clone(),
            from,
            to,
            weight: share.weight,
            promised_bps: Some(service(share.service).rate().bps() as f64).filter(|bps| *bps > 0.0),
            goodput_bps: arrived.bytes() as f64 * 8.0 / counted.as_secs_f64(),
            share: 0.0,
            rate_bps: status.control.map(|control| control.rate.bps() as f64),
            window_bytes: status.control.map(|control| control.window_bytes as f64),
            rtt_ms: status.control.map(|control| control.rtt.as_secs_f64() * 1e3),
            accumulation_bytes: status.control.map(|control| control.accumulation_bytes as f64),
            lost: now.lost - before.lost,
            dropped: now.dropped - before.dropped,
            queue_ms_p50: ms(0.5),
            queue_ms_p95: ms(0.95),
        };
        runs.push(LoopRun {
            which: this.clone(),
            by_tick: arrived.by_tick().to_vec(),
            epochs: now.epochs.wrapping_sub(before.epochs),
            result,
        });
    }
    for is_up in [true, false] {
        let sum: f64 = runs.iter().filter(|run| run.which.is_up == is_up).map(|run| run.result.goodput_bps).sum();
        for run in runs.iter_mut().filter(|run| run.which.is_up == is_up && sum > 0.0) {
            run.result.share = run.result.goodput_bps / sum;
        }
    }
    runs
}
