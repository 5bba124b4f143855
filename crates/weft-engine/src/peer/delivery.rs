//! Delivery: passes units that are in order to the output for the TUN devices.
//!
//! Each unit is counted in its VPN, in its peer and in its flow. In-band signals for this node are removed.

use super::inbound::egress::{Arrived, Output};
use super::signalling::{may_carry, signal_in};
use super::{Context, PeerCounters};
use crate::access::HostAccess;
use crate::api::Event;
use crate::flows::{Flowing, Seen};
use crate::signal::{Offer, Place, Room};
use crate::vpn::Vpns;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use weft_core::pool::Pool;
use weft_units::{FlowId, FlowSeq, Instant, PeerId};
use weft_wire::inner::UnitKind;
use weft_wire::ip::IpView;

/// The fields of a peer that an [`Egress`] borrows.
pub(super) type EgressEnds<'a> = (&'a mut Output, &'a mut PeerCounters, &'a mut Option<Box<Offer>>);

/// Destination of units that are in order: rules of access, counters, in-band signalling and the output queue.
pub(super) struct Egress<'a> {
    totals: &'a mut PeerCounters,
    output: &'a mut Output,
    pool: &'a mut Pool,
    vpns: &'a mut Vpns,
    flows: &'a mut Flowing,
    access: &'a mut HostAccess,
    peer: PeerId,
    now: Instant,
    signals: Option<(&'a mut Room, &'a mut Offer)>,
    events: &'a mut VecDeque<Event>,
}

impl<'a> Egress<'a> {
    pub(super) fn of(peer: PeerId, ends: EgressEnds<'a>, cx: &'a mut Context<'_>) -> Egress<'a> {
        let (output, totals, offer) = ends;
        let signals = cx.signal.room_mut().zip(offer.as_deref_mut());
        let Context { now, pool, vpns, flows, access, events, .. } = cx;
        Egress { totals, output, pool, vpns, flows, access, peer, now: *now, signals, events }
    }

    pub(super) fn deliver(&mut self, flow: FlowId, seq: FlowSeq, mut item: Arrived) {
        if !self.may_enter(flow, &item) {
            self.pool.release(item.buf);
            return;
        }
        if let Some((room, offer)) = &mut self.signals
            && may_carry(self.pool, &item)
        {
            let (now, peer) = (self.now, self.peer);
            let mut place = Place { now, peer, offer, inward: None, flows: self.flows, events: self.events };
            let (vpns, vpn) = (&*self.vpns, item.vpn);
            let goes_on = |destination| vpns.onward(vpn, peer, destination).is_some();
            signal_in((room, &mut place), self.pool, &mut item, goes_on);
        }
        let Some(vpn) = self.vpns.get_mut(item.vpn) else {
            // The VPN was removed while the unit waited.
            self.pool.release(item.buf);
            return;
        };
        vpn.totals.received_packets += 1;
        vpn.totals.received_bytes += item.len as u64;
        self.totals.received_packets += 1;
        self.totals.received_bytes += item.len as u64;
        if self.flows.router.is_some() {
            self.count_flow(flow, &item);
        }
        if self.vpns.next_hops.is_some()
            && item.inner.kind != UnitKind::TailSlice
            && let Ok(view) = IpView::parse(item.bytes(self.pool))
        {
            self.vpns.on_arrived(self.now, (item.vpn, self.peer), &view.flow_key());
        }
        self.output.add(self.pool, flow, seq, item);
    }
}

impl Egress<'_> {
    /// True if the rules of access admit a unit. A slice is admitted if the last packet of its flow was.
    ///
    /// A slice is a segment without a header.
    fn may_enter(&mut self, flow: FlowId, item: &Arrived) -> bool {
        let Some(gate) = &mut self.access.0 else { return true };
        if item.inner.kind == UnitKind::TailSlice {
            return !self.output.is_refused(flow);
        }
        let packet = IpView::parse(item.bytes(self.pool));
        let ends = (self.peer, item.vpn);
        let enters = packet.is_ok_and(|packet| gate.admits(self.now, (self.vpns, self.events), ends, &packet));
        self.output.set_refused(flow, !enters);
        enters
    }

    /// Counts a unit in its flow, unless it is forwarded to another peer and counted when it leaves.
    fn count_flow(&mut self, flow: FlowId, item: &Arrived) {
        if item.inner.kind == UnitKind::TailSlice {
            let header = self.output.header_len(item.vpn, flow).unwrap_or(0);
            if let Some(state) = self.output.state(flow) {
                self.flows.count(state, (item.len + header) as u32);
            }
            return;
        }
        let Ok(view) = IpView::parse(item.bytes(self.pool)) else { return };
        let goes_on = self.vpns.onward(item.vpn, self.peer, view.dst).is_some();
        let seen =
            Seen { vpn: item.vpn, key: view.flow_key(), dscp: view.tos >> 2, packets: 1, bytes: item.len as u32 };
        let state = if goes_on { None } else { self.flows.on_arrived(self.now, self.peer, &seen) };
        self.output.set_state(flow, state);
    }
}
