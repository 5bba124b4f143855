//! What an observer on the wire may see: no packet number twice under a key, no key in use past its time, answers only to those
//! who are entitled to them.

use super::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use weft_units::{Duration, Instant, Rng};
use weft_wire::handshake::{COOKIE_REPLY_LEN, INITIATION_LEN, RESPONSE_LEN};
use weft_wire::relay::{MAX_RELAYS, overhead};

/// A key is used no longer than this (WireGuard paper §6.1, and SPECS).
const KEY_LIFETIME: Duration = Duration::from_secs(180);
/// For so long the copy of an initiation is answered again.
const REPEAT_FOR: Duration = Duration::from_secs(6);
const SEALED: [u8; 5] = [4, 5, RELAYED, 7, 8];
/// Its second byte is no path: all of these between two nodes share their numbers.
const RELAYED: u8 = 6;
/// What carries units; markers of loops may leave alone.
const DATA: [u8; 2] = [4, 8];
const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
/// IPv4 and UDP headers.
const HEADERS: usize = 28;
/// An unproved address gets so many times what came from it (RFC 9000 §8).
const AMPLIFICATION: usize = 3;
/// Datagrams kept for each node, to be replayed.
const KEPT: usize = 48;

/// A datagram's type, by its first byte.
pub(super) fn type_of(datagram: &[u8]) -> u8 {
    datagram.first().map_or(0, |first| first & 15)
}

/// Whether it is encrypted under a session's key.
pub(super) fn is_sealed(datagram: &[u8]) -> bool {
    datagram.len() >= 10 && SEALED.contains(&type_of(datagram))
}

/// The path a sealed datagram is numbered on.
fn path_of(datagram: &[u8]) -> u8 {
    if type_of(datagram) == RELAYED { u8::MAX } else { datagram[1] }
}

/// Whether it carries packets.
pub(super) fn is_data(datagram: &[u8]) -> bool {
    DATA.contains(&type_of(datagram))
}

/// Whether it is for a relay, or from one.
pub(super) fn is_relayed(datagram: &[u8]) -> bool {
    type_of(datagram) == RELAYED
}

/// Whether it may be a part of a handshake on its way over relays, which shows by its length only.
pub(super) fn may_be_handshake_within(datagram: &[u8]) -> bool {
    let lengths = [INITIATION_LEN, RESPONSE_LEN, COOKIE_REPLY_LEN];
    is_relayed(datagram) && (1..=MAX_RELAYS).any(|n| lengths.iter().any(|len| len + overhead(n) == datagram.len()))
}

fn u32_at(datagram: &[u8], at: usize) -> u32 {
    datagram.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// A datagram that a node took in.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) at: Instant,
    pub(super) bytes: Vec<u8>,
}

/// The observer.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Last number per sender, receiver's index and path.
    numbers: BTreeMap<(usize, u32, u8), u32>,
    /// When a key was first used by a sender, on that sender's clock.
    keys: BTreeMap<(usize, u32), Instant>,
    /// Sealed datagrams taken in by each node, and initiations it answered.
    taken: BTreeMap<usize, Vec<Taken>>,
    initiations: BTreeMap<usize, Vec<Taken>>,
    unanswered: BTreeMap<usize, Vec<Taken>>,
    /// Where the newest datagram of a path came from: receiver, sender, path.
    sources: BTreeMap<(usize, usize, u8), (u32, SocketAddr)>,
    /// Keys of nodes from before they slept.
    retired: BTreeSet<(usize, u32)>,
    /// IP bytes that came to a node from the hijacker, and that it sent there.
    hijacked: BTreeMap<usize, (usize, usize)>,
}

impl Watch {
    /// A node sends; `local` is the time on its clock.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        local: Instant,
        from: usize,
        datagram: &[u8],
    ) -> Result<(), Violation> {
        if type_of(datagram) == RESPONSE {
            self.on_answered(from, u32_at(datagram, 8));
        }
        if !is_sealed(datagram) {
            return Ok(());
        }
        let (path, receiver, number) = (path_of(datagram), u32_at(datagram, 2), u32_at(datagram, 6));
        if self.numbers.insert((from, receiver, path), number).is_some_and(|last| number <= last) {
            let what = format!("node {from}, key {receiver:08x}, path {path}: {number} again or out of order");
            return Err(Violation::new("packet number", now, what));
        }
        if self.retired.contains(&(from, receiver)) {
            let what = format!("node {from} seals with key {receiver:08x} from before it slept");
            return Err(Violation::new("old key", now, what));
        }
        let since = *self.keys.entry((from, receiver)).or_insert(local);
        if local - since > KEY_LIFETIME {
            let what = format!("node {from} seals with key {receiver:08x} after {} s", (local - since).as_secs());
            return Err(Violation::new("old key", now, what));
        }
        Ok(())
    }

    /// A node took a datagram in as it was sent.
    pub(super) fn on_taken(&mut self, rng: &mut Rng, node: usize, taken: &Taken) {
        let kind = type_of(&taken.bytes);
        if kind == INITIATION {
            let list = self.unanswered.entry(node).or_default();
            if list.len() < KEPT {
                list.push(taken.clone());
            }
        } else if is_sealed(&taken.bytes) {
            let list = self.taken.entry(node).or_default();
            if list.len() < KEPT {
                list.push(taken.clone());
            } else if rng.chance(0.1) {
                list[rng.below(KEPT as u64) as usize] = taken.clone();
            }
        }
    }

    /// A node wakes up: whoever copied it while it slept has its keys and its packet numbers.
    pub(super) fn on_wake_up(&mut self, node: usize) {
        self.retired.extend(self.keys.keys().filter(|(of, _)| *of == node));
    }

    /// IP bytes of a datagram came from the hijacker.
    pub(super) fn on_hijacked(&mut self, node: usize, len: usize) {
        self.hijacked.entry(node).or_default().0 += len + HEADERS;
    }

    /// A node sends to the hijacker, who answers nothing.
    pub(super) fn on_sent_to_hijacker(&mut self, now: Instant, node: usize, len: usize) -> Result<(), Violation> {
        let (came, sent) = self.hijacked.entry(node).or_default();
        *sent += len + HEADERS;
        if *sent > AMPLIFICATION * *came {
            let what = format!("node {node} has sent {sent} bytes to an address from which {came} came");
            return Err(Violation::new("amplification", now, what));
        }
        Ok(())
    }

    /// A node's process starts anew: what its last one answered is not to be answered again at all, unless its state is lost or older.
    pub(super) fn on_restart(&mut self, node: usize, has_old_state: bool) {
        self.unanswered.remove(&node);
        if has_old_state {
            self.initiations.remove(&node);
        }
        self.initiations.entry(node).or_default().iter_mut().for_each(|t| t.at = Instant::ZERO);
    }

    fn on_answered(&mut self, node: usize, sender: u32) {
        let waiting = self.unanswered.entry(node).or_default();
        if let Some(at) = waiting.iter().position(|t| u32_at(&t.bytes, 4) == sender) {
            let answered = waiting.swap_remove(at);
            self.initiations.entry(node).or_default().push(answered);
        }
    }

    /// Something sealed that `node` took in before.
    pub(super) fn old_datagram(&self, rng: &mut Rng, node: usize) -> Option<&Taken> {
        let list = self.taken.get(&node)?;
        // The newest more often than others: it is at the edge of what a node remembers.
        let newest = list.iter().max_by_key(|t| t.at);
        if rng.chance(0.3) { newest } else { list.get(rng.below(list.len() as u64) as usize) }
    }

    /// An initiation that `node` answered so long ago that it must not answer it again.
    pub(super) fn old_initiation(&self, rng: &mut Rng, now: Instant, node: usize) -> Option<&Taken> {
        let old: Vec<_> = self.initiations.get(&node)?.iter().filter(|t| now - t.at > REPEAT_FOR).collect();
        old.get(rng.below(old.len() as u64) as usize).copied()
    }

    /// `node` has accepted a datagram from `sender`: the path follows its newest.
    pub(super) fn on_accepted(&mut self, node: usize, sender: usize, source: SocketAddr, datagram: &[u8]) {
        let (path, number) = (datagram[1], u32_at(datagram, 6));
        let newest = self.sources.entry((node, sender, path)).or_insert((number, source));
        if number >= newest.0 {
            *newest = (number, source);
        }
    }

    /// `node` and `peer` start anew.
    pub(super) fn forget_paths(&mut self, node: usize, peer: usize) {
        self.sources.retain(|key, _| (key.0, key.1) != (node, peer));
    }

    /// Where `node` must send what goes to `peer` by a path that the peer opened.
    pub(super) fn place_of(&self, node: usize, peer: usize, datagram: &[u8]) -> Option<SocketAddr> {
        self.sources.get(&(node, peer, datagram[1])).map(|(_, source)| *source)
    }
}
