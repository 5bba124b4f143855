//! What relays tell their peers: whom they pass datagrams on to, and how far away that is.
//!
//! A relay speaks only of nodes beside it, to nodes beside it, under their session; nobody repeats what another said. So who lies does so about
//! his own links, and what comes of it is a route that is measured from end to end before anything depends on it.

use crate::node::Engine;
use crate::peer::Peer;
use alloc::collections::BTreeMap;
use weft_units::{Duration, Instant};
use weft_wire::frame::Neighbour;
use weft_wire::relay::Label;

/// How often all is told again at least, changed or not.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// What was not told again for so many intervals is forgotten.
const FORGET_INTERVALS: f64 = 3.2;
/// Time that the relay waits for each word to each listener. This limits it to 200,000 words a second.
const WORD: Duration = Duration::from_micros(5);
/// Estimate of the words that fit into a datagram.
const DATAGRAM_WORDS: usize = 64;
/// Listeners that are told at once. More would hold up what else the node has to do.
const BATCH: usize = 1_024;
/// So many nodes behind one relay are remembered.
const MAX_REACHED: usize = 4_096;

/// How often all is told again where a relay reaches so many nodes. With many it takes half of the time that words may take.
fn tell_every(nodes: usize) -> Duration {
    TELL_EVERY.max(words(2 * nodes, nodes))
}

fn words(count: usize, listeners: usize) -> Duration {
    WORD.saturating_mul(u32::try_from(count.saturating_mul(listeners)).unwrap_or(u32::MAX))
}

/// Whom a relay reaches, as it says.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    nodes: BTreeMap<Label, (Neighbour, Instant)>,
    has_changed: bool,
}

impl Reach {
    pub(crate) fn hear(&mut self, now: Instant, neighbour: &Neighbour) {
        let node = neighbour.node;
        let was_known = self.nodes.contains_key(&node);
        self.has_changed |= was_known != neighbour.is_reachable;
        if !neighbour.is_reachable {
            self.nodes.remove(&node);
        } else if was_known || self.nodes.len() < MAX_REACHED {
            self.nodes.insert(node, (*neighbour, now));
        }
    }

    /// Whether other nodes are reached than when this was last asked.
    pub(crate) fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.has_changed)
    }

    /// What the relay does not repeat for so long is forgotten. How often it repeats follows from how many it reaches.
    fn forget_after(&self) -> Duration {
        tell_every(self.nodes.len()).mul_f64(FORGET_INTERVALS)
    }

    /// What is known of a node, if it was heard of lately.
    pub(super) fn of(&self, now: Instant, node: Label) -> Option<Neighbour> {
        let (neighbour, at) = self.nodes.get(&node)?;
        (now - *at < self.forget_after()).then_some(*neighbour)
    }

    /// All that was heard lately.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = Neighbour> {
        let forget_after = self.forget_after();
        self.nodes.values().filter(move |(_, at)| now - *at < forget_after).map(|(neighbour, _)| *neighbour)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// What a relay says of a peer.
fn neighbour_of(node: Label, peer: &Peer) -> Neighbour {
    let path = peer.fastest_direct_path().filter(|path| peer.is_established() && path.health.answers());
    let nothing = Neighbour { node, is_reachable: false, rtt_us: 0, loss: 0 };
    path.map_or(nothing, |path| Neighbour {
        node,
        is_reachable: true,
        rtt_us: u32::try_from(path.rtt().smoothed().as_micros()).unwrap_or(u32::MAX),
        loss: (path.loss().fraction() * 256.0) as u8,
    })
}

impl Engine {
    /// Tells all peers of the others: soon what can be reached or no longer, from time to time everything.
    pub(super) fn tell_neighbours(&mut self, now: Instant) {
        if !self.relaying.is_relay {
            (self.relaying.say_at, self.relaying.tell_at) = (None, None);
            return;
        }
        self.say_changes();
        if self.relaying.say_at.is_none_or(|at| now >= at) {
            self.say_again(now);
        }
        if now >= self.relaying.quiet_until {
            self.tell_listeners(now);
        } else {
            self.relaying.tell_at = Some(self.relaying.quiet_until);
        }
    }

    /// Says which peers can be reached now, or no longer.
    fn say_changes(&mut self) {
        while let Some(of) = self.peers.take_unseen() {
            let Some(neighbour) = self.neighbour(of) else { continue };
            if self.relaying.bulletin.said_reachable(of) != neighbour.is_reachable {
                let reached = self.relaying.reached.saturating_add_signed(if neighbour.is_reachable { 1 } else { -1 });
                self.relaying.reached = reached;
                self.relaying.bulletin.say(of, neighbour);
            }
        }
    }

    /// Says again how far away the next peers are that can be reached.
    fn say_again(&mut self, now: Instant) {
        let mut said = 0;
        for _ in 0..self.peers.len() {
            let of = self.relaying.say_next % self.peers.len();
            self.relaying.say_next = of + 1;
            if let Some(neighbour) = self.neighbour(of).filter(|neighbour| neighbour.is_reachable) {
                self.relaying.bulletin.say(of, neighbour);
                said += 1;
            }
            if said == DATAGRAM_WORDS {
                break;
            }
        }
        let reached = self.relaying.reached;
        let part = if reached > DATAGRAM_WORDS { DATAGRAM_WORDS as f64 / reached as f64 } else { 1.0 };
        self.relaying.say_at = Some(now + tell_every(reached).mul_f64(part));
    }

    fn neighbour(&self, of: usize) -> Option<Neighbour> {
        Some(neighbour_of(self.relaying.labels.of(of)?, self.peers.get(of)?))
    }

    /// Has the next peers told that are behind, each by its fastest path and at most one datagram.
    fn tell_listeners(&mut self, now: Instant) {
        let mut told = 0;
        for _ in 0..self.peers.len() {
            let index = self.relaying.tell_next % self.peers.len();
            let peer = self.peers.get(index).filter(|peer| peer.is_behind(&self.relaying.bulletin));
            if peer.is_some() && told == BATCH {
                break;
            }
            self.relaying.tell_next = index + 1;
            if let Some(fastest) = peer.and_then(Peer::fastest_path)
                && let Some(path) = self.peers.get_mut(index).and_then(|peer| peer.paths.get_mut(fastest))
            {
                path.pending.neighbours = true;
                told += 1;
            }
        }
        if told > 0 {
            self.relaying.quiet_until = now + words(DATAGRAM_WORDS.min(self.relaying.reached), told);
        }
        // Whoever has more to hear than a datagram holds is told the rest then.
        self.relaying.tell_at = (told > 0).then_some(self.relaying.quiet_until);
    }
}
