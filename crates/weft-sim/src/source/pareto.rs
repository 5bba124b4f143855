//! Generates the times of datagrams in bursts with heavy-tailed lengths, separated by pauses (on/off traffic).
//!
//! The traffic of many such sources together is self-similar (Willinger et al., SIGCOMM 1995).

use super::positive_unit;
use weft_units::{Duration, Rate, Rng};

/// The times of datagrams that a source sends at a peak rate in bursts.
///
/// The lengths of bursts and pauses are Pareto distributed.
#[derive(Clone, Debug)]
pub struct ParetoBursts {
    interval: Duration,
    mean_burst: f64,
    pause: Duration,
    shape: f64,
    left: u64,
}

impl ParetoBursts {
    /// Creates the times for datagrams of `bytes` IP bytes that are sent at the rate `peak` in bursts.
    ///
    /// `on` and `off` are the mean lengths of bursts and pauses. `shape` is the shape parameter of both Pareto
    /// distributions and is above 1.
    pub fn new(peak: Rate, bytes: u32, on: Duration, off: Duration, shape: f64) -> ParetoBursts {
        let interval = peak.time_for(u64::from(bytes));
        let mean_burst = on.as_secs_f64() / interval.as_secs_f64().max(1e-9);
        ParetoBursts { interval, mean_burst, pause: off, shape, left: 0 }
    }

    pub(super) fn next(&mut self, rng: &mut Rng) -> Duration {
        if self.left > 1 {
            self.left -= 1;
            return self.interval;
        }
        self.left = ((pareto(self.mean_burst, self.shape, rng) + 0.5) as u64).max(1);
        self.interval + self.pause.mul_f64(pareto(1.0, self.shape, rng))
    }
}

/// Draws a number from a Pareto distribution with this mean and this shape parameter.
fn pareto(mean: f64, shape: f64, rng: &mut Rng) -> f64 {
    let least = mean * (shape - 1.0) / shape;
    least / libm::pow(positive_unit(rng), 1.0 / shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_time_on_is_half_the_peak_rate() {
        let half_a_second = Duration::from_millis(500);
        let mut rng = Rng::new(4);
        // With a shape of 2.5, above 2, the variance is finite, so that the mean over the test's run is near the
        // expected one.
        let mut bursts = ParetoBursts::new(Rate::from_mbps(10), 500, half_a_second, half_a_second, 2.5);
        let count = 20_000_000u64;
        let seconds: f64 = (0..count).map(|_| bursts.next(&mut rng).as_secs_f64()).sum();
        let mbps = count as f64 * 500.0 * 8.0 / seconds / 1e6;
        assert!((mbps - 5.0).abs() < 0.15, "{mbps}");
    }

    #[test]
    fn the_tail_falls_with_the_shape() {
        let mut rng = Rng::new(4);
        let count = 1_000_000;
        let least = 1.0 / 3.0;
        let beyond = |times: f64, rng: &mut Rng| {
            (0..count).filter(|_| pareto(1.0, 1.5, rng) > least * times).count() as f64 / f64::from(count)
        };
        for times in [4.0, 25.0, 100.0] {
            let (got, expected) = (beyond(times, &mut rng), times.powf(-1.5));
            assert!((got / expected - 1.0).abs() < 0.1, "{times}: {got} for {expected}");
        }
    }
}
