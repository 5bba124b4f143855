//! Limits the bytes that are sent to an address until the peer has answered from it (RFC 9000 §8 and §9.3).

use core::net::SocketAddr;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant};

/// Bytes that may be sent to an unproven address for each byte received from it. *Standard*: RFC 9000 §8.
const AMPLIFICATION: u64 = 3;
/// Interval between pings to an unproven address.
///
/// *Tuned*: a lost ping is sent again within an RTT of a slow path.
const PING_INTERVAL: Duration = Duration::from_millis(100);
/// Number of IP bytes of which a ping never has more.
///
/// *Derived*: header, frame and tag with IPv6 and UDP take less than 110 bytes. The rest is for relay headers.
const PING_BYTES: u64 = 200;

/// State of the proof that the peer is at a path's remote address.
///
/// The newest authentic datagram moves its path to the datagram's source address. An attacker that sees a datagram
/// can send a copy of it from any address. An address is therefore unproven until the peer acknowledges a packet that
/// was sent to it. Until then it receives at most three times the bytes that arrived from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proof {
    /// Last proven address. Set only while the present address is unproven, and only if there was one.
    proven: Option<SocketAddr>,
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// IP bytes that may still be sent to the unproven address.
    credit: u64,
    /// Number of the first packet sent to the unproven address.
    first: Option<u64>,
    ping_at: Instant,
}

impl Proof {
    /// Returns the state of a path that the peer has opened from an address that must be proven.
    pub fn in_doubt(now: Instant) -> Proof {
        Proof { proven: None, doubt: Some(Doubt { credit: 0, first: None, ping_at: now }) }
    }

    /// Records that the path moves to the remote address `to`.
    ///
    /// It must be proven unless it was the last proven address.
    pub fn on_moved(&mut self, now: Instant, from: SocketAddr, to: SocketAddr) {
        if self.doubt.is_none() {
            self.proven = Some(from);
        }
        let is_proven = self.proven == Some(to);
        self.doubt = (!is_proven).then_some(Doubt { credit: 0, first: None, ping_at: now });
    }

    /// Adds credit for `bytes` IP bytes that arrived from the unproven address.
    ///
    /// The credit is the number of bytes that may still be sent to it.
    pub fn on_received(&mut self, bytes: u64) {
        if let Some(doubt) = &mut self.doubt {
            doubt.credit += AMPLIFICATION * bytes;
        }
    }

    /// Subtracts the IP bytes of a datagram sent to the unproven address from the credit.
    pub fn on_sent(&mut self, number: u64, bytes: u64) {
        if let Some(doubt) = &mut self.doubt {
            if !planted::is(Fault::CreditNotTaken) {
                doubt.credit = doubt.credit.saturating_sub(bytes);
            }
            doubt.first.get_or_insert(number);
        }
    }

    /// Subtracts the IP bytes of a datagram without a packet number, such as an initiation, from the credit.
    ///
    /// Returns false, and subtracts nothing, if the credit is too small: the datagram must not leave.
    pub fn charge(&mut self, bytes: u64) -> bool {
        let Some(doubt) = self.doubt.as_mut().filter(|_| !planted::is(Fault::ProofNotAsked)) else { return true };
        let left = doubt.credit.checked_sub(bytes);
        doubt.credit = left.filter(|_| !planted::is(Fault::CreditNotTaken)).unwrap_or(doubt.credit);
        left.is_some()
    }

    /// Returns the last proven address, while the present address is unproven.
    pub fn last_proven(&self) -> Option<SocketAddr> {
        self.doubt.and(self.proven)
    }

    /// Marks the address as proven if the acknowledged packets include one that was sent to it.
    ///
    /// `largest` is the largest acknowledged packet number.
    pub fn on_acknowledged(&mut self, largest: u64) {
        if self.doubt.is_some_and(|doubt| {
            doubt.first.is_some_and(|first| largest >= first || planted::is(Fault::ProofByAnyAnswer))
        }) {
            (self.doubt, self.proven) = (None, None);
        }
    }

    /// True if the address is proven.
    pub fn is_proven(&self) -> bool {
        self.doubt.is_none()
    }

    /// Returns the number of payload bytes that may be sent to the address now, at most `room`.
    ///
    /// Returns `None` while the credit is too small for one datagram of `longest` bytes. Two thirds of the credit are
    /// reserved for IP and UDP headers: the shortest datagram has 26 bytes, and its headers have up to 48 bytes.
    pub fn room(&self, room: usize, longest: usize) -> Option<usize> {
        let doubt = self.doubt.filter(|_| !planted::is(Fault::ProofNotAsked));
        let Some(doubt) = doubt else { return Some(room) };
        let third = usize::try_from(doubt.credit / 3).unwrap_or(usize::MAX);
        (third >= longest).then_some(third.min(room))
    }

    /// Returns the time at which to ping the address, to prove it.
    ///
    /// Returns `None` if the address is proven or the credit is too small for a ping.
    pub fn ping_at(&self) -> Option<Instant> {
        self.doubt.filter(|doubt| doubt.credit >= PING_BYTES).map(|doubt| doubt.ping_at)
    }

    /// Records that a ping is sent to the address.
    pub fn on_ping(&mut self, now: Instant) {
        if let Some(doubt) = &mut self.doubt {
            doubt.ping_at = now + PING_INTERVAL;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], 51_900))
    }

    #[test]
    fn an_address_gets_three_times_what_came_until_it_answers() {
        let now = Instant::from_millis(5);
        let mut proof = Proof::default();
        assert_eq!(proof.room(9_000, 1_472), Some(9_000));
        proof.on_moved(now, address(1), address(2));
        assert!(!proof.is_proven() && proof.room(9_000, 1_472).is_none() && proof.ping_at().is_none());
        proof.on_received(100);
        assert_eq!((proof.room(9_000, 1_472), proof.ping_at()), (None, Some(now)));
        proof.on_received(1_400);
        assert_eq!(proof.room(9_000, 1_472), Some(1_500));
        proof.on_sent(70, 1_500);
        proof.on_acknowledged(69);
        assert!(!proof.is_proven(), "that went elsewhere");
        proof.on_acknowledged(70);
        assert!(proof.is_proven());
    }

    #[test]
    fn datagrams_without_a_number_are_charged_too() {
        let now = Instant::ZERO;
        let mut proof = Proof::default();
        assert!(proof.charge(1_000) && proof.last_proven().is_none(), "a proven address costs nothing");
        proof.on_moved(now, address(1), address(2));
        assert!(!proof.charge(1) && proof.last_proven() == Some(address(1)));
        proof.on_received(100);
        assert!(proof.charge(200) && !proof.charge(101) && proof.charge(100) && !proof.charge(1));
    }

    #[test]
    fn the_way_back_needs_no_proof_and_a_third_address_does() {
        let now = Instant::ZERO;
        let mut proof = Proof::default();
        proof.on_moved(now, address(1), address(2));
        proof.on_moved(now, address(2), address(1));
        assert!(proof.is_proven());
        proof.on_moved(now, address(1), address(2));
        proof.on_moved(now, address(2), address(3));
        assert!(!proof.is_proven());
        proof.on_moved(now, address(3), address(2));
        assert!(!proof.is_proven(), "it was never proved");
    }
}
