//! Statistics of links: counters, and distributions of times.

use hdrhistogram::Histogram;
use weft_scenario::PacketSizeCount;
use weft_scenario::measure::{KEPT_SIZES, LengthSummary};
use weft_units::Duration;

/// A distribution of times, exact to 1 %.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quantiles {
    /// Number of values. If it is zero, all times are zero.
    pub count: u64,
    /// Median of the times.
    pub p50: Duration,
    /// 95th percentile of the times.
    pub p95: Duration,
    /// 99th percentile of the times.
    pub p99: Duration,
    /// 99.9th percentile of the times.
    pub p999: Duration,
    /// Maximum of the times.
    pub max: Duration,
}

/// The statistics of one direction of a link since the last `mark`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirectionStats {
    /// Number of packets that arrived from the sending node.
    pub offered_packets: u64,
    /// IP bytes that arrived from the sending node.
    pub offered_bytes: u64,
    /// Number of packets sent to the receiving node.
    pub sent_packets: u64,
    /// IP bytes sent to the receiving node.
    pub sent_bytes: u64,
    /// IP bytes that the link transmitted, including packets that were then lost at random.
    pub transmitted_bytes: u64,
    /// Number of packets lost at random after their transmission.
    pub lost_packets: u64,
    /// Number of packets dropped because the queue was full.
    pub dropped_packets: u64,
    /// Number of packets that were lost because the direction was cut for a time.
    pub cut_packets: u64,
    /// Number of packets that the receiving node refused because its interface was down.
    pub refused_packets: u64,
    /// IP bytes that the link could have transmitted while it was not cut.
    ///
    /// `None` if the direction was unlimited at any time.
    pub capacity_bytes: Option<u64>,
    /// Time from a packet's arrival until its last byte left: queueing and transmission.
    pub queue_delay: Quantiles,
    /// Number of packets in the queue when a packet left it.
    pub queue_packets: LengthSummary,
    /// The most frequent lengths of transmitted packets from 600 bytes on. Entries with zero packets end the list.
    pub packet_sizes: [PacketSizeCount; KEPT_SIZES],
}

impl DirectionStats {
    /// Returns the used fraction of the capacity. `None` if there was no capacity to use.
    pub fn utilisation(&self) -> Option<f64> {
        let capacity = self.capacity_bytes.filter(|&bytes| bytes > 0)?;
        Some(self.transmitted_bytes as f64 / capacity as f64)
    }
}

/// Records times from 1 µs to 60 s. A longer time is recorded as 60 s.
#[derive(Clone, Debug)]
pub(super) struct TimeHistogram(Option<Histogram<u64>>);

impl TimeHistogram {
    pub(super) fn new() -> TimeHistogram {
        TimeHistogram(Histogram::new_with_bounds(1_000, 60_000_000_000, 2).ok())
    }

    pub(super) fn record(&mut self, time: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(super) fn clear(&mut self) {
        if let Some(histogram) = &mut self.0 {
            histogram.reset();
        }
    }

    pub(super) fn quantiles(&self) -> Quantiles {
        let Some(histogram) = self.0.as_ref().filter(|h| !h.is_empty()) else { return Quantiles::default() };
        let at = |share| Duration::from_nanos(histogram.value_at_quantile(share));
        Quantiles {
            count: histogram.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_nanos(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut times = TimeHistogram::new();
        assert_eq!(times.quantiles(), Quantiles::default());
        (1..=1000).for_each(|ms| times.record(Duration::from_millis(ms)));
        let q = times.quantiles();
        let near = |a: Duration, ms: f64| (a.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.011;
        assert_eq!(q.count, 1000);
        assert!(near(q.p50, 500.0) && near(q.p95, 950.0) && near(q.p999, 999.0) && near(q.max, 1000.0), "{q:?}");
        times.clear();
        assert_eq!(times.quantiles().count, 0);
    }
}
