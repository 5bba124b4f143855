use super::Crossing;
use alloc::collections::VecDeque;
use weft_units::{Duration, Instant};

/// Packets remembered at most.
const MOST: usize = 4_096;
/// With fewer nothing is said.
const FEWEST: usize = 20;

/// How often nothing waits (ProbeGap: Lakshminarayanan, Padhye and Padhye, IMC 2004): the share of packets, sent on their own at random
/// times, that no queue delays. A link that is busy for 70 % of the time delays 70 % of them.
///
/// Over several links it is the share in which none is busy, so that capacity times share is never above what is available: the tight
/// link alone is idle no less often, and its capacity is no smaller.
#[derive(Clone, Debug)]
pub struct ProbeGap {
    window: Duration,
    packets: VecDeque<(Instant, i64)>,
}

impl ProbeGap {
    /// Over the last `window`.
    pub fn over(window: Duration) -> ProbeGap {
        ProbeGap { window, packets: VecDeque::new() }
    }

    /// Takes in one packet; all have the same length.
    pub fn on_crossing(&mut self, now: Instant, crossing: &Crossing) {
        self.packets.push_back((now, crossing.delay_us));
        while self.packets.len() > MOST || self.packets.front().is_some_and(|(at, _)| now - *at > self.window) {
            self.packets.pop_front();
        }
    }

    /// The share of packets that were delayed by at most `tolerance` beyond the least delay; `None` with too few of them.
    pub fn idle_share(&self, tolerance: Duration) -> Option<f64> {
        let least = self.packets.iter().map(|(_, delay)| *delay).min().filter(|_| self.packets.len() >= FEWEST)?;
        let bound = least + tolerance.as_micros() as i64;
        let idle = self.packets.iter().filter(|(_, delay)| *delay <= bound).count();
        Some(idle as f64 / self.packets.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

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
        let share = gap.idle_share(Duration::from_micros(10)).unwrap();
        assert!((share - 0.3).abs() < 0.04, "{share}");
    }

    #[test]
    fn the_old_is_forgotten_and_few_say_nothing() {
        let mut gap = ProbeGap::over(Duration::from_secs(1));
        feed(&mut gap, 0, 100, |i| i as i64 * 100);
        feed(&mut gap, 10_000, 10, |_| 50_000);
        assert_eq!(gap.idle_share(Duration::ZERO), None);
        feed(&mut gap, 10_100, 50, |_| 50_000);
        assert_eq!(gap.idle_share(Duration::ZERO), Some(1.0));
    }
}
