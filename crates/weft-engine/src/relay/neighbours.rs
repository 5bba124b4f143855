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

/// How often all is told again, changed or not.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// What has not been heard again for so long is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(16);
/// So many nodes behind one relay are remembered.
const MAX_REACHED: usize = 4_096;

/// Whom a relay reaches, as it says.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    nodes: BTreeMap<Label, (Neighbour, Instant)>,
    pub(super) has_changed: bool,
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

    /// What is known of a node, if it was heard of lately.
    pub(super) fn of(&self, now: Instant, node: Label) -> Option<Neighbour> {
        let (neighbour, at) = self.nodes.get(&node)?;
        (now - *at < FORGET_AFTER).then_some(*neighbour)
    }

    /// All that was heard lately.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = Neighbour> {
        self.nodes.values().filter(move |(_, at)| now - *at < FORGET_AFTER).map(|(neighbour, _)| *neighbour)
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
    /// Tells each peer of the others: at once what can be reached or no longer, from time to time everything.
    pub(super) fn tell_neighbours(&mut self, now: Instant) {
        if !self.relaying.is_relay {
            self.relaying.tell_at = None;
            return;
        }
        let is_due = self.relaying.tell_at.is_none_or(|at| now >= at);
        if is_due {
            self.relaying.tell_at = Some(now + TELL_EVERY);
        }
        self.relaying.told.resize(self.peers.len(), false);
        for of in 0..self.peers.len() {
            let Some(neighbour) = self.neighbour(of) else { continue };
            let was_told = core::mem::replace(&mut self.relaying.told[of], neighbour.is_reachable);
            if was_told != neighbour.is_reachable || (is_due && neighbour.is_reachable) {
                self.tell_all_but(of, &neighbour);
            }
        }
    }

    fn neighbour(&self, of: usize) -> Option<Neighbour> {
        Some(neighbour_of(*self.relaying.labels.get(of)?, self.peers.get(of)?))
    }

    fn tell_all_but(&mut self, of: usize, neighbour: &Neighbour) {
        for (index, peer) in self.peers.iter_mut().enumerate() {
            let fastest = peer.fastest_path().filter(|_| index != of && peer.is_established());
            if let Some(path) = fastest.and_then(|fastest| peer.paths.get_mut(fastest)) {
                path.pending.neighbours = true;
                peer.news.retain(|other| other.node != neighbour.node);
                peer.news.push_back(*neighbour);
            }
        }
    }
}
