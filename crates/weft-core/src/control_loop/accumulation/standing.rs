use weft_units::Duration;

/// Number of round trips, and of measurements, for which a delay must stay nearly constant to count as a longer path.
///
/// *Tuned*: loops that share a link keep the length of its queue constant for some round trips. With 8, row E14 of
/// docs/reproduction.md missed its limit by a thousandth. With 16, its results are those without this rule.
const PATIENCE: u16 = 16;
/// Divisor of the stored values, so that a value fits into 16 bits and a loop stays small.
const UNIT: u32 = 64;
/// One round in the unit of `StandingDelay::rounds`.
const ROUND: u16 = 4_000;

/// Detects a delay that stays constant although the loop's rate does not grow.
///
/// A queue stays constant only if as much arrives as leaves for the whole time. A longer path is the more likely cause.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StandingDelay {
    /// Value at the start of the constant time: a delay in microseconds, or a number of bytes, divided by [`UNIT`].
    ///
    /// Zero stands for none.
    first: u16,
    /// Rounds since `first` was measured, times [`ROUND`].
    ///
    /// The time between two measurements counts as at most one round, because nothing is known of a longer pause.
    rounds: u16,
}

impl StandingDelay {
    /// Adds a value that was measured `elapsed` after the previous one.
    ///
    /// Returns true if for [`PATIENCE`] rounds no value has differed from the first one by more than an eighth.
    pub fn on_value(&mut self, value: u32, elapsed: Duration, rtt: Duration) -> bool {
        let value = u16::try_from(value / UNIT).unwrap_or(u16::MAX);
        if self.first == 0 || value.abs_diff(self.first) > self.first / 8 {
            *self = StandingDelay { first: value, rounds: 0 };
            return false;
        }
        let part = elapsed.min(rtt).as_micros() * u128::from(ROUND) / rtt.as_micros().max(1);
        self.rounds = self.rounds.saturating_add(u16::try_from(part).unwrap_or(ROUND));
        self.rounds >= PATIENCE * ROUND
    }

    /// Starts anew, because the rate grows or the reference for the delay is a new one.
    pub fn restart(&mut self) {
        self.first = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    /// Returns the number of measurements after which [`StandingDelay::on_value`] first returns true.
    ///
    /// `of` returns the value of each measurement, from 0. `every` is the time between two measurements.
    fn stands_at(every: Duration, of: impl Fn(u32) -> f32) -> Option<u32> {
        let mut standing = StandingDelay::default();
        (0..200).find(|k| standing.on_value(of(*k) as u32, every, RTT))
    }

    #[test]
    fn a_value_stands_for_round_trips_and_measurements() {
        assert_eq!(stands_at(RTT / 10, |_| 60_000.0), Some(160));
        assert_eq!(stands_at(RTT * 3, |_| 60_000.0), Some(16));
        assert_eq!(stands_at(RTT, |k| if k == 5 { 50_000.0 } else { 60_000.0 }), Some(22));
        assert_eq!(stands_at(RTT * 100, |_| 60_000.0), Some(16), "pauses between measurements");
        assert_eq!(stands_at(RTT, |_| 0.0), None, "no queue");
        assert_eq!(stands_at(RTT, |k| 60_000.0 * 1.02f32.powi(k as i32).min(60.0)), None, "a queue that grows");
        assert_eq!(stands_at(RTT, |k| if k % 12 < 6 { 60_000.0 } else { 80_000.0 }), None, "one that comes and goes");
    }
    #[test]
    fn a_pause_or_a_long_round_trip_does_not_replace_measurements() {
        for rtt in [RTT, Duration::from_secs(5)] {
            let mut standing = StandingDelay::default();
            assert!(!standing.on_value(60_000, rtt, rtt));
            assert!(!standing.on_value(60_000, rtt * 1_000, rtt), "a pause");
            let rest = (0..200).find(|_| standing.on_value(60_000, rtt / 4, rtt));
            assert_eq!(rest, Some(59), "15 round trips of four measurements each");
        }
    }
    /// Whatever times pass between measurements, a constant value stands after 16 round trips of which each was measured.
    #[test]
    fn a_constant_value_stands_after_the_measured_round_trips_alone() {
        let mut rng = weft_units::Rng::new(1);
        for _ in 0..300 {
            let rtt = Duration::from_micros(1_000 + rng.below(10_000_000));
            let (mut standing, mut measured, mut stands) = (StandingDelay::default(), 0.0, false);
            assert!(!standing.on_value(60_000, rtt, rtt), "the first");
            while !stands {
                let elapsed = rtt.mul_f64(0.02 * libm::pow(500.0, rng.unit()));
                // Each measurement counts up to a 4,000th of a round less than it has.
                assert!(measured < 16.3, "{rtt:?}: {measured}");
                measured += (elapsed.as_secs_f64() / rtt.as_secs_f64()).min(1.0);
                stands = standing.on_value(60_000, elapsed, rtt);
                assert!(!stands || measured > 15.99, "{rtt:?}: {measured}");
            }
        }
    }
}
