use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point on a monotonic time line, in nanoseconds since an origin that the caller chose.
///
/// The daemon counts from its start, the simulator from zero. The code of the lower crates does not depend on the
/// origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the time line.
    pub const ZERO: Instant = Instant(0);
    /// A time later than any event.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Returns the instant `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Instant {
        Instant(micros * 1_000)
    }

    /// Returns the instant `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the whole microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns this instant moved back by `by`, but not before the origin.
    pub const fn before(self, by: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(by)))
    }
}

const fn nanos(d: Duration) -> u64 {
    let n = d.as_nanos();
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, by: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(by)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let t = Instant::from_millis(5);
        assert_eq!(t + Duration::from_micros(1), Instant::from_nanos(5_001_000));
        assert_eq!(t - Instant::from_millis(7), Duration::ZERO);
        assert_eq!(t.before(Duration::from_secs(1)), Instant::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
    }
}
