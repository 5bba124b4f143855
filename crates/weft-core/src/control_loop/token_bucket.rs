use weft_units::{Duration, Instant, Rate};

/// A token bucket with a variable rate. At most `depth` bytes, or one packet, leave at once.
///
/// While packets wait, the bucket is deeper by the bytes that the current rate sends in the time `late`. The rate is
/// thus reached even if the caller releases packets later than permitted, by at most that time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    /// Level of the bucket in bytes. It is negative after a packet that is longer than the depth.
    tokens: f32,
    depth: f32,
    late_s: f32,
    waits: bool,
    filled_at: Instant,
}

impl TokenBucket {
    pub fn new(depth_bytes: u32, late: Duration) -> TokenBucket {
        let depth = depth_bytes as f32;
        TokenBucket { tokens: depth, depth, late_s: late.as_secs_f32(), waits: false, filled_at: Instant::ZERO }
    }

    fn level(&self, now: Instant, rate_bps: f64) -> f64 {
        let more = if self.waits { f64::from(self.late_s) * rate_bps / 8.0 } else { 0.0 };
        let filled = f64::from(self.tokens) + (now - self.filled_at).as_secs_f64() * rate_bps / 8.0;
        filled.min(f64::from(self.depth) + more)
    }

    /// Adds the tokens of the time since the last call, at the rate that held until now.
    pub fn fill(&mut self, now: Instant, rate_bps: f64) {
        self.tokens = self.level(now, rate_bps) as f32;
        self.filled_at = now;
    }

    /// Returns the time at which `bytes` may leave at `rate_bps`: `now`, or later.
    pub fn ready_at(&self, now: Instant, bytes: u32, rate_bps: f64) -> Instant {
        let missing = f64::from(bytes).min(self.depth.into()) - self.level(now, rate_bps);
        // Less than a hundredth of a byte is a rounding error, so the packet may leave.
        if missing <= 1e-2 {
            return now;
        }
        now + Rate::from_bps(rate_bps as u64).time_for(libm::ceil(missing) as u64).max(Duration::from_nanos(1))
    }

    /// Removes the tokens of a packet that leaves. `more` is true if other packets wait behind it.
    pub fn take(&mut self, now: Instant, bytes: u32, rate_bps: f64, more: bool) {
        self.fill(now, rate_bps);
        self.tokens -= bytes as f32;
        self.waits = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_at_once_then_the_rate() {
        let (mut bucket, rate) = (TokenBucket::new(1_000, Duration::from_millis(1)), 8e6);
        let at = Instant::from_millis;
        assert_eq!(bucket.ready_at(at(0), 1_000, rate), at(0));
        bucket.take(at(0), 1_000, rate, false);
        assert_eq!(bucket.ready_at(at(0), 500, rate), Instant::from_micros(500));
        assert_eq!(bucket.ready_at(at(9), 1_000, rate), at(9), "idle for long, one burst");
        bucket.take(at(9), 3_000, rate, false);
        assert_eq!(bucket.ready_at(at(9), 1_000, rate), at(12), "a debt is paid first");
    }

    /// Returns the bytes that leave within a second, as a fraction of what 40 Mbit/s would send.
    ///
    /// Each packet of 1000 bytes is released `late_us` after the permitted time. The bucket makes up for at most
    /// `late`.
    fn sent_when_woken_late(late: Duration, late_us: u64) -> f64 {
        let (mut bucket, rate, mut now, mut sent) = (TokenBucket::new(1_000, late), 40e6, Instant::ZERO, 0);
        while now < Instant::from_millis(1_000) {
            now = bucket.ready_at(now, 1_000, rate) + Duration::from_micros(late_us);
            while bucket.ready_at(now, 1_000, rate) <= now {
                bucket.take(now, 1_000, rate, true);
                sent += 1_000;
            }
        }
        f64::from(sent) / 5e6
    }

    #[test]
    fn a_late_wake_up_loses_no_credit_while_packets_wait() {
        assert!(sent_when_woken_late(Duration::ZERO, 150) < 0.6, "the depth of one packet is not enough");
        for late_us in [0, 50, 150, 700] {
            let sent = sent_when_woken_late(Duration::from_millis(1), late_us);
            assert!((sent - 1.0).abs() < 0.005, "{late_us} µs late: {sent}");
        }
        let rate = 40e6;
        let mut bucket = TokenBucket::new(1_000, Duration::from_millis(1));
        bucket.take(Instant::ZERO, 1_000, rate, true);
        let later = Instant::from_millis(1_000);
        bucket.take(later, 5_500, rate, false);
        assert_eq!(bucket.ready_at(later, 500, rate), later, "a millisecond besides, however late");
        assert!(bucket.ready_at(later, 501, rate) > later);
    }
}
