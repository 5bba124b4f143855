//! Drops the packets that exceed a rate, with a token bucket.

use super::spec::PolicerSpec;
use weft_units::Instant;

/// Number of tokens that one bit of a packet needs.
///
/// Derived: the nanoseconds of a second, so that filling the bucket has no rounding error.
const NANOS: u128 = 1_000_000_000;

/// A policer with a bucket of tokens that fills at a constant rate.
///
/// A packet needs tokens for its length. The policer drops a packet if the bucket has fewer.
#[derive(Clone, Debug)]
pub struct Policer {
    spec: PolicerSpec,
    begins: Instant,
    tokens: u128,
    filled_at: Instant,
}

impl Policer {
    /// Creates a policer with a full bucket.
    ///
    /// `start` is the start of the run.
    pub fn new(spec: PolicerSpec, start: Instant) -> Policer {
        let begins = Instant::from_nanos(start.as_nanos().saturating_add(spec.after.as_nanos() as u64));
        Policer { spec, begins, tokens: spec.capacity(), filled_at: begins }
    }

    /// Returns true if the packet passes, and then takes its tokens from the bucket. Returns false if it is dropped.
    ///
    /// Before the policing begins, all packets pass.
    pub fn takes(&mut self, now: Instant, bytes: u64, is_udp: bool) -> bool {
        if now < self.begins || (self.spec.only_udp && !is_udp) {
            return true;
        }
        let came = u128::from(self.spec.rate.bps()) * (now - self.filled_at).as_nanos();
        self.tokens = (self.tokens + came).min(self.spec.capacity());
        self.filled_at = now;
        match self.tokens.checked_sub(u128::from(bytes) * 8 * NANOS) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

impl PolicerSpec {
    fn capacity(&self) -> u128 {
        u128::from(self.bucket_bytes) * 8 * NANOS
    }
}
