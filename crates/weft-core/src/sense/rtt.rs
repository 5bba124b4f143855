use weft_units::{Duration, Instant};

/// Length of a period of RTT samples. The minimum RTT is taken over the last two to three periods.
const BUCKET: Duration = Duration::from_secs(5);

/// Smoothed RTT and its variation (RFC 6298 §2), and the minimum RTT of the last 10 to 15 seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    latest: Duration,
    minima: [Option<Duration>; 3],
    bucket_start: Instant,
}

impl Rtt {
    /// RTT that is assumed before the first sample.
    pub const INITIAL: Duration = Duration::from_millis(100);

    /// Adds one RTT sample.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration) {
        self.latest = rtt;
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
                self.bucket_start = now;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
        if now - self.bucket_start >= BUCKET {
            self.minima.rotate_right(1);
            self.minima[0] = None;
            self.bucket_start = now;
        }
        self.minima[0] = Some(self.minima[0].map_or(rtt, |m| m.min(rtt)));
    }

    /// Deletes all samples, because the path is now a different one.
    pub fn restart(&mut self) {
        *self = Rtt::default();
    }

    /// Restarts the minimum RTT at the last sample, because the path became longer.
    pub fn rebase(&mut self, now: Instant) {
        self.minima = [Some(self.latest), None, None];
        self.bucket_start = now;
    }

    /// True if there was an RTT sample.
    pub fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }

    /// Returns SRTT, or [`Rtt::INITIAL`] before the first sample.
    pub fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(Rtt::INITIAL)
    }

    /// Returns the RTT variation RTTVAR.
    pub fn variation(&self) -> Duration {
        self.variation
    }

    /// Returns the last RTT sample.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns the smallest sample of the last 10 to 15 seconds, or [`Rtt::INITIAL`] before the first.
    pub fn min(&self) -> Duration {
        self.minima.iter().flatten().min().copied().unwrap_or(Rtt::INITIAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooths_as_rfc_6298() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.smoothed(), Rtt::INITIAL);
        rtt.on_sample(Instant::ZERO, Duration::from_millis(80));
        assert_eq!((rtt.smoothed(), rtt.variation()), (Duration::from_millis(80), Duration::from_millis(40)));
        rtt.on_sample(Instant::ZERO, Duration::from_millis(160));
        assert_eq!((rtt.smoothed(), rtt.variation()), (Duration::from_millis(90), Duration::from_millis(50)));
    }

    #[test]
    fn the_minimum_is_forgotten() {
        let mut rtt = Rtt::default();
        rtt.on_sample(Instant::ZERO, Duration::from_millis(10));
        for s in 1..=9 {
            rtt.on_sample(Instant::from_millis(s * 1000), Duration::from_millis(50));
        }
        assert_eq!(rtt.min(), Duration::from_millis(10));
        for s in 10..=20 {
            rtt.on_sample(Instant::from_millis(s * 1000), Duration::from_millis(50));
        }
        assert_eq!(rtt.min(), Duration::from_millis(50));
    }
}
