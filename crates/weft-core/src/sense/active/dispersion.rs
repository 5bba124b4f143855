use super::Crossing;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Duration, Instant, Rate};

/// Maximum number of packet pairs stored. Beyond it, the oldest is deleted.
const MOST: usize = 256;
/// Minimum number of pairs for an estimate.
const FEWEST: usize = 3;

struct PacketPair {
    at: Instant,
    delay_us: i64,
    bps: f64,
}

/// Estimates the capacity of the bottleneck link from the dispersion of packet pairs sent back to back.
///
/// Cross traffic between the two packets lengthens the gap. Cross traffic that delays the first packet on a later
/// link shortens the gap. Undisturbed pairs all have the same gap, so the estimate is the mode (Dovrolis et al.,
/// pathrate). Pairs with little delay were disturbed less, so the half with more delay is left out (Kapoor et al.,
/// CapProbe).
pub struct Dispersion {
    window: Duration,
    pairs: VecDeque<PacketPair>,
}

impl Dispersion {
    /// Returns an estimator without pairs. It uses the pairs of the last `window`.
    pub fn over(window: Duration) -> Dispersion {
        Dispersion { window, pairs: VecDeque::new() }
    }

    /// Adds two packets that were sent back to back.
    pub fn on_pair(&mut self, now: Instant, first: &Crossing, second: &Crossing) {
        let gap_us = second.came_us() - first.came_us();
        if gap_us > 0 {
            let bps = f64::from(second.bytes) * 8e6 / gap_us as f64;
            self.pairs.push_back(PacketPair { at: now, delay_us: first.delay_us + second.delay_us, bps });
        }
        while self.pairs.len() > MOST || self.pairs.front().is_some_and(|pair| now - pair.at > self.window) {
            self.pairs.pop_front();
        }
    }

    /// Capacity of the path's bottleneck link; `None` with fewer than three pairs.
    pub fn capacity(&self) -> Option<Rate> {
        if self.pairs.len() < FEWEST {
            return None;
        }
        let mut pairs: Vec<&PacketPair> = self.pairs.iter().collect();
        pairs.sort_by_key(|pair| pair.delay_us);
        pairs.truncate(pairs.len().div_ceil(2).max(FEWEST));
        let mut logs: Vec<f64> = pairs.iter().map(|pair| libm::log(pair.bps)).collect();
        logs.sort_by(f64::total_cmp);
        half_sample_mode(&logs).map(|log| Rate::from_bps(libm::round(libm::exp(log)) as u64))
    }
}

/// Returns the mode (the densest place) of `sorted` values by repeated selection of the shorter half.
///
/// The method is that of Bickel and Frühwirth (2006).
fn half_sample_mode(mut sorted: &[f64]) -> Option<f64> {
    while sorted.len() > 2 {
        let half = sorted.len().div_ceil(2);
        let width = |window: &&[f64]| window[half - 1] - window[0];
        sorted = sorted.windows(half).min_by(|a, b| width(a).total_cmp(&width(b)))?;
    }
    sorted.first().zip(sorted.last()).map(|(first, last)| (first + last) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    /// Adds a pair of 1000-byte packets that arrive `gap_us` apart, the first after `delay_us`.
    fn feed(dispersion: &mut Dispersion, ms: u64, delay_us: i64, gap_us: i64) {
        let first = Crossing { sent_us: 0, delay_us, bytes: 1_000 };
        let second = Crossing { delay_us: delay_us + gap_us, ..first };
        dispersion.on_pair(Instant::from_millis(ms), &first, &second);
    }

    #[test]
    fn the_mode_is_the_capacity_whatever_came_between() {
        let mut rng = Rng::new(5);
        let mut dispersion = Dispersion::over(Duration::from_secs(60));
        for i in 0..50 {
            // A gap of 800 µs means 10 Mbit/s. Two of three pairs are disturbed: longer by cross traffic in between,
            // or shorter because the first packet was delayed.
            let gap = match i % 3 {
                0 => 800 + (i % 2),
                1 => 800 + 300 + rng.below(2_400) as i64,
                _ => 800 - 100 - rng.below(600) as i64,
            };
            feed(&mut dispersion, i as u64 * 100, 5_000 + if i % 3 == 0 { 0 } else { rng.below(4_000) as i64 }, gap);
        }
        let mbps = dispersion.capacity().unwrap().bps() as f64 / 1e6;
        assert!((mbps - 10.0).abs() < 0.1, "{mbps}");
    }

    #[test]
    fn a_new_capacity_replaces_the_old_one_and_pairs_at_once_do_not_count() {
        let mut dispersion = Dispersion::over(Duration::from_secs(2));
        (0..30).for_each(|i| feed(&mut dispersion, i * 100, 0, 0));
        assert_eq!(dispersion.capacity(), None);
        (0..30).for_each(|i| feed(&mut dispersion, i * 100, 0, 800));
        (0..30).for_each(|i| feed(&mut dispersion, 3_000 + i * 100, 0, 400));
        assert_eq!(dispersion.capacity(), Some(Rate::from_mbps(20)));
    }
}
