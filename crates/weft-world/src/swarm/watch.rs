//! Checks the datagrams on the links.
//!
//! The observer gets every datagram that nodes send and accept. No packet number may occur twice under a key, and no
//! key may be used past its lifetime. A node may send only to addresses that have a right to an answer.

use super::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use weft_units::{Duration, Instant, Rng};
use weft_wire::handshake::{COOKIE_REPLY_LEN, INITIATION_LEN, RESPONSE_LEN};
use weft_wire::relay::{MAX_RELAYS, overhead};

/// Maximum time for which a key is used (WireGuard paper §6.1).
const KEY_LIFETIME: Duration = Duration::from_secs(180);
/// Time after a node's answer to a handshake initiation for which the node may answer a copy of the initiation.
const REPEAT_FOR: Duration = Duration::from_secs(6);
/// Datagram types that are encrypted under a session key.
const SEALED: [u8; 5] = [4, 5, RELAYED, 7, 8];
/// Datagram type that relays forward.
///
/// Its second byte is not a path id. All such datagrams between two nodes have one sequence of packet numbers.
const RELAYED: u8 = 6;
/// Datagram types that carry units.
const DATA: [u8; 2] = [4, 8];
const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
/// Length of IPv4 and UDP headers, in bytes.
const HEADERS: usize = 28;
/// Maximum ratio of bytes sent to bytes received for an unproved address (RFC 9000 §8).
const AMPLIFICATION: usize = 3;
/// Number of datagrams that are stored for each node, for replay.
const KEPT: usize = 48;

/// Returns a datagram's type, from its first byte.
pub(super) fn type_of(datagram: &[u8]) -> u8 {
    datagram.first().map_or(0, |first| first & 15)
}

/// True if the datagram is encrypted under a session key.
pub(super) fn is_sealed(datagram: &[u8]) -> bool {
    datagram.len() >= 10 && SEALED.contains(&type_of(datagram))
}

/// Returns the path whose sequence of packet numbers a sealed datagram uses.
fn path_of(datagram: &[u8]) -> u8 {
    if type_of(datagram) == RELAYED { u8::MAX } else { datagram[1] }
}

/// True if the datagram carries packets.
pub(super) fn is_data(datagram: &[u8]) -> bool {
    DATA.contains(&type_of(datagram))
}

/// True if the datagram is for a relay to forward, or was forwarded by a relay.
pub(super) fn is_relayed(datagram: &[u8]) -> bool {
    type_of(datagram) == RELAYED
}

/// True if the datagram may carry a handshake over relays, judged by its length.
pub(super) fn may_be_handshake_within(datagram: &[u8]) -> bool {
    let lengths = [INITIATION_LEN, RESPONSE_LEN, COOKIE_REPLY_LEN];
    is_relayed(datagram) && (1..=MAX_RELAYS).any(|n| lengths.iter().any(|len| len + overhead(n) == datagram.len()))
}

fn u32_at(datagram: &[u8], at: usize) -> u32 {
    datagram.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// A datagram that a node accepted.
#[derive(Clone, Debug)]
pub(super) struct AcceptedDatagram {
    pub(super) at: Instant,
    pub(super) bytes: Vec<u8>,
}

/// The observer, with its records of keys, packet numbers, paths and handshakes.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// Last packet number of each sequence, by sending node, receiver index in the datagram's header, and path.
    numbers: BTreeMap<(usize, u32, u8), u32>,
    /// Time at which a node first used a key, on that node's clock, by node and receiver index.
    keys: BTreeMap<(usize, u32), Instant>,
    /// Sealed datagrams that each node accepted.
    taken: BTreeMap<usize, Vec<AcceptedDatagram>>,
    /// Handshake initiations that each node answered.
    initiations: BTreeMap<usize, Vec<AcceptedDatagram>>,
    /// Handshake initiations that each node received and has not answered.
    unanswered: BTreeMap<usize, Vec<AcceptedDatagram>>,
    /// Packet number and source address of the newest datagram of each path, by receiver, sender and path.
    sources: BTreeMap<(usize, usize, u8), (u32, SocketAddr)>,
    /// Keys that a node had before its machine slept, and must no longer use, by node and receiver index.
    retired: BTreeSet<(usize, u32)>,
    /// Number of IP bytes that each node received from the hijacker, and the number that it sent to the hijacker.
    hijacked: BTreeMap<usize, (usize, usize)>,
}

impl Observer {
    /// Checks the packet number of a datagram that node `from` sends, and the age of its key.
    ///
    /// `local` is the time on the node's clock.
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

    /// Records an unchanged datagram that a node accepted.
    pub(super) fn on_taken(&mut self, rng: &mut Rng, node: usize, taken: &AcceptedDatagram) {
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

    /// Marks a node's keys as retired when the node's machine wakes up, so that it must use new ones.
    ///
    /// A copy of the machine that was made while it slept has the same keys and packet numbers.
    pub(super) fn on_wake_up(&mut self, node: usize) {
        self.retired.extend(self.keys.keys().filter(|(of, _)| *of == node));
    }

    /// Adds the IP bytes of a datagram from the hijacker to the number received.
    pub(super) fn on_hijacked(&mut self, node: usize, len: usize) {
        self.hijacked.entry(node).or_default().0 += len + HEADERS;
    }

    /// Checks that a node sends the hijacker at most three times the bytes that arrived from it.
    ///
    /// The hijacker never answers, so it never proves its address.
    pub(super) fn on_sent_to_hijacker(&mut self, now: Instant, node: usize, len: usize) -> Result<(), Violation> {
        let (came, sent) = self.hijacked.entry(node).or_default();
        *sent += len + HEADERS;
        if *sent > AMPLIFICATION * *came {
            let what = format!("node {node} has sent {sent} bytes to an address from which {came} came");
            return Err(Violation::new("amplification", now, what));
        }
        Ok(())
    }

    /// Prepares the checks for the new process of a node that restarts.
    ///
    /// The new process must not answer any initiation that an earlier process answered, unless its state is
    /// lost or older.
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

    /// Returns a random sealed datagram that `node` accepted before. `None` if it has accepted none.
    pub(super) fn old_datagram(&self, rng: &mut Rng, node: usize) -> Option<&AcceptedDatagram> {
        let list = self.taken.get(&node)?;
        // Prefer the newest datagram, because it is at the edge of the replay window.
        let newest = list.iter().max_by_key(|t| t.at);
        if rng.chance(0.3) { newest } else { list.get(rng.below(list.len() as u64) as usize) }
    }

    /// Returns an initiation that `node` answered more than [`REPEAT_FOR`] ago. `None` if there is none.
    ///
    /// The node must not answer it again.
    pub(super) fn old_initiation(&self, rng: &mut Rng, now: Instant, node: usize) -> Option<&AcceptedDatagram> {
        let old: Vec<_> = self.initiations.get(&node)?.iter().filter(|t| now - t.at > REPEAT_FOR).collect();
        old.get(rng.below(old.len() as u64) as usize).copied()
    }

    /// Records the source of a datagram that `node` accepted from `sender`.
    ///
    /// A node must send on a path to the source of the path's newest datagram.
    pub(super) fn on_accepted(&mut self, node: usize, sender: usize, source: SocketAddr, datagram: &[u8]) {
        let (path, number) = (datagram[1], u32_at(datagram, 6));
        let newest = self.sources.entry((node, sender, path)).or_insert((number, source));
        if number >= newest.0 {
            *newest = (number, source);
        }
    }

    /// Deletes the paths of `node` and `peer`, because their session restarts.
    pub(super) fn forget_paths(&mut self, node: usize, peer: usize) {
        self.sources.retain(|key, _| (key.0, key.1) != (node, peer));
    }

    /// Returns the address to which `node` must send `datagram`, on a path that `peer` opened.
    ///
    /// Returns `None` if the node has accepted no datagram on the path.
    pub(super) fn place_of(&self, node: usize, peer: usize, datagram: &[u8]) -> Option<SocketAddr> {
        self.sources.get(&(node, peer, datagram[1])).map(|(_, source)| *source)
    }
}
