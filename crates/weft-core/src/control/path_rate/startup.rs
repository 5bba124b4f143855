use super::PathRate;
use super::phase::State;
use super::round::Round;
use weft_units::Duration;

/// Factor by which the capacity must at least grow in a round of startup. Otherwise it is a round without growth.
///
/// Standard: BBR's full pipe (draft-ietf-ccwg-bbr, section 5.3.1.2).
const LEAST_GROWTH: f64 = 1.25;
/// Number of rounds without growth that end startup.
///
/// Standard: BBR's full pipe.
const ROUNDS_WITHOUT_GROWTH: u32 = 3;
/// Fraction of a round's packets whose loss ends startup, if the capacity did not grow.
///
/// While the rate doubles in each round, a full path soon drops half of the packets. Smaller losses may be the path's
/// own: BBR's threshold of 2 % ends its startup too early on paths that lose 10 %. *Derived*: half of the dropped half.
const FULL_LOSS: f64 = 0.25;
/// Minimum number of losses in a round for [`FULL_LOSS`]. Fewer may be chance.
///
/// Standard: BBRv3's count of loss events.
const FULL_LOST_PACKETS: u64 = 6;

/// Detects that the path is full while the rate doubles in each round.
///
/// A queue need not appear: a policer, or a buffer of a few packets, drops the excess. The measured capacity then stops
/// growing.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullPath {
    /// Capacity at the end of the last round in which it grew, in bits per second.
    grown_bps: f64,
    rounds_without_growth: u32,
}

impl FullPath {
    /// Adds a round of startup in which the sender had a backlog. Returns true if the path is full.
    ///
    /// `grew` is true if the capacity grew in the round.
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
    /// `grew` is true if the capacity grew during the round. A round in which the sender had no backlog is ignored,
    /// because it measures the traffic and not the path.
    pub fn judge_startup(&mut self, round: &Round, grew: bool) {
        let shows_path = matches!(self.state, State::Startup) && round.backlogged && !self.assumed;
        if shows_path && self.full_path.on_round(round, self.capacity_bps, grew) {
            self.state = State::Steady;
        }
    }

    /// True if startup must end, because a queue is long, or because it grows as fast as at a rate that is too high.
    pub fn startup_is_over(&self, queue: Duration) -> bool {
        let growing = self.meter.received_bps() < 0.9 * self.meter.sent_bps();
        (queue > self.queue_target() && growing) || queue > self.rtt.min() / 2 + self.queue_target()
    }
}
