//! Who is in the table: candidates are tried, admitted, kept as long as they are among the best of their cell or next on the ring, lost.

use super::link::Quality;
use super::neighbour::{Neighbour, Standing};
use super::{CELL, LeafSet, Overlay};
use alloc::vec::Vec;
use weft_units::{Instant, NodeId};

/// Candidates on trial at a time.
const MOST_CANDIDATES: usize = 64;
/// Nodes tried for a cell beyond those it has room for, so that there is a choice.
const SPARE_CANDIDATES: usize = 4;
/// A candidate that left as many probes unanswered is not on trial any more…
pub(super) const TRIES: u32 = 4;
/// …and forgotten after as many more, the last ones eight seconds apart.
const LATE_TRIES: u32 = 8;
/// Candidates that never answered, of which one a second is forgiven, before others' words count no more.
const MOST_GHOSTS: u64 = 32;
/// Silent nodes that are tried again now and then: of those that ever answered the nearest on the ring, by which a network that fell
/// apart finds together.
const MOST_LOST: usize = 32;
/// Neighbours asked after a row lost a node.
const ROW_QUESTIONS: u8 = 6;

impl Overlay {
    /// Somebody names a node.
    pub(super) fn consider(&mut self, now: Instant, id: NodeId, details: &[u8], anyway: bool) {
        let is_news = id != self.own.id && self.table.get(id).is_none();
        if is_news && (anyway || self.is_wanted(id)) && self.census().candidates < MOST_CANDIDATES {
            self.table.insert(id, Neighbour::candidate(details));
            self.set_timer(now, id);
        }
    }

    /// Too many of those who were named never answered: somebody lies, or the network has just fallen apart.
    pub(super) fn is_misled(&self, now: Instant) -> bool {
        self.recent_ghosts(now) >= MOST_GHOSTS
    }

    fn recent_ghosts(&self, now: Instant) -> u64 {
        self.ghosts.saturating_sub((now - self.last_ghost).as_secs())
    }

    fn is_wanted(&self, id: NodeId) -> bool {
        let known = self.table.cell_of(id).filter(|(_, neighbour)| neighbour.standing != Standing::Lost).count();
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

    /// Who probes is there: if it seems silent, it is tried at once. It may still take this node for a member, and so never introduce itself.
    pub(super) fn on_sign_of_life(&mut self, now: Instant, from: NodeId) {
        if let Some(neighbour) = self.table.get_mut(from)
            && neighbour.link.quality() >= Quality::Suspect
        {
            neighbour.link.hasten();
            self.set_timer(now, from);
        }
    }

    /// Sees what has become of a neighbour.
    pub(super) fn judge(&mut self, now: Instant, id: NodeId) {
        self.judge_detour(now, id);
        let Some(neighbour) = self.table.get(id) else { return };
        let (link, quality, is_measured) = (&neighbour.link, neighbour.way().quality(), neighbour.way().is_measured());
        match neighbour.standing {
            Standing::Candidate if link.is_measured() => self.admit(now, id),
            Standing::Candidate if link.missed() >= TRIES => {
                self.ghosts = self.recent_ghosts(now) + 1;
                self.last_ghost = now;
                self.put_off(now, id);
            }
            Standing::Member if quality == Quality::Down || !is_measured => self.lose(now, id),
            Standing::Lost if quality != Quality::Down && is_measured => self.admit(now, id),
            Standing::Lost if !link.is_measured() && link.missed() >= LATE_TRIES => self.forget(now, id),
            _ => {}
        }
    }

    /// A candidate's trial is over: it becomes a member where it belongs to the best, and is forgotten elsewhere.
    fn admit(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.standing = Standing::Member;
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

    /// From now on it is only tried now and then; a detour is looked for if it is missed.
    fn put_off(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.standing = Standing::Lost;
            neighbour.link.mark_down(now);
            (neighbour.detour, neighbour.detours_tried) = (None, 0);
        }
        self.start_detour(now, id);
        let own = self.own.id;
        let lost = || self.table.iter().filter(|(_, neighbour)| neighbour.standing == Standing::Lost);
        let worst = lost().max_by_key(|(id, neighbour)| (!neighbour.link.is_measured(), own.distance_to(id)));
        if let Some((worst, _)) = worst.filter(|_| lost().count() > MOST_LOST) {
            self.table.remove(worst);
        }
    }

    /// A node takes its leave.
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

    /// The members in the cell that `id` belongs to.
    fn cell_members(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Neighbour)> {
        self.table.cell_of(id).filter(|(_, neighbour)| neighbour.is_member())
    }

    /// Forgets members that are neither leaves nor among the best of their cell.
    fn trim_cell_of(&mut self, id: NodeId) {
        let mut members: Vec<_> = self.cell_members(id).map(|(id, neighbour)| (neighbour.rank(), id)).collect();
        members.sort();
        for (_, id) in members.into_iter().skip(CELL) {
            if !self.leaves.contains(id) {
                self.table.remove(id);
            }
        }
    }

    /// Ready: it has asked all its leaves, and nobody they named is still on trial; or there is nobody.
    pub(super) fn check_ready(&mut self, now: Instant) {
        if self.state.is_ready {
            return;
        }
        let mut leaves = self.leaves.iter().filter_map(|id| self.table.get(id)).peekable();
        self.state.is_ready = if leaves.peek().is_none() {
            now >= self.alone_at
        } else {
            let on_trial =
                |(id, n): (NodeId, &Neighbour)| n.standing == Standing::Candidate && self.leaves.is_place_for(id);
            leaves.all(|leaf| leaf.near.is_answered()) && !self.table.iter().any(on_trial)
        };
    }
}
