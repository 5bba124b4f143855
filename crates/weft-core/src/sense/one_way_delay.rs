use weft_units::{Duration, Instant};

/// Length of a period of delay samples. The baseline is the minimum over the last two to three periods.
const BUCKET: Duration = Duration::from_secs(5);
/// Margin of the detection of clock steps, in microseconds.
///
/// A clock was stepped if the queueing delay exceeds the RTT's excess over its minimum by more than this.
const STEP_MARGIN_US: i64 = 5_000;
/// Number of consecutive samples that must indicate a clock step before the baseline restarts.
const STEP_SAMPLES: u8 = 3;

/// One-way delay of a path: its baseline, the queueing delay above it, and its jitter.
///
/// The two clocks have an unknown offset, so only differences of delays have a meaning (LEDBAT, RFC 6817 §2). The
/// queueing delay is a sample minus the smallest of the last 10 to 15 seconds. A queue toward the peer also lengthens
/// the round trip. If the one-way delay rises and the round trip does not, a clock was stepped. The baseline then
/// restarts.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneWayDelay {
    /// First delay sample, in microseconds. All delays are stored relative to it, so that the 32-bit clock may wrap.
    origin_us: Option<u32>,
    latest_us: i64,
    /// Part of the latest delay that is due to the packet's length: its transmission time on each link.
    latest_taken_us: i64,
    minima: [Option<i64>; 3],
    bucket_start: Instant,
    standing: [Option<i64>; 2],
    standing_start: Instant,
    jitter_us: f64,
    step_suspected: u8,
}

impl OneWayDelay {
    /// Adds one delay: arrival minus departure, in microseconds modulo 2^32.
    ///
    /// `taken` is the part of the delay that is due to the packet's length and is not queueing delay. `rtt_excess` is
    /// the same packet's RTT above the minimum RTT. `window` is the span for the standing queue, about one round trip.
    pub fn on_sample(
        &mut self,
        now: Instant,
        one_way_delay_us: u32,
        taken: Duration,
        rtt_excess: Duration,
        window: Duration,
    ) {
        let Some(origin) = self.origin_us else {
            return self.restart(now, one_way_delay_us);
        };
        let delay = i64::from(one_way_delay_us.wrapping_sub(origin) as i32);
        let before = self.latest_us - self.latest_taken_us;
        (self.latest_us, self.latest_taken_us) = (delay, taken.as_micros() as i64);
        let waited = delay - self.latest_taken_us;
        let difference = (waited - before).abs() as f64;
        if self.is_step(rtt_excess) {
            return self.restart(now, one_way_delay_us);
        }
        self.jitter_us += (difference - self.jitter_us) / 16.0;
        if now - self.bucket_start >= BUCKET {
            self.minima.rotate_right(1);
            self.minima[0] = None;
            self.bucket_start = now;
        }
        self.minima[0] = lower(self.minima[0], delay);
        if now - self.standing_start >= window / 2 {
            self.standing = [None, self.standing[0]];
            self.standing_start = now;
        }
        self.standing[0] = lower(self.standing[0], waited);
    }

    fn is_step(&mut self, rtt_excess: Duration) -> bool {
        let margin = STEP_MARGIN_US + self.jitter_us as i64 * 4;
        let beyond = self.above_baseline(self.latest_us) > rtt_excess.as_micros() as i64 + margin;
        self.step_suspected = if beyond { self.step_suspected + 1 } else { 0 };
        self.step_suspected >= STEP_SAMPLES
    }

    fn restart(&mut self, now: Instant, one_way_delay_us: u32) {
        *self = OneWayDelay {
            origin_us: Some(one_way_delay_us),
            minima: [Some(0), None, None],
            bucket_start: now,
            standing: [Some(0), None],
            standing_start: now,
            jitter_us: self.jitter_us,
            ..OneWayDelay::default()
        };
    }

    /// Restarts the baseline at the latest delay.
    ///
    /// It is used if the delay above the old baseline is not a queue, because the path became longer.
    pub fn rebase(&mut self, now: Instant) {
        self.restart(now, self.latest_us());
    }

    /// Records that the peer's clock has changed, and deletes all delays.
    ///
    /// Earlier delays cannot be compared with later ones. The jitter is kept, because it belongs to the path.
    pub fn on_new_clock(&mut self) {
        *self = OneWayDelay { jitter_us: self.jitter_us, ..OneWayDelay::default() };
    }

    fn baseline(&self) -> i64 {
        self.minima.iter().flatten().min().copied().unwrap_or(0)
    }

    fn above_baseline(&self, delay: i64) -> i64 {
        (delay - self.baseline()).max(0)
    }

    /// Queueing delay of the last sample: its delay above the baseline.
    pub fn queue(&self) -> Duration {
        Duration::from_micros(self.above_baseline(self.latest_us - self.latest_taken_us) as u64)
    }

    /// Returns how far a delay (in microseconds modulo 2^32) is above the baseline, whatever the reason.
    pub fn above(&self, one_way_delay_us: u32) -> Duration {
        let above =
            self.origin_us.map_or(0, |origin| self.above_baseline(one_way_delay_us.wrapping_sub(origin) as i32 as i64));
        Duration::from_micros(above as u64)
    }

    /// Smallest queueing delay of about the last round trip: the standing queue (Copa's RTT-standing).
    pub fn standing_queue(&self) -> Duration {
        let delay = self.standing.iter().flatten().min().copied().unwrap_or(0);
        Duration::from_micros(self.above_baseline(delay) as u64)
    }

    /// Mean difference between the delays of successive packets (RFC 3550 §6.4.1).
    pub fn jitter(&self) -> Duration {
        Duration::from_micros(self.jitter_us as u64)
    }

    /// Delay of the last packet: arrival minus departure, in microseconds modulo 2^32.
    ///
    /// Two paths between the same two nodes share both clocks, so the difference of their delays is exact.
    pub fn latest_us(&self) -> u32 {
        self.origin_us.unwrap_or(0).wrapping_add(self.latest_us as u32)
    }

    /// Baseline delay, in microseconds modulo 2^32; `None` before the first sample.
    pub fn baseline_us(&self) -> Option<u32> {
        self.origin_us.map(|origin| origin.wrapping_add(self.baseline() as u32))
    }
}

fn lower(minimum: Option<i64>, delay: i64) -> Option<i64> {
    Some(minimum.map_or(delay, |m| m.min(delay)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(40);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn the_queue_is_what_stands_above_the_minimum_across_the_wrap() {
        let mut owd = OneWayDelay::default();
        let base = u32::MAX - 500;
        for i in 0..20 {
            owd.on_sample(at(i * 10), base, us(0), us(0), WINDOW);
        }
        owd.on_sample(at(210), base.wrapping_add(3_000), us(0), us(3_000), WINDOW);
        assert_eq!(owd.queue(), us(3_000));
        assert_eq!(owd.standing_queue(), us(0));
        for i in 0..10 {
            owd.on_sample(at(220 + i * 10), base.wrapping_add(2_000), us(0), us(2_000), WINDOW);
        }
        assert_eq!(owd.standing_queue(), us(2_000));
        assert_eq!(owd.baseline_us(), Some(base));
        assert_eq!(owd.latest_us(), base.wrapping_add(2_000));
    }

    #[test]
    fn the_transmission_time_of_a_long_packet_is_no_queue_and_no_jitter() {
        let mut owd = OneWayDelay::default();
        for i in 0..40u32 {
            let taken = i % 2 * 3_000;
            owd.on_sample(at(u64::from(i) * 10), 1_000 + taken, us(taken.into()), us(taken.into()), WINDOW);
        }
        assert_eq!((owd.queue(), owd.standing_queue(), owd.jitter()), (us(0), us(0), us(0)));
        assert_eq!((owd.above(4_000), owd.latest_us()), (us(3_000), 4_000));
    }

    #[test]
    fn an_old_minimum_is_forgotten() {
        let mut owd = OneWayDelay::default();
        owd.on_sample(at(0), 0, us(0), us(0), WINDOW);
        for i in 1..200 {
            owd.on_sample(at(i * 100), 4_000, us(0), us(4_000), WINDOW);
        }
        assert_eq!(owd.queue(), us(0));
    }

    #[test]
    fn a_stepped_clock_restarts_the_baseline() {
        let mut owd = OneWayDelay::default();
        for i in 0..50 {
            owd.on_sample(at(i * 10), 7_000, us(0), us(100), WINDOW);
        }
        for i in 50..60 {
            owd.on_sample(at(i * 10), 907_000, us(0), us(100), WINDOW);
        }
        assert_eq!(owd.queue(), us(0));
        owd.on_sample(at(610), 909_000, us(0), us(2_000), WINDOW);
        assert_eq!(owd.queue(), us(2_000));
    }

    #[test]
    fn a_new_clock_is_no_jitter_and_no_queue() {
        let mut owd = OneWayDelay::default();
        for i in 0..200u32 {
            owd.on_sample(at(u64::from(i) * 10), 7_000 + i % 2 * 200, us(0), us(200), WINDOW);
        }
        let jitter = owd.jitter();
        owd.on_new_clock();
        assert_eq!((owd.baseline_us(), owd.jitter()), (None, jitter));
        owd.on_sample(at(2_000), 3_000_000_000, us(0), us(200), WINDOW);
        owd.on_sample(at(2_010), 3_000_000_200, us(0), us(200), WINDOW);
        assert_eq!((owd.baseline_us(), owd.queue()), (Some(3_000_000_000), us(200)));
        assert!(owd.jitter().abs_diff(jitter) <= us(20), "{:?}, {jitter:?} before", owd.jitter());
    }

    #[test]
    fn jitter_is_the_mean_difference() {
        let mut owd = OneWayDelay::default();
        for i in 0..400u32 {
            owd.on_sample(at(u64::from(i) * 5), 1_000 + (i % 2) * 600, us(0), us(600), WINDOW);
        }
        assert!((580..=600).contains(&owd.jitter().as_micros()));
    }
}
