//! Handshake timers (WireGuard paper §6.1).
//!
//! The retry interval is shorter than WireGuard's, because all paths of a peer wait for the same handshake.

use crate::random::SecretRng;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Age of a session key at which the node that initiated its handshake starts the next one.
pub const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Age at which a session key ends: it seals and opens no packet any more.
pub const KEY_LIFETIME: Duration = Duration::from_secs(180);
/// Time between two initiations of one attempt. A random time of up to one third of it is added.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time from the start of an attempt after which initiations are sent only at [`SLOW_RETRY_INTERVAL`].
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(90);
/// Time between initiations after [`GIVE_UP_AFTER`]. A random time of up to one third of it is added.
pub const SLOW_RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// Number of packets sealed with a session key after which the node that initiated its handshake starts the next one.
pub(crate) const REKEY_AFTER_PACKETS: u64 = 1 << 60;
/// Time from the creation of an initiation within which it may be sent again, and gets the same response.
pub(crate) const REPEAT_FOR: Duration = Duration::from_secs(5);
/// Time for which the node that yields in two simultaneous initiations waits for the other's handshake.
pub(crate) const YIELD_FOR: Duration = Duration::from_secs(2);

/// One attempt to get a new session key, from its first initiation until a handshake succeeds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    /// Time at which the attempt started.
    since: Instant,
    /// Time at which the next initiation is due.
    pub(crate) due: Instant,
    /// Time at which the last initiation of the attempt was sent. `None` if none was.
    sent: Option<Instant>,
    /// Time before which this node sends no initiation, because it waits for the peer's own handshake.
    yields_until: Instant,
}

impl Attempt {
    /// Creates an attempt with its first initiation due at `now`.
    pub(crate) fn start(now: Instant) -> Attempt {
        Attempt { since: now, due: now, sent: None, yields_until: Instant::ZERO }
    }

    /// Sets the time of the next initiation, after one was sent or requested at `now`.
    pub(crate) fn schedule_next(&mut self, now: Instant, rng: &mut SecretRng) {
        let fast = now.since(self.since) < GIVE_UP_AFTER;
        let interval = if fast { RETRY_INTERVAL } else { SLOW_RETRY_INTERVAL };
        let jitter = interval.mul_f64(f64::from(rng.next_u32()) / f64::from(u32::MAX) / 3.0);
        self.due = now + interval + jitter;
        self.sent = Some(now);
        if planted::is(Fault::CallNotRepeated) {
            (self.due, self.yields_until) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        }
    }

    /// Makes the next initiation due at the latest `interval` after the last one.
    ///
    /// It is not due before the wait for the peer's own handshake ends.
    pub(crate) fn hurry(&mut self, now: Instant, interval: Duration) {
        let at = self.sent.map_or(now, |sent| sent + interval);
        self.due = self.due.min(at.max(self.yields_until));
    }

    /// Sends no initiation for [`YIELD_FOR`], to wait for the peer's own handshake.
    pub(crate) fn yield_to_peer(&mut self, now: Instant) {
        self.yields_until = if planted::is(Fault::YieldsForGood) { Instant::FAR_FUTURE } else { now + YIELD_FOR };
        self.due = self.due.max(self.yields_until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_slows_down_after_ninety_seconds() {
        let mut rng = SecretRng::new([1; 32]);
        let mut attempt = Attempt::start(Instant::ZERO);
        let (mut fast, mut slow) = (0, 0);
        while attempt.due < Instant::from_millis(300_000) {
            let now = attempt.due;
            attempt.schedule_next(now, &mut rng);
            let wait = attempt.due.since(now);
            if now < Instant::ZERO + GIVE_UP_AFTER {
                assert!(wait >= RETRY_INTERVAL && wait <= RETRY_INTERVAL * 4 / 3);
                fast += 1;
            } else {
                assert!(wait >= SLOW_RETRY_INTERVAL && wait <= SLOW_RETRY_INTERVAL * 4 / 3);
                slow += 1;
            }
        }
        assert!((60..=91).contains(&fast) && (10..=15).contains(&slow), "{fast} {slow}");
    }

    #[test]
    fn an_attempt_in_a_hurry_keeps_its_spacing_and_still_yields() {
        let (mut rng, spacing) = (SecretRng::new([1; 32]), Duration::from_millis(100));
        let ms = Instant::from_millis;
        let mut attempt = Attempt::start(ms(0));
        attempt.schedule_next(ms(0), &mut rng);
        attempt.hurry(ms(10), spacing);
        assert_eq!(attempt.due, ms(100));
        attempt.yield_to_peer(ms(50));
        attempt.hurry(ms(60), spacing);
        assert_eq!(attempt.due, ms(50) + YIELD_FOR);
    }
}
