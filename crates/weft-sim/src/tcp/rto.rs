//! Computes the retransmission timeout (RFC 6298).

use std::time::Duration;

/// Estimates the round-trip time and derives the retransmission timeout from it.
///
/// Times are in nanoseconds. The clock granularity is one nanosecond.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    smoothed: Option<u64>,
    variation: u64,
    shortest: u64,
    rto: u64,
    min_rto: u64,
    max_rto: u64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl RttEstimator {
    pub fn new(initial_rto: Duration, min_rto: Duration, max_rto: Duration) -> RttEstimator {
        let max_rto = nanos(max_rto).max(1);
        let min_rto = nanos(min_rto).clamp(1, max_rto);
        let rto = nanos(initial_rto).clamp(1, max_rto);
        RttEstimator { smoothed: None, variation: 0, shortest: u64::MAX, rto, min_rto, max_rto }
    }

    /// Adds an RTT measurement (RFC 6298 §2.2, §2.3).
    ///
    /// The segment must not be one that was retransmitted (RFC 6298 §3, Karn's algorithm).
    pub fn sample(&mut self, rtt_nanos: u64) {
        self.shortest = self.shortest.min(rtt_nanos);
        let smoothed = match self.smoothed {
            None => {
                self.variation = rtt_nanos / 2;
                rtt_nanos
            }
            Some(smoothed) => {
                self.variation = (3 * self.variation + smoothed.abs_diff(rtt_nanos)) / 4;
                (7 * smoothed + rtt_nanos) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.rto = (smoothed + (4 * self.variation).max(1)).clamp(self.min_rto, self.max_rto);
    }

    /// Doubles the timeout after the timer expired (RFC 6298 §5.5).
    ///
    /// The next measurement resets it.
    pub fn back_off(&mut self) {
        self.rto = self.rto.saturating_mul(2).min(self.max_rto);
    }

    /// Sets the timeout to three seconds after a lost SYN, if no RTT was measured yet (RFC 6298 §5.7).
    pub fn lost_handshake(&mut self) {
        if self.smoothed.is_none() {
            self.rto = 3_000_000_000u64.min(self.max_rto);
        }
    }

    pub fn rto_nanos(&self) -> u64 {
        self.rto
    }

    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(Duration::from_nanos)
    }

    /// Returns the smoothed RTT in nanoseconds, or zero without a measurement.
    pub fn smoothed_nanos(&self) -> u64 {
        self.smoothed.unwrap_or(0)
    }

    /// Returns the least RTT measured so far in nanoseconds, or `u64::MAX` without a measurement.
    pub fn shortest_nanos(&self) -> u64 {
        self.shortest
    }

    /// Returns the least RTT measured so far, or `None` without a measurement.
    pub fn shortest(&self) -> Option<Duration> {
        self.smoothed.map(|_| Duration::from_nanos(self.shortest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn estimator(min_rto_ms: u64) -> RttEstimator {
        RttEstimator::new(Duration::from_secs(1), Duration::from_millis(min_rto_ms), Duration::from_secs(60))
    }

    #[test]
    fn section_2_gives_the_timeout() {
        let mut e = estimator(1);
        assert_eq!(e.rto_nanos(), 1000 * MS);
        e.sample(100 * MS);
        assert_eq!((e.smoothed, e.rto_nanos()), (Some(100 * MS), 300 * MS));
        e.sample(180 * MS);
        assert_eq!(e.smoothed, Some(110 * MS));
        assert_eq!(e.rto_nanos(), 110 * MS + 4 * (150 * MS + 80 * MS) / 4);
    }

    #[test]
    fn the_timeout_stays_between_its_bounds() {
        let mut e = estimator(1000);
        e.sample(10 * MS);
        assert_eq!(e.rto_nanos(), 1000 * MS);
        (0..10).for_each(|_| e.back_off());
        assert_eq!(e.rto_nanos(), 60_000 * MS);
    }

    #[test]
    fn section_5_doubles_until_the_next_measurement() {
        let mut e = estimator(1);
        e.sample(100 * MS);
        e.back_off();
        e.back_off();
        assert_eq!(e.rto_nanos(), 1200 * MS);
        e.sample(100 * MS);
        assert_eq!(e.rto_nanos(), 100 * MS + 150 * MS);
    }

    #[test]
    fn a_lost_handshake_waits_three_seconds() {
        let mut e = estimator(1);
        e.lost_handshake();
        assert_eq!(e.rto_nanos(), 3000 * MS);
    }
}
