//! Generates the times at which sources without congestion control send datagrams.

mod pareto;

pub use pareto::ParetoBursts;

use weft_units::{Duration, Rate, Rng};

/// The distribution of the times between successive datagrams of a source.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Equal intervals: constant bit rate, a voice call or a probe.
    Even {
        /// Interval between two datagrams.
        interval: Duration,
    },
    /// Random intervals that are exponentially distributed and independent of each other.
    Poisson {
        /// Mean interval between two datagrams.
        mean: Duration,
    },
    /// Datagrams in bursts, with pauses between the bursts. Their lengths are Pareto distributed.
    Pareto(ParetoBursts),
}

impl Pattern {
    /// Returns a pattern for datagrams of `bytes` IP bytes at the constant rate `rate`.
    pub fn constant(rate: Rate, bytes: u32) -> Pattern {
        Pattern::Even { interval: rate.time_for(u64::from(bytes)) }
    }

    /// Returns a pattern for datagrams of `bytes` IP bytes at random times, with the mean rate `rate`.
    pub fn poisson(rate: Rate, bytes: u32) -> Pattern {
        Pattern::Poisson { mean: rate.time_for(u64::from(bytes)) }
    }

    /// Draws the time from one datagram until the next.
    pub fn next(&mut self, rng: &mut Rng) -> Duration {
        match self {
            Pattern::Even { interval } => *interval,
            Pattern::Poisson { mean } => exponential(*mean, rng),
            Pattern::Pareto(bursts) => bursts.next(rng),
        }
    }
}

/// Draws a number from a uniform distribution over (0, 1].
pub(crate) fn positive_unit(rng: &mut Rng) -> f64 {
    1.0 - rng.unit()
}

/// Draws a time from an exponential distribution with this mean.
pub(crate) fn exponential(mean: Duration, rng: &mut Rng) -> Duration {
    mean.mul_f64(-libm::log(positive_unit(rng)))
}

/// Draws a number of at least 1 from a geometric distribution with this mean. The mean must be at least 1.
pub(crate) fn geometric(mean: f64, rng: &mut Rng) -> u64 {
    if mean <= 1.0 {
        return 1;
    }
    1 + (libm::log(positive_unit(rng)) / libm::log(1.0 - 1.0 / mean)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(mut pattern: Pattern, count: u32) -> f64 {
        let mut rng = Rng::new(9);
        (0..count).map(|_| pattern.next(&mut rng).as_secs_f64()).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn rates_are_kept_on_average() {
        let rate = Rate::from_mbps(4); // 500 bytes in each millisecond
        for (pattern, count) in [(Pattern::constant(rate, 500), 10), (Pattern::poisson(rate, 500), 100_000)] {
            let mean = mean_of(pattern, count);
            assert!((mean / 1e-3 - 1.0).abs() < 0.01, "{mean}");
        }
    }

    #[test]
    fn geometric_numbers_have_their_mean_and_start_at_one() {
        let mut rng = Rng::new(2);
        let numbers: Vec<u64> = (0..100_000).map(|_| geometric(14.0, &mut rng)).collect();
        let mean = numbers.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean - 14.0).abs() < 0.2, "{mean}");
        assert_eq!(numbers.iter().min(), Some(&1));
        assert_eq!(geometric(0.5, &mut rng), 1);
    }
}
