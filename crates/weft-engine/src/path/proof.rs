//! Whether the peer is where its path leads (RFC 9000 §8 and §9.3).

use core::net::SocketAddr;
use weft_units::{Duration, Instant};

/// Bytes that may go to an address before it is proved, for each byte that came from there (RFC 9000 §8).
const AMPLIFICATION: u64 = 3;
/// Time between two questions to an address that is not proved: the least wait of RFC 9000 §8.2.1 for paths of ordinary round trips.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// IP bytes of a question, IPv6 and a relay's header included.
const QUESTION_BYTES: u64 = 200;

/// What is known of the address that a path leads to.
///
/// Who sees a datagram can send a copy of it from anywhere, and an authentic datagram moves its path. So an address that a path moved to
/// gets at most three times what came from it, until the peer acknowledges something that was sent there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Proof {
    /// The address that was proved last; none was asked for one yet.
    proven: Option<SocketAddr>,
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// IP bytes that may still be sent.
    credit: u64,
    /// The first packet number sent there.
    first: Option<u64>,
    ask_at: Instant,
}

impl Proof {
    /// The path moves from `from` to `to`, which is to be proved unless it was.
    pub(crate) fn on_moved(&mut self, now: Instant, from: SocketAddr, to: SocketAddr) {
        if self.doubt.is_none() {
            self.proven = Some(from);
        }
        let is_proven = self.proven == Some(to);
        self.doubt = (!is_proven).then_some(Doubt { credit: 0, first: None, ask_at: now });
    }

    /// IP bytes came from the address.
    pub(crate) fn on_received(&mut self, bytes: u64) {
        if let Some(doubt) = &mut self.doubt {
            doubt.credit += AMPLIFICATION * bytes;
        }
    }

    /// A datagram of so many IP bytes goes there.
    pub(crate) fn on_sent(&mut self, number: u64, bytes: u64) {
        if let Some(doubt) = &mut self.doubt {
            doubt.credit = doubt.credit.saturating_sub(bytes);
            doubt.first.get_or_insert(number);
        }
    }

    /// The peer has received the packet with this number, or later ones.
    pub(crate) fn on_acknowledged(&mut self, largest: u64) {
        if self.doubt.is_some_and(|doubt| doubt.first.is_some_and(|first| largest >= first)) {
            (self.doubt, self.proven) = (None, None);
        }
    }

    /// Whether the peer is known to be there.
    pub(crate) fn is_proven(&self) -> bool {
        self.doubt.is_none()
    }

    /// How much of `room` bytes datagrams may fill now. Headers take at most as much again. `None` while a datagram of `longest` bytes
    /// does not fit.
    pub(crate) fn room(&self, room: usize, longest: usize) -> Option<usize> {
        let Some(doubt) = self.doubt else { return Some(room) };
        let half = usize::try_from(doubt.credit / 2).unwrap_or(usize::MAX);
        (half >= longest).then_some(half.min(room))
    }

    /// When to ask the address for an answer, if there is room for a question.
    pub(crate) fn ask_at(&self) -> Option<Instant> {
        self.doubt.filter(|doubt| doubt.credit >= QUESTION_BYTES).map(|doubt| doubt.ask_at)
    }

    /// A question goes there.
    pub(crate) fn on_asked(&mut self, now: Instant) {
        if let Some(doubt) = &mut self.doubt {
            doubt.ask_at = now + ASK_EVERY;
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
        assert!(!proof.is_proven() && proof.room(9_000, 1_472).is_none() && proof.ask_at().is_none());
        proof.on_received(100);
        assert_eq!((proof.room(9_000, 1_472), proof.ask_at()), (None, Some(now)));
        proof.on_received(1_400);
        assert_eq!(proof.room(9_000, 1_472), Some(2_250));
        proof.on_sent(70, 1_500);
        proof.on_acknowledged(69);
        assert!(!proof.is_proven(), "that went elsewhere");
        proof.on_acknowledged(70);
        assert!(proof.is_proven());
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
