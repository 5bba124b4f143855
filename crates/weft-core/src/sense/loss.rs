use weft_units::{Duration, Instant};

/// Number of packets after which an earlier observation of loss has lost most of its weight.
const WINDOW_PACKETS: f64 = 200.0;
/// Time after which an earlier observation of loss has lost all of its weight.
const WINDOW_TIME: Duration = Duration::from_secs(10);

/// Fraction of a path's packets that are lost, as a moving average.
///
/// The average covers a number of packets and, unless configured otherwise, at most about ten seconds.
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    window_packets: f64,
    window_time: Duration,
    packets: f64,
    lost: f64,
    last: Instant,
}

impl Default for LossRate {
    fn default() -> LossRate {
        LossRate::over_packets(WINDOW_PACKETS)
    }
}

impl LossRate {
    /// Returns an average over about the last `window_packets` packets.
    pub fn over_packets(window_packets: f64) -> LossRate {
        LossRate::over(window_packets, WINDOW_TIME)
    }

    /// Returns an average over about the last `window_packets` packets, but at most those of the last `window_time`.
    pub fn over(window_packets: f64, window_time: Duration) -> LossRate {
        LossRate { window_packets, window_time, packets: 0.0, lost: 0.0, last: Instant::ZERO }
    }

    /// Returns an average over about the last 200 packets, however old they are.
    pub fn of_all_times() -> LossRate {
        LossRate { window_time: Duration::MAX, ..LossRate::default() }
    }

    /// Adds packets that were delivered or declared lost by `now`.
    pub fn on_fates(&mut self, now: Instant, delivered: u64, lost: u64) {
        let settled = (delivered + lost) as f64;
        let by_packets = self.window_packets / (self.window_packets + settled);
        let by_time = 1.0 - ((now - self.last).as_secs_f64() / self.window_time.as_secs_f64()).min(1.0);
        let keep = by_packets * by_time;
        self.packets = self.packets * keep + settled;
        self.lost = self.lost * keep + lost as f64;
        self.last = now;
    }

    /// Lost packets as a fraction of all packets, 0 to 1.
    pub fn fraction(&self) -> f64 {
        if self.packets > 0.0 { self.lost / self.packets } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_share_of_losses() {
        let mut loss = LossRate::default();
        assert_eq!(loss.fraction(), 0.0);
        for i in 0..200 {
            loss.on_fates(Instant::from_millis(i * 10), 18, 2);
        }
        assert!((loss.fraction() - 0.1).abs() < 0.01);
        for i in 200..300 {
            loss.on_fates(Instant::from_millis(i * 10), 20, 0);
        }
        assert!(loss.fraction() < 0.001);
    }
}
