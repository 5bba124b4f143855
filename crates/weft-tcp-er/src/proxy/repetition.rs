//! Recognises SYNs that repeat the SYN of a connection that was reset.
//!
//! A SYN between proxies carries data without a cookie, and the kernel opens a connection for each of them. A sender
//! repeats its SYN until it is answered. If the first connection was reset before the repetition arrives, the
//! repetition would open another one, and the server would get the same bytes twice (RFC 7413 §6.1).

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time after the reset of a connection in which a repetition of its SYN can arrive.
///
/// *Derived*: with the kernel's default of six repetitions the last one is sent 63 s after the first SYN. A packet
/// lives for at most 60 s more in the network (Linux's `TCP_TIMEWAIT_LEN`).
const REPEATED_FOR: Duration = Duration::from_secs(123);
/// Maximum number of SYNs of reset connections that are kept. The oldest is forgotten first.
///
/// *Derived*: a SYN takes 100 bytes here, so that all of them take 1.6 MB at most.
const KEPT: usize = 16_384;

/// Fields that a SYN and its repetitions share: client, server and initial sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SynIdentity {
    /// Address of the client.
    pub from: SocketAddr,
    /// Address of the server.
    pub to: SocketAddr,
    /// Initial sequence number.
    pub sequence: u32,
}

/// The SYNs of connections that were reset, the oldest first.
#[derive(Debug, Default)]
pub struct ResetConnections {
    ends: HashMap<SynIdentity, Instant>,
    order: VecDeque<(Instant, SynIdentity)>,
}

impl ResetConnections {
    /// Records that the connection of this SYN was reset.
    pub fn insert(&mut self, now: Instant, syn: SynIdentity) {
        self.forget_old(now);
        if self.order.len() == KEPT {
            self.forget_oldest();
        }
        self.order.push_back((now, syn));
        self.ends.insert(syn, now);
    }

    /// Returns true if `syn` repeats the SYN of a connection that was reset.
    ///
    /// It forgets SYNs after `REPEATED_FOR`.
    pub fn contains(&mut self, now: Instant, syn: &SynIdentity) -> bool {
        self.forget_old(now);
        self.ends.contains_key(syn)
    }

    fn forget_old(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > REPEATED_FOR) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        // A SYN that was inserted twice has two entries, and is forgotten with the later one.
        if let Some((at, syn)) = self.order.pop_front()
            && self.ends.get(&syn) == Some(&at)
        {
            self.ends.remove(&syn);
        }
    }
}

/// Returns the initial sequence number in a SYN, or `None` if `packet` has no TCP header in the expected place.
///
/// `packet` begins with the IP header. Extension headers of IPv6 are not passed over: Linux sends a SYN without them.
pub fn sequence_of(packet: &[u8]) -> Option<u32> {
    const SEQUENCE: usize = 4;
    let header = match packet.first()? >> 4 {
        4 => usize::from(packet.first()? & 0x0f) * 4,
        6 if packet.get(6) == Some(&(libc::IPPROTO_TCP as u8)) => 40,
        _ => return None,
    };
    packet.get(header + SEQUENCE..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    fn syn(number: u64) -> SynIdentity {
        let from = SocketAddr::from(([10, 0, 0, 1], number as u16));
        SynIdentity { from, to: SocketAddr::from(([10, 0, 0, 2], 80)), sequence: (number >> 16) as u32 }
    }

    /// Compares the answers of [`ResetConnections::contains`] with a search in a list of all inserted SYNs.
    #[test]
    fn a_syn_is_known_for_its_time_and_while_it_is_among_the_last() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (begin, mut now) = (Instant::now(), Duration::ZERO);
            let (mut known, mut all) = (ResetConnections::default(), Vec::new());
            let kinds = [20, 5_000, 1 << 30][rng.below(3) as usize];
            for _ in 0..40_000 {
                now += Duration::from_micros(rng.below(8_000));
                let this = syn(rng.below(kinds));
                if rng.chance(0.9) {
                    known.insert(begin + now, this);
                    all.push((now, this));
                } else if kinds < 1 << 30 || rng.chance(0.02) {
                    let recent = all.iter().rev().take(KEPT).take_while(|(at, _)| now - *at <= REPEATED_FOR);
                    let expected = recent.into_iter().any(|(_, other)| *other == this);
                    assert_eq!(known.contains(begin + now, &this), expected, "seed {seed}");
                }
            }
            assert!(known.order.len() <= KEPT && known.ends.len() <= KEPT);
        }
    }

    #[test]
    fn no_packet_is_read_past_its_end() {
        let mut rng = Rng::new(1);
        for _ in 0..100_000 {
            let packet: Vec<u8> = (0..rng.below(90)).map(|_| rng.next_u64() as u8).collect();
            let _ = sequence_of(&packet);
        }
        let mut v4 = [0; 40];
        (v4[0], v4[27]) = (0x45, 7);
        assert_eq!(sequence_of(&v4), Some(7));
        let mut v6 = [0; 60];
        (v6[0], v6[6], v6[47]) = (0x60, 6, 9);
        assert_eq!(sequence_of(&v6), Some(9));
    }
}
