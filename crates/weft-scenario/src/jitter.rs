//! Models jitter that does not reorder packets.

use weft_units::{Duration, Instant, Rng};

/// A delay that wanders between zero and a limit without reordering packets.
///
/// Every `limit`, a new value is drawn from a uniform distribution. The delay moves to it linearly. It never falls
/// faster than time passes, so packets keep their order. The delay depends on time only, so dense and sparse traffic
/// see the same jitter.
#[derive(Clone, Debug)]
pub struct Wander {
    rng: Rng,
    limit: Duration,
    /// Time at which the present linear change began. It lasts for `limit`.
    start: Instant,
    /// Delay at the start of the present linear change, as a fraction of `limit`.
    from: f64,
    /// Delay at the end of the present linear change, as a fraction of `limit`.
    to: f64,
}

impl Wander {
    /// Creates a jitter between zero and `limit` that begins at `start` and draws from `rng`.
    pub fn new(mut rng: Rng, limit: Duration, start: Instant) -> Wander {
        let (from, to) = (rng.unit(), rng.unit());
        Wander { rng, limit, start, from, to }
    }

    /// Changes the limit.
    ///
    /// If it differs from the old limit, a new linear change of the delay begins at `now`.
    pub fn set_limit(&mut self, limit: Duration, now: Instant) {
        if limit != self.limit {
            *self = Wander::new(self.rng.clone(), limit, now);
        }
    }

    /// Returns the delay of a packet at `time`, which must not be earlier than in the previous call.
    pub fn at(&mut self, time: Instant) -> Duration {
        if self.limit.is_zero() {
            return Duration::ZERO;
        }
        let mut share = (time - self.start).div_duration_f64(self.limit);
        if share >= 1.0 {
            // Without calls for more than one linear change, the values between are not known. A new start value is
            // drawn.
            self.from = if share < 2.0 { self.to } else { self.rng.unit() };
            self.to = self.rng.unit();
            self.start += self.limit.mul_f64(share.floor());
            share = share.fract();
        }
        self.limit.mul_f64(self.from + (self.to - self.from) * share)
    }

    /// Draws a delay for one packet, between zero and the limit and independent of other packets.
    pub fn independent(&mut self) -> Duration {
        self.limit.mul_f64(self.rng.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_packets_keep_their_order_and_see_the_whole_range() {
        let limit = Duration::from_millis(10);
        let mut wander = Wander::new(Rng::new(1), limit, Instant::ZERO);
        let times = (0..100_000).map(|n| Instant::from_micros(n * 100));
        let mut delays: Vec<Duration> = times.clone().map(|time| wander.at(time)).collect();
        let due: Vec<Instant> = times.zip(&delays).map(|(time, &delay)| time + delay).collect();
        assert!(due.is_sorted());
        delays.sort();
        let at = |share: usize| delays[(delays.len() - 1) * share / 100].as_secs_f64() * 1e3;
        assert!(
            at(0) < 0.5 && (at(50) - 5.0).abs() < 0.5 && at(100) > 9.5 && at(100) <= 10.0,
            "{} {} {}",
            at(0),
            at(50),
            at(100)
        );
    }

    #[test]
    fn a_pause_or_no_limit_does_no_harm() {
        let mut wander = Wander::new(Rng::new(1), Duration::from_millis(10), Instant::ZERO);
        assert!(wander.at(Instant::from_millis(1_000_007)) <= Duration::from_millis(10));
        wander.set_limit(Duration::ZERO, Instant::from_millis(1_000_008));
        assert_eq!(wander.at(Instant::from_millis(1_000_009)), Duration::ZERO);
    }
}
