use super::PathRate;
use super::phase::State;
use super::round::{LONGEST_ROUND, ROUND_PACKETS, Round};
use weft_units::tuned::{Constant, Ratio, Tuned};
use weft_units::{Duration, Instant};

/// Maximum time for which a plateau is held before a higher rate is tested again.
///
/// Standard: the spacing of BBR's probes of the minimum RTT.
const LONGEST_PLATEAU: Duration = Duration::from_secs(10);
/// Number of rounds for which a plateau is held if no plateau was found shortly before.
///
/// *Tuned*: a path whose rate falls for a short time causes losses that look like a limit.
const FIRST_HOLD: Tuned<u32> = Tuned::new(Constant::FirstHold, 3);
/// Maximum number of rounds after a plateau in which growth that causes losses has met the same limit again.
///
/// *Derived*: six rounds of growth double the rate. Each may take three rounds, until its reports and its losses are
/// known.
const ROUNDS_TO_LOSS: u32 = 20;
/// Number of packets on a plateau after which the path's own loss is known.
///
/// Tuned.
const MEASURED_PACKETS: Tuned<f64> = Tuned::new(Constant::MeasuredPackets, 64.0);
/// Rate on a plateau, as a fraction of the capacity.
///
/// *Tuned*: it is below one, so that the small buffer whose overflow caused the losses does not fill again.
pub const BELOW: Tuned<Ratio> = Tuned::new(Constant::Below, Ratio(0.985));

/// Maximum difference of the capacities of two plateaus that show the same limit, as a fraction of the first.
///
/// Standard: BBRv1's comparison of two long-term rates (`bbr_lt_bw_ratio`), which finds a policer.
const SAME_LIMIT: f64 = 1.0 / 8.0;

/// Data of a plateau: the capacity before it, the loss that led to it, and the packets delivered and lost on it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plateau {
    loss: f64,
    before_bps: f64,
    delivered: u64,
    lost: u64,
    /// True once the path's own loss is known from this plateau.
    is_measured: bool,
}

/// The last plateau: its start, its capacity, and the time for which it is held.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlateauHistory {
    last: Option<Instant>,
    capacity_bps: f64,
    hold: Duration,
}

impl PlateauHistory {
    /// Records a plateau that starts now, and determines the time for which it is held.
    ///
    /// Only a limit that is found repeatedly is held long. Losses long after the last plateau have another cause, such
    /// as an outage. Losses at another rate than before belong to a path whose rate changes, and its rate may soon rise
    /// again.
    fn begin(&mut self, now: Instant, round_trip: Duration, capacity_bps: f64) {
        let soon = (self.hold * 3).max(round_trip * ROUNDS_TO_LOSS);
        let is_late = self.last.is_some_and(|last| now - last > soon);
        let is_other = (capacity_bps - self.capacity_bps).abs() > SAME_LIMIT * self.capacity_bps;
        if is_late || is_other {
            self.hold = Duration::ZERO;
        }
        (self.last, self.capacity_bps) = (Some(now), capacity_bps);
        self.hold = (self.hold * 2).max(round_trip * FIRST_HOLD.get()).min(LONGEST_PLATEAU);
    }

    /// Ends the present plateau.
    pub fn end(&mut self) {
        self.last = None;
    }

    /// True if the time for which the plateau is held has not yet passed.
    pub fn is_held(&self, now: Instant) -> bool {
        self.last.is_some_and(|since| now - since < self.hold)
    }
}

impl PathRate {
    /// Stays at the delivery rate, because growth brought only losses. `loss` is the fraction of packets lost.
    ///
    /// `delivered_bps` is the delivery rate of the last round.
    pub fn enter_plateau(&mut self, now: Instant, loss: f64, delivered_bps: f64) {
        let before_bps = self.capacity_bps;
        // The capacity falls at most by the fraction of packets that were lost, because the losses prove no lower rate.
        // It stays if the sender exceeded it by that fraction: the last round then delivered as much. The rate contains
        // no addition for the path's own loss. It is thus below the limit, and the path's own loss can be measured.
        let least_bps = delivered_bps.min(before_bps).max(before_bps * (1.0 - loss));
        self.capacity_bps = self.meter.delivered_bps().max(least_bps);
        let round = self.rtt.min().max(self.packets_time(ROUND_PACKETS.get().into()).min(LONGEST_ROUND.get()));
        self.plateaus.begin(now, round, self.capacity_bps);
        self.confirmed = true;
        self.not_shown_for = Duration::ZERO;
        self.growth = 0;
        self.state = State::Plateau(Plateau { loss, before_bps, delivered: 0, lost: 0, is_measured: false });
    }

    /// Ends the plateau if packets are still lost at the delivery rate.
    ///
    /// The path itself then causes the losses, and the rate before the plateau was not too high.
    pub fn judge_plateau(&mut self, now: Instant, round: Round) {
        let (State::Plateau(plateau), Some(since)) = (&mut self.state, self.plateaus.last) else { return };
        if round.started < since + self.rtt.smoothed() {
            return;
        }
        plateau.delivered += round.delivered;
        plateau.lost += round.lost;
        let settled = (plateau.delivered + plateau.lost) as f64;
        let Plateau { loss, before_bps, delivered, lost, .. } = *plateau;
        if settled * loss >= 5.0 && lost as f64 > settled * loss / 2.0 {
            self.loss.on_own_losses(now, delivered, lost);
            self.capacity_bps = before_bps;
            self.plateaus = PlateauHistory::default();
            self.state = State::Steady;
        } else if settled >= MEASURED_PACKETS.get() && !plateau.is_measured {
            plateau.is_measured = true;
            self.loss.measured_anew(now, delivered, lost);
            self.capacity_bps *= self.loss.fill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn a_plateau_is_held_longer_only_where_it_is_found_again_and_again() {
        let mut plateaus = PlateauHistory::default();
        let mut hold_ms = |at_ms| {
            plateaus.begin(Instant::from_millis(at_ms), Duration::from_millis(20), 1e6);
            plateaus.hold.as_millis()
        };
        assert_eq!([1_000, 1_200, 1_500].map(&mut hold_ms), [60, 120, 240]);
        assert_eq!([12_000, 30_000].map(hold_ms), [60, 60]);
    }

    #[test]
    fn a_limit_at_another_rate_is_held_for_the_shortest_time() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let (mut plateaus, mut now) = (PlateauHistory::default(), Instant::from_millis(1_000));
            let (round_trip, bps) = (Duration::from_millis(1 + rng.below(300)), 1e5 * 1e4f64.powf(rng.unit()));
            let mut hold = |factor: f64| {
                now += round_trip * FIRST_HOLD.get();
                plateaus.begin(now, round_trip, bps * factor);
                plateaus.hold
            };
            let shortest = hold(1.0);
            assert_eq!(shortest, (round_trip * FIRST_HOLD.get()).min(LONGEST_PLATEAU));
            assert_eq!(hold(0.9 + 0.2 * rng.unit()), (shortest * 2).min(LONGEST_PLATEAU), "the same limit");
            assert_eq!(hold(0.1 + 0.6 * rng.unit()), shortest, "it fell");
            assert_eq!(hold(1.3 + 5.0 * rng.unit()), shortest, "it rose");
        }
    }
}
