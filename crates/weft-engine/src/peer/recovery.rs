//! Recovery: retransmits lost units between the two nodes (selective repeat).
//!
//! Units that a path declares lost are collected here and queued on the path that delivers them first. A unit past
//! its deadline is given up, and a SKIP frame instructs the peer not to wait for it. When a path falls silent or goes
//! down, this module moves its units to other paths.

use super::outbound::age::stale_at;
use super::{Context, Peer};
use crate::api::PathState;
use crate::api::Recovery;
use crate::path::{Lane, Path, Sent};
use crate::units::{Unit, UnitId};
use weft_core::pool::Pool;
use weft_core::sched::{PathChoice, UnitView};
use weft_units::Instant;
use weft_units::planted::{self, Fault};
use weft_wire::hop::DATA_OVERHEAD;

/// Reason for which a path's queued units and units in flight are sent on other paths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rescue {
    /// The path has become a spare path. Its queued units move, but units already sent are not retransmitted.
    Spared,
    /// The path is suspect. Units of sparse flows are retransmitted, and bulk only if little bulk is in flight.
    Suspect,
    /// The path is down. All its units are retransmitted.
    Down,
}

/// Maximum number of bytes of bulk in flight on a path that are retransmitted when the path becomes suspect.
///
/// With more bulk in flight, only units of sparse flows are retransmitted. *Standard*: an initial window (RFC 6928),
/// which TCP may always send.
///
/// A sparse flow can count as bulk for a short time, while its own retransmissions delay its packets. Without this
/// amount, such units would be retransmitted only when the path is down.
const LITTLE_BULK_BYTES: usize = 14_600;

/// Maximum number of units that were given up and that have not yet been reported to the peer.
///
/// The peer no longer waits for older units, because its hold time has ended.
const MAX_SKIPS: usize = 1_024;

impl Peer {
    /// Queues lost units for retransmission, and gives up those past their deadline.
    ///
    /// Each unit takes the path that delivers it first. Without a usable path, the units wait.
    pub(super) fn repeat_lost(&mut self, cx: &mut Context<'_>) {
        self.send_lost(cx, None, Path::copies_of_repeat);
    }

    /// Takes back all units that wait or are in flight, because the session ended or the peer restarted.
    ///
    /// If `again` is true, TCP segments are sent again, in order. A receiving host discards segments that it already
    /// has. The segments become units with new sequence numbers, because a peer that restarted would wait for the
    /// numbers of units that arrived before its restart. All other units are released.
    pub(super) fn take_back(&mut self, cx: &mut Context<'_>, again: bool) {
        let mut taken = core::mem::take(&mut self.recovery.lost);
        for index in 0..self.paths.len() {
            while let Some((lane, id)) = self.paths[index].queues.take() {
                self.uncommit(lane, id);
                taken.push(id);
            }
            self.paths[index].sent_packets.give_up(0, |sent, _, _| {
                taken.extend(sent.unit().filter(|_| !planted::is(Fault::EndedSessionKeepsUnits)));
            });
        }
        let units = &self.recovery.units;
        taken.sort_unstable_by_key(|id| (units.get(*id).map(|u| (u.segment.born, u.segment.flow, u.seq.get())), *id));
        self.dispatch.last_slices.clear();
        let mut before = None;
        taken.retain(|id| {
            let is_kept = before.replace(*id) != Some(*id) && again && self.renew(cx.now, *id);
            if !is_kept {
                self.recovery.units.release(*id, cx.pool);
            }
            is_kept
        });
        self.recovery.lost = taken;
    }

    /// Gives a unit the next sequence number of its flow. It will be sent with its whole header.
    ///
    /// Returns false if the unit is not to be sent again.
    fn renew(&mut self, now: Instant, id: UnitId) -> bool {
        let Some(unit) = self.recovery.units.get(id).copied() else { return false };
        let (segment, deadline) = (unit.segment, stale_at(&unit.segment));
        let repeats = self.config.policy.recovery == Recovery::Arq;
        if !repeats || !segment.is_tcp || unit.settled || now >= deadline {
            return false;
        }
        let (kind, index) = self.slice_kind(segment.flow, &segment);
        let seq = self.ingress.flows.next_seq(segment.flow);
        let fresh = Unit { kind, index, seq, deadline, marker: None, arrived: 0, repeating: false, spares: 0, ..unit };
        self.recovery.units.replace(id, fresh);
        true
    }

    /// Queues lost units for retransmission, on paths other than `away_from` if another one is usable.
    ///
    /// `copies` returns how many copies of a unit a path gets, from the number of times that the unit was lost.
    fn send_lost(&mut self, cx: &mut Context<'_>, away_from: Option<usize>, copies: fn(&Path, u8) -> usize) {
        if self.recovery.lost.is_empty() {
            return;
        }
        self.refresh_views(cx.now);
        if let Some(view) = away_from.and_then(|index| self.dispatch.views.get_mut(index)) {
            view.suspect = true;
        }
        let mut lost = core::mem::take(&mut self.recovery.lost);
        lost.retain(|id| self.repeat(cx.now, cx.pool, *id, copies));
        self.recovery.lost = lost;
    }

    /// Queues one lost unit on the path that delivers it first.
    ///
    /// Returns true if the unit waits for a path. Otherwise the caller's reference to the unit is released.
    fn repeat(&mut self, now: Instant, pool: &mut Pool, id: UnitId, copies: fn(&Path, u8) -> usize) -> bool {
        let Some(unit) = self.recovery.units.get(id).filter(|u| !u.settled).copied() else {
            self.recovery.units.release(id, pool);
            return false;
        };
        let view = UnitView {
            bytes: (unit.len() + DATA_OVERHEAD + 28) as u32,
            flow_hash: unit.segment.flow_hash,
            urgent: true,
        };
        match self.dispatch.rescue.pick(now, &self.dispatch.views, view) {
            PathChoice::Path(index) if now < self.repeats_until(&unit) => {
                self.totals.repeated_units += 1;
                let lane = if unit.urgent { Lane::Urgent } else { Lane::Repeat };
                let times = self.recovery.units.count_repeat(id);
                for _ in 0..copies(&self.paths[index], times) {
                    self.push(now, index, lane, id);
                }
            }
            _ if now < self.waits_until(&unit) => {
                self.recovery.units.set_deadline(id, self.waits_until(&unit));
                return true;
            }
            _ => self.abandon(now, id, pool),
        }
        self.recovery.units.release(id, pool);
        false
    }

    /// Returns the time until which a unit is retransmitted.
    ///
    /// It may be later than the unit's deadline, because the peer's hold time may have grown after the first sending.
    fn repeats_until(&self, unit: &Unit) -> Instant {
        unit.deadline.max((unit.segment.born + self.recovery.hold_announced).min(stale_at(&unit.segment)))
    }

    /// Returns the time at which a unit that waits for a path is given up.
    ///
    /// While no path answers, a TCP segment is kept beyond its deadline. If it arrives late, its sender assumes a long
    /// delay and no loss.
    fn waits_until(&self, unit: &Unit) -> Instant {
        if unit.segment.is_tcp && !self.answers() {
            return stale_at(&unit.segment);
        }
        self.repeats_until(unit).min(stale_at(&unit.segment))
    }

    /// Returns the earliest deadline of the units that wait for a path, or `None` if none waits.
    pub(super) fn lost_deadline(&self) -> Option<Instant> {
        self.recovery.lost.iter().filter_map(|id| self.recovery.units.get(*id)).map(|unit| unit.deadline).min()
    }

    /// Gives a unit up, and instructs the peer by a SKIP frame not to wait for it.
    pub(super) fn abandon(&mut self, now: Instant, id: UnitId, pool: &mut Pool) {
        let Some(unit) = self.recovery.units.get(id).copied() else { return };
        if self.recovery.units.release_packet(id, pool) {
            self.totals.abandoned_units += 1;
            if self.recovery.skips.len() >= MAX_SKIPS {
                self.recovery.skips.pop_front();
            }
            self.recovery.skips.push_back((unit.segment.flow, unit.seq));
            self.ingress.queue.on_loss(now, unit.segment.vpn);
            if let Some(index) = self.fastest_path() {
                self.paths[index].pending.skips = true;
            }
        }
    }

    /// Moves a path's queued units to other paths.
    ///
    /// Its units in flight are retransmitted as far as `why` requires.
    pub fn rescue_path(&mut self, cx: &mut Context<'_>, index: usize, why: Rescue) {
        if why == Rescue::Suspect && !self.may_doubt(cx.now, index) {
            return;
        }
        while let Some((lane, id)) = self.paths[index].queues.take() {
            self.uncommit(lane, id);
            if self.recovery.units.get(id).is_some_and(|u| u.carriers() > 1 && !u.repeating) {
                // Another path carries a copy, so this one need not be sent.
                self.recovery.units.release(id, cx.pool);
            } else {
                self.recovery.lost.push(id);
            }
        }
        match why {
            Rescue::Spared => {}
            Rescue::Suspect if self.bulk_in_flight(index) > LITTLE_BULK_BYTES => {
                self.doubt_in_flight(index, |unit| unit.urgent);
            }
            Rescue::Suspect | Rescue::Down => self.doubt_in_flight(index, |_| true),
        }
        self.send_doubted(cx, index);
    }

    /// Retransmits units of sparse flows by another good path when an answer on this path is overdue.
    ///
    /// The path is not yet suspect. Only units without a copy on another path are sent. This is the equivalent of a
    /// tail loss probe (RFC 8985).
    pub(super) fn repeat_overdue(&mut self, cx: &mut Context<'_>, index: usize) {
        self.refresh_views(cx.now);
        let mut others = self.dispatch.views.iter().zip(&self.paths).enumerate().filter(|(at, _)| *at != index);
        if others.any(|(_, (view, path))| view.usable && path.state() == PathState::Good) {
            self.doubt_in_flight(index, |unit| unit.urgent && unit.carriers() == 1);
            self.send_doubted(cx, index);
        }
    }

    /// True if units in flight on a path may now be retransmitted because the path is suspect.
    ///
    /// On the only usable path this is allowed once in an RTT, because retransmissions queue behind the originals. The
    /// path of a fading link may become suspect again after each answer.
    fn may_doubt(&mut self, now: Instant, index: usize) -> bool {
        let only = !self.has_other_path(index);
        let path = &mut self.paths[index];
        if only && path.doubted_at.is_some_and(|at| now < at + path.rtt().smoothed()) {
            return false;
        }
        path.doubted_at = Some(now);
        true
    }

    /// True if a path other than this one can carry packets.
    fn has_other_path(&self, index: usize) -> bool {
        self.paths.iter().enumerate().any(|(other, path)| other != index && path.is_usable())
    }

    /// Returns the bytes of bulk units in flight on a path.
    fn bulk_in_flight(&self, index: usize) -> usize {
        let mut bytes = 0;
        self.paths[index].sent_packets.for_each_outstanding(|sent| {
            let unit = sent.unit().and_then(|id| self.recovery.units.get(id));
            bytes += unit.filter(|unit| !unit.urgent && !unit.settled).map_or(0, Unit::len);
        });
        bytes
    }

    /// Treats those units in flight on a path as lost for which `is_wanted` returns true.
    ///
    /// They stay in the record of sent packets, so that a late report still acknowledges them.
    fn doubt_in_flight(&mut self, index: usize, is_wanted: impl Fn(&Unit) -> bool) {
        if self.config.policy.recovery != Recovery::Arq {
            return;
        }
        let (units, lost) = (&mut self.recovery.units, &mut self.recovery.lost);
        self.paths[index].sent_packets.for_each_outstanding(|sent| {
            let Some(id) = sent.unit().filter(|id| units.get(*id).is_some_and(&is_wanted)) else { return };
            let waits = match *sent {
                Sent::Part(_, part) => units.part_lost(id, part),
                _ => true,
            };
            if waits {
                units.retain(id);
                lost.push(id);
            }
        });
    }

    fn send_doubted(&mut self, cx: &mut Context<'_>, index: usize) {
        self.recovery.lost.sort_unstable_by_key(|id| {
            self.recovery.units.get(*id).map(|u| (!u.urgent, u.segment.born, u.segment.flow, u.seq.get()))
        });
        self.send_lost(cx, Some(index), |_, _| 1);
    }
}
