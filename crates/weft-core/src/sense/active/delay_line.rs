use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Maximum number of delays stored. Beyond it, the oldest is deleted.
const MOST: usize = 1_024;

/// One-way delays of a path in a time window: their minimum, their mean above it, and their trend.
#[derive(Clone, Debug)]
pub struct DelayLine {
    window: Duration,
    delays: VecDeque<(Instant, i64)>,
}

impl DelayLine {
    /// Returns an empty record of the last `window`.
    pub fn over(window: Duration) -> DelayLine {
        DelayLine { window, delays: VecDeque::new() }
    }

    /// Adds one delay in microseconds.
    pub fn on_delay(&mut self, now: Instant, delay_us: i64) {
        self.delays.push_back((now, delay_us));
        while self.delays.len() > MOST || self.delays.front().is_some_and(|(at, _)| now - *at > self.window) {
            self.delays.pop_front();
        }
    }

    /// Minimum delay in the window, in microseconds; `None` without a delay.
    pub fn least_us(&self) -> Option<i64> {
        self.delays.iter().map(|(_, delay)| *delay).min()
    }

    /// Mean of the delays in the window above their minimum: the mean queueing delay. `None` without a delay.
    pub fn mean_queue(&self) -> Option<Duration> {
        let least = self.least_us()?;
        let sum: i64 = self.delays.iter().map(|(_, delay)| delay - least).sum();
        Some(Duration::from_micros(sum as u64 / self.delays.len() as u64))
    }

    /// Trend of the delay, in microseconds per second; `None` with fewer than eight delays.
    ///
    /// It is the median of the slopes between each delay and the one half a window later (Theil's incomplete method).
    /// A queue that lasts for a short part of the window does not change the median.
    pub fn trend_us_per_s(&self) -> Option<f64> {
        let half = self.delays.len() / 2;
        let pairs = self.delays.iter().zip(self.delays.iter().skip(half));
        let slope = |((from, a), (to, b)): (&(Instant, i64), &(Instant, i64))| {
            let seconds = (*to - *from).as_secs_f64();
            (seconds > 0.0).then(|| (b - a) as f64 / seconds)
        };
        let mut slopes: Vec<f64> = pairs.take(half).filter_map(slope).collect();
        slopes.sort_by(f64::total_cmp);
        slopes.get(slopes.len() / 2).copied().filter(|_| half >= 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(delay_us: impl Fn(u64) -> i64) -> DelayLine {
        let mut line = DelayLine::over(Duration::from_secs(10));
        (0..200).for_each(|i| line.on_delay(Instant::from_millis(i * 100), delay_us(i)));
        line
    }

    #[test]
    fn the_least_and_the_queue_are_of_the_window() {
        let line = line(|i| if i < 50 { 10 } else { 5_000 + (i % 2) as i64 * 600 });
        assert_eq!(line.least_us(), Some(5_000));
        assert!((290..=310).contains(&line.mean_queue().unwrap().as_micros()));
    }

    #[test]
    fn the_trend_is_seen_through_bursts() {
        let burst = |i: u64| if i.is_multiple_of(7) { 20_000 } else { 0 };
        let rising = line(|i| i as i64 * 30 + burst(i)).trend_us_per_s().unwrap();
        assert!((rising - 300.0).abs() < 30.0, "{rising}");
        assert_eq!(line(burst).trend_us_per_s(), Some(0.0));
        assert_eq!(DelayLine::over(Duration::from_secs(1)).trend_us_per_s(), None);
    }
}
