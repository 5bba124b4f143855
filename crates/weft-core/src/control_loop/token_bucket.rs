use weft_units::{Duration, Instant, Rate};

/// A token bucket whose rate changes: at most `depth` bytes, or one packet, leave at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    /// May be negative: a packet longer than the bucket is deep leaves a debt.
    tokens: f32,
    depth: f32,
    filled_at: Instant,
}

impl TokenBucket {
    pub fn new(depth_bytes: u32) -> TokenBucket {
        let depth = depth_bytes as f32;
        TokenBucket { tokens: depth, depth, filled_at: Instant::ZERO }
    }

    fn level(&self, now: Instant, rate_bps: f64) -> f64 {
        (f64::from(self.tokens) + (now - self.filled_at).as_secs_f64() * rate_bps / 8.0).min(self.depth.into())
    }

    /// Brings the bucket up to date, at the rate that held until now.
    pub fn fill(&mut self, now: Instant, rate_bps: f64) {
        self.tokens = self.level(now, rate_bps) as f32;
        self.filled_at = now;
    }

    /// When `bytes` may leave at `rate_bps`: `now`, or later.
    pub fn ready_at(&self, now: Instant, bytes: u32, rate_bps: f64) -> Instant {
        let missing = f64::from(bytes).min(self.depth.into()) - self.level(now, rate_bps);
        // A hundredth of a byte is rounding.
        if missing <= 1e-2 {
            return now;
        }
        now + Rate::from_bps(rate_bps as u64).time_for(libm::ceil(missing) as u64).max(Duration::from_nanos(1))
    }

    pub fn take(&mut self, now: Instant, bytes: u32, rate_bps: f64) {
        self.fill(now, rate_bps);
        self.tokens -= bytes as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_burst_at_once_then_the_rate() {
        let (mut bucket, rate) = (TokenBucket::new(1_000), 8e6);
        let at = Instant::from_millis;
        assert_eq!(bucket.ready_at(at(0), 1_000, rate), at(0));
        bucket.take(at(0), 1_000, rate);
        assert_eq!(bucket.ready_at(at(0), 500, rate), Instant::from_micros(500));
        assert_eq!(bucket.ready_at(at(9), 1_000, rate), at(9), "idle for long, one burst");
        bucket.take(at(9), 3_000, rate);
        assert_eq!(bucket.ready_at(at(9), 1_000, rate), at(12), "a debt is paid first");
    }
}
