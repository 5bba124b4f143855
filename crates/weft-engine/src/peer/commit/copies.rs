//! The redundant schedule: sends each unit over the path that delivers it first, and copies of it over other paths.
//!
//! Spare copies leave only while a path has nothing else to send, and only if the unit has not yet arrived, so they
//! cost no goodput. Where a stall for a retransmission costs more than the bytes of a copy, [`redundancy::due`] copies
//! leave with the unit itself.

use super::super::outbound::redundancy::{self, InFlight};
use super::super::{Context, Peer};
use crate::path::Lane;
use crate::path::choice::MAX_PATHS;
use crate::units::UnitId;
use weft_core::pool::Pool;
use weft_core::sched::PathView;
use weft_units::Instant;

impl Peer {
    /// Queues a new unit on the path that delivers it first, and its copies on this and other paths.
    ///
    /// `sparse` is true for a unit of a sparse flow, which may use paths that carry no bulk.
    pub(super) fn push_copies(&mut self, cx: &mut Context<'_>, unit: UnitId, sparse: bool) {
        let in_flight = self.in_flight(cx.now, sparse);
        let mut times = [0; MAX_PATHS];
        for copy in 0..redundancy::due(&in_flight) {
            let Some(index) = self.next_path(sparse, copy == 0, &times) else { break };
            self.push(cx.now, index, Lane::Bulk, unit);
            times[index] += 1;
        }
        let rounds = redundancy::rounds(&in_flight);
        for (index, done) in times.into_iter().enumerate().take(self.paths.len()) {
            for round in done..rounds {
                if self.may_copy(sparse, index) {
                    self.push_spare(cx, index, if round == 0 { Lane::Copy } else { Lane::Again }, unit);
                }
            }
        }
    }

    /// True if the path with this index may carry copies of a unit.
    fn may_copy(&self, sparse: bool, index: usize) -> bool {
        self.paths.get(index).is_some_and(|path| path.is_usable() && (sparse || !path.is_sparse_only()))
    }

    /// Queues a spare copy of a unit, which leaves only while the path has nothing else to send.
    ///
    /// It first drops earlier spare copies that are not needed any more.
    fn push_spare(&mut self, cx: &mut Context<'_>, index: usize, lane: Lane, unit: UnitId) {
        self.drop_useless(cx.pool, index, lane);
        self.push(cx.now, index, lane, unit);
    }

    /// Drops the oldest spare copies: those whose units arrived, and those beyond one round trip of the path.
    ///
    /// After a round trip a report states whether the unit arrived. Without recovery, arrived units are not recorded.
    fn drop_useless(&mut self, pool: &mut Pool, index: usize, lane: Lane) {
        let most = self.paths[index].rate.in_flight_limit_bytes();
        while let Some((id, bytes)) = self.paths[index].queues.oldest(lane) {
            if bytes <= most && self.recovery.units.is_live(id) {
                break;
            }
            self.paths[index].queues.pop(lane);
            self.uncommit(lane, id);
            self.recovery.units.release(id, pool);
        }
    }

    /// Returns the index of the path for the next copy of a unit: the path on which the copy arrives first.
    ///
    /// The first copy needs a path whose queue has space. A later copy may share a path with other copies. Each of
    /// these adds one RTT to the arrival time that is compared. `times` holds the number of copies already on each
    /// path.
    fn next_path(&self, sparse: bool, is_first: bool, times: &[usize; MAX_PATHS]) -> Option<usize> {
        let arrival = |(index, view): &(usize, &PathView)| {
            let repeat_us = self.paths[*index].rtt().smoothed().as_micros() as i64;
            (view.suspect, view.delay_us + view.backlog.as_micros() as i64 + times[*index] as i64 * repeat_us)
        };
        let views = self.dispatch.views.iter().enumerate().take(MAX_PATHS);
        let may = |(index, view): &(usize, &PathView)| self.may_copy(sparse, *index) && (view.room || !is_first);
        views.filter(may).min_by_key(arrival).map(|(index, _)| index)
    }

    /// Returns the maximum number of units in flight in the last RTTs, and the loss and capacity of the paths.
    ///
    /// The maximum is used instead of the present number, because a lost unit holds back the whole window behind it.
    fn in_flight(&mut self, now: Instant, sparse: bool) -> InFlight {
        let round_trip = self.paths.iter().filter(|path| path.is_usable()).map(|path| path.rtt().smoothed()).max();
        let packets = self.dispatch.in_flight.most(now, self.recovery.units.len(), round_trip.unwrap_or_default());
        let mut of = InFlight { packets, ..InFlight::default() };
        for path in (0..self.paths.len()).filter(|index| self.may_copy(sparse, *index)).map(|index| &self.paths[index])
        {
            of.paths += 1;
            of.log_loss += libm::log(path.loss().fraction().max(redundancy::LEAST_LOSS));
            of.capacity_bps += path.rate.capacity().unwrap_or(path.rate.carried()).bps() as f64;
            of.round_trip_s = of.round_trip_s.max(path.rtt().smoothed().as_secs_f64());
            of.is_filled |= path.is_filled();
        }
        of
    }
}
