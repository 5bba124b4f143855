//! Limits on the work that one peer causes at this node by messages about the link map.
//!
//! Each check of a signature and each byte of an answer is charged to the peer whose message caused it. A peer that
//! forwarded a forged claim is barred: its messages are ignored for a time. The bar applies to the peer's key and not
//! to the session, so that a new session does not end it.

use alloc::collections::BTreeMap;
use weft_session::PublicKey;
use weft_units::{Duration, Instant, PeerId};

/// Time for which the messages of a peer that forwarded a forged claim are ignored.
///
/// Honest nodes check a claim before they forward it, so this peer is not honest.
pub const BAR_TIME: Duration = Duration::from_secs(60);
/// Maximum number of messages that answer one digest.
///
/// *Derived*: a third of the messages that may wait for a peer.
pub const MAX_ANSWERS: usize = 12;
/// Least interval between two digests of a peer that are answered.
///
/// *Derived*: honest peers wait for [`super::mapping::DIGEST_DELAY`] before another digest.
const ANSWER_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of signature checks that a peer may cause in one burst.
///
/// *Derived*: the number of messages that may wait from a peer.
const CHECKS_AT_ONCE: f64 = 32.0;
/// Maximum number of signature checks per second that a peer may cause in the long run.
///
/// *Derived*: [`MAX_ANSWERS`] in each [`ANSWER_INTERVAL`].
const CHECKS_PER_S: f64 = 120.0;
/// Maximum number of bytes that answer a peer's digests in one burst.
///
/// *Derived*: the certificates and claims of 100 members. The claims of relays are the longest, so all members are
/// taken for relays.
const ANSWER_BYTES_AT_ONCE: f64 = 256.0 * 1024.0;
/// Maximum number of bytes per second that answer a peer's digests in the long run.
///
/// *Tuned*: 64 kbit/s, which a slow uplink can spare.
const ANSWER_BYTES_PER_S: f64 = 8_000.0;

/// What one peer may still cause: a number of signature checks, or of bytes of answers. It refills with time.
struct MapAllowance {
    left: f64,
    at: Instant,
}

impl MapAllowance {
    fn full(now: Instant, most: f64) -> MapAllowance {
        MapAllowance { left: most, at: now }
    }

    /// Takes `amount` from the allowance if that much is left. Returns false, and takes nothing, otherwise.
    ///
    /// The allowance grows by `per_s` in a second, up to `most`.
    fn take(&mut self, now: Instant, amount: f64, (most, per_s): (f64, f64)) -> bool {
        self.left = (self.left + per_s * now.since(self.at).as_secs_f64()).min(most);
        self.at = now;
        let is_there = self.left >= amount;
        if is_there {
            self.left -= amount;
        }
        is_there
    }
}

struct PeerLimits {
    answered_at: Option<Instant>,
    checks: MapAllowance,
    answers: MapAllowance,
}

/// The limits of all peers on messages about the link map.
#[derive(Default)]
pub struct MapLimits {
    peers: BTreeMap<PeerId, PeerLimits>,
    /// Keys of peers whose messages about the link map are ignored, each with the time until which they are.
    barred: BTreeMap<PublicKey, Instant>,
    checks: u64,
}

impl MapLimits {
    fn of(&mut self, now: Instant, peer: PeerId) -> &mut PeerLimits {
        self.peers.entry(peer).or_insert_with(|| PeerLimits {
            answered_at: None,
            checks: MapAllowance::full(now, CHECKS_AT_ONCE),
            answers: MapAllowance::full(now, ANSWER_BYTES_AT_ONCE),
        })
    }

    /// Ignores the messages of the peer with this key for [`BAR_TIME`].
    pub fn bar(&mut self, now: Instant, key: PublicKey) {
        self.barred.retain(|_, until| *until > now);
        self.barred.insert(key, now + BAR_TIME);
    }

    /// True if messages of the peer with this key are ignored now.
    pub fn is_barred(&self, now: Instant, key: &PublicKey) -> bool {
        self.barred.get(key).is_some_and(|until| *until > now)
    }

    /// True if a signature may be checked now because of a message of a peer. The check is then counted.
    pub fn takes_check(&mut self, now: Instant, peer: PeerId) -> bool {
        let is_allowed = self.of(now, peer).checks.take(now, 1.0, (CHECKS_AT_ONCE, CHECKS_PER_S));
        self.checks += u64::from(is_allowed);
        is_allowed
    }

    /// Returns the number of signatures checked for the link map since the start, for all peers together.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// True if a digest that arrived from a peer is to be answered. The time is then recorded.
    pub fn takes_digest(&mut self, now: Instant, peer: PeerId) -> bool {
        let of = self.of(now, peer);
        let is_due = of.answered_at.is_none_or(|at| now - at >= ANSWER_INTERVAL);
        if is_due {
            of.answered_at = Some(now);
        }
        is_due
    }

    /// True if a message of `len` bytes may be sent to a peer as a part of an answer. The bytes are then counted.
    pub fn takes_answer(&mut self, now: Instant, peer: PeerId, len: usize) -> bool {
        self.of(now, peer).answers.take(now, len as f64, (ANSWER_BYTES_AT_ONCE, ANSWER_BYTES_PER_S))
    }

    /// Deletes the counts for a peer that was removed. If its key is barred, it stays barred.
    pub fn forget_peer(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_peer_has_checks_at_once_and_then_by_time() {
        let mut limits = MapLimits::default();
        let checks =
            |limits: &mut MapLimits, ms: u64| (0..1_000).filter(|_| limits.takes_check(at(ms), PeerId(1))).count();
        assert_eq!(checks(&mut limits, 0), 32);
        assert_eq!(checks(&mut limits, 100), 12);
        assert_eq!(checks(&mut limits, 60_000), 32, "time adds no more than the greatest allowance");
        assert!(limits.takes_check(at(60_000), PeerId(2)), "another peer has its own");
    }

    #[test]
    fn answers_are_bounded_in_number_and_bytes() {
        let mut limits = MapLimits::default();
        let (mut digests, mut bytes) = (0, 0);
        for ms in 0..600_000 {
            if limits.takes_digest(at(ms), PeerId(1)) {
                digests += 1;
                bytes += (0..MAX_ANSWERS).filter(|_| limits.takes_answer(at(ms), PeerId(1), 1_200)).count() * 1_200;
            }
        }
        assert_eq!(digests, 6_000);
        let allowed = 256 * 1_024 + 8_000 * 600;
        assert!((allowed - 2_400..=allowed).contains(&bytes), "{bytes} of {allowed}");
    }

    #[test]
    fn a_bar_outlives_the_peer_and_ends_by_itself() {
        let mut limits = MapLimits::default();
        let (liar, other) = (PublicKey([1; 32]), PublicKey([2; 32]));
        limits.bar(at(0), liar);
        limits.forget_peer(PeerId(1));
        assert!(limits.is_barred(at(59_999), &liar) && !limits.is_barred(at(0), &other));
        assert!(!limits.is_barred(at(60_000), &liar));
    }
}
