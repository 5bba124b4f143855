//! Moves units from the flow queue to the paths that the scheduler chooses.
//!
//! The scheduler chooses a path for the unit at the head, or holds it. A unit gets its flow sequence number only when
//! it is committed to a path. A held unit therefore stays in the flow queue, where the AQM can drop it without a gap
//! in the sequence.

mod copies;

use super::acks::is_pure_ack;
use super::outbound::LastSlice;
use super::outbound::age::is_useless;
use super::{Context, Peer};
use super::{dropping, view};
use crate::api::{Recovery, Reorder};
use crate::path::Lane;
use crate::units::{Segment, Unit, UnitId};
use crate::vpn::{GateDecision, Vpns};
use weft_core::pool::Pool;
use weft_core::queue::Arrival;
use weft_core::sched::{PathChoice, Scheduler, UnitView};
use weft_units::{Duration, FlowId, Instant, VpnId};
use weft_wire::hop::DATA_OVERHEAD;
use weft_wire::inner::{MAX_SLICE_INDEX, UnitKind, granules};
use weft_wire::ip::Ecn;
use weft_wire::loop_data::{Marker, OfRun};

/// Maximum number of bytes that a sparse flow may have queued on paths: one full packet.
///
/// *Standard*: the quantum of RFC 8290.
const SPARSE_BYTES: u32 = 1_514;
/// Maximum transmission time of the acknowledgements that a flow has queued on paths ahead of bulk.
///
/// It is computed for the fastest path, and the first acknowledgement is exempt. A newer acknowledgement cannot replace
/// one that is queued on a path, and other sparse flows wait behind it. *Derived*: the time by which the scheduler lets
/// bulk arrive later than on the slowest path in use. Above 2 Mbit/s, [`SPARSE_BYTES`] is the stricter limit.
const ACK_TIME: Duration = Duration::from_millis(6);
/// Least time from the arrival of a bulk packet until its unit expires.
///
/// An expired unit is useless, because the receiver no longer waits for it.
const DEADLINE_MIN: Duration = Duration::from_millis(100);
/// Least time from the arrival of a packet of a sparse flow until its unit expires.
///
/// A SYN or query that arrives within this time is earlier than its sender's retransmission after 1 s (RFC 6298).
const DEADLINE_SPARSE: Duration = Duration::from_millis(500);

/// Backlog of sparse flows beyond which they wait like bulk, as the time that it takes at the path's rate.
///
/// It must be exceeded on every usable path. The packets then wait in the flow queues, whose length is limited.
const CROWD_TIME: Duration = Duration::from_millis(100);
/// Backlog of sparse flows on a path, in bytes, up to which [`CROWD_TIME`] does not apply.
///
/// The first packets of a web page stay below it.
const CROWD_BYTES: u64 = 10 * SPARSE_BYTES as u64;

/// Maximum number of flows that one call of [`Peer::commit`] passes over because their path is full.
const MOST_PASSES: u32 = 64;

impl Peer {
    /// Moves units from the flow queue to paths until the scheduler holds the next unit or no unit may leave.
    pub(super) fn commit(&mut self, cx: &mut Context<'_>) {
        self.watch_outage(cx);
        if !self.is_reachable()
            || !self.ingress.queue.is_ready(cx.now) && self.ingress.queue.deadline().is_none_or(|at| at > cx.now)
        {
            return;
        }
        self.grant_loops(cx.now);
        self.look_at_port(cx);
        self.refresh_views(cx.now);
        let mut passes = MOST_PASSES;
        while self.commit_next(cx, &mut passes) {}
    }

    fn commit_next(&mut self, cx: &mut Context<'_>, passes: &mut u32) -> bool {
        let (now, drops) = (cx.now, &mut self.totals.queue_drops);
        let Some(head) = self.ingress.queue.head(now, &mut dropping(cx, drops)) else { return false };
        let item = self.ingress.queue.head_item();
        if item.is_some_and(|segment| is_useless(segment, now)) {
            self.drop_head(cx);
            return true;
        }
        let (vpn, flow, hash) = item.map_or((VpnId::DEFAULT, head.flow, 0), |s| (s.vpn, s.flow, s.flow_hash));
        if vpn != VpnId::DEFAULT && !self.may_leave(cx, vpn, head.bytes) {
            return true;
        }
        let fixed = !matches!(self.dispatch.scheduler, Scheduler::EarliestDelivery(_));
        let sparse = head.sparse && self.may_overtake(cx.pool, flow, head.bytes);
        let urgent = sparse && !fixed && !self.is_crowded();
        let late_after = self.recovery.hold_announced.max(if sparse { DEADLINE_SPARSE } else { DEADLINE_MIN });
        let bytes = head.bytes + (DATA_OVERHEAD + 28) as u32;
        if fixed {
            for (view, path) in self.dispatch.views.iter_mut().zip(&self.paths) {
                if path.is_sparse_only() {
                    view.room = sparse && path.has_window();
                }
                view.room &= view::is_shallow(view, bytes);
            }
        }
        let bound = self.ingress.port.as_ref().and_then(|port| port.delay_variance(flow));
        let unsteady = bound.map_or(0, |bound| self.keep_steady(bound));
        let choice =
            self.dispatch.scheduler.pick(cx.now, &self.dispatch.views, UnitView { bytes, flow_hash: hash, urgent });
        self.set_usable(unsteady, true);
        if matches!(choice, PathChoice::Hold | PathChoice::NoPath) {
            return choice == PathChoice::Hold
                && (self.pass_over(passes) || !sparse && self.ingress.queue.on_hold(cx.now));
        }
        let Some((taken, marker)) = self.ingress.queue.pop(cx.now) else { return false };
        let mut segment = taken.item;
        if taken.mark_ce {
            cx.flows.count_mark(segment.state);
            segment.marked = true;
            segment.tos = Ecn::Ce.set_in(segment.tos);
        }
        let marker = marker.map(|marker| self.of_this_run(marker));
        let unit = self.make_unit(cx.now, cx.vpns, segment, urgent, late_after, marker);
        let lane = if urgent { Lane::Urgent } else { Lane::Bulk };
        match choice {
            PathChoice::Path(index) => {
                self.note_path(cx, flow, self.paths[index].id);
                self.push(cx.now, index, lane, unit);
            }
            _ => self.push_copies(cx, unit, sparse),
        }
        self.recovery.units.release(unit, cx.pool);
        true
    }

    /// Passes over a flow whose assigned path is full. Returns true if another flow may be tried instead.
    fn pass_over(&mut self, passes: &mut u32) -> bool {
        let may = matches!(self.dispatch.scheduler, Scheduler::FlowHash(_))
            && self.dispatch.views.iter().any(|v| v.usable && v.room);
        *passes = passes.saturating_sub(1);
        may && *passes > 0 && self.ingress.queue.pass_over()
    }

    /// True if the segment at the head may leave: its VPN is open, and some path can carry it.
    ///
    /// Otherwise the segment is dropped or waits.
    ///
    /// The VPN may have closed while the segment was queued, because the peer restarted or the configuration changed.
    /// A path's MTU may also have shrunk.
    fn may_leave(&mut self, cx: &mut Context<'_>, vpn: VpnId, bytes: u32) -> bool {
        let gate = if cx.vpns.has_member(vpn, self.id) { self.gate(cx, vpn) } else { GateDecision::Refuse };
        if gate == GateDecision::Pass && self.is_carried(bytes as usize) {
            return true;
        }
        let Some(taken) = self.ingress.queue.discard(cx.now) else { return true };
        let segment = taken.item;
        if gate == GateDecision::Wait {
            let ecn_capable = Ecn::of(segment.tos).is_capable();
            self.let_wait(cx, Arrival { flow: segment.flow, bytes: taken.bytes, ecn_capable }, segment);
        } else {
            self.drop_closed(cx, segment);
        }
        false
    }

    /// Drops the segment at the head of the flow queue.
    fn drop_head(&mut self, cx: &mut Context<'_>) {
        if let Some(taken) = self.ingress.queue.discard(cx.now) {
            dropping(cx, &mut self.totals.queue_drops)(taken.item);
        }
    }

    /// True if some path carries a unit of this size, whole or in parts.
    ///
    /// Also true while no path is usable. Whether a unit fits is then decided once a path is usable.
    fn is_carried(&self, bytes: usize) -> bool {
        granules(bytes).is_some()
            || self.usable_paths().next().is_none()
            || self.usable_paths().any(|path| bytes <= path.inner_limit())
    }

    /// Adds a unit to the queue of the path with this index, and to the scheduler's view of the path.
    pub(super) fn push(&mut self, now: Instant, index: usize, lane: Lane, id: UnitId) {
        let (Some(path), Some(unit)) = (self.paths.get_mut(index), self.recovery.units.get(id).copied()) else {
            return;
        };
        let wire_bytes = path.wire_bytes(unit.len());
        if path.queues.is_empty() && !path.limited {
            path.pacer.start(now);
        }
        path.queues.push(lane, id, wire_bytes);
        self.recovery.units.retain(id);
        if lane.is_spare() {
            return self.recovery.units.add_spare(id);
        }
        if let Some(bytes) = self.dispatch.committed.get_mut(usize::from(unit.segment.flow.0)) {
            *bytes += unit.len() as u32;
        }
        if let Some(view) = self.dispatch.views.get_mut(index) {
            let time = view.rate.time_for(u64::from(wire_bytes));
            match lane {
                Lane::Bulk => view.backlog += time,
                Lane::Urgent | Lane::Repeat => view.ready_at = view.ready_at.max(now) + time,
                Lane::Copy | Lane::Again => {}
            }
        }
    }

    /// True if the backlog of sparse flows exceeds [`CROWD_TIME`] and [`CROWD_BYTES`] on every usable path.
    fn is_crowded(&self) -> bool {
        self.dispatch.views.iter().zip(&self.paths).filter(|(view, _)| view.usable).all(|(view, path)| {
            path.queues.bytes_before(Lane::Urgent) > view.rate.bytes_in(CROWD_TIME).max(CROWD_BYTES)
        })
    }

    /// True if the segment at the head of the flow queue may overtake bulk on the paths.
    ///
    /// The segment has `bytes` bytes and belongs to a sparse flow.
    fn may_overtake(&mut self, pool: &Pool, flow: FlowId, bytes: u32) -> bool {
        let committed = self.committed_bytes(flow);
        if committed == 0 || committed + bytes > SPARSE_BYTES {
            return committed + bytes <= SPARSE_BYTES;
        }
        let fastest = self.dispatch.views.iter().filter(|view| view.usable).map(|view| view.rate).max();
        let is_soon = fastest.is_some_and(|rate| u64::from(committed + bytes) <= rate.bytes_in(ACK_TIME));
        is_soon || !self.ingress.queue.head_item().is_some_and(|segment| is_pure_ack(pool, segment))
    }

    /// Returns the bytes of a flow's units that wait in the queues of paths.
    fn committed_bytes(&mut self, flow: FlowId) -> u32 {
        let at = usize::from(flow.0);
        if self.dispatch.committed.len() <= at {
            self.dispatch.committed.resize(at + 1, 0);
        }
        self.dispatch.committed.get(at).copied().unwrap_or(0)
    }

    /// Subtracts a unit that has left a lane from the bytes of its flow that wait in the queues of paths.
    ///
    /// In a lane of spare copies, it subtracts the copy from the number of the unit's copies instead.
    pub(super) fn uncommit(&mut self, lane: Lane, id: UnitId) {
        if lane.is_spare() {
            return self.recovery.units.remove_spare(id);
        }
        let Some(unit) = self.recovery.units.get(id) else { return };
        if let Some(bytes) = self.dispatch.committed.get_mut(usize::from(unit.segment.flow.0)) {
            *bytes = bytes.saturating_sub(unit.len() as u32);
        }
    }

    /// Makes a unit of a segment and gives it a sequence number. The caller owns the unit's only reference.
    ///
    /// The unit's deadline is `late_after` later than the arrival of the segment.
    fn make_unit(
        &mut self,
        now: Instant,
        vpns: &mut Vpns,
        segment: Segment,
        urgent: bool,
        late_after: Duration,
        marker: Option<OfRun<Marker>>,
    ) -> UnitId {
        let flow = segment.flow;
        let (kind, index) = self.slice_kind(flow, &segment);
        let bytes = (segment.shape.header_len() + segment.payload_len()) as u32;
        self.ingress.flows.count(flow, 1, bytes);
        self.totals.sent_units += 1;
        self.totals.sent_bytes += u64::from(bytes);
        if let Some(vpn) = vpns.get_mut(segment.vpn) {
            vpn.totals.sent_packets += 1;
            vpn.totals.sent_bytes += u64::from(bytes);
        }
        let seq = self.ingress.flows.next_seq(flow);
        let id = self.recovery.units.insert(Unit {
            segment,
            kind,
            index,
            seq,
            urgent,
            sent_bytes: 0,
            marker,
            // The deadline runs from the segment's arrival, so its wait is included. At least one retransmission
            // remains possible.
            deadline: (segment.born + late_after).max(now + self.recovery.hold_announced.max(DEADLINE_MIN)),
            arrived: 0,
            repeating: false,
            repeats: 0,
            refs: 1,
            spares: 0,
            settled: false,
        });
        self.keep_room_for_rescue();
        id
    }

    /// Reserves space in the list of lost units for all units in flight.
    ///
    /// All units may be lost at once when a path falls silent. Memory must not be allocated at that moment.
    fn keep_room_for_rescue(&mut self) {
        let room = self.recovery.units.room();
        if self.recovery.lost.capacity() < room {
            self.recovery.lost.reserve(room - self.recovery.lost.len());
            self.recovery.skips.reserve(room.saturating_sub(self.recovery.skips.len()));
        }
    }

    /// Returns the kind of a segment's unit, and the number of the slice behind its head (0 for other units).
    ///
    /// A segment becomes a slice and omits its header if it directly follows the flow's last unit in the same
    /// super-packet.
    pub(super) fn slice_kind(&mut self, flow: FlowId, segment: &Segment) -> (UnitKind, u8) {
        let shape = &segment.shape;
        if !shape.may_be_sliced() {
            return (shape.unit_kind(), 0);
        }
        if self.config.policy.recovery == Recovery::Off || self.config.policy.reorder == Reorder::Off {
            return (UnitKind::PartialPacket, 0);
        }
        let at = usize::from(flow.0);
        if self.dispatch.last_slices.len() <= at {
            self.dispatch.last_slices.resize(at + 1, LastSlice::default());
        }
        let Some(last) = self.dispatch.last_slices.get_mut(at) else { return (UnitKind::PartialPacket, 0) };
        let leans = last.next_index > 0
            && last.super_packet == segment.serial
            && last.next_number == segment.number
            && last.next_index <= MAX_SLICE_INDEX;
        let index = if leans { last.next_index } else { 0 };
        *last = LastSlice { super_packet: segment.serial, next_number: segment.number + 1, next_index: index + 1 };
        match (leans, segment.is_last()) {
            (true, _) => (UnitKind::TailSlice, index),
            (false, true) => (UnitKind::PartialPacket, 0),
            (false, false) => (UnitKind::HeadSlice, 0),
        }
    }
}
