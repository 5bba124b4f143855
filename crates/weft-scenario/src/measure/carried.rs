//! Records the bytes that links carried over time.

use crate::{FlowDirection, Series};
use std::time::Duration;

/// Length of the steps in which the bytes of the links are counted.
pub const STEP: Duration = Duration::from_millis(50);
/// Fraction of its former share that a restored link must carry again to count as recovered.
const SHARE_BACK: f64 = 0.8;
/// Time over which a restored link's share of all links' bytes is averaged.
const SHARE_WINDOW: Duration = Duration::from_millis(500);
/// Time before a cut over which the link's former share of all links' bytes is averaged.
const SHARE_BEFORE: Duration = Duration::from_secs(2);

/// The bytes that each link delivered in each direction over time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CarriedBytes {
    /// Samples: the time at the end of each step, and the bytes [up, down] of each link in that step.
    pub steps: Vec<(Duration, Vec<[u64; 2]>)>,
}

impl CarriedBytes {
    /// Returns the rate of each link in each direction over time, in bit/s. `links` are the links' names.
    pub fn series(&self, links: &[&str]) -> Vec<Series> {
        let each =
            links.iter().enumerate().flat_map(|(position, link)| ["up", "down"].map(|word| (position, link, word)));
        each.map(|(position, link, word)| {
            let index = usize::from(word == "down");
            let rate = |(time, bytes): &(Duration, Vec<[u64; 2]>)| {
                let bits = bytes.get(position).map_or(0, |b| b[index]) as f64 * 8.0;
                (time.as_secs_f64(), bits / STEP.as_secs_f64())
            };
            Series { name: format!("{link}.{word}"), unit: "bit/s", points: self.steps.iter().map(rate).collect() }
        })
        .collect()
    }

    /// Returns the fraction of all links' bytes in one direction that `link` carried in `from..to`.
    ///
    /// `index` is 0 for the up direction and 1 for the down direction. Returns `None` if no link carried anything.
    pub fn share(&self, link: usize, index: usize, from: Duration, to: Duration) -> Option<f64> {
        let steps = || self.steps.iter().filter(|(time, _)| *time > from && *time <= to);
        let own: u64 = steps().filter_map(|(_, bytes)| Some(bytes.get(link)?[index])).sum();
        let all: u64 = steps().flat_map(|(_, bytes)| bytes.iter().map(|b| b[index])).sum();
        (all > 0).then(|| own as f64 / all as f64)
    }

    /// Returns the time from `restored` until a link carried its former share of all links' bytes again.
    ///
    /// The link was cut at `cut_at`. Returns `None` if it did not recover before `end`, or if no link carried anything
    /// before the cut.
    pub fn share_back(
        &self,
        link: usize,
        direction: FlowDirection,
        cut_at: Duration,
        restored: Duration,
        end: Duration,
    ) -> Option<Duration> {
        let index = usize::from(direction == FlowDirection::Down);
        let former = self.share(link, index, cut_at.saturating_sub(SHARE_BEFORE), cut_at)?;
        let mut window_ends =
            self.steps.iter().map(|(time, _)| *time).filter(|time| *time >= restored + SHARE_WINDOW && *time <= end);
        let reached = |to: &Duration| {
            self.share(link, index, *to - SHARE_WINDOW, *to).is_some_and(|share| share >= SHARE_BACK * former)
        };
        window_ends.find(reached).map(|time| time - restored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_bytes_of_all_links() {
        let ms = Duration::from_millis;
        let carried = CarriedBytes { steps: vec![(ms(50), vec![[10, 0], [30, 0]]), (ms(100), vec![[40, 5], [0, 5]])] };
        assert_eq!(carried.share(0, 0, ms(0), ms(50)), Some(0.25));
        assert_eq!(carried.share(0, 0, ms(50), ms(100)), Some(1.0));
        assert_eq!(carried.share(0, 1, ms(0), ms(100)), Some(0.5));
        assert_eq!(carried.share(0, 1, ms(0), ms(50)), None);
    }

    #[test]
    fn the_share_comes_back_when_the_bytes_do() {
        let ms = Duration::from_millis;
        let bytes = |t: u64| if (2000..4000).contains(&t) { vec![[0, 0], [10, 0]] } else { vec![[10, 0], [10, 0]] };
        let carried = CarriedBytes { steps: (1..=120).map(|n| (ms(n * 50), bytes(n * 50))).collect() };
        let back = |end| carried.share_back(0, FlowDirection::Up, ms(2000), ms(3000), end);
        let within = back(ms(6000)).unwrap();
        assert!((ms(1200)..=ms(1500)).contains(&within), "{within:?}");
        assert_eq!(back(ms(3900)), None, "it was not back before the next event");
    }
}
