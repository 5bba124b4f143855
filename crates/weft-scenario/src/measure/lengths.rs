//! Counts how often a queue had each length.

/// Maximum length that is recorded, in packets. Longer queues are recorded as this length.
///
/// The limit bounds the memory for the counts.
const LENGTH_MAX: usize = 1 << 16;

/// A histogram of queue lengths in packets.
///
/// Each departing packet adds one count, and the length includes that packet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lengths {
    counts: Vec<u64>,
}

/// A summary of queue lengths in packets.
///
/// All values are zero if no packet has left.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LengthSummary {
    /// Mean number of packets in the queue at the departures.
    pub mean: f64,
    /// 95th percentile of the number of packets in the queue at the departures.
    pub p95: f64,
    /// Maximum number of packets in the queue at the departures.
    pub max: f64,
}

impl Lengths {
    /// Records that a packet left the queue when it had this length, including the packet.
    pub fn record(&mut self, packets: usize) {
        let packets = packets.min(LENGTH_MAX);
        if self.counts.len() <= packets {
            self.counts.resize(packets + 1, 0);
        }
        self.counts[packets] += 1;
    }

    /// Resets all counts to zero.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Returns mean, 95th percentile and maximum of the recorded lengths.
    pub fn summary(&self) -> LengthSummary {
        let total: u64 = self.counts.iter().sum();
        if total == 0 {
            return LengthSummary::default();
        }
        let each = || self.counts.iter().enumerate();
        let sum: f64 = each().map(|(packets, count)| packets as f64 * *count as f64).sum();
        let wanted = (total as f64 * 0.95).ceil() as u64;
        let mut seen = 0;
        let p95 = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let max = each().rev().find(|(_, count)| **count > 0);
        LengthSummary {
            mean: sum / total as f64,
            p95: p95.unwrap_or(0) as f64,
            max: max.map_or(0.0, |(packets, _)| packets as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_summed_up() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.summary(), LengthSummary::default());
        (0..94).for_each(|_| lengths.record(1));
        [3, 5, 5, 5, 7, usize::MAX].into_iter().for_each(|packets| lengths.record(packets));
        let LengthSummary { mean, p95, max } = lengths.summary();
        assert!((mean - (94.0 + 25.0 + 65_536.0) / 100.0).abs() < 1e-9, "{mean}");
        assert_eq!((p95, max), (3.0, 65_536.0));
        lengths.clear();
        assert_eq!(lengths.summary().max, 0.0);
    }
}
