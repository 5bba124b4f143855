//! The target use of a port: when it keeps to a part of its capacity, and when it looks for more.

use weft_units::{Duration, Instant, Rate};

/// Time for which a port keeps to its target use: round trips, and a minimum time.
///
/// *Tuned*: granted rates test a path after the same time ([`weft_core::control::path_rate::PathRate::offered`]).
const KEPT_FOR: (u32, Duration) = (20, Duration::from_millis(500));
/// Time for which a port then sends all that its paths carry: round trips, and a minimum time.
///
/// *Derived*: in one round trip a queue shows the present capacity, and in three more the rate grows by a quarter
/// ([`weft_core::control::path_rate`]). The capacity is measured every 20 ms.
const LOOKS_FOR: (u32, Duration) = (4, Duration::from_millis(100));
/// Growth of the capacity in [`LOOKS_FOR`] above which the port goes on looking.
///
/// *Derived*: the least growth of a path's rate in a round trip is 2 %.
const GROWS: f64 = 1.02;

/// Keeps a port to a part of its capacity, except for short times in which it finds out whether the capacity changed.
///
/// A port that uses less than its paths carry causes no queue, and only a queue shows a capacity.
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetUse {
    /// True while the port keeps to its target.
    keeps: bool,
    /// Time at which the port ceases to keep to its target, or to look for more.
    ends_at: Instant,
    /// Measured capacity when the port began to keep to its target, or to look for more.
    began_with: Rate,
}

impl TargetUse {
    /// Returns the rate that the port must not exceed now, or `None` while it looks for more.
    ///
    /// `share` is the target use from 0 to 1, and `capacity` the measured capacity of the port's paths, or `None`
    /// until a queue has shown it.
    pub fn pace(&mut self, now: Instant, share: f64, capacity: Option<Rate>, round_trip: Duration) -> Option<Rate> {
        let Some(capacity) = capacity else {
            *self = TargetUse::default();
            return None;
        };
        if now >= self.ends_at {
            self.keeps = !self.keeps && capacity <= self.began_with.scaled(GROWS);
            let (round_trips, least) = if self.keeps { KEPT_FOR } else { LOOKS_FOR };
            self.ends_at = now + (round_trip * round_trips).max(least);
            self.began_with = capacity;
        }
        self.keeps.then(|| capacity.scaled(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_units::Rng;

    const STEP: Duration = Duration::from_millis(20);

    /// A port of a constant capacity looks for more in a sixth of the time, or less where the least times count.
    #[test]
    fn a_port_of_constant_capacity_keeps_to_its_target_most_of_the_time() {
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let (mut target, capacity) = (TargetUse::default(), Rate::from_bps(100_000 + rng.below(1 << 30)));
            let (round_trip, share) = (Duration::from_millis(1 + rng.below(300)), 0.5 + 0.5 * rng.unit());
            let paces = (0..50_000).map(|n| target.pace(Instant::ZERO + STEP * n, share, Some(capacity), round_trip));
            let kept: Vec<Rate> = paces.flatten().collect();
            assert!(kept.iter().all(|rate| *rate == capacity.scaled(share)));
            assert!((0.8..0.87).contains(&(kept.len() as f64 / 50_000.0)), "{round_trip:?}: {}", kept.len());
        }
    }

    /// While the capacity grows, the port does not return to its target.
    #[test]
    fn a_port_looks_on_while_its_capacity_grows() {
        let (mut target, mut capacity, round_trip) = (TargetUse::default(), 1e6, Duration::from_millis(20));
        let mut pace = |n: u32, bps: f64| {
            target.pace(Instant::ZERO + STEP * n, 0.9, Some(Rate::from_bps(bps as u64)), round_trip).is_some()
        };
        let begins = (0..1_000).rfind(|n| !pace(*n, capacity)).unwrap();
        for n in begins + 1..begins + 200 {
            capacity *= 1.01;
            assert!(!pace(n, capacity) || n < 1_000, "step {n}");
        }
        assert!((0..20).any(|n| pace(begins + 300 + n, capacity)));
    }

    #[test]
    fn an_unknown_capacity_sets_no_pace() {
        let mut target = TargetUse::default();
        assert!((0..1_000).all(|n| target.pace(Instant::ZERO + STEP * n, 0.9, None, STEP).is_none()));
    }
}
