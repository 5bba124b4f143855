//! The pace of a port: a limit of the rate at which its packets leave.

use super::contract::ByteTime;
use weft_units::{Duration, Instant, Rate};

/// Time for which packets gather after the port has used up its rate. They then leave together.
///
/// Derived: a tenth of the 5 ms that a packet may wait in a port. In a shorter time, each packet of a fast port would
/// wake the node up.
const GATHER: Duration = Duration::from_micros(500);

/// A rate limit with a credit of at most [`GATHER`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Time of a byte at the rate, or `None` without a limit.
    cost: Option<ByteTime>,
    /// Time at which everything that has left would have left at the rate.
    due: Instant,
    /// Time at which packets may leave again, if the rate is used up.
    held_until: Option<Instant>,
}

impl Pace {
    /// Sets the rate. `None` removes the limit.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        self.cost = rate.map(ByteTime::at);
        if rate.is_none() {
            self.held_until = None;
        }
    }

    /// True if a packet may leave now. Otherwise [`Pace::held_until`] is the time to ask again.
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        if self.held_until.is_some_and(|at| at <= now) {
            self.held_until = None;
        } else if self.held_until.is_none() && self.cost.is_some() && self.due > now {
            self.held_until = Some(self.due + GATHER);
        }
        self.held_until.is_none()
    }

    /// Returns the time at which packets may leave again, or `None` if they may leave now.
    pub(super) fn held_until(&self) -> Option<Instant> {
        self.held_until
    }

    /// Ends the wait, because a packet that need not wait has arrived.
    pub(super) fn look_again(&mut self) {
        self.held_until = None;
    }

    /// Counts a packet that leaves now.
    pub(super) fn on_left(&mut self, now: Instant, bytes: u32) {
        if let Some(cost) = self.cost {
            self.due = self.due.max(now.before(GATHER)) + cost.of(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    /// A port that always has packets sends them at the rate, whatever the rate, the packets and the times of asking.
    #[test]
    fn what_leaves_has_the_rate() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let rate = Rate::from_bps((1e5 * 1e5f64.powf(rng.unit())) as u64);
            let (mut pace, mut now, mut bits, most) = (Pace::default(), Instant::from_millis(1_000), 0, 65_000);
            pace.set_rate(Some(rate));
            let began_at = now;
            while now < began_at + Duration::from_secs(20) && bits < 80_000_000 {
                while pace.allows(now) {
                    let bytes = 40 + rng.below(most) as u32;
                    pace.on_left(now, bytes);
                    bits += u64::from(bytes) * 8;
                }
                let at = pace.held_until().expect("the rate is used up");
                now = at + Duration::from_micros(rng.below(100));
            }
            let allowed = rate.bps() as f64 * (now - began_at + GATHER).as_secs_f64();
            let (least, most) = (allowed * 0.83 - most as f64 * 8.0, allowed + most as f64 * 8.0);
            assert!((least..=most).contains(&(bits as f64)), "{rate}: {bits} of {allowed}");
        }
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pace = Pace::default();
        pace.set_rate(Some(Rate::from_mbps(1)));
        pace.on_left(Instant::ZERO, 1_500);
        assert!(!pace.allows(Instant::ZERO));
        pace.set_rate(None);
        assert!(pace.allows(Instant::ZERO) && pace.held_until().is_none());
    }
}
