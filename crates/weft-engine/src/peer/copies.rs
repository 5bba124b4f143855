//! The redundant schedule: each unit over the path that delivers it first, and copies of it over all others.
//!
//! A copy leaves only while its path has nothing else to send, and only if the unit has not yet arrived. So copies cost
//! no goodput: paths that are full carry each unit once, and together what they have. Further copies follow while a
//! unit is likely to be lost on all paths.

use super::{Context, Peer};
use crate::path::{Lane, Path};
use crate::units::UnitId;
use weft_core::pool::Pool;

impl Peer {
    /// Queues a new unit on one path with room, and copies of it on the others.
    ///
    /// `sparse` is true for a unit of a sparse flow, which may use paths that carry no bulk.
    pub(super) fn push_copies(&mut self, cx: &mut Context<'_>, unit: UnitId, sparse: bool) {
        let Some(first) = self.earliest_with_room() else { return };
        let rounds = self.rounds();
        self.push(cx.now, cx.pool, first, Lane::Bulk, unit);
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            if !path.is_usable() || path.is_sparse_only() && !sparse {
                continue;
            }
            if index != first {
                self.push_copy(cx, index, Lane::Copy, unit);
            }
            for _ in 1..rounds {
                self.push_copy(cx, index, Lane::Again, unit);
            }
        }
    }

    /// Queues a copy, and removes those before it whose units have arrived. So a lane of a full path stays short.
    fn push_copy(&mut self, cx: &mut Context<'_>, index: usize, lane: Lane, unit: UnitId) {
        self.drop_arrived(cx.pool, index, lane);
        self.push(cx.now, cx.pool, index, lane, unit);
    }

    fn drop_arrived(&mut self, pool: &mut Pool, index: usize, lane: Lane) {
        while let Some(id) = self.paths[index].queues.oldest(lane).filter(|id| !self.recovery.units.is_live(*id)) {
            self.paths[index].queues.pop(lane);
            self.recovery.units.release(id, pool);
        }
    }

    /// Returns the path with room on which a unit arrives first. Suspect paths come last.
    fn earliest_with_room(&self) -> Option<usize> {
        let arrival_us = |index: usize| {
            let view = &self.dispatch.views[index];
            (view.suspect, view.delay_us + view.backlog.as_micros() as i64)
        };
        let has_room = |index: &usize| self.dispatch.views.get(*index).is_some_and(|view| view.usable && view.room);
        let with_room = (0..self.paths.len()).filter(has_room).min_by_key(|index| arrival_us(*index));
        with_room.or_else(|| {
            (0..self.paths.len()).filter(|index| self.paths[*index].is_usable()).min_by_key(|index| arrival_us(*index))
        })
    }

    /// Returns the number of copies on each path that leave hardly a unit in flight lost on all of them.
    fn rounds(&self) -> usize {
        let each = self.paths.iter().filter(|path| path.is_usable()).map(Path::loss_of_copies);
        let all_lost: Option<f64> = each.reduce(|all, loss| Some(all? * loss?)).flatten();
        all_lost.map_or(1, |loss| Path::rounds_of_copies(loss, self.recovery.units.len()))
    }
}
