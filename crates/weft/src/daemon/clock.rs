//! The clock that drives the engine, and the detector of sleep and of restored or copied machines.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_units::Instant;

/// Maximum age of a receive timestamp, in nanoseconds. An older one means that the wall clock was set.
const LONGEST_AGO_NS: u64 = 1_000_000_000;
/// Minimum sleep of the machine after which sessions start anew, in nanoseconds.
///
/// Tuned: keys are used for minutes, so a shorter sleep does not make them too old.
const SHORTEST_SLEEP_NS: i128 = 1_000_000_000;
/// Minimum step of the wall clock that is taken for an interruption, in nanoseconds.
///
/// Smaller steps are usual: NTP corrects an offset of more than 0.128 s in a step (RFC 5905).
const SMALLEST_STEP_NS: i128 = 2_000_000_000;

/// Clock whose time is zero at the node's start.
///
/// It includes the time in which the machine sleeps, so keys age during sleep.
#[derive(Clone, Copy)]
pub struct Clock {
    start_ns: u64,
}

impl Clock {
    /// Starts a clock at zero.
    pub fn start() -> Clock {
        Clock { start_ns: read_ns(ClockId::CLOCK_BOOTTIME) }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(read_ns(ClockId::CLOCK_BOOTTIME).saturating_sub(self.start_ns))
    }

    /// Returns the wall clock in seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        unix_ns() / 1_000_000_000
    }

    /// Converts a recent wall-clock time to this clock.
    ///
    /// Returns the current time if the wall-clock time is in the future or more than a second ago.
    pub fn at(&self, moment_unix_ns: u64) -> Instant {
        let now = self.now();
        match unix_ns().checked_sub(moment_unix_ns) {
            Some(ago) if ago < LONGEST_AGO_NS => now.before(Duration::from_nanos(ago)),
            _ => now,
        }
    }
}

/// Readings of three clocks at one moment, in nanoseconds.
#[derive(Clone, Copy)]
struct Readings {
    monotonic: i128,
    boot: i128,
    wall: i128,
}

impl Readings {
    fn now() -> Readings {
        let read = |clock| i128::from(read_ns(clock));
        Readings {
            monotonic: read(ClockId::CLOCK_MONOTONIC),
            boot: read(ClockId::CLOCK_BOOTTIME),
            wall: i128::from(unix_ns()),
        }
    }
}

/// Detects that the machine slept, or that it may have been restored or copied.
pub struct Continuity(Readings);

impl Continuity {
    /// Starts the detection with the current readings.
    pub fn start() -> Continuity {
        Continuity(Readings::now())
    }

    /// Returns the reason why sessions must start anew, if the process was interrupted since the last call.
    pub fn interruption(&mut self) -> Option<&'static str> {
        let now = Readings::now();
        let before = core::mem::replace(&mut self.0, now);
        judge(&before, &now)
    }
}

/// Returns the kind of interruption between two readings, if there was one.
///
/// While a machine sleeps, its boot clock advances and its monotonic clock does not. After a restore, the boot clock
/// continues from the image and the wall clock does not.
fn judge(before: &Readings, now: &Readings) -> Option<&'static str> {
    let slept = (now.boot - before.boot) - (now.monotonic - before.monotonic);
    let stepped = (now.wall - before.wall) - (now.boot - before.boot);
    if slept > SHORTEST_SLEEP_NS {
        return Some("the machine was asleep");
    }
    (stepped.abs() > SMALLEST_STEP_NS).then_some("the wall clock was set, or the machine was copied")
}

/// Reads a clock of the kernel, in nanoseconds.
///
/// Linux has every clock that this module reads, so no reading fails.
fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the wall clock in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i128 = 1_000_000_000;

    fn after(monotonic: i128, boot: i128, wall: i128) -> Option<&'static str> {
        let before = Readings { monotonic: 100 * S, boot: 150 * S, wall: 1_700_000_000 * S };
        let now =
            Readings { monotonic: before.monotonic + monotonic, boot: before.boot + boot, wall: before.wall + wall };
        judge(&before, &now)
    }

    #[test]
    fn sleep_and_copies_are_noticed_and_slow_turns_are_not() {
        assert_eq!(after(5 * S, 5 * S, 5 * S + S / 10), None, "a slow turn, a slewed clock");
        assert_eq!(after(S, 301 * S, 301 * S), Some("the machine was asleep"));
        assert!(after(S, S, 3_600 * S).is_some(), "restored an hour later");
        assert!(after(S, S, -3_600 * S).is_some(), "the clock was set back");
        assert_eq!(Continuity::start().interruption(), None);
    }

    #[test]
    fn the_clock_starts_at_zero_and_goes_on() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first < Instant::from_millis(1_000) && clock.now() >= first);
    }
}
