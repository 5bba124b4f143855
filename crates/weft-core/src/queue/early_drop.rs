//! RED's law: the average queue length and the probability of an early drop or mark.
//!
//! The law is by Floyd and Jacobson, IEEE/ACM ToN 1(4), 1993. RED and FRED call this law for each arrival. Where
//! their two papers say "mark", this code drops a unit that is not ECN-capable. The law never touches the queue
//! itself.

use weft_units::{Duration, Instant, Rng};

/// Unit in which RED measures the average queue and its thresholds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Units in the queue, whatever their size.
    Units,
    /// Bytes in the queue.
    ///
    /// RED then drops large units more often than small ones (Floyd and Jacobson, §4).
    Bytes,
}

/// RED's parameters. FRED has the same, but never uses the gentle slope (see `gentle`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RedConfig {
    /// Quantity in which the average queue and the thresholds are measured: units or bytes.
    pub measure: Measure,
    /// RED drops nothing early while the average queue, in the unit of `measure`, is below this threshold.
    pub min_threshold: f64,
    /// From this average queue on RED drops every arrival, unless `gentle` is set.
    ///
    /// Greater than `min_threshold`.
    pub max_threshold: f64,
    /// Probability of an early drop when the average queue reaches `max_threshold`, 0 to 1.
    pub max_p: f64,
    /// Weight of each new sample in the average queue, above 0 and below 1.
    pub weight: f64,
    /// If set, the drop probability rises gradually above the maximum threshold.
    ///
    /// It rises from `max_p` to 1 while the average rises from `max_threshold` to twice that.
    pub gentle: bool,
    /// Size of a typical unit, in bytes.
    ///
    /// If RED measures in bytes, the drop probability grows with a unit's size, and holds unchanged for a unit of this
    /// size. ns-2 does the same. Floyd and Jacobson use the largest size. FRED also uses this size for its limits in
    /// units.
    pub mean_unit_bytes: u32,
    /// Time that the link takes to transmit a typical unit.
    ///
    /// It determines how fast the average queue falls while the queue is empty.
    pub mean_transmission: Duration,
}

impl Default for RedConfig {
    /// Returns Floyd's later recommendations for a link of 12 Mbit/s.
    ///
    /// Those of 1997 are thresholds of 5 and 15 units, `max_p` 0.1 and weight 0.002. That of 2000 is `gentle`.
    fn default() -> RedConfig {
        RedConfig {
            measure: Measure::Units,
            min_threshold: 5.0,
            max_threshold: 15.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            mean_unit_bytes: 1_500,
            mean_transmission: Duration::from_millis(1),
        }
    }
}

impl RedConfig {
    /// Returns the length of the queue in the configured unit: `units` or `bytes`.
    pub(super) fn amount(&self, units: usize, bytes: u64) -> f64 {
        match self.measure {
            Measure::Units => units as f64,
            Measure::Bytes => bytes as f64,
        }
    }

    /// Returns the size of one typical unit in the configured unit: 1, or its bytes.
    pub(super) fn usual_unit(&self) -> f64 {
        self.amount(1, self.mean_unit_bytes.into())
    }
}

/// Position of the average queue relative to the two thresholds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Zone {
    /// The average is below the minimum threshold.
    Calm,
    /// The average is between the thresholds, or up to twice the maximum with `gentle`.
    ///
    /// The value is the drop probability `p_b`, before it is corrected for the number of units since the last drop.
    Early(f64),
    /// The average is so high that every arrival is dropped.
    Full,
}

/// RED's state for one queue.
#[derive(Clone, Debug)]
pub(super) struct EarlyDrop {
    rng: Rng,
    average: f64,
    idle_since: Instant,
    /// Number of arrivals since the last drop or mark; −1 below the thresholds.
    ///
    /// It rises only while the average is between the thresholds.
    count: i64,
}

impl EarlyDrop {
    pub(super) fn new(rng: Rng) -> EarlyDrop {
        EarlyDrop { rng, average: 0.0, idle_since: Instant::ZERO, count: -1 }
    }

    pub(super) fn average(&self) -> f64 {
        self.average
    }

    /// Updates the average queue when a unit arrives, counts the unit, and returns the zone of the average.
    ///
    /// `queued` is the length of the queue before the unit. If it is zero, the average falls as if typical units had
    /// passed through the queue during the idle time.
    pub(super) fn arrival(&mut self, now: Instant, queued: f64, config: &RedConfig) -> Zone {
        if queued > 0.0 {
            self.sample(queued, config);
        } else {
            self.decay(now, config);
        }
        let zone = zone(self.average, config);
        match zone {
            Zone::Calm => self.count = -1,
            Zone::Early(_) => self.count += 1,
            Zone::Full => {}
        }
        zone
    }

    /// Adds one sample of the queue length to the average.
    pub(super) fn sample(&mut self, queued: f64, config: &RedConfig) {
        self.average += config.weight * (queued - self.average);
    }

    /// Records that the queue ran empty.
    pub(super) fn idle(&mut self, now: Instant) {
        self.idle_since = now;
    }

    fn decay(&mut self, now: Instant, config: &RedConfig) {
        let unit = config.mean_transmission.max(Duration::from_nanos(1));
        let missed = now.since(self.idle_since).div_duration_f64(unit);
        self.average *= libm::pow(1.0 - config.weight, missed);
        self.idle_since = now;
    }

    /// True if a random draw selects the unit that [`EarlyDrop::arrival`] last counted, for a drop or a mark.
    ///
    /// `p_b` is the probability that [`Zone::Early`] contains.
    pub(super) fn hits(&mut self, p_b: f64, bytes: u32, config: &RedConfig) -> bool {
        let p_b = match config.measure {
            Measure::Units => p_b,
            Measure::Bytes => (p_b * f64::from(bytes) / f64::from(config.mean_unit_bytes.max(1))).min(1.0),
        };
        self.rng.chance(uniform(p_b, self.count))
    }

    /// Records that a unit was dropped or marked.
    pub(super) fn acted(&mut self) {
        self.count = 0;
    }
}

fn zone(average: f64, config: &RedConfig) -> Zone {
    let RedConfig { min_threshold: min, max_threshold: max, max_p, gentle, .. } = *config;
    if average < min {
        Zone::Calm
    } else if average < max {
        Zone::Early(max_p * (average - min) / (max - min))
    } else if gentle && average < 2.0 * max {
        Zone::Early(max_p + (1.0 - max_p) * (average - max) / max)
    } else {
        Zone::Full
    }
}

/// Returns the final drop probability `p_a = p_b / (1 − count · p_b)`.
///
/// `count` is the number of arrivals since the last drop. Drops are thus spaced uniformly instead of geometrically
/// (Floyd and Jacobson, §7).
fn uniform(p_b: f64, count: i64) -> f64 {
    let left = 1.0 - count as f64 * p_b;
    if left > p_b { p_b / left } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const CONFIG: RedConfig = RedConfig {
        measure: Measure::Units,
        min_threshold: 10.0,
        max_threshold: 30.0,
        max_p: 0.1,
        weight: 0.002,
        gentle: false,
        mean_unit_bytes: 1_000,
        mean_transmission: Duration::from_millis(1),
    };

    fn settled(average: f64) -> EarlyDrop {
        EarlyDrop { average, ..EarlyDrop::new(Rng::new(7)) }
    }

    /// Returns the numbers of units between two selected units, for a queue whose average stays at `average`.
    fn gaps(average: f64, bytes: u32, config: &RedConfig, arrivals: u32) -> Vec<u32> {
        let mut law = settled(average);
        let (mut gaps, mut since) = (Vec::new(), 0);
        for _ in 0..arrivals {
            since += 1;
            let Zone::Early(p_b) = law.arrival(Instant::ZERO, average, config) else { panic!("not between") };
            if law.hits(p_b, bytes, config) {
                law.acted();
                gaps.push(core::mem::take(&mut since));
            }
        }
        gaps
    }

    #[test]
    fn the_probability_is_the_papers_line_and_the_gentle_slope_continues_it() {
        let gentle = RedConfig { gentle: true, ..CONFIG };
        assert_eq!(zone(9.99, &CONFIG), Zone::Calm);
        assert_eq!(zone(10.0, &CONFIG), Zone::Early(0.0));
        assert_eq!(zone(20.0, &CONFIG), Zone::Early(0.05));
        assert_eq!((zone(30.0, &CONFIG), zone(30.0, &gentle)), (Zone::Full, Zone::Early(0.1)));
        assert_eq!(zone(45.0, &gentle), Zone::Early(0.55));
        assert_eq!(zone(60.0, &gentle), Zone::Full);
    }

    #[test]
    fn gaps_between_hits_are_uniform() {
        // With p_b = 0.05, the unit after a selected one has count 1. The gap is thus uniform over 1 … 1/p_b − 1, and
        // its mean is 1/(2 p_b).
        let gaps = gaps(20.0, 1_000, &CONFIG, 200_000);
        let mut seen = [0u32; 21];
        gaps.iter().for_each(|&gap| seen[gap as usize] += 1);
        assert_eq!(seen[0], 0);
        let expected = f64::from(seen.iter().sum::<u32>()) / 19.0;
        let chi_square: f64 = seen[1..20].iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi_square < 42.3, "{chi_square} is beyond the 99.9th percentile for 18 degrees of freedom: {seen:?}");
        let mean = 200_000.0 / gaps.len() as f64;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn the_share_that_is_hit_follows_the_average() {
        for (average, p_b) in [(12.0, 0.01), (16.0, 0.03), (24.0, 0.07), (29.0, 0.095)] {
            let share = gaps(average, 1_000, &CONFIG, 200_000).len() as f64 / 200_000.0;
            // Compares the mean gap with that of the uniform distribution. If 1/p_b is not a whole number, the two
            // differ by less than half a unit.
            assert!((1.0 / share - 0.5 / p_b).abs() < 0.5 + 0.02 / p_b, "{share} for p_b {p_b}");
        }
    }

    #[test]
    fn in_bytes_large_units_are_hit_in_proportion() {
        let config = RedConfig { measure: Measure::Bytes, min_threshold: 1e4, max_threshold: 3e4, ..CONFIG };
        let hits = |bytes| gaps(2e4, bytes, &config, 200_000).len() as f64;
        assert!((hits(500) / hits(250) - 2.0).abs() < 0.1);
        assert!((hits(1_000) / hits(500) - 2.0).abs() < 0.1);
    }

    #[test]
    fn the_average_is_an_exponential_one() {
        let mut law = settled(0.0);
        (0..500).for_each(|_| law.sample(100.0, &CONFIG));
        assert!((law.average() - 100.0 * (1.0 - 0.998_f64.powi(500))).abs() < 1e-9, "{}", law.average());
    }

    #[test]
    fn idle_time_counts_as_units_that_met_an_empty_queue() {
        let mut law = settled(20.0);
        law.idle(Instant::from_millis(1_000));
        law.arrival(Instant::from_millis(1_250), 0.0, &CONFIG);
        let expected = 20.0 * 0.998_f64.powi(250);
        assert!((law.average() - expected).abs() < 1e-9, "{} {expected}", law.average());
        // A second unit at the same time does not change the average again: the idle time counts only once.
        law.arrival(Instant::from_millis(1_250), 0.0, &CONFIG);
        assert!((law.average() - expected).abs() < 1e-9);
        let no_time = RedConfig { mean_transmission: Duration::ZERO, ..CONFIG };
        law.arrival(Instant::from_millis(1_251), 0.0, &no_time);
        assert!(law.average() < 1e-9);
    }

    #[test]
    fn a_long_run_without_a_hit_ends_for_certain() {
        assert!((uniform(0.05, 0) - 0.05).abs() < 1e-12);
        assert!((uniform(0.05, 10) - 0.1).abs() < 1e-12);
        for count in [19, 20, 21, i64::MAX] {
            assert!((uniform(0.05, count) - 1.0).abs() < 1e-9, "{count}");
        }
        assert!(uniform(0.0, i64::MAX).abs() < 1e-12);
    }
}
