//! The clock the engine is driven by.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_units::Instant;

/// Nothing waits longer in a socket while the node lives; beyond it, the wall clock was set.
const LONGEST_AGO_NS: u64 = 1_000_000_000;

/// Time since the start.
#[derive(Clone, Copy)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { start: std::time::Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The wall clock in seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        unix_ns() / 1_000_000_000
    }

    /// A recent moment of the wall clock on this clock; now, if it lies in the future or too far back to be true.
    pub fn at(&self, moment_unix_ns: u64) -> Instant {
        let now = self.now();
        match unix_ns().checked_sub(moment_unix_ns) {
            Some(ago) if ago < LONGEST_AGO_NS => now.before(Duration::from_nanos(ago)),
            _ => now,
        }
    }
}

/// The wall clock in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
