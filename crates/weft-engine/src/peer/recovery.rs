//! Selective repeat on the hop.

use super::{Context, Peer};
use crate::config::Recovery;
use crate::path::{Lane, Path, Sent};
use crate::unit::UnitId;
use weft_core::pool::Pool;
use weft_core::sched::{Choice, UnitView};
use weft_units::Instant;
use weft_wire::hop::DATA_OVERHEAD;

/// How much of what is in flight on a path to send again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rescue {
    /// Nothing: what has left is on its way.
    Queued,
    /// Sparse flows: on a suspicion, which may be wrong.
    Urgent,
    /// Everything: the path is down.
    All,
}

/// Units given up of which the peer is still to be told. Beyond that it has waited long enough for the oldest by itself.
const MAX_SKIPS: usize = 1_024;

impl Peer {
    /// Queues what was declared lost on the path that would deliver it first; gives up what comes too late. While there is no path
    /// at all, it waits.
    pub(super) fn repeat_lost(&mut self, cx: &mut Context<'_>) {
        self.send_lost(cx, Path::copies_of_repeat);
    }

    fn send_lost(&mut self, cx: &mut Context<'_>, copies: fn(&Path) -> usize) {
        if self.lost.is_empty() {
            return;
        }
        self.refresh_views(cx.now);
        let mut lost = core::mem::take(&mut self.lost);
        lost.retain(|id| self.repeat(cx.now, cx.pool, *id, copies));
        self.lost = lost;
    }

    /// Whether the unit waits for a path; else the caller's reference to it ends here.
    fn repeat(&mut self, now: Instant, pool: &mut Pool, id: UnitId, copies: fn(&Path) -> usize) -> bool {
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
                for _ in 0..copies(&self.paths[index]) {
                    self.push(now, pool, index, lane, id);
                }
            }
            _ if now < unit.deadline => return true,
            _ => self.abandon(now, id, pool),
        }
        self.units.release(id, pool);
        false
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

    /// Sends what a path has queued, and `rescue` of what it has in flight, elsewhere. What is in flight stays in its book, so
    /// that a late report still settles it.
    pub(crate) fn rescue_path(&mut self, cx: &mut Context<'_>, index: usize, rescue: Rescue) {
        while let Some(id) = self.paths[index].queues.take() {
            self.uncommit(id);
            if self.units.get(id).is_some_and(|u| u.refs > 1 && !u.repeating) {
                // A copy is on its way by another path.
                self.units.release(id, cx.pool);
            } else {
                self.lost.push(id);
            }
        }
        if self.config.policy.recovery == Recovery::Arq && rescue != Rescue::Queued {
            let (units, lost) = (&mut self.units, &mut self.lost);
            self.paths[index].book.for_each_outstanding(|sent| {
                let Some(id) = sent.unit() else { return };
                if rescue == Rescue::Urgent && !units.get(id).is_some_and(|u| u.urgent) {
                    return;
                }
                let is_wanted = match *sent {
                    Sent::Part(_, part) => units.part_lost(id, part),
                    _ => true,
                };
                if is_wanted {
                    units.retain(id);
                    lost.push(id);
                }
            });
        }
        self.lost.sort_unstable_by_key(|id| {
            self.units.get(*id).map(|u| (!u.urgent, u.segment.born, u.segment.flow, u.seq.get()))
        });
        self.send_lost(cx, |_| 1);
    }
}
