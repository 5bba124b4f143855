//! Queue of relayed datagrams for one link, served by deficit round robin in two levels.
//!
//! The algorithm is that of Shreedhar and Varghese (1996). The first level is the peer from which datagrams arrive,
//! the second is the peer to which they go. A peer that floods thus takes only its own share, however many
//! destinations it uses. One pair of peers cannot reduce the shares of other pairs. Empty queues are reused, so that
//! nothing is allocated in steady state.

use crate::api::Forward;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use weft_units::{Instant, PeerId};
use weft_wire::relay::Way;

/// IP bytes that a sender, or a pair of sender and receiver, may send in a round. Standard: RFC 8290 §5.2.4.
const QUANTUM: i64 = 1_514;

/// A batch of relayed datagrams that waits to be sent.
#[derive(Debug)]
pub struct WaitingBatch {
    pub forward: Forward,
    /// The next node of the route.
    pub to: PeerId,
    /// The nodes of the route after the next one.
    pub way: Way,
    /// IP bytes of the datagrams, with IP and UDP headers.
    pub ip_bytes: u64,
    pub since: Instant,
}

/// Queue of the batches from one peer to another.
#[derive(Debug)]
struct ForwardingPair {
    to: PeerId,
    deficit: i64,
    ip_bytes: u64,
    waiting: VecDeque<WaitingBatch>,
}

/// Queues of the batches that arrived from one peer.
#[derive(Debug, Default)]
struct Sender {
    deficit: i64,
    ip_bytes: u64,
    /// Pairs with waiting batches. The first one's turn is next.
    pairs: VecDeque<ForwardingPair>,
}

impl Sender {
    /// Moves the pair whose turn it is to the front, and returns it.
    fn next_pair(&mut self) -> Option<&mut ForwardingPair> {
        while self.pairs.len() > 1
            && let Some(pair) = self.pairs.front_mut().filter(|pair| pair.deficit <= 0)
        {
            pair.deficit += QUANTUM;
            self.pairs.rotate_left(1);
        }
        let pair = self.pairs.front_mut()?;
        // While only one pair of this sender waits, there is no other pair to be fair to, so its debt is cancelled.
        pair.deficit = pair.deficit.max(0);
        Some(pair)
    }
}

/// Queue of the relayed batches for one link.
#[derive(Debug, Default)]
pub struct Turns {
    /// Queues of the senders. The index is the peer's number.
    senders: Vec<Sender>,
    /// Senders with waiting batches. The first one's turn is next.
    round: VecDeque<PeerId>,
    spare: Vec<VecDeque<WaitingBatch>>,
    ip_bytes: u64,
    batches: usize,
}

impl Turns {
    pub fn is_empty(&self) -> bool {
        self.batches == 0
    }

    pub fn batches(&self) -> usize {
        self.batches
    }

    pub fn ip_bytes(&self) -> u64 {
        self.ip_bytes
    }

    /// Queues a datagram. Returns true if it joined the previous batch, which then has at most `most` bytes.
    pub fn push(&mut self, from: PeerId, waiting: WaitingBatch, most: usize) -> bool {
        let to = waiting.to;
        let index = usize::from(from.0);
        if index >= self.senders.len() {
            self.senders.resize_with(index + 1, Sender::default);
        }
        let Some(sender) = self.senders.get_mut(index) else { return false };
        if sender.pairs.is_empty() {
            sender.deficit = 0;
            self.round.push_back(from);
        }
        self.ip_bytes += waiting.ip_bytes;
        sender.ip_bytes += waiting.ip_bytes;
        let pair = match sender.pairs.iter_mut().position(|pair| pair.to == to) {
            Some(at) => sender.pairs.get_mut(at),
            None => {
                let queue = self.spare.pop().unwrap_or_default();
                sender.pairs.push_back(ForwardingPair { to, deficit: 0, ip_bytes: 0, waiting: queue });
                sender.pairs.back_mut()
            }
        };
        let Some(pair) = pair else { return false };
        pair.ip_bytes += waiting.ip_bytes;
        if let Some(last) = pair.waiting.back_mut()
            && last.way == waiting.way
            && last.forward.takes(&waiting.forward, most)
        {
            last.ip_bytes += waiting.ip_bytes;
            return true;
        }
        pair.waiting.push_back(waiting);
        self.batches += 1;
        false
    }

    /// Removes and returns the batch whose turn it is, or `None` if no batch waits.
    pub fn pop(&mut self) -> Option<WaitingBatch> {
        let from = self.next_sender()?;
        let sender = self.senders.get_mut(usize::from(from.0))?;
        let pair = sender.next_pair()?;
        let ip_bytes = pair.waiting.front()?.ip_bytes as i64;
        pair.deficit -= ip_bytes;
        sender.deficit -= ip_bytes;
        self.take(from, 0)
    }

    fn next_sender(&mut self) -> Option<PeerId> {
        loop {
            let from = *self.round.front()?;
            let sender = self.senders.get_mut(usize::from(from.0))?;
            if self.round.len() == 1 {
                // While only one sender waits, there is no other sender to be fair to, so its debt is cancelled.
                sender.deficit = sender.deficit.max(0);
                return Some(from);
            }
            if sender.deficit > 0 {
                return Some(from);
            }
            sender.deficit += QUANTUM;
            self.round.rotate_left(1);
        }
    }

    /// Removes and returns the oldest batch of the pair with the most bytes, of the sender with the most bytes.
    pub fn pop_fattest(&mut self) -> Option<WaitingBatch> {
        let ip_bytes = |from: &PeerId| self.senders.get(usize::from(from.0)).map_or(0, |sender| sender.ip_bytes);
        let from = self.round.iter().copied().max_by_key(ip_bytes)?;
        let pairs = self.senders.get(usize::from(from.0))?.pairs.iter().enumerate();
        let (at, _) = pairs.max_by_key(|(_, pair)| pair.ip_bytes)?;
        self.take(from, at)
    }

    /// Removes the oldest batch of the pair with the index `at` among the pairs of the sender `from`.
    ///
    /// A pair or sender without batches leaves the round.
    fn take(&mut self, from: PeerId, at: usize) -> Option<WaitingBatch> {
        let sender = self.senders.get_mut(usize::from(from.0))?;
        let pair = sender.pairs.get_mut(at)?;
        let waiting = pair.waiting.pop_front()?;
        pair.ip_bytes -= waiting.ip_bytes;
        if pair.waiting.is_empty()
            && let Some(pair) = sender.pairs.remove(at)
        {
            self.spare.push(pair.waiting);
        }
        sender.ip_bytes -= waiting.ip_bytes;
        self.ip_bytes -= waiting.ip_bytes;
        self.batches -= 1;
        if sender.pairs.is_empty()
            && let Some(place) = self.round.iter().position(|other| *other == from)
        {
            self.round.remove(place);
        }
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Transmit;
    use alloc::collections::BTreeMap;
    use weft_core::pool::{Limits, Pool};
    use weft_units::{LinkId, Rng};
    use weft_wire::relay::Label;

    const PAIR: u32 = 1_000;

    /// Returns a datagram between two peers. Its link id encodes the pair.
    fn waiting(pool: &mut Pool, rng: &mut Rng, (from, to): (u16, u16)) -> WaitingBatch {
        let buf = pool.alloc_small().unwrap_or_else(|| panic!("a buffer"));
        let destination = "192.0.2.1:1".parse().unwrap_or_else(|why| panic!("{why}"));
        let (link, len) = (LinkId(u32::from(from) * PAIR + u32::from(to)), 60 + rng.below(1_440) as usize);
        let transmit = Transmit { link, destination, source: None, tos: 0, len, segment_size: None };
        let way = Way::new(&[Label(1)]).unwrap_or_else(|why| panic!("{why:?}"));
        let forward = Forward { buf, start: 0, transmit };
        WaitingBatch { forward, to: PeerId(to), way, ip_bytes: len as u64, since: Instant::ZERO }
    }

    fn pair_of(waiting: &WaitingBatch) -> (u16, u16) {
        let LinkId(pair) = waiting.forward.transmit.link;
        ((pair / PAIR) as u16, (pair % PAIR) as u16)
    }

    fn push(turns: &mut Turns, pool: &mut Pool, rng: &mut Rng, pair: (u16, u16)) -> u64 {
        let waiting = waiting(pool, rng, pair);
        let bytes = waiting.ip_bytes;
        turns.push(PeerId(pair.0), waiting, 0);
        bytes
    }

    /// Returns the bytes that left for each pair while all pairs had datagrams waiting.
    fn shares(pairs: &[(u16, u16)], rng: &mut Rng) -> BTreeMap<(u16, u16), u64> {
        let (mut pool, mut turns) = (Pool::new(Limits { small: 65_536, large: 0 }), Turns::default());
        for pair in pairs {
            let mut bytes = 0;
            while bytes < 600_000 {
                bytes += push(&mut turns, &mut pool, rng, *pair);
            }
        }
        let mut left: BTreeMap<(u16, u16), u64> = BTreeMap::new();
        while left.values().all(|bytes| *bytes < 300_000) {
            let waiting = turns.pop().unwrap_or_else(|| panic!("all have something"));
            *left.entry(pair_of(&waiting)).or_insert(0) += waiting.ip_bytes;
        }
        left
    }

    fn spread(bytes: &[u64]) -> u64 {
        bytes.iter().max().zip(bytes.iter().min()).map_or(0, |(most, least)| most - least)
    }

    #[test]
    fn peers_have_equal_shares_and_so_have_the_pairs_of_each() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let senders = 2 + rng.below(6) as u16;
            let mut pairs = Vec::new();
            for from in 0..senders {
                pairs.extend((0..=rng.below(5) as u16).map(|to| (from, 100 + to)));
            }
            let left = shares(&pairs, &mut rng);
            let of = |from: u16| -> Vec<u64> {
                left.iter().filter(|(pair, _)| pair.0 == from).map(|(_, bytes)| *bytes).collect()
            };
            let all: Vec<u64> = (0..senders).map(|from| of(from).iter().sum()).collect();
            assert!(spread(&all) < 6_000, "seed {seed}: {all:?}");
            assert!((0..senders).all(|from| spread(&of(from)) < 6_000), "seed {seed}: {left:?}");
        }
    }

    #[test]
    fn the_peer_with_most_waiting_loses_batches_and_counts_stay_right() {
        let mut rng = Rng::new(3);
        let (mut pool, mut turns) = (Pool::new(Limits { small: 65_536, large: 0 }), Turns::default());
        let mut kept: BTreeMap<(u16, u16), u64> = BTreeMap::new();
        for _ in 0..20_000 {
            let from = |kept: &BTreeMap<(u16, u16), u64>, from: u16| -> u64 {
                kept.iter().filter(|(pair, _)| pair.0 == from).map(|(_, bytes)| *bytes).sum()
            };
            let taken = match rng.below(5) {
                0 => turns.pop(),
                1 => {
                    let taken = turns.pop_fattest();
                    let most = (0..6).map(|sender| from(&kept, sender)).max();
                    assert!(taken.as_ref().is_none_or(|taken| Some(from(&kept, pair_of(taken).0)) == most));
                    taken
                }
                _ => {
                    let pair = (rng.below(6) as u16, rng.below(6) as u16);
                    *kept.entry(pair).or_insert(0) += push(&mut turns, &mut pool, &mut rng, pair);
                    None
                }
            };
            if let Some(taken) = taken {
                *kept.entry(pair_of(&taken)).or_insert(0) -= taken.ip_bytes;
                pool.release(taken.forward.buf);
            }
            assert_eq!(turns.ip_bytes(), kept.values().sum::<u64>());
            assert_eq!(turns.batches(), pool.small_usage().in_use as usize);
        }
        while let Some(taken) = turns.pop() {
            pool.release(taken.forward.buf);
        }
        assert!(turns.is_empty() && turns.ip_bytes() == 0 && pool.small_usage().in_use == 0);
    }
}
