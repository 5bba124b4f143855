use weft_units::{Duration, Instant};

/// Length of each of the two periods over whose RTT samples the minimum is taken.
const BUCKET: Duration = Duration::from_secs(10);
/// Upper limit of an RTT sample, in microseconds.
const LONGEST_US: u128 = 60_000_000;
/// Largest RTT sample that is used as it is: a multiple of the smoothed RTT, or a time in µs if that is longer.
///
/// After a pause of the machine or a jump of a clock, a sample can have any value. *Derived*: with this multiple a
/// sample at most doubles the smoothed RTT. The time is the initial time-out of RFC 6298. If a path becomes slower, the
/// smoothed RTT follows within a few samples.
const LARGEST_RISE: (u32, u32) = (8, 1_000_000);

/// Smoothed RTT and its variation (RFC 6298 §2), and the minimum of the last 10 to 20 seconds.
///
/// It is stored in few bytes, because each loop has one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed_us: u32,
    variation_us: u32,
    /// Minimum RTT in the present period and in the previous one, in microseconds. Zero means none.
    minima_us: [u32; 2],
    bucket_start: Instant,
}

impl RoundTrip {
    /// RTT that is assumed before the first sample.
    pub const INITIAL: Duration = Duration::from_millis(100);
    /// Minimum of the time-out for an unanswered marker.
    const LEAST_TIMEOUT: Duration = Duration::from_millis(20);

    /// Applies a sample. Returns true if the sample is so large that it was limited.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration) -> bool {
        let most = self.smoothed_us.saturating_mul(LARGEST_RISE.0).max(LARGEST_RISE.1);
        let whole = rtt.as_micros().clamp(1, LONGEST_US) as u32;
        let rtt = whole.min(most);
        if self.smoothed_us == 0 {
            (self.smoothed_us, self.variation_us, self.bucket_start) = (rtt, rtt / 2, now);
        } else {
            self.variation_us = (self.variation_us * 3 + self.smoothed_us.abs_diff(rtt)) / 4;
            self.smoothed_us = (self.smoothed_us * 7 + rtt).div_ceil(8);
        }
        if now - self.bucket_start >= BUCKET {
            (self.minima_us, self.bucket_start) = ([0, self.minima_us[0]], now);
        }
        self.minima_us[0] = if self.minima_us[0] == 0 { rtt } else { self.minima_us[0].min(rtt) };
        whole > most
    }

    pub fn is_known(&self) -> bool {
        self.smoothed_us > 0
    }

    pub fn smoothed(&self) -> Duration {
        if self.is_known() { Duration::from_micros(self.smoothed_us.into()) } else { RoundTrip::INITIAL }
    }

    pub fn min(&self) -> Duration {
        let least = self.minima_us.iter().filter(|us| **us > 0).min();
        least.map_or(RoundTrip::INITIAL, |us| Duration::from_micros((*us).into()))
    }

    /// Returns the time-out RTT + 4 · variation, at least 20 ms.
    pub fn timeout(&self) -> Duration {
        if !self.is_known() {
            return RoundTrip::INITIAL * 3;
        }
        (self.smoothed() + Duration::from_micros(self.variation_us.into()) * 4).max(RoundTrip::LEAST_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After one sample of any length, the time-out is at most a few seconds, whether it is the first sample or not.
    ///
    /// If the path becomes slower, the smoothed RTT follows within six samples.
    #[test]
    fn one_sample_of_any_length_does_little_and_a_slower_path_is_followed() {
        let mut rng = weft_units::Rng::new(1);
        for _ in 0..1_000 {
            let usual = 500 + rng.below(500_000);
            let sample = |rtt: &mut RoundTrip, us: u64| rtt.on_sample(Instant::ZERO, Duration::from_micros(us));
            let mut rtt = RoundTrip::default();
            let mut first = rtt;
            sample(&mut first, 1_000_000 + rng.below(1 << 40));
            assert!(first.timeout() <= Duration::from_secs(3), "{first:?}");
            for _ in 0..50 {
                sample(&mut rtt, usual + rng.below(1 + usual / 4));
            }
            let mut slept = rtt;
            sample(&mut slept, 1_000_000 + rng.below(1 << 40));
            let longest = Duration::from_micros(usual * 12).max(Duration::from_millis(1_500));
            assert!(slept.timeout() <= longest, "{usual} µs: {slept:?}");

            let slower = usual * (2 + rng.below(80));
            for _ in 0..6 {
                sample(&mut rtt, slower);
            }
            assert!(rtt.timeout() >= Duration::from_micros(slower.min(60_000_000)), "{usual} → {slower} µs: {rtt:?}");
        }
    }

    #[test]
    fn smooths_as_rfc_6298_and_forgets_the_minimum() {
        let ms = Duration::from_millis;
        let mut rtt = RoundTrip::default();
        assert_eq!((rtt.smoothed(), rtt.timeout()), (ms(100), ms(300)));
        rtt.on_sample(Instant::ZERO, ms(80));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (ms(80), ms(80 + 160)));
        rtt.on_sample(Instant::ZERO, ms(160));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (ms(90), ms(90 + 200)));
        for second in 1..=30 {
            rtt.on_sample(Instant::from_millis(second * 1_000), ms(100));
        }
        assert_eq!(rtt.min(), ms(100));
    }
}
