//! In-band rate signalling for packets to and from the peer.
//!
//! A leaving packet may get a signal option, or a separate packet with the signal leaves before it. From an arriving
//! packet, signals for this node are removed. The offer holds the rates that the bundle grants to flows with signals.

use super::inbound::egress::Arrived;
use super::{Context, Peer};
use crate::api::{PeerQueue, Schedule};
use crate::flows::{Flowing, route_of};
use crate::path::Path;
use crate::signal::{self, BundleState, Carrier, Offer, Place, Room, SignalEnd};
use crate::units::Origin;
use alloc::boxed::Box;
use core::net::IpAddr;
use weft_core::pool::{BufId, Pool};
use weft_units::{Duration, FlowId, Instant, Rate, VpnId};
use weft_wire::er_sig::Signal;
use weft_wire::er_sig::carriage::ADDED_LEN;
use weft_wire::inner::UnitKind;
use weft_wire::ip::{IpVersion, IpView, L4Checksum, clamp_mss, has_options};
use weft_wire::quick_start::RESPONSE_LEN;
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// Time without packets after which a flow is no longer active in the bundle.
const ACTIVE: Duration = Duration::from_millis(200);
/// Maximum number of active flows of a bundle that are counted. More flows count as this number.
const MOST_ACTIVE: usize = 256;

impl Peer {
    /// Returns the state of the bundle toward the peer, from which the rates that the bundle grants are computed.
    pub(super) fn bundle(&self, now: Instant) -> BundleState {
        let (mut round_trips, mut count) = (Duration::ZERO, 0);
        for path in self.carrying_paths() {
            (round_trips, count) = (round_trips + path.rtt().smoothed(), count + 1);
        }
        BundleState {
            carried: self.inner_capacity(self.carrying_paths(), |path| path.rate.carried()),
            offered: self.offered_by(Path::offered),
            sent_bytes: self.totals.sent_bytes,
            queued_bytes: self.backlog_bytes(),
            round_trip: round_trips / count.max(1),
            flows: self.active_flows(now),
        }
    }

    /// Returns the rate that rate-controlled senders may use toward the peer, or `None` while that rate is zero.
    pub fn payload_rate(&self, now: Instant) -> Option<Rate> {
        let rate = self.offered_by(|path| path.offered_or_tried(now));
        (rate > Rate::ZERO).then_some(rate)
    }

    /// Returns the total rate for inner packets of the paths that carry bulk. `of` returns a path's rate.
    ///
    /// Until the scheduler has chosen these paths, all answering paths are included.
    fn offered_by(&self, of: impl Fn(&Path) -> Rate) -> Rate {
        let has_chosen = self.carrying_paths().next().is_some();
        let answering = || self.usable_paths().filter(|path| path.health.answers());
        match has_chosen || !self.bundles() {
            true => self.inner_capacity(self.carrying_paths(), of),
            false => self.inner_capacity(answering(), of),
        }
    }

    /// Returns the paths that carry bulk: those that the scheduler uses, or the best one if only one path is allowed.
    pub(super) fn carrying_paths(&self) -> impl Iterator<Item = &Path> {
        let best = if self.bundles() { None } else { self.best_single() };
        let carries = move |at: usize| best.map_or_else(|| self.dispatch.scheduler.carries_bulk(at), |best| best == at);
        let usable = move |(at, path): &(usize, &Path)| path.is_usable() && path.health.answers() && carries(*at);
        self.paths.iter().enumerate().filter(usable).map(|(_, path)| path)
    }

    /// Returns the capacity of `paths` for inner packets. `of` gives each path's rate including outer headers.
    ///
    /// The redundant schedule sends a copy on each path, so the capacity is the rate of the fastest path. A slower path
    /// gets copies while it has space, and bulk waits only while no path has space.
    pub(super) fn inner_capacity<'a>(&self, paths: impl Iterator<Item = &'a Path>, of: impl Fn(&Path) -> Rate) -> Rate {
        let inner = |path: &Path| of(path).scaled(path.packet_share()).bps();
        let each = paths.map(inner);
        let copies = self.config.policy.schedule == Schedule::Redundant;
        Rate::from_bps(if copies { each.max().unwrap_or(0) } else { each.sum() })
    }

    /// Returns the number of flows with packets within the last [`ACTIVE`], but at least 1.
    ///
    /// Returns 0 if the queue does not separate flows.
    fn active_flows(&self, now: Instant) -> u32 {
        if self.config.policy.queue != PeerQueue::FqCodel {
            return 0;
        }
        let active = self.ingress.flows.iter().take_while(|(_, flow)| now - flow.last_used < ACTIVE);
        active.take(MOST_ACTIVE).count().max(1) as u32
    }

    /// Returns the rates that the bundle grants, if signalling is configured.
    pub fn offer(&self) -> Option<&Offer> {
        self.offer.as_deref()
    }

    /// Forgets all rates that this bundle grants to flows toward the peer.
    pub fn forget_offer(&mut self, cx: &mut Context<'_>) {
        self.offer = None;
        self.follow_promises(cx);
    }

    /// Reports to the node's admission the rate that the bundle can guarantee. A port of the peer does so itself.
    fn tell_reservable(&self, flows: &mut Flowing) {
        if let (Some(offer), None) = (&self.offer, &self.ingress.port) {
            flows.set_reservable(offer.route(), offer.reservable());
        }
    }

    /// Updates the rates that the bundle grants ([`Offer`]) from the bundle's state, if an update is due.
    fn look_at_bundle(&mut self, cx: &mut Context<'_>) {
        if self.offer.as_ref().is_some_and(|offer| offer.is_due(cx.now)) {
            let bundle = self.bundle(cx.now);
            if let Some(offer) = &mut self.offer {
                offer.look(cx.now, &bundle);
            }
            self.tell_reservable(cx.flows);
            self.follow_promises(cx);
        }
    }

    /// Lets signalling process a leaving packet. A signal may extend the packet or precede it in a separate packet.
    ///
    /// For a packet in transit this node is only a router: it lowers the rates in the packet's own signals. Returns the
    /// separate packet, if there is one. The caller must release its buffer.
    pub(super) fn signal_out(
        &mut self,
        cx: &mut Context<'_>,
        (flow, origin): (FlowId, Origin),
        buf: BufId,
        shape: &mut SuperPacket,
    ) -> Option<(BufId, SuperPacket)> {
        self.ready_offer(cx);
        let sent_bytes = self.ingress.flows.get(flow).map_or(0, |flow| flow.bytes);
        let inner_limit = self.inner_limit();
        let (Some(room), Some(offer)) = (cx.signal.room_mut(), &mut self.offer) else { return None };
        let mut place = Place { now: cx.now, peer: self.id, offer, inward: None, flows: cx.flows, events: cx.events };
        let is_whole = shape.segments() == 1;
        let packet = packet_mut(cx.pool, buf, shape)?;
        if is_whole {
            room.pass_out(&mut place, packet, sent_bytes);
            if origin == Origin::Host
                && packet.len() + RESPONSE_LEN <= inner_limit
                && let Some(response) = room.quick_answer(cx.now, packet)
                && let Ok(longer) = signal::answer(cx.pool, buf, shape.total_len(), &response)
            {
                *shape = longer;
            }
        }
        if origin != Origin::Host {
            return None;
        }
        let packet = packet_mut(cx.pool, buf, shape)?;
        let view = IpView::parse(packet).ok()?;
        let carrier = Carrier::of(&view, is_whole && packet.len() + ADDED_LEN <= inner_limit)?;
        let signal = room.signal_for(&mut place, &view, sent_bytes)?;
        let headers = if view.version == IpVersion::V6 { 60 } else { 40 };
        clamp_mss(packet, inner_limit.saturating_sub(headers + ADDED_LEN) as u16, checksum(shape));
        carry(cx.pool, buf, shape, carrier, &signal)
    }

    /// Creates the bundle's [`Offer`] if signalling is configured, and updates its granted rates if they are old.
    pub(super) fn ready_offer(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        let Some(room) = cx.signal.room_mut() else { return };
        if self.offer.is_none() {
            let seed = room.draw();
            let bundle = self.bundle(now);
            self.offer = Some(Box::new(Offer::new(now, room.config(), (route_of(self.id), &bundle), seed)));
            self.tell_reservable(cx.flows);
        }
        self.look_at_bundle(cx);
    }
}

/// Puts a signal into a packet, or into a separate ACK. Returns the ACK, if there is one.
fn carry(
    pool: &mut Pool,
    buf: BufId,
    shape: &mut SuperPacket,
    carrier: Carrier,
    signal: &Signal,
) -> Option<(BufId, SuperPacket)> {
    if carrier == Carrier::Packet {
        if let Ok(longer) = signal::add(pool, buf, shape.total_len(), signal) {
            *shape = longer;
        }
        return None;
    }
    let memory = pool.take(buf);
    let packet = memory.get(VNET_HEADER_LEN..VNET_HEADER_LEN + shape.total_len()).unwrap_or_default();
    let ack = signal::bare_ack(pool, packet, signal);
    pool.put(buf, memory);
    ack
}

/// Returns the bytes of the packet or super-packet `shape` in its buffer, or `None` if the buffer is too short.
pub(super) fn packet_mut<'a>(pool: &'a mut Pool, buf: BufId, shape: &SuperPacket) -> Option<&'a mut [u8]> {
    pool.bytes_mut(buf).get_mut(VNET_HEADER_LEN..VNET_HEADER_LEN + shape.total_len())
}

/// Returns whether a packet's transport checksum is complete, or covers only the pseudo-header.
pub(super) fn checksum(shape: &SuperPacket) -> L4Checksum {
    if shape.unit_kind() == UnitKind::Packet { L4Checksum::Complete } else { L4Checksum::Partial }
}

/// True if a unit may carry a signal: it is a whole packet with options, and belongs to the default VPN.
pub(super) fn may_carry(pool: &Pool, unit: &Arrived) -> bool {
    let is_whole = matches!(unit.inner.kind, UnitKind::Packet | UnitKind::PartialPacket);
    is_whole && unit.vpn == VpnId::DEFAULT && has_options(unit.bytes(pool))
}

/// Processes the signals in a unit that is delivered, and removes signals for this node.
///
/// `goes_on` returns true if this node forwards packets for an address to another peer.
pub(super) fn signal_in(
    (room, place): (&mut Room, &mut Place<'_>),
    pool: &mut Pool,
    unit: &mut Arrived,
    goes_on: impl FnOnce(IpAddr) -> bool,
) {
    let Some(packet) = pool.bytes_mut(unit.buf).get_mut(unit.start..unit.start + unit.len) else { return };
    let ends = match IpView::parse(packet) {
        Ok(view) if goes_on(view.dst) => SignalEnd::Elsewhere,
        _ => SignalEnd::Here,
    };
    let taken = room.pass_in(place, packet, 0, ends);
    (unit.start, unit.len) = (unit.start + taken, unit.len - taken);
}
