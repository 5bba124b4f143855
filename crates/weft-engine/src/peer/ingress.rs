//! Ingress: from a packet of the TUN device or of another peer to the flow queue.
//!
//! A packet's TCP MSS is clamped, its flow is looked up, and signalling may add an option. Each segment of a
//! super-packet then becomes one queue entry. A packet of a VPN that is not open at the peer waits or is dropped. If
//! few buffers are free, this module drops queued packets.

use super::dropping;
use super::signalling::{checksum, packet_mut};
use super::{Context, Peer};
use crate::api::{AckPolicy, Dscp};
use crate::flows::Seen;
use crate::units::INNER_MTU_MIN;
use crate::units::{Origin, Segment, Whole};
use crate::vpn::{GateDecision, VpnFlow};
use weft_core::queue::Arrival;
use weft_units::VpnId;
use weft_wire::ecn::{DscpModel, encapsulate};
use weft_wire::ip::{Ecn, FlowKey, IpView, clamp_mss, protocol};
use weft_wire::virtio::VNET_HEADER_LEN;

/// Bit that is set in the serial number of a signal packet that this node makes for a packet of a host.
///
/// The host's packet follows, and has the same serial number with the bit clear.
const OF_ITS_OWN: u32 = 1 << 31;

/// Number of buffers that a peer frees in one step when few are left.
///
/// *Derived*: the maximum that an arriving batch takes.
const GIVE_WAY: usize = 64;
/// Number of buffers in a peer's output above which the output is the first place where the peer frees buffers.
///
/// *Derived*: the number of the daemon's writes in a turn.
const MOST_UNWRITTEN: usize = 1_024;

/// Returns the TOS byte of the outer header of a datagram.
///
/// ECN is always copied from the inner header (RFC 6040).
fn outer_tos(dscp: Dscp, inner_tos: u8) -> u8 {
    match dscp {
        Dscp::Copy => encapsulate(inner_tos, DscpModel::Uniform),
        Dscp::Fixed(code_point) => code_point << 2 | encapsulate(inner_tos, DscpModel::Pipe),
    }
}

impl Peer {
    /// Queues every segment of a packet, and takes ownership of the packet's buffer reference.
    ///
    /// With `ack = "condition"`, a duplicate ACK may wait first.
    pub fn enqueue(&mut self, cx: &mut Context<'_>, origin: Origin, packet: Whole, serial: u32) {
        self.note_packet(cx.now);
        let shape = &packet.shape;
        let mss = self.mss_limit(cx.pool.bytes(packet.buf).get(VNET_HEADER_LEN).copied());
        if let Some(bytes) = packet_mut(cx.pool, packet.buf, shape) {
            clamp_mss(bytes, mss, checksum(shape));
        }
        if self.config.policy.ack != AckPolicy::Condition {
            return self.admit(cx, origin, packet, serial);
        }
        let key = packet_mut(cx.pool, packet.buf, shape).and_then(|bytes| FlowKey::of(bytes).ok());
        let Some(key) = key else { return cx.pool.release(packet.buf) };
        let flow = self.ingress.flows.lookup(cx.now, &VpnFlow { vpn: packet.vpn, key });
        for (origin, packet, serial) in self.condition(cx, flow, (origin, packet, serial)).into_iter().flatten() {
            self.admit(cx, origin, packet, serial);
        }
    }

    /// Queues every segment of a packet that need not wait, and the signal packet that signalling adds to it, if any.
    pub(super) fn admit(&mut self, cx: &mut Context<'_>, origin: Origin, packet: Whole, serial: u32) {
        let (now, Whole { vpn, buf, shape }) = (cx.now, packet);
        let described = packet_mut(cx.pool, buf, &shape).and_then(|packet| {
            let view = IpView::parse(packet).ok()?;
            let key = view.flow_key();
            if origin == Origin::Host {
                cx.access.on_leaving(now, self.id, vpn, &view);
            }
            let signals = vpn == VpnId::DEFAULT && cx.signal.room().is_some_and(|room| room.concerns(&view, &key));
            Some((VpnFlow { vpn, key }, view.tos, signals))
        });
        let Some((key, inner_tos, signals)) = described else {
            cx.pool.release(buf);
            return;
        };
        let flow = self.ingress.flows.lookup(now, &key);
        let (packets, headers) = (shape.segments(), shape.header_len() * (shape.segments() - 1));
        let bytes = (shape.total_len() + headers) as u32;
        let seen = Seen { vpn, key: key.key, dscp: inner_tos >> 2, packets: packets as u32, bytes };
        let state = self.follow_flow(cx, flow, origin, &seen);
        let tos = outer_tos(self.config.policy.dscp, inner_tos);
        let flow_hash = self.ingress.flows.hash(&key);
        let is_tcp = key.key.protocol == protocol::TCP;
        let mut first = Segment {
            buf,
            vpn,
            flow,
            state,
            shape,
            number: 0,
            serial,
            tos,
            marked: false,
            born: now,
            is_tcp,
            flow_hash,
        };
        if signals && let Some((buf, shape)) = self.signal_out(cx, (flow, origin), buf, &mut first.shape) {
            self.queue_segments(cx, Segment { buf, shape, serial: serial ^ OF_ITS_OWN, ..first }, inner_tos);
        }
        self.queue_segments(cx, first, inner_tos);
    }

    /// Queues all segments of a packet, of which `first` is the first.
    ///
    /// Takes ownership of the packet's buffer reference.
    fn queue_segments(&mut self, cx: &mut Context<'_>, first: Segment, inner_tos: u8) {
        let Segment { buf, flow, shape, .. } = first;
        let ecn_capable = Ecn::of(inner_tos).is_capable();
        for number in 0..shape.segments() as u16 {
            let segment = Segment { number, ..first };
            cx.pool.retain(buf);
            let bytes = (shape.header_len() + segment.payload_len()) as u32;
            let arrival = Arrival { flow, bytes, ecn_capable };
            if segment.vpn == VpnId::DEFAULT {
                self.push_to_queue(cx, arrival, segment);
            } else {
                self.pass_gate(cx, arrival, segment);
            }
        }
        cx.pool.release(buf);
    }

    pub(super) fn push_to_queue(&mut self, cx: &mut Context<'_>, arrival: Arrival, segment: Segment) {
        let segment = match self.replace_ack(cx, arrival, segment) {
            Ok(()) => return,
            Err(segment) => segment,
        };
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        self.ingress.queue.enqueue(now, arrival, segment, &mut dropping(cx, drops));
    }

    /// Returns the number of segments in the flow queue.
    ///
    /// The segments hold about as many buffers.
    pub fn backlog_packets(&self) -> usize {
        self.ingress.queue.backlog_packets()
    }

    /// Returns the number of buffers that this peer holds.
    ///
    /// Their units wait for a path, for missing units, for further parts, or to be written.
    pub fn buffers(&self) -> usize {
        self.backlog_packets()
            + self.ingress.held_acks.len()
            + self.inbound.held_units()
            + self.inbound.joins.len()
            + self.output.buffers()
    }

    /// Frees a batch of buffers, because few are left in the pool.
    ///
    /// It takes them where this peer holds the most.
    pub fn give_way(&mut self, cx: &mut Context<'_>) {
        let (backlog, held) = (self.backlog_packets(), self.inbound.held_units());
        let (joins, output) = (self.inbound.joins.len(), self.output.buffers());
        // To give up holes frees no buffer at once: the units that waited behind them move to the output. If the output
        // holds many buffers, only dropping its packets frees buffers.
        if output > backlog.max(held).max(joins).min(MOST_UNWRITTEN) {
            self.totals.queue_drops += self.output.shed(GIVE_WAY, cx.pool);
        } else if held > backlog.max(joins) {
            self.give_up_holes(cx, GIVE_WAY);
        } else if joins > backlog {
            (0..GIVE_WAY).for_each(|_| self.inbound.joins.drop_oldest(cx.pool));
        } else {
            let (now, drops) = (cx.now, &mut self.totals.queue_drops);
            self.ingress.queue.shed(now, &mut dropping(cx, drops));
        }
    }

    /// Queues a segment whose VPN is open at the peer. If the VPN is not open, the segment waits or is dropped.
    fn pass_gate(&mut self, cx: &mut Context<'_>, arrival: Arrival, segment: Segment) {
        match self.gate(cx, segment.vpn) {
            GateDecision::Pass => self.push_to_queue(cx, arrival, segment),
            GateDecision::Wait => self.let_wait(cx, arrival, segment),
            GateDecision::Refuse => self.drop_closed(cx, segment),
        }
    }

    /// Returns whether a packet of a VPN may be queued now, must wait until the peer opens the VPN, or is refused.
    pub(super) fn gate(&mut self, cx: &Context<'_>, vpn: VpnId) -> GateDecision {
        self.ingress.openings.gate(cx.now, vpn, cx.sessions.vpn_standing(self.id, vpn))
    }

    pub(super) fn let_wait(&mut self, cx: &mut Context<'_>, arrival: Arrival, segment: Segment) {
        if let Err(segment) = self.ingress.openings.wait(segment.vpn, arrival, segment) {
            self.drop_closed(cx, segment);
        }
    }

    /// Drops a segment whose VPN the peer did not open in time, or that no path can carry.
    pub(super) fn drop_closed(&mut self, cx: &mut Context<'_>, segment: Segment) {
        dropping(cx, &mut self.totals.queue_drops)(segment);
    }

    /// Returns the length of the largest TCP segment that every path carries, whole or in parts, in bytes.
    ///
    /// `first` is the packet's first byte, which contains the IP version.
    fn mss_limit(&self, first: Option<u8>) -> u16 {
        let headers = if first.is_some_and(|b| b >> 4 == 6) { 60 } else { 40 };
        self.inner_limit().saturating_sub(headers).try_into().unwrap_or(u16::MAX)
    }

    /// Returns the length of the largest packet that every path carries, whole or in parts, in bytes.
    pub(super) fn inner_limit(&self) -> usize {
        let inner = self.usable_paths().map(|p| p.inner_limit()).min().unwrap_or(usize::from(u16::MAX));
        inner.max(usize::from(INNER_MTU_MIN))
    }
}
