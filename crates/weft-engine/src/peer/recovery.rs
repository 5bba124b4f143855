//! Selective repeat on the hop.

use super::outage::sent_stale_at;
use super::{Context, Peer};
use crate::PathState;
use crate::config::Recovery;
use crate::path::{Lane, Path, Sent};
use crate::unit::{Unit, UnitId};
use weft_core::pool::Pool;
use weft_core::sched::{Choice, UnitView};
use weft_units::Instant;
use weft_wire::hop::DATA_OVERHEAD;

/// Why what a path has queued or in flight is sent elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rescue {
    /// It is to carry nothing more; what has left is on its way.
    Spared,
    /// It is silent, which may mean nothing: sparse flows are repeated, and bulk where there is little of it.
    Suspect,
    /// It is down: everything is repeated.
    Down,
}

/// With so much bulk in flight at most, a suspicion repeats it, too: an initial window (RFC 6928), which needs no leave. Else units that
/// came to be bulk for a moment only, behind repeats of their own flow, would wait until the path is down.
const LITTLE_BULK_BYTES: usize = 14_600;

/// Units given up of which the peer is still to be told. Beyond that it has waited long enough for the oldest by itself.
const MAX_SKIPS: usize = 1_024;

impl Peer {
    /// Queues what was declared lost on the path that would deliver it first; gives up what comes too late. While there is no path
    /// at all, it waits.
    pub(super) fn repeat_lost(&mut self, cx: &mut Context<'_>) {
        self.send_lost(cx, None, Path::copies_of_repeat);
    }

    /// Not over the path `away_from`, where another is usable.
    fn send_lost(&mut self, cx: &mut Context<'_>, away_from: Option<usize>, copies: fn(&Path, u8) -> usize) {
        if self.lost.is_empty() {
            return;
        }
        self.refresh_views(cx.now);
        if let Some(view) = away_from.and_then(|index| self.views.get_mut(index)) {
            view.suspect = true;
        }
        let mut lost = core::mem::take(&mut self.lost);
        lost.retain(|id| self.repeat(cx.now, cx.pool, *id, copies));
        self.lost = lost;
    }

    /// Whether the unit waits for a path; else the caller's reference to it ends here.
    fn repeat(&mut self, now: Instant, pool: &mut Pool, id: UnitId, copies: fn(&Path, u8) -> usize) -> bool {
        let Some(unit) = self.units.get(id).filter(|u| !u.settled).copied() else {
            self.units.release(id, pool);
            return false;
        };
        let view = UnitView {
            bytes: (unit.len() + DATA_OVERHEAD + 28) as u32,
            flow_hash: unit.segment.flow_hash,
            urgent: true,
        };
        match self.rescue.pick(now, &self.views, view) {
            Choice::Path(index) if now < unit.deadline => {
                self.totals.repeated_units += 1;
                let lane = if unit.urgent { Lane::Urgent } else { Lane::Repeat };
                let times = self.units.count_repeat(id);
                for _ in 0..copies(&self.paths[index], times) {
                    self.push(now, pool, index, lane, id);
                }
            }
            _ if now < self.waits_until(&unit) => {
                self.units.set_deadline(id, self.waits_until(&unit));
                return true;
            }
            _ => self.abandon(now, id, pool),
        }
        self.units.release(id, pool);
        false
    }

    /// When a unit that waits for a path is given up. In an outage, what is TCP's outlasts its deadline: its sender takes that for a long
    /// delay and not for loss.
    fn waits_until(&self, unit: &Unit) -> Instant {
        if unit.segment.is_tcp && !self.is_reachable() {
            return sent_stale_at(&unit.segment);
        }
        unit.deadline.min(sent_stale_at(&unit.segment))
    }

    /// When the first of what waits for a path is too late.
    pub(super) fn lost_deadline(&self) -> Option<Instant> {
        self.lost.iter().filter_map(|id| self.units.get(*id)).map(|unit| unit.deadline).min()
    }

    /// Gives a unit up, and tells the peer not to wait for it.
    pub(super) fn abandon(&mut self, now: Instant, id: UnitId, pool: &mut Pool) {
        let Some(unit) = self.units.get(id).copied() else { return };
        if self.units.settle(id, pool) {
            self.totals.abandoned_units += 1;
            if self.skips.len() >= MAX_SKIPS {
                self.skips.pop_front();
            }
            self.skips.push_back((unit.segment.flow, unit.seq));
            self.way_in.on_loss(now, unit.segment.vpn);
            if let Some(index) = self.fastest_path() {
                self.paths[index].pending.skips = true;
            }
        }
    }

    /// Sends what a path has queued elsewhere, and of what it has in flight what `why` asks for.
    pub(crate) fn rescue_path(&mut self, cx: &mut Context<'_>, index: usize, why: Rescue) {
        if why == Rescue::Suspect && !self.may_doubt(cx.now, index) {
            return;
        }
        while let Some(id) = self.paths[index].queues.take() {
            self.uncommit(id);
            if self.units.get(id).is_some_and(|u| u.refs > 1 && !u.repeating) {
                // A copy is on its way by another path.
                self.units.release(id, cx.pool);
            } else {
                self.lost.push(id);
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

    /// An answer is overdue on a path that is not suspect yet: what nobody but it carries of sparse flows leaves by another good one, too,
    /// as a tail loss probe (RFC 8985) would.
    pub(super) fn repeat_overdue(&mut self, cx: &mut Context<'_>, index: usize) {
        self.refresh_views(cx.now);
        let mut others = self.views.iter().zip(&self.paths).enumerate().filter(|(at, _)| *at != index);
        if others.any(|(_, (view, path))| view.usable && path.state() == PathState::Good) {
            self.doubt_in_flight(index, |unit| unit.urgent && unit.refs == 1);
            self.send_doubted(cx, index);
        }
    }

    /// Whether a suspicion may have packets repeated: over the only path once in a round trip, since repeats come behind what they repeat.
    /// A link that fades is suspected with each answer.
    fn may_doubt(&mut self, now: Instant, index: usize) -> bool {
        let only = !self.has_other_path(index);
        let path = &mut self.paths[index];
        if only && path.doubted_at.is_some_and(|at| now < at + path.rtt().smoothed()) {
            return false;
        }
        path.doubted_at = Some(now);
        true
    }

    /// Whether a path other than this one can carry packets.
    fn has_other_path(&self, index: usize) -> bool {
        self.paths.iter().enumerate().any(|(other, path)| other != index && path.is_usable())
    }

    /// Bytes of units in flight on a path that are not urgent.
    fn bulk_in_flight(&self, index: usize) -> usize {
        let mut bytes = 0;
        self.paths[index].book.for_each_outstanding(|sent| {
            let unit = sent.unit().and_then(|id| self.units.get(id));
            bytes += unit.filter(|unit| !unit.urgent && !unit.settled).map_or(0, Unit::len);
        });
        bytes
    }

    /// Takes what a path has in flight for lost, where `is_wanted`. It stays in the path's book, so that a late report still settles it.
    fn doubt_in_flight(&mut self, index: usize, is_wanted: impl Fn(&Unit) -> bool) {
        if self.config.policy.recovery != Recovery::Arq {
            return;
        }
        let (units, lost) = (&mut self.units, &mut self.lost);
        self.paths[index].book.for_each_outstanding(|sent| {
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
        self.lost.sort_unstable_by_key(|id| {
            self.units.get(*id).map(|u| (!u.urgent, u.segment.born, u.segment.flow, u.seq.get()))
        });
        self.send_lost(cx, Some(index), |_, _| 1);
    }
}
