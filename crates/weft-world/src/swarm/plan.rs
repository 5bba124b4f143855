//! The plan of a run, decided by the seed: network, configuration, traffic and faults.

use super::fault::{FaultKind, SwarmFault};
use super::packet::{ONE_SIDED, Offload, SwarmFlow, VPNS};
use super::role::{self, NodeRole};
use std::sync::Arc;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::queue;
use weft_engine::{
    AckPolicy, Bundle, Dscp, Entry, LinkConfig, PeerQueue, Policy, Recovery, Reorder, Schedule, Weights, WrrOrder,
};
use weft_session::Cipher;
use weft_units::{Duration, Instant, PathUse, Rate, Rng, VpnId};

/// Minimum rate of a link, in Mbit/s.
///
/// On a slower link the drawn traffic would still be in a drop-tail queue when the final traffic ([`PROOF`]) begins.
const LEAST_MBPS: u64 = 2;

/// Maximum number of nodes whose traffic does not exceed the rate of a slow link of the hub.
///
/// In a plan with more nodes the hub's links are made faster.
const FEW_NODES: usize = 4;
/// Maximum number of nodes of a mesh, in which each two nodes are peers.
const MOST_IN_A_MESH: usize = 6;

/// Time after the faults within which traffic must flow again.
///
/// A node detects a silent peer within 1 s and sends it a handshake initiation every 4/3 s. It retries a path that
/// was given up every 1 s, and a path that never answered every 5 s.
const BOUND: Duration = Duration::from_secs(8);
/// Time within which traffic must flow again after 90 s without any peer.
///
/// Handshake initiations are then up to 20 s apart.
const BOUND_LONG: Duration = Duration::from_secs(30);
/// Duration of the traffic that is sent after the faults to prove that the nodes have recovered.
const PROOF: Duration = Duration::from_secs(2);
/// Time after the end of the traffic of [`PROOF`] within which the packets of this traffic arrive.
const SETTLE: Duration = Duration::from_secs(3);
/// Time without traffic after which nodes must have freed their memory for packets.
const QUIET: Duration = Duration::from_secs(8);

/// The network of a seed, with its traffic and faults.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) nodes: Vec<NodePlan>,
    /// Adjacent nodes: the node that initiates handshakes, and the node that answers them.
    pub(super) pairs: Vec<(usize, usize)>,
    pub(super) flows: Vec<SwarmFlow>,
    pub(super) talks: Vec<Talk>,
    pub(super) faults: Vec<SwarmFault>,
    pub(super) times: Times,
    /// True if there are VPNs besides the default one.
    pub(super) has_vpns: bool,
    /// True if a node can be unreachable until session keys end and handshake initiations become rare.
    pub(super) is_long: bool,
    /// True if nodes relay datagrams between other nodes.
    pub(super) has_relays: bool,
    /// The role of each node, by the node's number.
    pub(super) roles: Vec<NodeRole>,
    /// True if pairs of members share a preshared secret in addition to their keys.
    pub(super) has_secrets: bool,
}

/// The times at which the phases of a run begin or end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) faults_end: Instant,
    pub(super) proof: Instant,
    pub(super) proof_end: Instant,
    pub(super) settled: Instant,
    pub(super) end: Instant,
}

/// A node's links and configuration.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub(super) links: Vec<LinkPlan>,
    pub(super) policy: Policy,
    pub(super) cipher: Cipher,
    pub(super) inner_mtu: Option<u16>,
    /// Rate error of the node's clock, in millionths. A positive value makes it fast.
    pub(super) skew_ppm: i64,
    /// Time for which the node's event loop collects input before it processes the input.
    pub(super) lag: Duration,
    /// True if the node's kernel joins datagrams (UDP GRO).
    pub(super) gro: bool,
    /// True if other nodes have this node's addresses in their configuration.
    pub(super) is_callee: bool,
}

/// The properties of an access link.
#[derive(Clone, Debug)]
pub(super) struct LinkPlan {
    pub(super) rate: Rate,
    pub(super) delay: Duration,
    pub(super) queue: Duration,
    /// MTU of the interface, in bytes.
    pub(super) interface_mtu: u16,
    /// MTU of the path behind the interface, in bytes.
    ///
    /// A router may report this MTU, or drop longer datagrams without notice.
    pub(super) path_mtu: u16,
    pub(super) says_too_big: bool,
    pub(super) loss: f64,
    pub(super) cap: Option<Rate>,
    pub(super) send: bool,
}

/// The sending pattern of a flow over a time span.
#[derive(Clone, Debug)]
pub(super) struct Talk {
    pub(super) flow: usize,
    pub(super) from: Instant,
    pub(super) until: Instant,
    pub(super) every: Duration,
    pub(super) burst: u16,
    pub(super) offload: Offload,
    /// Length of the payload, in bytes. `None` draws any length up to the inner MTU.
    pub(super) payload: Option<u16>,
}

impl Plan {
    /// Returns the plan of a seed.
    pub(super) fn of(seed: u64) -> Plan {
        let root = Rng::new(seed ^ 0x73_7761_726d);
        let mut rng = root.split(1);
        let count = role::count(&mut root.split(8), 2 + rng.below(6).saturating_sub(3) as usize);
        let is_long = rng.chance(0.08);
        let is_mesh = count > 2 && rng.chance(0.4) && count <= MOST_IN_A_MESH;
        let mut nodes: Vec<_> = (0..count).map(|n| NodePlan::draw(&mut root.split(100 + n as u64), count)).collect();
        // Either every node initiates handshakes to node 0, the hub, or each node of a mesh does so to nodes with
        // lower numbers.
        let pairs: Vec<_> =
            (1..count).flat_map(|a| (0..a).map(move |b| (a, b))).filter(|(_, b)| is_mesh || *b == 0).collect();
        for &(_, callee) in &pairs {
            nodes[callee].is_callee = true;
        }
        // A node must be able to answer handshakes on every link.
        nodes.iter_mut().filter(|n| n.is_callee).flat_map(|n| &mut n.links).for_each(|link| link.send = true);
        nodes.iter_mut().filter(|n| n.is_callee).flat_map(|n| &mut n.links).for_each(|link| link.make_room(count));
        let times = Times::draw(&mut rng, is_long);
        let (flows, talks, faults) = Default::default();
        let has_vpns = root.split(5).chance(0.5);
        let has_relays = is_mesh && root.split(7).chance(0.5);
        let (roles, has_secrets) = (vec![NodeRole::Member; count], false);
        let mut plan =
            Plan { seed, nodes, pairs, flows, talks, faults, times, has_vpns, is_long, has_relays, roles, has_secrets };
        plan.draw_traffic(&mut root.split(2));
        plan.draw_faults(&mut root.split(3));
        if plan.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Mtu { .. })) {
            // A packet of a 9000-byte interface may be too long for the small MTU even if it is sent in parts. It could
            // not pass before the sender has learnt the MTU, so interfaces get at most 1500 bytes here.
            plan.nodes.iter_mut().flat_map(|n| &mut n.links).for_each(LinkPlan::forgo_jumbo_frames);
            plan.draw_long_packets(&mut root.split(4));
        }
        if has_vpns {
            plan.draw_vpns(&mut root.split(6));
        }
        plan.draw_adversity(&mut root.split(9));
        plan.draw_deaf_caller(&mut root.split(11));
        plan
    }

    /// Returns the configuration of a VPN's ingress queue, which is the same at all nodes.
    ///
    /// Most of these queues have a loop.
    pub(super) fn entry(&self, vpn: VpnId) -> Entry {
        let mut rng = Rng::new(self.seed ^ 0x6c_6f_6f_70).split(u64::from(vpn.0));
        let control = match rng.below(7) {
            0 | 1 => Some(LoopConfig::AimdWindow(AimdConfig::default())),
            2 | 3 => Some(LoopConfig::Accumulation(Arc::new(AccumulationConfig::default()))),
            4 | 5 => Some(LoopConfig::ExplicitRate(Arc::default())),
            _ => None,
        };
        // The AIMD loop sends less after losses. A drop-tail queue before it would then empty so slowly that packets
        // arrive too late.
        let queue = match control {
            Some(LoopConfig::AimdWindow(_)) => queue::QueueKind::FqCodel,
            _ if rng.chance(0.5) => queue::QueueKind::FqCodel,
            _ => queue::QueueKind::DropTail,
        };
        Entry { control, queue, ..Entry::default() }
    }

    /// Distributes the flows over VPNs.
    ///
    /// Some flows get a second flow with the same addresses and ports in another VPN. The receiver does not have some
    /// of these VPNs, and must not accept their packets.
    fn draw_vpns(&mut self, rng: &mut Rng) {
        let of_all = [VpnId::DEFAULT, VPNS[0], VPNS[1]];
        for flow in &mut self.flows {
            flow.vpn = of_all[rng.below(3) as usize];
        }
        for (from, to) in self.directions() {
            let Some(original) = self.flows.iter().position(|flow| (flow.from, flow.to) == (from, to)) else {
                continue;
            };
            let others = of_all.into_iter().filter(|vpn| *vpn != self.flows[original].vpn);
            if let Some(vpn) = others.into_iter().nth(rng.below(2) as usize) {
                self.add_twin(rng, original, vpn);
            }
            if self.pairs.contains(&(from, to)) {
                self.add_twin(rng, original, ONE_SIDED);
            }
        }
    }

    fn add_twin(&mut self, rng: &mut Rng, original: usize, vpn: VpnId) {
        let twin = self.flows.len();
        self.flows.push(SwarmFlow { vpn, start: rng.next_u64() as u32 | 1, ..self.flows[original].clone() });
        let talks: Vec<_> = self.talks.iter().filter(|talk| talk.flow == original).cloned().collect();
        self.talks.extend(talks.into_iter().map(|talk| Talk { flow: twin, ..talk }));
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        let from = Instant::from_millis(300);
        for _ in 0..rng.below(if self.is_long { 6 } else { 11 }) {
            let mut fault = SwarmFault::draw(rng, &self.nodes, from, self.times.faults_end, self.is_long);
            if let FaultKind::Unplug { node, link } = &mut fault.kind
                && self.nodes[*node].links.len() > 1
                && rng.chance(0.4)
            {
                // The link stays down until the end. The first link is never chosen: it always sends, and peers have
                // its address.
                *link = self.nodes[*node].links.len() - 1;
                fault.until = self.times.end;
            }
            let company = fault.draw_company(rng);
            self.faults.extend([Some(fault), company].into_iter().flatten());
        }
    }

    /// Adds long packets after the faults.
    ///
    /// A node detects a black hole for long packets only by the loss of long packets, so such packets must be sent.
    /// They must not fill the queue of a slow link when the traffic that proves the recovery begins ([`PROOF`]).
    fn draw_long_packets(&mut self, rng: &mut Rng) {
        let Times { faults_end, proof, .. } = self.times;
        for (from, to) in self.directions() {
            let flow = self.add_flow(rng, from, to, true);
            self.talks.push(Talk {
                flow,
                from: faults_end,
                until: proof,
                every: Duration::from_millis(600),
                burst: 7,
                offload: Offload::Segmentation,
                payload: Some(u16::MAX),
            });
        }
    }

    fn directions(&self) -> Vec<(usize, usize)> {
        self.pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect()
    }

    fn draw_traffic(&mut self, rng: &mut Rng) {
        for (from, to) in self.directions() {
            self.draw_background(rng, from, to);
            self.draw_proof(rng, from, to);
        }
    }

    fn add_flow(&mut self, rng: &mut Rng, from: usize, to: usize, tcp: bool) -> usize {
        let options = if tcp && rng.chance(0.5) { 12 } else { 0 };
        let tos = [0, 0, 0xb8, 1, 2, 0x28][rng.below(6) as usize];
        let port = 1000 + self.flows.len() as u16;
        let start = rng.next_u64() as u32 | 1;
        let vpn = VpnId::DEFAULT;
        self.flows.push(SwarmFlow { from, to, vpn, port, tcp, options, tos, forged: false, start });
        self.flows.len() - 1
    }

    /// Adds a steady flow and up to two flows of bursts, from node `from` to node `to`.
    ///
    /// Some flows of bursts have a forged source address, so that no node may accept their packets.
    pub(super) fn draw_background(&mut self, rng: &mut Rng, from: usize, to: usize) {
        let ms = Duration::from_millis;
        let Times { faults_end, proof, .. } = self.times;
        let slow = if self.is_long { 10 } else { 1 };
        let tcp = rng_bool(rng);
        let flow = self.add_flow(rng, from, to, tcp);
        let payload = rng_bool(rng).then_some(40);
        self.talks.push(Talk {
            flow,
            from: Instant::from_millis(20 + rng.below(80)),
            until: proof,
            every: ms((60 + rng.below(120)) * slow),
            burst: 1,
            offload: offload(rng),
            payload,
        });
        for _ in 0..rng.below(3) {
            let tcp = rng.chance(0.7);
            let flow = self.add_flow(rng, from, to, tcp);
            self.flows[flow].forged = rng.chance(0.15);
            let at = ms(50) + Duration::from_nanos(rng.below(faults_end.as_nanos()));
            let burst = 1 + rng.below(44) as u16;
            let every = ms(4 + rng.below(60));
            let until = Instant::ZERO + at + every * (1 + rng.below(20)) as u32;
            let payload = rng.chance(0.3).then(|| 8 + rng.below(1200) as u16);
            self.talks.push(Talk {
                flow,
                from: Instant::ZERO + at,
                until: until.min(proof),
                every,
                burst,
                offload: offload(rng),
                payload,
            });
        }
    }

    /// Adds a few packets of every size from node `from` to node `to` after the faults. Each of them must arrive.
    ///
    /// They prove that the nodes have recovered.
    pub(super) fn draw_proof(&mut self, rng: &mut Rng, from: usize, to: usize) {
        let Times { proof, proof_end, .. } = self.times;
        let start = proof + Duration::from_millis(rng.below(100));
        let habits =
            [(false, 1, Some(30), 90), (rng_bool(rng), 1, None, 170), (true, 2 + rng.below(24) as u16, None, 900)];
        for (tcp, burst, payload, every_ms) in habits {
            let flow = self.add_flow(rng, from, to, tcp);
            let every = Duration::from_millis(every_ms);
            let offload = if burst > 1 { Offload::Segmentation } else { offload(rng) };
            self.talks.push(Talk { flow, from: start, until: proof_end, every, burst, offload, payload });
        }
    }
}

impl Times {
    fn draw(rng: &mut Rng, is_long: bool) -> Times {
        let length = if is_long { 100_000 + rng.below(330_000) } else { 500 + rng.below(4_500) };
        let faults_end = Instant::from_millis(500 + length);
        let proof = faults_end + if is_long { BOUND_LONG } else { BOUND };
        let proof_end = proof + PROOF;
        Times { faults_end, proof, proof_end, settled: proof_end + SETTLE, end: proof_end + SETTLE + QUIET }
    }
}

impl NodePlan {
    pub(super) fn draw(rng: &mut Rng, nodes: usize) -> NodePlan {
        let most = if nodes > 2 { 3 } else { 4 };
        let links: Vec<_> = (0..1 + rng.below(most)).map(|n| LinkPlan::draw(rng, n > 0)).collect();
        let recovery = if rng.chance(0.75) { Recovery::Arq } else { Recovery::Off };
        let is_measured = rng_bool(rng);
        let named = (0..links.len()).map(|n| (link_name(n), 1 + rng.below(5) as u32)).collect();
        let weights = if is_measured { Weights::Measured } else { Weights::Static(named) };
        let policy = Policy {
            schedule: match rng.below(10) {
                0 => Schedule::RoundRobin,
                1 => Schedule::Random,
                2 => Schedule::WeightedRoundRobin,
                3 => Schedule::FlowHash,
                4 => Schedule::Redundant,
                _ => Schedule::EarliestDelivery,
            },
            bundle: [Bundle::Both, Bundle::Both, Bundle::Up, Bundle::Down][rng.below(4) as usize],
            recovery,
            reorder: if rng.chance(0.7) { Reorder::Resequence } else { Reorder::Off },
            ack: if rng.chance(0.8) { AckPolicy::Filter } else { AckPolicy::Condition },
            queue: if rng.chance(0.8) { PeerQueue::FqCodel } else { PeerQueue::DropTail },
            wrr_order: if rng_bool(rng) { WrrOrder::Smooth } else { WrrOrder::Block },
            weights,
            leasable: None,
            dscp: Dscp::Copy,
            detours: true,
            sense: false,
        };
        NodePlan {
            links,
            policy,
            cipher: if rng_bool(rng) { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 },
            inner_mtu: rng.chance(0.15).then(|| 1280 + rng.below(200) as u16),
            skew_ppm: rng.below(1_001) as i64 - 500,
            lag: Duration::from_micros([0, 0, 50, 300][rng.below(4) as usize]),
            gro: rng_bool(rng),
            is_callee: false,
        }
    }

    /// Returns the links' settings in the configuration.
    pub(super) fn link_configs(&self) -> Vec<LinkConfig> {
        let configs = self.links.iter().enumerate().filter(|(_, link)| link.cap.is_some() || !link.send);
        configs
            .map(|(n, link)| LinkConfig {
                name: link_name(n),
                cap: link.cap,
                send: link.send,
                allowed: PathUse::default(),
            })
            .collect()
    }
}

impl LinkPlan {
    /// Returns the number of packets of 1500 bytes that fit in the link's queue.
    pub(super) fn queue_packets(&self) -> u64 {
        self.rate.bytes_in(self.queue) / 1_500
    }

    /// Raises the link's rate to at least [`LEAST_MBPS`] times `nodes`, so that it carries the traffic of all nodes.
    ///
    /// Does nothing if there are at most [`FEW_NODES`] nodes.
    fn make_room(&mut self, nodes: usize) {
        if nodes > FEW_NODES {
            let least = Rate::from_mbps(LEAST_MBPS * nodes as u64);
            self.rate = self.rate.max(least);
            self.cap = self.cap.map(|cap| cap.max(least));
        }
    }

    /// Raises the MTU so that an initiation with a certificate, 636 bytes, fits into one datagram.
    pub(super) fn make_room_for_certificates(&mut self) {
        self.path_mtu = self.path_mtu.max(700);
    }

    pub(super) fn forgo_jumbo_frames(&mut self) {
        self.interface_mtu = self.interface_mtu.min(1500);
        self.path_mtu = self.path_mtu.min(1500);
    }

    fn draw(rng: &mut Rng, is_spare: bool) -> LinkPlan {
        let mbps = [LEAST_MBPS, 5, 10, 20, 50, 100, 400][rng.below(7) as usize];
        let rate = Rate::from_mbps(mbps);
        let most_us = [2_000, 20_000, 60_000][rng.below(3) as usize];
        let interface_mtu = if rng.chance(0.06) { 9000 } else { 1500 };
        let narrow = [576, 700, 1000, 1280, 1339, 1340, 1400, 1420, 1492][rng.below(9) as usize];
        LinkPlan {
            rate,
            delay: Duration::from_micros(200 + rng.below(most_us)),
            queue: Duration::from_millis(20 + rng.below(180)),
            interface_mtu,
            path_mtu: if rng.chance(0.3) { narrow } else { interface_mtu },
            says_too_big: rng_bool(rng),
            loss: if rng.chance(0.25) { [0.005, 0.02, 0.04][rng.below(3) as usize] } else { 0.0 },
            cap: rng.chance(0.12).then(|| rate.scaled(0.3 + rng.unit()).max(Rate::from_mbps(LEAST_MBPS))),
            send: !(is_spare && rng.chance(0.1)),
        }
    }
}

/// Returns the name of an access link.
pub(super) fn link_name(link: usize) -> String {
    format!("link{link}")
}

fn rng_bool(rng: &mut Rng) -> bool {
    rng.chance(0.5)
}

fn offload(rng: &mut Rng) -> Offload {
    [Offload::None, Offload::Checksum, Offload::Segmentation][rng.below(3) as usize]
}
