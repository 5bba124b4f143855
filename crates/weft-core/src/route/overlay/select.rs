//! First reachable link selection (paper 001 §II; Zhao et al., ICNP 2003): picks the first hop with a good link.
//!
//! While it is unclear which link works, a copy of the packet leaves on each of the best two. Each packet is duplicated
//! at most once on its whole route. Every next hop is strictly nearer to the key on the ring than this node. All nodes
//! measure this distance alike, so a packet never returns.

use super::link::Quality;
use super::neighbour::OverlayNeighbour;
use super::{Duplicates, Header, OverlayState};
use alloc::vec::Vec;
use weft_units::{Instant, NodeId, RingDistance};

/// Loss above which a link is no better than a suspect one, as a fraction.
///
/// *Tuned* by hand: a usable link delivers 70 % of its packets.
const MOST_LOSS: f64 = 0.3;

/// Decision about a packet's next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// Deliver here, because this node is the nearest to the key.
    Deliver,
    /// Forward to the node with this identifier.
    Forward(NodeId),
    /// Forward one copy to each of the nodes with these identifiers, because it is unclear which one is reachable.
    Duplicate(NodeId, NodeId),
    /// Drop: the packet is a duplicate, has used up its hops, or this node has not found its place yet.
    Drop,
}

/// A node that could be the next hop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HopCandidate {
    /// Identifier of the node.
    pub id: NodeId,
    /// Quality of the link to the node.
    pub quality: Quality,
    /// Loss on the link to the node, as a fraction, 0 to 1.
    pub loss: f64,
}

impl HopCandidate {
    fn is_sure(&self) -> bool {
        self.quality == Quality::Good || self.quality == Quality::Degraded && self.loss <= MOST_LOSS
    }
}

/// Returns the next hop: the first choice with a good link, or the one with the best link if none is good.
///
/// The packet is duplicated in two cases. If a suspect choice precedes the first good one, a copy goes to the suspect
/// one, because it may work. If the best choice is suspect or loses more than 30 %, a copy goes to the second best.
pub fn select(choices: &[HopCandidate], may_duplicate: bool) -> Option<NextHop> {
    let (at, best) = choices.iter().enumerate().min_by_key(|(at, choice)| (choice.quality, *at))?;
    let is_doubtful = |choice: &&HopCandidate| choice.quality == Quality::Suspect;
    let second = if best.is_sure() {
        choices.iter().take(at).find(is_doubtful)
    } else {
        let others = choices.iter().enumerate().filter(|(other, _)| *other != at);
        others.min_by_key(|(other, choice)| (choice.quality, *other)).map(|(_, choice)| choice)
    };
    Some(match second {
        Some(second) if may_duplicate => NextHop::Duplicate(best.id, second.id),
        _ => NextHop::Forward(best.id),
    })
}

/// Returns a value that orders nodes by their distance from a key.
///
/// At equal distance the node with the lower identifier is nearer.
fn remoteness(id: NodeId, key: NodeId) -> (RingDistance, NodeId) {
    (id.distance_to(&key), id)
}

impl OverlayState {
    /// Returns the next hop of a packet that arrived or starts here.
    ///
    /// It also updates the packet's header for the next node. The links on which it leaves are probed at the fast
    /// pace for a while, because more packets will follow.
    pub fn next_hop(&mut self, now: Instant, header: &mut Header) -> NextHop {
        let mut duplicates = core::mem::take(&mut self.duplicates);
        let next = self.next_hop_of_one(now, header, &mut duplicates);
        self.duplicates = duplicates;
        match next {
            NextHop::Forward(id) => self.on_use(now, id),
            NextHop::Duplicate(first, second) => {
                self.on_use(now, first);
                self.on_use(now, second);
            }
            NextHop::Deliver | NextHop::Drop => {}
        }
        next
    }

    /// Returns the next hop of a single packet that no others follow.
    ///
    /// Its source numbers such packets separately, so the caller passes a separate `duplicates`.
    pub fn next_hop_of_one(&self, now: Instant, header: &mut Header, duplicates: &mut Duplicates) -> NextHop {
        if header.was_duplicated && !duplicates.is_new(now, header.source, header.run, header.seq) {
            return NextHop::Drop;
        }
        let next = self.next_hop_for(header.key, !header.was_duplicated);
        if matches!(next, NextHop::Forward(_) | NextHop::Duplicate(..)) {
            let Some(hops_left) = header.hops_left.checked_sub(1) else { return NextHop::Drop };
            header.hops_left = hops_left;
            header.was_duplicated |= matches!(next, NextHop::Duplicate(..));
        }
        next
    }

    /// Returns the next hop that a packet with this key would take now. It changes nothing.
    pub fn next_hop_for(&self, key: NodeId, may_duplicate: bool) -> NextHop {
        match select(&self.choices(key), may_duplicate) {
            Some(next) => next,
            None if self.is_ready() => NextHop::Deliver,
            None => NextHop::Drop,
        }
    }

    fn on_use(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.on_use(now);
            self.set_timer(now, id);
        }
    }

    /// Returns the possible next hops in order of preference.
    ///
    /// An empty result means that this node is the nearest to the key.
    fn choices(&self, key: NodeId) -> Vec<HopCandidate> {
        let own = self.own.id;
        if key == own {
            return Vec::new();
        }
        let here = remoteness(own, key);
        let is_nearer =
            |(id, neighbour): &(NodeId, &OverlayNeighbour)| neighbour.is_usable() && remoteness(*id, key) < here;
        let knows_root = self.leaves.covers(key) || self.table.get(key).is_some_and(OverlayNeighbour::is_usable);
        let mut near: Vec<_> = self.table.cell_of(key).filter(is_nearer).collect();
        if knows_root {
            near.extend(self.leaves.iter().filter_map(|id| Some((id, self.table.get(id)?))).filter(is_nearer));
            near.sort_by_key(|(id, _)| remoteness(*id, key));
            near.dedup_by_key(|(id, _)| *id);
        } else {
            near.sort_by_key(|(id, neighbour)| (neighbour.way().latency(), *id));
        }
        if !near.iter().any(|(_, neighbour)| neighbour.way().quality() == Quality::Good) {
            let known = near.iter().map(|(id, _)| *id).collect::<Vec<_>>();
            let mut others: Vec<_> =
                self.table.iter().filter(is_nearer).filter(|(id, _)| !known.contains(id)).collect();
            others.sort_by_key(|(id, _)| remoteness(*id, key));
            near.extend(others);
        }
        let choice = |(id, neighbour): (NodeId, &OverlayNeighbour)| {
            let link = neighbour.way();
            HopCandidate { id, quality: link.quality(), loss: link.loss() }
        };
        near.into_iter().map(choice).collect()
    }
}
