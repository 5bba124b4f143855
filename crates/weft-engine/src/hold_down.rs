//! A setting that becomes stricter at once, and less strict only some time later.
//!
//! Some settings of the tunnel follow the path with the strictest need. Without the delay, a path that often fails
//! and returns would change them for all hosts each time.

use weft_units::{Duration, Instant};

/// Minimum time between the last stricter value and a less strict one.
///
/// Chosen: a value that is stricter than needed for this time costs hosts little, and so do two changes within it.
const HOLD: Duration = Duration::from_secs(10);

/// A setting that becomes stricter at once, and less strict only after a delay. Greater values are stricter.
#[derive(Clone, Copy, Debug)]
pub struct HoldDown<T> {
    value: T,
    /// Time from which a less strict value is allowed.
    held_until: Instant,
}

impl<T: Ord + Copy> HoldDown<T> {
    /// Creates a setting that any value may replace at once.
    pub fn new(value: T) -> HoldDown<T> {
        HoldDown { value, held_until: Instant::ZERO }
    }

    /// Returns the value in force.
    pub fn value(&self) -> T {
        self.value
    }

    /// Sets the value that is needed now, unless it is less strict and the last rise was less than [`HOLD`] ago.
    ///
    /// In that case, call it again later. Returns true if the value in force changed.
    pub fn follow(&mut self, now: Instant, needed: T) -> bool {
        if needed == self.value || needed < self.value && now < self.held_until {
            return false;
        }
        if needed > self.value {
            self.held_until = now + HOLD;
        }
        self.value = needed;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn a_setting_is_never_less_strict_than_needed_and_relaxes_late() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let (mut setting, mut now) = (HoldDown::new(0), Instant::from_millis(1_000));
            let (mut stricter_at, longest_ms) = (None, 1 + rng.below(4_000));
            for _ in 0..300 {
                now += Duration::from_millis(rng.below(longest_ms));
                let (before, needed) = (setting.value(), rng.below(6));
                let is_changed = setting.follow(now, needed);
                assert!(setting.value() >= needed, "seed {seed}");
                assert_eq!(is_changed, setting.value() != before, "seed {seed}");
                if setting.value() > before {
                    stricter_at = Some(now);
                } else if is_changed {
                    assert!(stricter_at.is_none_or(|at| now - at >= HOLD), "seed {seed}: too early");
                }
            }
            assert!(setting.value() == 0 || setting.follow(now + HOLD, 0), "seed {seed}: strict without need");
        }
    }
}
