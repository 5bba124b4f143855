//! Granted rates: how long a grant lasts, and whether a changed grant must be reported to the caller.

use crate::api::Grant;
use weft_units::{Duration, Instant, Rate};
use weft_wire::ip::FlowKey;

/// Number of the flow's RTTs after which a grant ends if it is not renewed.
const ENDS_AFTER: u32 = 8;
/// Shortest time after which a grant ends if it is not renewed.
const ENDS_AFTER_MIN: Duration = Duration::from_secs(1);
/// Longest time after which a grant ends if it is not renewed.
const ENDS_AFTER_MAX: Duration = Duration::from_secs(5);
/// Relative change of a granted rate below which the grant is treated as unchanged.
const SAME: f64 = 0.01;

impl Grant {
    /// Returns a grant of this rate from now on, or `None` for a rate of zero.
    pub(super) fn of(now: Instant, flow: FlowKey, rate: Rate, round_trip: Duration) -> Option<Grant> {
        let bytes_per_second = rate.bps() / 8;
        let ends = now + (round_trip * ENDS_AFTER).clamp(ENDS_AFTER_MIN, ENDS_AFTER_MAX);
        (bytes_per_second > 0).then_some(Grant { flow, bytes_per_second, ends })
    }

    /// True if `newer` need not be reported at `now`.
    ///
    /// This is so if the rate of `newer` is nearly that of this grant, and this grant has more than half of its time
    /// left.
    pub(super) fn is_as_good(&self, newer: &Grant, now: Instant) -> bool {
        let difference = self.bytes_per_second.abs_diff(newer.bytes_per_second);
        let is_same = difference as f64 <= SAME * self.bytes_per_second as f64;
        is_same && (self.ends - now) * 2 > newer.ends - now
    }

    /// Returns the granted rate.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.bytes_per_second * 8)
    }
}
