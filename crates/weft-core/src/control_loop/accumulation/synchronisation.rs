use weft_units::Instant;

/// Rate at which the stored base delay rises, in µs per second, so that clock drift does not look like a queue.
///
/// Derived: two crystals of 100 ppm each drift apart by up to 200 ppm.
const DRIFT_US_PER_S: u32 = 200;
/// Jitter assumed for the delay of markers on a route without queues, in microseconds.
const JITTER_US: u32 = 250;
/// Time in which the base delay rises by 1 µs. Derived: 1 s divided by [`DRIFT_US_PER_S`].
const LIFT_EVERY_US: u32 = 1_000_000 / DRIFT_US_PER_S;

/// One-way delay of a route without a queue, as the difference of two clocks.
///
/// Paper 004 §6.1 synchronises the intervals of the egress edge to it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Synchronisation {
    base_us: u32,
    /// Time of the last rise of the base delay, in microseconds modulo 2^32.
    lifted_at_us: u32,
    started: bool,
}

/// Result of the comparison of a marker's one-way delay with the base delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MarkerDelay {
    /// The marker is the first, or its delay is below the base delay by more than the jitter.
    ///
    /// Its delay is now the base delay.
    Resynchronised,
    /// Time that the marker spent in queues, in microseconds.
    ///
    /// It is zero for a delay slightly below the base delay, which is lowered to it.
    Queued(u32),
}

impl Synchronisation {
    /// Compares a marker's one-way delay with the base delay, and updates the base delay.
    ///
    /// A delay below the base delay shows that a queue stood when the base delay was set.
    pub fn on_delay(&mut self, now: Instant, one_way_delay_us: u32) -> MarkerDelay {
        let lifts = (now.as_micros() as u32).wrapping_sub(self.lifted_at_us) / LIFT_EVERY_US;
        self.base_us = self.base_us.wrapping_add(lifts);
        self.lifted_at_us = self.lifted_at_us.wrapping_add(lifts * LIFT_EVERY_US);
        let queued = one_way_delay_us.wrapping_sub(self.base_us) as i32;
        if self.started && queued >= 0 {
            return MarkerDelay::Queued(queued as u32);
        }
        let by_little = self.started && queued.unsigned_abs() <= JITTER_US;
        self.restart(now, one_way_delay_us);
        if by_little { MarkerDelay::Queued(0) } else { MarkerDelay::Resynchronised }
    }

    /// Sets the base delay to the present one-way delay.
    pub fn restart(&mut self, now: Instant, one_way_delay_us: u32) {
        let lifted_at_us = now.as_micros() as u32;
        *self = Synchronisation { base_us: one_way_delay_us, lifted_at_us, started: true };
    }

    /// Discards the base delay. The next one-way delay becomes the base.
    pub fn forget(&mut self) {
        self.started = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_delay_is_the_new_base_also_across_the_wrap() {
        let mut sync = Synchronisation::default();
        let at = Instant::from_millis;
        assert_eq!(sync.on_delay(at(0), u32::MAX - 5), MarkerDelay::Resynchronised);
        assert_eq!(sync.on_delay(at(1), 94), MarkerDelay::Queued(100));
        assert_eq!(sync.on_delay(at(2), u32::MAX - 9), MarkerDelay::Queued(0));
        assert_eq!(sync.on_delay(at(3), 90), MarkerDelay::Queued(100));
        assert_eq!(sync.on_delay(at(3), u32::MAX - 999), MarkerDelay::Resynchronised);
        sync.forget();
        assert_eq!(sync.on_delay(at(4), 500), MarkerDelay::Resynchronised);
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        for ppm in [-150i64, 150] {
            let mut sync = Synchronisation::default();
            for second in 0..100u32 {
                let delay = 7_000u32.wrapping_add_signed((ppm * i64::from(second)) as i32);
                match sync.on_delay(Instant::from_millis(u64::from(second) * 1_000), delay) {
                    MarkerDelay::Resynchronised => {}
                    MarkerDelay::Queued(us) => assert!(us <= 1, "{us} µs after {second} s at {ppm} ppm"),
                }
            }
        }
    }
}
