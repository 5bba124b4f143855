use super::Crossing;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Maximum number of packets stored. Beyond it, the oldest is deleted.
const MOST: usize = 4_096;
/// Minimum number of packets for an estimate.
const FEWEST: usize = 20;
/// Fraction of the packets whose delays form the densest range. Its middle is taken as the most frequent delay.
///
/// It must not exceed the fraction of packets that meet no queue. On a busy path that fraction is as small as this.
const DENSE: f64 = 0.15;
/// Maximum width of the range of delays without a queue, as a multiple of the noise.
const TAIL: f64 = 5.0;

/// Idle share of a path, measured by single packets (ProbeGap: Lakshminarayanan, Padhye and Padhye, IMC 2004).
///
/// It is the share of single packets, sent at random times, that no queue delays. A link that is busy for 70 % of the
/// time delays 70 % of them. Over several links it is the share of time in which none is busy. The tight link alone
/// is idle at least as often, and its capacity is no smaller. Capacity times idle share thus never exceeds the
/// available bandwidth.
#[derive(Clone, Debug)]
pub struct ProbeGap {
    window: Duration,
    packets: VecDeque<(Instant, i64)>,
}

impl ProbeGap {
    /// Returns an estimator without packets. It uses the packets of the last `window`.
    pub fn over(window: Duration) -> ProbeGap {
        ProbeGap { window, packets: VecDeque::new() }
    }

    /// Adds the delay of one single packet. All packets must have the same length.
    pub fn on_crossing(&mut self, now: Instant, crossing: &Crossing) {
        self.packets.push_back((now, crossing.delay_us));
        while self.packets.len() > MOST || self.packets.front().is_some_and(|(at, _)| now - *at > self.window) {
            self.packets.pop_front();
        }
    }

    /// Returns the share of packets that met no queue, or `None` with too few packets. Clock drift is removed first.
    ///
    /// Packets that met no queue have delays in a range that begins at the least delay. The range is as wide as the
    /// noise: `resolution`, or twice the distance from the least to the most frequent delay, whichever is larger. If
    /// more delays follow without a gap, the range is extended to include them, up to `longest`. Packets that met a
    /// short queue lie in the range too. Their number is taken to be that of the next range of the same width, and is
    /// subtracted.
    pub fn idle_share(&self, resolution: Duration, longest: Duration) -> Option<f64> {
        if self.packets.len() < FEWEST {
            return None;
        }
        let mut delays = self.without_drift();
        delays.sort_by(f64::total_cmp);
        let least = *delays.first()?;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let noise = us(resolution).max(2.0 * (densest(&delays)? - least));
        let wide = (TAIL * noise).min(us(longest).max(noise));
        let within = |most: f64| delays.partition_point(|delay| *delay <= least + most) as f64;
        let near = within(wide);
        Some((2.0 * near - within(2.0 * wide)).max(0.0) / delays.len() as f64)
    }

    /// Returns the delays in microseconds, without the drift between the two clocks.
    ///
    /// The drift is the slope of the line below all delays that is closest to them at the middle of the time covered
    /// (Moon, Skelly and Towsley, INFOCOM 1999).
    fn without_drift(&self) -> Vec<f64> {
        let start = self.packets.front().map_or(Instant::ZERO, |(at, _)| *at);
        let points: Vec<(f64, f64)> =
            self.packets.iter().map(|(at, delay)| ((*at - start).as_secs_f64(), *delay as f64)).collect();
        let middle = points.last().map_or(0.0, |(last, _)| last / 2.0);
        let (from, to) = edge_below(&points, middle);
        let slope = if to.0 > from.0 { (to.1 - from.1) / (to.0 - from.0) } else { 0.0 };
        points.iter().map(|(at, delay)| delay - slope * at).collect()
    }
}

/// Returns the two ends of the edge below `points` at the time `middle`: an edge of the lower convex hull.
///
/// `points` are pairs of time and delay, in order of time.
fn edge_below(points: &[(f64, f64)], middle: f64) -> ((f64, f64), (f64, f64)) {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let turns_up = (b.0 - a.0) * (point.1 - a.1) > (b.1 - a.1) * (point.0 - a.0);
            if turns_up {
                break;
            }
            hull.pop();
        }
        hull.push(*point);
    }
    let edge = hull.windows(2).find(|edge| edge[1].0 >= middle);
    edge.map_or(((0.0, 0.0), (0.0, 0.0)), |edge| (edge[0], edge[1]))
}

/// Returns the middle of the shortest range that contains the fraction [`DENSE`] of the `sorted` delays.
fn densest(sorted: &[f64]) -> Option<f64> {
    let count = ((sorted.len() as f64 * DENSE) as usize).max(2);
    let width = |stretch: &&[f64]| stretch[count - 1] - stretch[0];
    let stretch = sorted.windows(count).min_by(|a, b| width(a).total_cmp(&width(b)))?;
    stretch.get(count / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    const LONGEST: Duration = Duration::from_millis(1);

    fn feed(gap: &mut ProbeGap, from_ms: u64, count: u64, mut delay_us: impl FnMut(u64) -> i64) {
        for i in 0..count {
            let now = Instant::from_millis(from_ms + i * 10);
            gap.on_crossing(now, &Crossing { sent_us: 0, delay_us: delay_us(i), bytes: 64 });
        }
    }

    #[test]
    fn a_link_that_is_busy_seven_times_of_ten_delays_as_many() {
        let mut gap = ProbeGap::over(Duration::from_secs(10));
        let mut rng = Rng::new(3);
        feed(&mut gap, 0, 1_000, |_| if rng.chance(0.7) { -4_000 + 20 + rng.below(5_000) as i64 } else { -4_000 });
        let share = gap.idle_share(Duration::from_micros(10), LONGEST).unwrap();
        assert!((share - 0.3).abs() < 0.04, "{share}");
    }

    #[test]
    fn noise_with_a_long_tail_hides_no_packet_without_queue() {
        let mut gap = ProbeGap::over(Duration::from_secs(100));
        let mut rng = Rng::new(5);
        feed(&mut gap, 0, 4_000, |_| {
            let noise = -15.0 * rng.unit().max(1e-9).ln();
            let queue = if rng.chance(0.8) { rng.below(6_000) } else { 0 };
            noise as i64 + queue as i64
        });
        let share = gap.idle_share(Duration::from_micros(10), LONGEST).unwrap();
        assert!((share - 0.2).abs() < 0.015, "{share}");
    }

    #[test]
    fn the_old_is_forgotten_and_few_say_nothing() {
        let mut gap = ProbeGap::over(Duration::from_secs(1));
        feed(&mut gap, 0, 100, |i| i as i64 * 100);
        feed(&mut gap, 10_000, 10, |_| 50_000);
        assert_eq!(gap.idle_share(Duration::ZERO, LONGEST), None);
        feed(&mut gap, 10_100, 50, |_| 50_000);
        assert_eq!(gap.idle_share(Duration::ZERO, LONGEST), Some(1.0));
    }

    #[test]
    fn noise_and_clocks_that_run_apart_change_little() {
        for (drift_us_per_s, noise_us) in [(0.0, 60), (50.0, 1), (-30.0, 60)] {
            let mut gap = ProbeGap::over(Duration::from_secs(10));
            let mut rng = Rng::new(4);
            feed(&mut gap, 0, 1_000, |i| {
                let noise = (0..4).map(|_| rng.below(noise_us)).sum::<u64>();
                let queue = if rng.chance(0.6) { rng.below(6_000) } else { 0 };
                (noise + queue) as i64 + (drift_us_per_s * i as f64 / 100.0) as i64
            });
            let share = gap.idle_share(Duration::from_micros(10), LONGEST).unwrap();
            assert!((share - 0.4).abs() < 0.05, "{drift_us_per_s} {noise_us}: {share}");
        }
    }
}
