//! Detours around failed links through one third node.
//!
//! Most failures between two Internet nodes leave such a detour (Gummadi et al., OSDI 2004).

use super::link::{NeighbourLink, Quality};
use super::membership::TRIES;
use super::neighbour::{Detour, NodeStanding, OverlayNeighbour};
use super::{LEAVES, OverlayState};
use alloc::boxed::Box;
use alloc::vec::Vec;
use weft_units::{Instant, NodeId};

/// Maximum number of third nodes tried in one search for a detour to one silent node, one after the other.
///
/// If all fail, the next search tries others.
const MOST_TRIED: usize = 2 * LEAVES;

impl OverlayState {
    /// Searches for a detour to a silent node, if it was used recently or is one of the next nodes on the ring.
    pub(super) fn start_detour(&mut self, now: Instant, id: NodeId) {
        let third_nodes = self.table.iter().filter(|(_, other)| other.is_close()).count();
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.detours_left = MOST_TRIED.min(third_nodes);
        }
        self.try_next_detour(now, id);
    }

    fn try_next_detour(&mut self, now: Instant, id: NodeId) {
        let is_leaf = self.leaves.is_place_for(id);
        let Some(neighbour) = self.table.get(id) else { return };
        if !(is_leaf || neighbour.was_used(now)) || neighbour.detours_left == 0 {
            return;
        }
        // The node next to the silent one on the ring is the most likely to have a link to it.
        let mut others: Vec<NodeId> =
            self.table.iter().filter(|(_, other)| other.is_close()).map(|(id, _)| id).collect();
        others.sort_by_key(|other| other.distance_to(&id));
        let next = neighbour.detours_tried.checked_rem(others.len());
        let via = next.and_then(|next| others.get(next)).copied();
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.detours_tried += 1;
            neighbour.detours_left -= 1;
            neighbour.detour = via.map(|via| Box::new(Detour { via, link: NeighbourLink::default() }));
        }
        self.set_timer(now, id);
    }

    /// Ends the detour to a node if the direct link works again. Replaces a detour that does not work by another.
    pub(super) fn judge_detour(&mut self, now: Instant, id: NodeId) {
        let Some(neighbour) = self.table.get(id) else { return };
        let Some(detour) = &neighbour.detour else { return };
        let is_needed = neighbour.link.quality() == Quality::Down;
        let never_worked = !detour.link.is_measured() && detour.link.missed() >= TRIES;
        let has_ended = detour.link.quality() == Quality::Down || !self.relays_to(detour.via);
        if is_needed && !never_worked && !has_ended {
            return;
        }
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.detour = None;
        }
        if is_needed {
            self.try_next_detour(now, id);
        }
    }

    /// Searches again for detours to all silent nodes without one, because a link to a third node may work again.
    pub(super) fn retry_detours(&mut self, now: Instant) {
        let is_without = |(_, n): &(NodeId, &OverlayNeighbour)| n.standing == NodeStanding::Lost && n.detour.is_none();
        let silent: Vec<NodeId> = self.table.iter().filter(is_without).map(|(id, _)| id).collect();
        for id in silent {
            self.start_detour(now, id);
        }
    }
}
