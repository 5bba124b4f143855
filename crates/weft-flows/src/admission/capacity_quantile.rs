//! A low quantile of the measured rate of a bundle, over a sliding window of samples.

use alloc::collections::{BTreeSet, VecDeque};
use weft_units::{Duration, Instant, Rate};

/// The q-quantile of the samples of a sliding window.
///
/// It is exact: the ⌈q·n⌉-th smallest of n samples. Adding a sample takes time proportional to log n.
#[derive(Clone, Debug)]
pub struct CapacityQuantile {
    window: Duration,
    most: usize,
    quantile: f64,
    /// Samples from the oldest to the newest: time, rate in bit/s, sequence number.
    samples: VecDeque<(Instant, u64, u64)>,
    /// The ⌈q·n⌉ smallest of the n samples: rate in bit/s, sequence number.
    low: BTreeSet<(u64, u64)>,
    /// All other samples: rate in bit/s, sequence number.
    high: BTreeSet<(u64, u64)>,
    count: u64,
}

impl CapacityQuantile {
    /// Returns an empty window of this length in time and of at most `most` samples.
    ///
    /// `quantile` lies between 0, the minimum, and 1, the maximum.
    pub fn new(window: Duration, most: usize, quantile: f64) -> CapacityQuantile {
        CapacityQuantile {
            window,
            most: most.max(1),
            quantile: quantile.clamp(0.0, 1.0),
            samples: VecDeque::new(),
            low: BTreeSet::new(),
            high: BTreeSet::new(),
            count: 0,
        }
    }

    /// Adds a sample of the capacity, and forgets those that left the window.
    pub fn push(&mut self, now: Instant, rate: Rate) {
        self.forget(now);
        if self.samples.len() >= self.most {
            self.forget_oldest();
        }
        let sample = (rate.bps(), self.count);
        self.samples.push_back((now, rate.bps(), self.count));
        self.count += 1;
        if self.low.last().is_some_and(|last| sample < *last) {
            self.low.insert(sample);
        } else {
            self.high.insert(sample);
        }
        self.balance();
    }

    /// Returns the quantile of the samples, or `None` if the window holds none.
    pub fn value(&mut self, now: Instant) -> Option<Rate> {
        self.forget(now);
        self.low.last().map(|(bps, _)| Rate::from_bps(*bps))
    }

    /// Number of samples in the window.
    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// True if the window holds no sample.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    fn forget(&mut self, now: Instant) {
        while self.samples.front().is_some_and(|(at, ..)| now.since(*at) > self.window) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, bps, number)) = self.samples.pop_front() {
            if !self.low.remove(&(bps, number)) {
                self.high.remove(&(bps, number));
            }
            self.balance();
        }
    }

    /// Moves samples until the ⌈q·n⌉ smallest, but at least one, are in `low`.
    fn balance(&mut self) {
        let exact = self.quantile * self.samples.len() as f64;
        let whole = exact as usize;
        let rank = (whole + usize::from(exact > whole as f64)).clamp(1, self.samples.len().max(1));
        while self.low.len() < rank
            && let Some(sample) = self.high.pop_first()
        {
            self.low.insert(sample);
        }
        while self.low.len() > rank
            && let Some(sample) = self.low.pop_last()
        {
            self.high.insert(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec::Vec;
    use weft_units::Rng;

    #[test]
    fn it_is_the_quantile_of_the_sorted_window() {
        let mut rng = Rng::new(8);
        for _ in 0..300 {
            let (q, most) = (rng.unit(), 1 + rng.below(80) as usize);
            let window = Duration::from_millis(100 + rng.below(900));
            let mut quantile = CapacityQuantile::new(window, most, q);
            let (mut now, mut model) = (Instant::ZERO, Vec::new());
            for _ in 0..200 {
                now += Duration::from_millis(rng.below(60));
                if rng.chance(0.8) {
                    let rate = Rate::from_bps(rng.below(40));
                    quantile.push(now, rate);
                    model.push((now, rate));
                }
                model.retain(|(at, _)| now - *at <= window);
                model.drain(..model.len().saturating_sub(most));
                let mut sorted: Vec<Rate> = model.iter().map(|(_, rate)| *rate).collect();
                sorted.sort_unstable();
                let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
                assert_eq!(quantile.value(now), sorted.get(rank - 1).copied());
            }
        }
    }
}
