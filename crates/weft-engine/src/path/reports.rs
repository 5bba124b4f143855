//! The times of a path's reports: when one is due, and when it may leave together with data.

use super::{FULL_PACKET_BYTES, Path};
use weft_units::tuned::{Constant, Tuned};
use weft_units::{Duration, Instant, Rate};

/// Longest time from the arrival of a datagram to the report about it.
///
/// Both ends must use the same value, because a sender derives from it when a path is silent.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(10);
/// Assumed size of a report, in IP bytes. It has a few ranges of packet numbers.
const REPORT_BYTES: u64 = 150;
/// Divisor of the capacity that limits reports: they take at most a quarter of it.
///
/// *Tuned*: 1/10 delays retransmissions on links below 2 Mbit/s.
const REPORTS_PART: Tuned<u32> = Tuned::new(Constant::ReportsPart, 4);
/// Longest interval between reports on slow paths, because senders need reports to detect losses.
const REPORTS_APART_MAX: Duration = Duration::from_millis(50);

impl Path {
    /// Returns the time of the next report on datagrams received on this path, or `None` if no report is due.
    ///
    /// If the capacity of the reverse direction is known, reports take at most a part of it. Otherwise they would
    /// displace the acknowledgements of flows.
    ///
    /// `rides` tells whether the report may leave with data. It then waits for the data that waits on the path, at most
    /// for the time of one full packet.
    pub fn report_due(&self, rides: impl FnOnce() -> bool) -> Option<Instant> {
        let least = |capacity: Rate| {
            Rate::from_bps(capacity.bps() / u64::from(REPORTS_PART.get())).time_for(REPORT_BYTES).min(REPORTS_APART_MAX)
        };
        let due = self.log.report_due(REPORT_INTERVAL, || self.rate.capacity().map(least).unwrap_or_default())?;
        if self.queues.is_empty() || self.log.is_pressing() || !self.is_usable() || !rides() {
            return Some(due);
        }
        Some(due + self.rate.expected().time_for(FULL_PACKET_BYTES as u64).min(REPORTS_APART_MAX))
    }

    /// True if the report about this path may leave with data now.
    pub fn report_may_ride(&self, now: Instant) -> bool {
        self.log.may_report(now, REPORT_INTERVAL)
    }
}
