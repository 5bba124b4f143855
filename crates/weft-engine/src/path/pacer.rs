//! Paces the datagrams of a path, so that they leave at the path's rate.

use weft_units::{Duration, Instant, Rate};

/// Longest delay of a late timer that a burst of datagrams may make up for.
///
/// The link drained during the delay, so the burst builds no queue.
const CREDIT: Duration = Duration::from_millis(5);

/// Pacer of one path. It stores the time at which the next byte may leave.
#[derive(Debug, Default)]
pub struct Pacer {
    next: Instant,
}

impl Pacer {
    pub fn ready_at(&self) -> Instant {
        self.next
    }

    pub fn is_ready(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Records that data arrives on a path that was idle. The idle time permits no burst.
    pub fn start(&mut self, now: Instant) {
        self.next = self.next.max(now);
    }

    /// Delays the next byte until `at`, the time at which other traffic has left the path's link.
    pub fn wait_until(&mut self, at: Instant) {
        self.next = self.next.max(at);
    }

    /// Lets the next byte leave at `at` at the latest, even if the rate required a later time.
    pub fn wait_at_most(&mut self, at: Instant) {
        self.next = self.next.min(at);
    }

    pub fn consume(&mut self, now: Instant, bytes: u64, rate: Rate) {
        self.next = self.next.max(now.before(CREDIT)) + rate.time_for(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_rate_over_late_wakeups() {
        let (mut pacer, rate) = (Pacer::default(), Rate::from_mbps(12));
        let (mut now, mut sent) = (Instant::from_millis(100), 0u64);
        pacer.start(now);
        while now < Instant::from_millis(1100) {
            while pacer.is_ready(now) {
                pacer.consume(now, 1500, rate);
                sent += 1500;
            }
            now += Duration::from_micros(3_700);
        }
        assert!((1_490_000..1_510_000).contains(&sent), "{sent}");
    }

    #[test]
    fn idling_earns_no_burst() {
        let (mut pacer, rate) = (Pacer::default(), Rate::from_mbps(12));
        let now = Instant::from_millis(500);
        pacer.start(now);
        pacer.consume(now, 1500, rate);
        assert!(!pacer.is_ready(now));
    }
}
