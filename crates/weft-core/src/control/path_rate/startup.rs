use super::PathRate;
use super::phase::State;
use super::round::Round;
use weft_units::Duration;

/// Factor by which the capacity must grow in a round of startup, or the round is one without growth.
///
/// Standard: BBR's full pipe (draft-ietf-ccwg-bbr, section 5.3.1.2).
const LEAST_GROWTH: f64 = 1.25;
/// Number of rounds without growth that end startup.
///
/// Standard: BBR's full pipe.
const ROUNDS_WITHOUT_GROWTH: u32 = 3;
/// Fraction lost in a round that ends startup, if the capacity did not grow.
///
/// While the rate doubles, a limit soon drops half of the packets. Smaller losses may be the path's own: BBR's
/// threshold of 2 % ends the search early on paths that lose 10 %. Derived: half of that half.
const FULL_LOSS: f64 = 0.25;
/// Number of losses in a round below which [`FULL_LOSS`] may be chance.
///
/// Standard: BBRv3's count of loss events.
const FULL_LOST_PACKETS: u64 = 6;

/// Search for a full path while the rate doubles.
///
/// A queue need not appear: a policer and a buffer of a few packets drop the excess. The rate then stops growing, and
/// the search ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullPath {
    /// Capacity at the last growth, in bits per second.
    grown_bps: f64,
    rounds_without_growth: u32,
}

impl FullPath {
    /// Adds a round of startup that had a backlog. Returns true if the path is full.
    fn on_round(&mut self, round: &Round, capacity_bps: f64, grew: bool) -> bool {
        if capacity_bps >= LEAST_GROWTH * self.grown_bps {
            *self = FullPath { grown_bps: capacity_bps, rounds_without_growth: 0 };
        } else {
            self.rounds_without_growth += 1;
        }
        let drops = !grew && round.lost >= FULL_LOST_PACKETS && round.loss() >= FULL_LOSS;
        drops || self.rounds_without_growth >= ROUNDS_WITHOUT_GROWTH
    }
}

impl PathRate {
    /// Ends startup after a round that shows a full path.
    ///
    /// `grew` is true if the capacity grew during the round. A round without a backlog shows the traffic and not the
    /// path.
    pub fn judge_startup(&mut self, round: &Round, grew: bool) {
        let shows_path = matches!(self.state, State::Startup) && round.backlogged && !self.assumed;
        if shows_path && self.full_path.on_round(round, self.capacity_bps, grew) {
            self.state = State::Steady;
        }
    }

    /// True if a queue grows at the pace that an excessive rate causes, or is long.
    pub fn startup_is_over(&self, queue: Duration) -> bool {
        let growing = self.meter.received_bps() < 0.9 * self.meter.sent_bps();
        (queue > self.queue_target() && growing) || queue > self.rtt.min() / 2 + self.queue_target()
    }
}
