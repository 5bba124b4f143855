//! Models an edge: the node at which packets of VPN hosts enter and leave the tunnels to other edges.
//!
//! For each other edge there is an [`Ingress`] with a queue and a loop for each VPN that has hosts at both edges. For
//! each such VPN there is also a [`LoopEgress`]. Packets keep the addresses of their hosts, by which an edge identifies
//! the VPN. Packets leave through the node's router, on whatever link leads to their destination.
//!
//! Markers take bytes, whether packets carry them or they travel as separate packets. Reports are packets between edges
//! and can be lost like any other packet. The encapsulation itself adds no bytes, as in the simulations of the papers.

mod membership;
mod meter;

pub use membership::{Membership, VpnMembership};
pub use meter::{LoopMeter, TICK};

use crate::host::PacketSink;
use crate::{Body, FlowNo, NodeId, Packet, PacketEcn};
use std::sync::Arc;
use weft_core::control_loop::explicit_rate::{Ask, LoopGrant};
use weft_core::control_loop::{ControlLoop, LoopConfig, LoopEgress, LoopReport, Marker};
use weft_core::ingress::{Ingress, IngressConfig, Profile, VpnNo, VpnStatus};
use weft_core::queue::{Arrival, QueueConfig, QueueKind};
use weft_core::service::Share;
use weft_units::{Instant, Rng};

/// Bytes that a marker adds to a packet that carries it: the VPN, the type and the marker's four numbers.
const CARRIED_BYTES: u32 = 20;
/// Bytes that a loop's rate request adds to a marker: the loop's weight and delay, and the three values of the grant.
const ASK_BYTES: u32 = 14;
/// Bytes that the granted rate adds to a report from the egress edge.
const GRANT_BYTES: u32 = 9;
/// Bytes that the length of the interval adds to a marker, if the loop counts packets in intervals.
const COUNTING_BYTES: u32 = 4;
/// Bytes that the packet counts add to a report, in addition to the marker's fields, if the loop counts packets.
const COUNT_BYTES: u32 = 16;
/// Size of a packet that carries only a marker, in IP bytes: IP and UDP headers, hop header, marker and tag.
const MARKER_BYTES: u32 = 74;
/// Size of a packet that carries only a report, in IP bytes.
const REPORT_BYTES: u32 = 90;

/// The data that an ingress edge attaches to a packet of a loop, or sends in a packet of its own.
#[derive(Clone, Debug)]
pub struct Tag {
    /// Marker of the loop, which states the number of packets that the loop has sent.
    pub marker: Marker,
    /// Request to the nodes along the route for a rate; `None`: the loop does not follow granted rates.
    pub ask: Option<Ask>,
}

impl Tag {
    /// Returns the number of bytes that this data takes in addition to a plain marker.
    fn more_bytes(&self) -> u32 {
        let counting = if self.marker.counting.is_some() { COUNTING_BYTES } else { 0 };
        counting + if self.ask.is_some() { ASK_BYTES } else { 0 }
    }
}

/// The content of a packet between two edges.
#[derive(Clone, Debug)]
pub enum EdgeBody {
    /// A host's packet inside the tunnel, with the data that the ingress edge attached.
    Wrapped {
        /// The marker that the packet carries. `None` if it carries none.
        tag: Option<Tag>,
        /// ECN field of the host's packet when it left the queue of the ingress edge.
        inner_ecn: PacketEcn,
        /// Content of the host's packet.
        body: Body,
    },
    /// A packet of its own with a marker of a loop. The number is the index of the loop's VPN.
    Marker(u32, Tag),
    /// The egress edge's report on a marker: the index of the VPN, the report, and the rate that the route granted.
    Report(u32, LoopReport, Option<LoopGrant>),
}

impl EdgeBody {
    /// Returns the rate request in this message, for a node that the packet passes. Returns `None` if it has none.
    pub fn ask_mut(&mut self) -> Option<&mut Ask> {
        match self {
            EdgeBody::Wrapped { tag, .. } => tag.as_mut()?.ask.as_mut(),
            EdgeBody::Marker(_, tag) => tag.ask.as_mut(),
            EdgeBody::Report(..) => None,
        }
    }
}

/// The settings of a VPN's queues and loops, which are the same at each edge.
#[derive(Clone, Debug)]
pub struct VpnPlan {
    /// Weight and promised rate of the VPN.
    pub share: Share,
    /// Discipline of the VPN's queues at the ingress edges.
    pub queue: QueueKind,
    /// Limits and time constants of the VPN's queues.
    pub sizes: QueueConfig,
    /// True if the queues mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Settings of the law that sets the rates or windows of the VPN's loops; `None`: no loops.
    pub control: Option<LoopConfig>,
    /// True if packets carry the markers, and false if markers follow as separate packets.
    pub carried: bool,
}

/// The state at this edge of the tunnel to another edge and from it.
struct TunnelState {
    edge: NodeId,
    ingress: Ingress<Box<Packet>>,
    /// Indices of the VPNs that both edges have, by their numbers in `ingress`.
    vpns: Vec<u32>,
    /// Number in `ingress` of each VPN, by the VPN's index. `None` if the other edge does not have the VPN.
    places: Vec<Option<VpnNo>>,
    /// The egress ends at this edge of the loops that begin at the other edge, by the index of the VPN.
    arriving: Vec<LoopEgress>,
    meters: Vec<LoopMeter>,
}

/// An edge of VPNs, with its tunnels to the other edges.
pub struct TunnelEdge {
    here: NodeId,
    members: Arc<Membership>,
    plans: Arc<[VpnPlan]>,
    tunnels: Vec<TunnelState>,
    /// Index in `tunnels` of the tunnel to each edge, by the edge's node number. `None` for a node that is no edge.
    tunnel_to: Vec<Option<u32>>,
}

impl TunnelEdge {
    /// Creates the edge at node `here`.
    ///
    /// Random drops in the edge's queues depend only on `rng`. `plans` has the settings of all VPNs.
    ///
    /// With `shared_events`, a loss event of one loop between two edges counts for all loops between them.
    pub fn new(
        here: NodeId,
        members: Arc<Membership>,
        plans: Arc<[VpnPlan]>,
        shared_events: bool,
        rng: &Rng,
    ) -> TunnelEdge {
        let config = IngressConfig { shared_events, ..IngressConfig::default() };
        let (mut tunnels, mut tunnel_to) = (Vec::new(), Vec::new());
        for (edge, vpns) in members.common_vpns(here) {
            let mut ingress = Ingress::new(config, rng.split(u64::from(edge.0)));
            let mut places = vec![None; plans.len()];
            for vpn in &vpns {
                let plan = &plans[*vpn as usize];
                let (queue, sizes, control) = (plan.queue, plan.sizes, plan.control.clone());
                places[*vpn as usize] = Some(ingress.add(plan.share, Arc::new(Profile { queue, sizes, control })));
            }
            tunnel_to.resize(tunnel_to.len().max(edge.index() + 1), None);
            tunnel_to[edge.index()] = Some(tunnels.len() as u32);
            let meters = plans.iter().map(|_| LoopMeter::default()).collect();
            tunnels.push(TunnelState {
                edge,
                ingress,
                vpns,
                places,
                arriving: vec![LoopEgress::default(); plans.len()],
                meters,
            });
        }
        TunnelEdge { here, members, plans, tunnels, tunnel_to }
    }

    /// Processes a packet that arrived at the edge's node.
    ///
    /// It returns the packet if the node must still route it. Otherwise the edge has taken it.
    pub fn receive(&mut self, now: Instant, packet: Box<Packet>, out: &mut impl PacketSink) -> Option<Box<Packet>> {
        if packet.destination == self.here {
            return self.process(now, packet, out);
        }
        let (Some(from), Some(to)) = (self.members.of(packet.source), self.members.of(packet.destination)) else {
            return Some(packet);
        };
        match (from.edge == self.here, to.edge == self.here) {
            // The packet would leave its VPN, so it is dropped.
            _ if from.vpn != to.vpn => None,
            (true, false) => {
                self.enter(now, from.vpn, to.edge, packet, out);
                None
            }
            (false, true) => Some(self.leave(now, from, packet, out)),
            _ => Some(packet),
        }
    }

    /// Sends the packets and markers that are due in the tunnels whose deadline has passed.
    pub fn wake(&mut self, now: Instant, out: &mut impl PacketSink) {
        for tunnel in 0..self.tunnels.len() {
            if self.tunnels[tunnel].ingress.deadline().is_some_and(|at| at <= now) {
                self.pump(now, tunnel, out);
            }
        }
    }

    /// Returns the time at which [`TunnelEdge::wake`] must be called next.
    pub fn deadline(&self) -> Option<Instant> {
        self.tunnels.iter().filter_map(|tunnel| tunnel.ingress.deadline()).min()
    }

    /// Returns the state of a VPN's loop to another edge, and the waiting times of its packets.
    ///
    /// Returns `None` if the edges do not have the VPN in common.
    pub fn departures(&self, vpn: u32, to: NodeId) -> Option<(VpnStatus, &LoopMeter)> {
        let tunnel = &self.tunnels[(*self.tunnel_to.get(to.index())?)? as usize];
        let place = (*tunnel.places.get(vpn as usize)?)?;
        Some((tunnel.ingress.status(place)?, &tunnel.meters[vpn as usize]))
    }

    /// Returns the measured arrivals at this edge of a VPN's loop from another edge.
    pub fn arrivals(&self, vpn: u32, from: NodeId) -> Option<&LoopMeter> {
        let tunnel = (*self.tunnel_to.get(from.index())?)?;
        self.tunnels[tunnel as usize].meters.get(vpn as usize)
    }

    /// Returns the control loops of all VPNs that begin at this edge, so that the caller can change their parameters.
    ///
    /// Each loop is returned with its egress edge and the share of its VPN.
    pub fn laws_mut(&mut self) -> impl Iterator<Item = (NodeId, Share, &mut ControlLoop)> {
        self.tunnels.iter_mut().flat_map(|tunnel| {
            let edge = tunnel.edge;
            tunnel.ingress.loops_mut().map(move |(_, share, law)| (edge, share, law))
        })
    }

    /// Changes the share of a VPN in the tunnels to all other edges, and the parameters of its windows.
    ///
    /// `window` is the increase and the decrease parameter of an AIMD window. Control algorithms without these
    /// parameters ignore it. The caller must then wake the edge's node.
    pub fn set_share(&mut self, now: Instant, vpn: u32, share: Share, window: (f64, f64)) {
        for TunnelState { ingress, places, .. } in &mut self.tunnels {
            if let Some(place) = places.get(vpn as usize).copied().flatten() {
                ingress.set_share(now, place, share);
                ingress.set_window(place, window.0, window.1);
            }
        }
    }

    /// Deletes all measurements of the loops except the arrivals in each [`TICK`].
    pub fn clear_stats(&mut self) {
        self.tunnels.iter_mut().flat_map(|tunnel| &mut tunnel.meters).for_each(LoopMeter::clear);
    }

    /// Processes a packet from another edge that is addressed to this one. Returns it if it is no message of an edge.
    fn process(&mut self, now: Instant, packet: Box<Packet>, out: &mut impl PacketSink) -> Option<Box<Packet>> {
        let Body::Edge(body) = &packet.body else { return Some(packet) };
        let tunnel = (*self.tunnel_to.get(packet.source.index())?)? as usize;
        match &**body {
            EdgeBody::Wrapped { .. } => {}
            EdgeBody::Marker(vpn, tag) => self.answer(now, tunnel, *vpn, tag, out),
            EdgeBody::Report(vpn, report, granted) => {
                let TunnelState { ingress, places, .. } = &mut self.tunnels[tunnel];
                if let Some(place) = places[*vpn as usize] {
                    if let Some(grant) = granted {
                        ingress.on_grant(now, place, *grant);
                    }
                    ingress.on_report(now, place, report);
                    self.pump(now, tunnel, out);
                }
            }
        }
        None
    }

    fn enter(&mut self, now: Instant, vpn: u32, to: NodeId, packet: Box<Packet>, out: &mut impl PacketSink) {
        let Some(tunnel) = self.tunnel_to.get(to.index()).copied().flatten() else { return };
        let TunnelState { ingress, places, .. } = &mut self.tunnels[tunnel as usize];
        let Some(place) = places[vpn as usize] else { return };
        let ecn_capable = self.plans[vpn as usize].ecn && packet.ecn != PacketEcn::NotEct;
        let arrival = Arrival { flow: packet.flow.queue_key(), bytes: packet.bytes, ecn_capable };
        ingress.enqueue(now, place, arrival, packet, &mut drop);
        self.pump(now, tunnel as usize, out);
    }

    /// Sends all packets and markers that the loops of a tunnel allow now.
    fn pump(&mut self, now: Instant, tunnel: usize, out: &mut impl PacketSink) {
        let (here, plans) = (self.here, &self.plans);
        let TunnelState { edge, ingress, vpns, meters, .. } = &mut self.tunnels[tunnel];
        while let Some((place, marker)) = ingress.next_marker(now) {
            let tag = Tag { marker, ask: ingress.ask(place) };
            out.send(lone(here, *edge, vpns[place.0 as usize], tag));
        }
        while ingress.head(now, &mut drop).is_some() {
            let Some(gone) = ingress.pop(now) else { break };
            let vpn = vpns[gone.vpn.0 as usize];
            meters[vpn as usize].queued(gone.unit.sojourn);
            let tag = gone.marker.map(|marker| Tag { marker, ask: ingress.ask(gone.vpn) });
            let (carried, alone) = if plans[vpn as usize].carried { (tag, None) } else { (None, tag) };
            out.send(wrapped(gone.unit.item, carried, gone.unit.mark_ce));
            if let Some(tag) = alone {
                out.send(lone(here, *edge, vpn, tag));
            }
        }
    }

    /// Processes a host's packet that leaves the tunnel here, and returns it without the edges' data.
    ///
    /// It counts the packet for the loop, and answers its marker with a report.
    fn leave(
        &mut self,
        now: Instant,
        from: VpnMembership,
        mut packet: Box<Packet>,
        out: &mut impl PacketSink,
    ) -> Box<Packet> {
        let Some(tunnel) = self.tunnel_to.get(from.edge.index()).copied().flatten() else { return packet };
        let (mut tag, mut inner_ecn) = (None, packet.ecn);
        if let Body::Edge(wrapping) = packet.body {
            let EdgeBody::Wrapped { tag: carried, inner_ecn: entered, body } = *wrapping else {
                packet.body = Body::Edge(wrapping);
                return packet;
            };
            packet.bytes -= carried_bytes(&carried);
            (packet.body, tag, inner_ecn) = (body, carried, entered);
        }
        // The loop reacts only to congestion on its route. A mark by the sender or by the ingress edge's own queue does
        // not count.
        let ce = packet.ecn == PacketEcn::Ce && inner_ecn != PacketEcn::Ce;
        let TunnelState { arriving, meters, .. } = &mut self.tunnels[tunnel as usize];
        arriving[from.vpn as usize].on_time(now);
        arriving[from.vpn as usize].on_packet(packet.bytes, ce);
        meters[from.vpn as usize].arrived(now, packet.bytes);
        if let Some(tag) = tag {
            self.answer(now, tunnel as usize, from.vpn, &tag, out);
        }
        packet
    }

    fn answer(&mut self, now: Instant, tunnel: usize, vpn: u32, tag: &Tag, out: &mut impl PacketSink) {
        let TunnelState { edge, arriving, .. } = &mut self.tunnels[tunnel];
        if let Some(report) = arriving[vpn as usize].on_marker(now, tag.marker) {
            let granted = tag.ask.map(|ask| ask.granted);
            let count = if report.count.is_some() { COUNT_BYTES } else { 0 };
            let bytes = REPORT_BYTES + count + if granted.is_some() { GRANT_BYTES } else { 0 };
            out.send(own(self.here, *edge, bytes, EdgeBody::Report(vpn, report, granted)));
        }
    }
}

/// Returns a packet from one edge to another with this message and length.
fn own(source: NodeId, destination: NodeId, bytes: u32, body: EdgeBody) -> Box<Packet> {
    let body = Body::Edge(Box::new(body));
    Box::new(Packet { flow: FlowNo::NONE, source, destination, bytes, label: 0, ecn: PacketEcn::NotEct, body })
}

/// Returns a packet that carries only this marker.
fn lone(source: NodeId, destination: NodeId, vpn: u32, tag: Tag) -> Box<Packet> {
    own(source, destination, MARKER_BYTES + tag.more_bytes(), EdgeBody::Marker(vpn, tag))
}

fn carried_bytes(tag: &Option<Tag>) -> u32 {
    tag.as_ref().map_or(0, |tag| CARRIED_BYTES + tag.more_bytes())
}

/// Returns a host's packet as it is sent through the tunnel, with its marker.
///
/// Without a marker and a congestion mark it is unchanged. `mark_ce` sets the congestion mark.
fn wrapped(mut packet: Box<Packet>, tag: Option<Tag>, mark_ce: bool) -> Box<Packet> {
    if mark_ce {
        packet.ecn = PacketEcn::Ce;
    }
    if tag.is_none() && packet.ecn != PacketEcn::Ce {
        return packet;
    }
    packet.bytes += carried_bytes(&tag);
    let inner_ecn = packet.ecn;
    packet.body = Body::Edge(Box::new(EdgeBody::Wrapped { tag, inner_ecn, body: packet.body }));
    packet
}
