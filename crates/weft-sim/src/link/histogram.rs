//! Counts durations in buckets of equal relative width.

use weft_units::Duration;

/// Number of bits behind the highest set bit of a duration that select its bucket. The error is at most 6 %.
///
/// Derived: a factor of two has 2⁴ buckets.
const PER_OCTAVE_BITS: u32 = 4;
/// Number of powers of two that have buckets: from a nanosecond to 2⁴⁸ ns (three days).
///
/// Longer durations count as the longest of these.
const OCTAVES: u32 = 48;
const BUCKETS: usize = (OCTAVES << PER_OCTAVE_BITS) as usize;

/// A histogram of durations. Its buckets have equal relative widths, so all durations have the same relative error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    total: u64,
    sum_nanos: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]), total: 0, sum_nanos: 0 }
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < 1 << PER_OCTAVE_BITS {
        return nanos as usize;
    }
    let octave = nanos.ilog2() - PER_OCTAVE_BITS;
    let within = (nanos >> octave) as usize - (1 << PER_OCTAVE_BITS);
    ((octave as usize + 1) << PER_OCTAVE_BITS) + within
}

fn middle_of(bucket: usize) -> u64 {
    let octave = bucket >> PER_OCTAVE_BITS;
    let within = (bucket & ((1 << PER_OCTAVE_BITS) - 1)) as u64;
    match octave {
        0 => within,
        _ => {
            let width = 1u64 << (octave - 1);
            ((1 << PER_OCTAVE_BITS) + within) * width + width / 2
        }
    }
}

impl Histogram {
    /// Adds one duration in nanoseconds.
    pub fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos).min(BUCKETS - 1)] += 1;
        self.total += 1;
        self.sum_nanos = self.sum_nanos.saturating_add(nanos);
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_nanos)
    }

    /// Returns the number of durations.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Returns true if the histogram contains no duration.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the duration below which the fraction `q` (0 to 1) of all durations lies.
    ///
    /// Returns `None` if there are none.
    ///
    /// The error is at most 6 %.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (q * self.total as f64).max(1.0) as u64;
        let mut seen = 0u64;
        let bucket = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            count > 0 && seen >= rank
        })?;
        Some(Duration::from_nanos(middle_of(bucket)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_near_it() {
        for nanos in (0..100_000).chain((1..40).map(|shift| (1u64 << shift) + 12_345)) {
            let middle = middle_of(bucket(nanos));
            assert!(middle.abs_diff(nanos) as f64 <= 0.0625 * nanos as f64 + 1.0, "{nanos} became {middle}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1_000).for_each(|n| histogram.record(n * 1_000));
        for (q, micros) in [(0.5, 500.0), (0.95, 950.0), (1.0, 1_000.0)] {
            let got = histogram.quantile(q).unwrap().as_secs_f64() * 1e6;
            assert!((got / micros - 1.0).abs() < 0.0625, "{q}: {got}");
        }
    }
}
