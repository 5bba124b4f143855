//! Membership: decides which nodes are in the overlay's routing table.
//!
//! Nodes that others named (*candidates*) are probed and then admitted, and silent members are removed. A member stays
//! while it is among the best of its table cell or is one of the next nodes on the ring.

use super::link::Quality;
use super::neighbour::{NodeStanding, OverlayNeighbour};
use super::{CELL, LeafSet, OverlayState};
use alloc::vec::Vec;
use weft_units::{Instant, NodeId};

/// Maximum number of candidates: nodes that are probed and not yet admitted to the table.
const MOST_CANDIDATES: usize = 64;
/// Number of nodes beyond a table cell's capacity [`CELL`] that may be probed for it, so that the best can be chosen.
const SPARE_CANDIDATES: usize = 4;
/// Number of unanswered probes after which a candidate counts as silent. It is then probed only occasionally.
pub(super) const TRIES: u32 = 4;
/// Number of unanswered probes after which a silent node that never answered is deleted.
///
/// The last of these probes are eight seconds apart.
const LATE_TRIES: u32 = 8;
/// If at least this number of candidates did not answer recently, answers that name further nodes are ignored.
///
/// The count of such candidates falls by one per second.
const MOST_GHOSTS: u64 = 32;
/// Maximum number of silent nodes that stay stored and are probed occasionally.
///
/// Beyond it, nodes that never answered are deleted first, then those farthest on the ring. The others allow a
/// partitioned network to merge again.
const MOST_LOST: usize = 32;
/// Number of neighbours that are asked for a replacement after a row of the routing table lost a node.
const ROW_QUESTIONS: u8 = 6;

impl OverlayState {
    /// Makes a node that another node named a candidate, if the routing table can use it.
    ///
    /// `anyway` skips the check whether the table can use it.
    pub(super) fn consider(&mut self, now: Instant, id: NodeId, details: &[u8], anyway: bool) {
        let is_news = id != self.own.id && self.table.get(id).is_none();
        if is_news && (anyway || self.is_wanted(id)) && self.census().candidates < MOST_CANDIDATES {
            self.table.insert(id, OverlayNeighbour::candidate(details));
            self.set_timer(now, id);
        }
    }

    /// True if so many candidates recently did not answer that names from other nodes are not to be trusted.
    ///
    /// Another node may have lied, or the network has just been partitioned.
    pub(super) fn is_misled(&self, now: Instant) -> bool {
        self.recent_ghosts(now) >= MOST_GHOSTS
    }

    fn recent_ghosts(&self, now: Instant) -> u64 {
        self.ghosts.saturating_sub((now - self.last_ghost).as_secs())
    }

    fn is_wanted(&self, id: NodeId) -> bool {
        let known = self.table.cell_of(id).filter(|(_, neighbour)| neighbour.standing != NodeStanding::Lost).count();
        known < CELL + SPARE_CANDIDATES && self.cell_members(id).count() < CELL || self.leaves.is_place_for(id)
    }

    pub(super) fn on_introduction(&mut self, now: Instant, from: NodeId, details: &[u8]) {
        match self.table.get_mut(from) {
            Some(neighbour) => {
                neighbour.details = details.into();
                self.on_sign_of_life(now, from);
            }
            None => self.consider(now, from, details, false),
        }
    }

    /// Records that a node sent a probe. If the node seemed silent, its link is probed soon.
    ///
    /// The sender may still store this node as a member. It then sends plain probes without its contact, so this node
    /// must not wait for a message with the contact.
    pub(super) fn on_sign_of_life(&mut self, now: Instant, from: NodeId) {
        if let Some(neighbour) = self.table.get_mut(from)
            && neighbour.link.quality() >= Quality::Suspect
        {
            neighbour.link.hasten();
            self.set_timer(now, from);
        }
    }

    /// Updates whether a node is a candidate, a member or silent, after its link or its detour changed.
    pub(super) fn judge(&mut self, now: Instant, id: NodeId) {
        self.judge_detour(now, id);
        let Some(neighbour) = self.table.get(id) else { return };
        let (link, quality, is_measured) = (&neighbour.link, neighbour.way().quality(), neighbour.way().is_measured());
        match neighbour.standing {
            NodeStanding::Candidate if link.is_measured() => self.admit(now, id),
            NodeStanding::Candidate if link.missed() >= TRIES => {
                self.ghosts = self.recent_ghosts(now) + 1;
                self.last_ghost = now;
                self.put_off(now, id);
            }
            NodeStanding::Member if quality == Quality::Down || !is_measured => self.lose(now, id),
            NodeStanding::Lost if quality != Quality::Down && is_measured => self.admit(now, id),
            NodeStanding::Lost if !link.is_measured() && link.missed() >= LATE_TRIES => self.forget(now, id),
            _ => {}
        }
    }

    /// Makes an answering node a member, if it is among the best of its table cell or next to this one on the ring.
    ///
    /// Otherwise the node is deleted.
    fn admit(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.standing = NodeStanding::Member;
        }
        let before = self.state.table_news;
        self.state.table_news = before.wrapping_add(1);
        self.renew_leaves(now);
        self.trim_cell_of(id);
        if self.table.get(id).is_some() {
            self.gossip_wait = self.timing.gossip;
        } else {
            self.state.table_news = before;
        }
    }

    fn lose(&mut self, now: Instant, id: NodeId) {
        self.losses += 1;
        self.put_off(now, id);
        self.mend_after(now, id);
    }

    /// Marks a node as silent, so that it is probed only occasionally.
    ///
    /// Searches for a detour to the node if it was used recently or is one of the next nodes on the ring.
    fn put_off(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.standing = NodeStanding::Lost;
            neighbour.link.mark_down(now);
            (neighbour.detour, neighbour.detours_tried) = (None, 0);
        }
        self.start_detour(now, id);
        let own = self.own.id;
        let lost = || self.table.iter().filter(|(_, neighbour)| neighbour.standing == NodeStanding::Lost);
        let worst = lost().max_by_key(|(id, neighbour)| (!neighbour.link.is_measured(), own.distance_to(id)));
        if let Some((worst, _)) = worst.filter(|_| lost().count() > MOST_LOST) {
            self.table.remove(worst);
        }
    }

    /// Deletes a node that left. If it was a member, neighbours are asked for a replacement.
    pub(super) fn forget(&mut self, now: Instant, id: NodeId) {
        if self.table.remove(id).is_some_and(|neighbour| neighbour.is_member()) {
            self.mend_after(now, id);
        }
    }

    fn mend_after(&mut self, now: Instant, id: NodeId) {
        self.state.table_news = self.state.table_news.wrapping_add(1);
        let row = self.own.id.common_digits(&id);
        if self.row_questions.len() <= row {
            self.row_questions.resize(row + 1, 0);
        }
        if let Some(questions) = self.row_questions.get_mut(row) {
            *questions = ROW_QUESTIONS;
        }
        if self.leaves.contains(id) {
            self.renew_leaves(now);
            let leaves: Vec<NodeId> = self.leaves.iter().collect();
            for leaf in leaves {
                if let Some(neighbour) = self.table.get_mut(leaf) {
                    neighbour.near.renew();
                    neighbour.link.hasten();
                }
                self.set_timer(now, leaf);
            }
        }
    }

    fn renew_leaves(&mut self, now: Instant) {
        let own = self.own.id;
        let clockwise = self.table.clockwise_from(own).filter(|(_, n)| n.is_member()).map(|(id, _)| id);
        let counterclockwise = self.table.counterclockwise_from(own).filter(|(_, n)| n.is_member()).map(|(id, _)| id);
        let leaves = LeafSet::new(own, clockwise, counterclockwise);
        if leaves == self.leaves {
            return;
        }
        self.state.leaf_news = self.state.leaf_news.wrapping_add(1);
        let former = core::mem::replace(&mut self.leaves, leaves);
        for id in former.iter().filter(|id| !self.leaves.contains(*id)).collect::<Vec<_>>() {
            self.trim_cell_of(id);
        }
        for id in self.leaves.iter().filter(|id| !former.contains(*id)).collect::<Vec<_>>() {
            if let Some(neighbour) = self.table.get_mut(id) {
                neighbour.near.renew();
                neighbour.link.hasten();
            }
            self.set_timer(now, id);
        }
    }

    /// Returns those members that are in the table cell to which `id` belongs.
    fn cell_members(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &OverlayNeighbour)> {
        self.table.cell_of(id).filter(|(_, neighbour)| neighbour.is_member())
    }

    /// Deletes, from the table cell of `id`, the members that are neither its best nor next to this node on the ring.
    fn trim_cell_of(&mut self, id: NodeId) {
        let mut members: Vec<_> = self.cell_members(id).map(|(id, neighbour)| (neighbour.rank(), id)).collect();
        members.sort();
        for (_, id) in members.into_iter().skip(CELL) {
            if !self.leaves.contains(id) {
                self.table.remove(id);
            }
        }
    }

    /// Marks this node as ready once all its leaves (the next nodes on the ring) have answered its query.
    ///
    /// The query asks for the nodes near this one. No candidate that would be a leaf may be left. A node without leaves
    /// becomes ready after 5 s.
    pub(super) fn check_ready(&mut self, now: Instant) {
        if self.state.is_ready {
            return;
        }
        let mut leaves = self.leaves.iter().filter_map(|id| self.table.get(id)).peekable();
        self.state.is_ready = if leaves.peek().is_none() {
            now >= self.alone_at
        } else {
            let on_trial = |(id, n): (NodeId, &OverlayNeighbour)| {
                n.standing == NodeStanding::Candidate && self.leaves.is_place_for(id)
            };
            leaves.all(|leaf| leaf.near.is_answered()) && !self.table.iter().any(on_trial)
        };
    }
}
