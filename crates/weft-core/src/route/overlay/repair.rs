//! Repair of the routing table: asks neighbours for missing nodes, and answers such queries.
//!
//! A join is the repair of an empty table.

use super::neighbour::{NodeStanding, OverlayNeighbour};
use super::{CELL, LEAVES, NodeContact, OutgoingMessage, OverlayState};
use alloc::vec::Vec;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::WireError;
use weft_wire::overlay::{Contacts, MAX_CONTACTS, Query, WireContact, emit_found};

/// Interval at which a node without members in its table probes its bootstrap nodes.
const SEARCH: Duration = Duration::from_secs(1);
/// Maximum number of nodes from one gossip answer that are probed although the table does not need them.
const GOSSIP_TRIALS: usize = 4;
/// Maximum factor by which the gossip interval grows while gossip brings no new member.
const LONGEST_GOSSIP: u32 = 32;
/// Column bits that select all columns of a row.
const ALL_COLUMNS: u16 = u16::MAX;

impl OverlayState {
    /// Sends `id` a query for nodes that this node's table lacks, if `id` may have learnt of such nodes.
    ///
    /// Call this after an echo of `id`.
    pub(super) fn ask(&mut self, now: Instant, id: NodeId) {
        self.ask_near(now, id);
        self.ask_row(now, id);
    }

    fn ask_near(&mut self, now: Instant, id: NodeId) {
        if !self.leaves.contains(id) {
            return;
        }
        let Some(neighbour) = self.table.get_mut(id) else { return };
        if neighbour.near.is_worth_asking(now, neighbour.state.leaf_news) {
            neighbour.near.ask(now);
            self.send(id, OutgoingMessage::Find(Query::Near(self.own.id)));
        }
    }

    fn ask_row(&mut self, now: Instant, id: NodeId) {
        let Some(neighbour) = self.table.get(id).filter(|neighbour| neighbour.is_member()) else { return };
        let (question, news) = (neighbour.row, neighbour.state.table_news);
        if !question.may_ask(now) {
            return;
        }
        let own_row = self.own.id.common_digits(&id);
        let after_loss = (0..=own_row).find(|row| self.row_questions.get(*row).is_some_and(|left| *left > 0));
        let Some(row) = after_loss.or(question.is_worth_asking(now, news).then_some(own_row)) else { return };
        let columns = self.wanted_columns(row);
        if let Some(left) = self.row_questions.get_mut(row) {
            *left = if columns == 0 { 0 } else { left.saturating_sub(1) };
        }
        let Some(neighbour) = self.table.get_mut(id) else { return };
        if columns == 0 {
            neighbour.row.skip(news);
            return;
        }
        neighbour.row.ask(now);
        let query = Query::Row { of: self.own.id, row: row as u8, columns };
        self.send(id, OutgoingMessage::Find(query));
    }

    /// Returns the columns of a row whose cells have fewer than [`CELL`] members. Bit n stands for column n.
    fn wanted_columns(&self, row: usize) -> u16 {
        let own = self.own.id;
        let has_few = |column: &u8| {
            let cell = self.table.cell(own, row, *column);
            cell.filter(|(_, neighbour)| neighbour.is_member()).take(CELL).count() < CELL
        };
        (0..16).filter(|column| *column != own.digit(row)).filter(has_few).map(|column| 1 << column).sum()
    }

    pub(super) fn on_found(&mut self, now: Instant, from: NodeId, query: Query, news: u8, contacts: Contacts<'_>) {
        let Some(neighbour) = self.table.get_mut(from) else { return };
        let question = match query {
            Query::Near(_) => &mut neighbour.near,
            Query::Row { .. } => &mut neighbour.row,
        };
        if !question.answer(news) || self.is_misled(now) {
            return;
        }
        let is_gossip = matches!(query, Query::Row { .. }) && self.gossips_with.take_if(|with| *with == from).is_some();
        let mut trials = GOSSIP_TRIALS;
        self.told.clear();
        for contact in contacts {
            self.told.push(NodeContact { id: contact.id, details: contact.details.into() });
            let anyway = is_gossip && trials > 0 && self.rng.chance(0.5);
            trials -= usize::from(anyway);
            self.consider(now, contact.id, contact.details, anyway);
        }
    }

    /// Writes the answer to a query of the node `asker` into `out`, and returns its length.
    pub(super) fn answer(&mut self, asker: NodeId, query: Query, out: &mut [u8]) -> Result<usize, WireError> {
        let (ids, news) = match query {
            Query::Near(target) => (self.nearest(target), self.state.leaf_news),
            Query::Row { of, row, columns } => (self.spread(of, row.into(), columns), self.state.table_news),
        };
        let contact = |id: NodeId| Some(WireContact { id, details: &self.table.get(id)?.details });
        emit_found(query, news, ids.into_iter().filter(|id| *id != asker).filter_map(contact), out)
    }

    /// Returns the nodes nearest to `target` on the ring: its leaves if it were a member, and one more on each side.
    fn nearest(&self, target: NodeId) -> Vec<NodeId> {
        let told = |(_, neighbour): &(NodeId, &OverlayNeighbour)| neighbour.is_close();
        let clockwise = self.table.clockwise_from(target).filter(told).take(LEAVES + 1);
        let mut ids: Vec<NodeId> = clockwise.map(|(id, _)| id).collect();
        for (id, _) in self.table.counterclockwise_from(target).filter(told).take(LEAVES + 1) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Returns members of the table cells that a query asks for: `columns` of row `row` in the table of `of`.
    ///
    /// They start at a random position in each cell. Up to half of them are from this node's own cell, which its table
    /// covers best. The rest is from the other cells in turn.
    fn spread(&mut self, of: NodeId, row: usize, columns: u16) -> Vec<NodeId> {
        let own_column = self.own.id.digit(row);
        let (mut ids, mut cells) = (Vec::new(), Vec::new());
        for column in (0..16).filter(|column| columns >> column & 1 == 1) {
            let told = self.table.cell(of, row, column).filter(|(_, neighbour)| neighbour.is_close());
            let mut cell: Vec<NodeId> = told.map(|(id, _)| id).collect();
            let start = self.rng.below(cell.len() as u64) as usize;
            cell.rotate_left(start);
            if column == own_column && self.own.id.common_digits(&of) >= row {
                ids.extend(cell.into_iter().take(MAX_CONTACTS / 2));
            } else {
                cells.push(cell);
            }
        }
        let turns = (0..MAX_CONTACTS).flat_map(|turn| cells.iter().filter_map(move |cell| cell.get(turn)));
        // Collects one more than fits, because the asker may be among them.
        ids.extend(turns.take(MAX_CONTACTS + 1 - ids.len()));
        ids
    }

    /// Performs one gossip round: asks a random member for nodes of the table row in which this node stores it.
    ///
    /// Some of these nodes may be nearer than the known ones. If the member is next to this node on the ring, it is
    /// also asked for the nodes near this one. The round also probes one of the bootstrap nodes, so that separate
    /// parts of the network can merge.
    pub(super) fn gossip(&mut self, now: Instant) {
        self.retry_detours(now);
        let members: Vec<NodeId> = self.members().collect();
        let start = self.rng.below(self.bootstrap.len() as u64) as usize;
        let tried = if members.is_empty() { self.bootstrap.len() } else { 1 };
        for contact in self.bootstrap.iter().cycle().skip(start).take(tried).cloned().collect::<Vec<_>>() {
            self.consider(now, contact.id, &contact.details, true);
        }
        let Some(id) = members.get(self.rng.below(members.len() as u64) as usize).copied() else {
            self.gossip_at = now + SEARCH;
            self.check_ready(now);
            return;
        };
        self.gossip_at = now + self.gossip_wait.mul_f64(2.0 / 3.0 + self.rng.unit() * 2.0 / 3.0);
        self.gossip_wait = (self.gossip_wait * 2).min(self.timing.gossip * LONGEST_GOSSIP);
        self.gossips_with = Some(id);
        let row = self.own.id.common_digits(&id) as u8;
        let is_leaf = self.leaves.contains(id);
        let Some(neighbour) = self.table.get_mut(id).filter(|n| n.standing == NodeStanding::Member) else { return };
        neighbour.row.ask(now);
        if is_leaf {
            neighbour.near.renew();
            neighbour.near.ask(now);
        }
        self.send(id, OutgoingMessage::Find(Query::Row { of: self.own.id, row, columns: ALL_COLUMNS }));
        if is_leaf {
            self.send(id, OutgoingMessage::Find(Query::Near(self.own.id)));
        }
    }
}
