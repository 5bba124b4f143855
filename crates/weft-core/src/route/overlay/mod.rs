//! The overlay's routing: selects the next node on the route to the node nearest to a key.
//!
//! The sources are paper 001 §II, Chimera, and Tapestry (JSAC 22(1) 2004). A node stores O(log N) others: three in
//! each cell of a prefix table ([`PrefixTable`]), and its neighbours on the ring ([`LeafSet`]). Each of a cell's
//! three nodes is a step nearer to the key, so two of them are ready backups. [`OverlayState`] is the whole protocol
//! as a state machine. Its inputs are [`OverlayState::handle_message`] and [`OverlayState::handle_timeout`], its
//! outputs [`OverlayState::poll_transmit`] and [`OverlayState::next_timeout`].
//!
//! - **Probed before use.** Information from other nodes only creates candidates. A node enters the table only after
//!   it answered this node's own probes. It leaves only through its own silence or its own message. A node that lies
//!   about others thus costs only a few probes.
//! - **Detours.** If a neighbour on the ring cannot be reached directly, a third node forwards to it, if possible
//!   ([`OverlayState::via`]). Otherwise both neighbours would consider themselves the nearest to the keys between
//!   them.
//! - **Soft state.** Every echo carries counters of changes at its sender. A node that lacks information asks a
//!   sender that may have it, until it is answered. Joining is repair that starts with one known node.
//! - **No loops.** A packet moves only to nodes strictly nearer to the key ([`select`]).
//!
//! The caller carries the messages between authenticated nodes. It may report path failures
//! ([`OverlayState::handle_unreachable`]), which is faster than probes.

mod detour;
mod duplicates;
mod leaf_set;
mod link;
mod loss;
mod membership;
mod neighbour;
mod prefix_table;
mod repair;
mod select;
mod timers;

pub use duplicates::Duplicates;
pub use leaf_set::{LEAVES, LeafSet};
pub use link::{NeighbourLink, ProbePace, Quality};
pub use loss::{Loss, run_length};
pub use neighbour::NodeStanding;
pub use prefix_table::PrefixTable;
pub use select::{HopCandidate, NextHop, select};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use neighbour::OverlayNeighbour;
use timers::NeighbourTimers;
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::WireError;
pub use weft_wire::call::Header;
use weft_wire::overlay::{NodeState, OverlayMessage, Query};

/// Number of nodes in a cell of the routing table: a primary and two backups.
///
/// *Standard*: Chimera's MAX_ENTRY.
pub const CELL: usize = 3;

/// Time after which a node that found no other node considers itself the only one.
const ALONE_AFTER: Duration = Duration::from_secs(5);

/// Intervals at which a node of the overlay sends probes and gossip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayTiming {
    /// Pace of probes on links that carried a packet in the last second.
    pub used: ProbePace,
    /// Pace of probes on all other links.
    pub idle: ProbePace,
    /// Mean interval between gossip rounds, with a random deviation of up to a third.
    ///
    /// Gossip searches for nearer nodes and for missed changes. The interval grows up to 32-fold while nothing
    /// changes.
    pub gossip: Duration,
}

impl Default for OverlayTiming {
    fn default() -> OverlayTiming {
        let pace =
            |calm, in_doubt| ProbePace { calm: Duration::from_millis(calm), in_doubt: Duration::from_millis(in_doubt) };
        OverlayTiming { used: pace(25, 10), idle: pace(1_000, 50), gossip: Duration::from_secs(2) }
    }
}

/// A node's identifier and how to reach it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeContact {
    /// Identifier of the node.
    pub id: NodeId,
    /// Key and addresses of the node. Sessions use them to reach it; the overlay does not read them.
    ///
    /// At most [`weft_wire::overlay::MAX_DETAILS`] bytes.
    pub details: Box<[u8]>,
}

/// Numbers of the other nodes that an overlay node stores, by standing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Number of members in the table and among the leaves, the next nodes on the ring.
    pub members: usize,
    /// Number of candidates: nodes that are probed and not yet admitted to the table.
    pub candidates: usize,
    /// Number of nodes that were probed and fell silent or never answered. They are still probed occasionally.
    pub lost: usize,
    /// Number of times that a member fell silent since the start.
    pub losses: u64,
}

/// A message of the overlay protocol to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayTransmit {
    /// Node for which the message is meant.
    pub to: NodeId,
    /// Third node that forwards the message, or `None` if the message is sent directly.
    pub via: Option<NodeId>,
    /// Length of the message in bytes.
    pub len: usize,
}

#[derive(Clone, Copy, Debug)]
enum OutgoingMessage {
    Probe(u32),
    Introduction(u32),
    Echo(u32),
    Find(Query),
    Found(Query),
    Leave,
}

/// A node's state of the overlay protocol.
#[derive(Clone, Debug)]
pub struct OverlayState {
    own: NodeContact,
    timing: OverlayTiming,
    rng: Rng,
    bootstrap: Vec<NodeContact>,
    table: PrefixTable<OverlayNeighbour>,
    leaves: LeafSet,
    state: NodeState,
    /// For each table row that lost a node, the number of neighbours still to ask for a replacement.
    row_questions: Vec<u8>,
    alone_at: Instant,
    gossip_at: Instant,
    gossip_wait: Duration,
    gossips_with: Option<NodeId>,
    losses: u64,
    ghosts: u64,
    last_ghost: Instant,
    duplicates: Duplicates,
    timers: NeighbourTimers,
    outgoing: VecDeque<(NodeId, Option<NodeId>, OutgoingMessage)>,
    /// Contacts of nodes in the last accepted answer to a query.
    told: Vec<NodeContact>,
}

impl OverlayState {
    /// Returns a node that finds its place in the overlay through the `bootstrap` nodes.
    ///
    /// The `bootstrap` nodes may be any nodes of the overlay. Without any, the node is the overlay's first node.
    pub fn new(
        now: Instant,
        own: NodeContact,
        bootstrap: Vec<NodeContact>,
        timing: OverlayTiming,
        rng: Rng,
    ) -> OverlayState {
        let id = own.id;
        let mut overlay = OverlayState {
            table: PrefixTable::new(id),
            leaves: LeafSet::new(id, core::iter::empty(), core::iter::empty()),
            own,
            timing,
            rng,
            state: NodeState { is_ready: bootstrap.is_empty(), ..NodeState::default() },
            bootstrap,
            row_questions: Vec::new(),
            alone_at: now + ALONE_AFTER,
            gossip_at: now,
            gossip_wait: timing.gossip,
            gossips_with: None,
            losses: 0,
            ghosts: 0,
            last_ghost: now,
            duplicates: Duplicates::default(),
            timers: NeighbourTimers::default(),
            outgoing: VecDeque::new(),
            told: Vec::new(),
        };
        overlay.handle_timeout(now);
        overlay
    }

    /// Returns this node's identifier.
    pub fn id(&self) -> NodeId {
        self.own.id
    }

    /// Returns this node's contact.
    pub fn contact(&self) -> &NodeContact {
        &self.own
    }

    /// Changes the key and addresses by which others reach this node.
    ///
    /// Nodes that it meets from now on receive them.
    pub fn set_own_details(&mut self, details: &[u8]) {
        self.own.details = details.into();
    }

    /// True if this node has found its place on the ring.
    ///
    /// Before that it delivers nothing, and others do not route through it.
    pub fn is_ready(&self) -> bool {
        self.state.is_ready
    }

    /// Returns the key and addresses needed to reach another node.
    pub fn details(&self, id: NodeId) -> Option<&[u8]> {
        self.table.get(id).map(|neighbour| &*neighbour.details)
    }

    /// Returns whether another node is a candidate, a member or silent, if it is known.
    pub fn standing(&self, id: NodeId) -> Option<NodeStanding> {
        self.table.get(id).map(|neighbour| neighbour.standing)
    }

    /// Returns the direct link to another node, if the node is known.
    pub fn link(&self, id: NodeId) -> Option<&NeighbourLink> {
        self.table.get(id).map(|neighbour| &neighbour.link)
    }

    /// Iterates over the members: the nodes in the table and the leaves, which are the next nodes on the ring.
    pub fn members(&self) -> impl Iterator<Item = NodeId> {
        self.table.iter().filter(|(_, neighbour)| neighbour.is_member()).map(|(id, _)| id)
    }

    /// Iterates over all known nodes in order of their identifiers: members, candidates and silent nodes.
    pub fn known(&self) -> impl Iterator<Item = NodeId> {
        self.table.iter().map(|(id, _)| id)
    }

    /// Returns the nodes next to this one on the ring.
    pub fn leaves(&self) -> &LeafSet {
        &self.leaves
    }

    /// Returns the numbers of members, of candidates and of silent nodes, and of losses of members so far.
    pub fn census(&self) -> Census {
        let mut census = Census { losses: self.losses, ..Census::default() };
        for (_, neighbour) in self.table.iter() {
            *match neighbour.standing {
                NodeStanding::Member => &mut census.members,
                NodeStanding::Candidate => &mut census.candidates,
                NodeStanding::Lost => &mut census.lost,
            } += 1;
        }
        census
    }

    /// Returns the third node through which to reach `id` while the direct link is down, if a detour exists.
    ///
    /// Messages and packets on this detour are sealed for `id`, as direct ones are.
    pub fn via(&self, id: NodeId) -> Option<NodeId> {
        self.table.get(id).and_then(OverlayNeighbour::via)
    }

    /// True if this node forwards messages of other nodes to `id`: `id` is a member and the direct link works.
    pub fn relays_to(&self, id: NodeId) -> bool {
        self.table.get(id).is_some_and(OverlayNeighbour::is_close)
    }

    /// Processes a message of the authenticated node `from`.
    ///
    /// `via` is the third node that forwarded it, if any.
    ///
    /// # Errors
    ///
    /// Fails as [`OverlayMessage::parse`] does. Nothing has changed then.
    pub fn handle_message(
        &mut self,
        now: Instant,
        from: NodeId,
        via: Option<NodeId>,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        match OverlayMessage::parse(bytes)? {
            OverlayMessage::Probe { seq } => {
                self.outgoing.push_back((from, via, OutgoingMessage::Echo(seq)));
                if via.is_none() {
                    self.on_sign_of_life(now, from);
                }
            }
            OverlayMessage::Introduction { seq, details } => {
                self.outgoing.push_back((from, via, OutgoingMessage::Echo(seq)));
                self.on_introduction(now, from, details);
            }
            OverlayMessage::Echo { seq, state } => {
                self.on_echo(now, from, via, seq, state);
                self.review(now, from);
            }
            OverlayMessage::Find(query) => self.outgoing.push_back((from, via, OutgoingMessage::Found(query))),
            OverlayMessage::Found { query, news, contacts } => {
                self.on_found(now, from, query, news, contacts);
                self.check_ready(now);
            }
            OverlayMessage::Leave => self.forget(now, from),
        }
        Ok(())
    }

    /// Marks the direct link to `id` as down at once, because the caller can no longer reach the node.
    pub fn handle_unreachable(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.link.mark_down(now);
            self.review(now, id);
        }
    }

    /// Records that the caller has a session and a path to `id` again.
    ///
    /// Probes start at once. The node becomes usable after enough answers.
    pub fn handle_reachable(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.link.hasten();
            self.review(now, id);
        }
    }

    /// Removes and returns the contacts in the last accepted answer to a query of this node.
    ///
    /// The table ignores new details (key and addresses) of a node that it contains already. The caller may need them
    /// to reach the node.
    pub fn take_told(&mut self) -> Vec<NodeContact> {
        core::mem::take(&mut self.told)
    }

    /// Replaces the stored details (key and addresses) of a node by newer ones.
    ///
    /// Does nothing if the node is not stored.
    pub fn set_details(&mut self, id: NodeId, details: &[u8]) {
        if let Some(neighbour) = self.table.get_mut(id)
            && *neighbour.details != *details
        {
            neighbour.details = details.into();
        }
    }

    /// Makes a node with which the caller has a session, and that may belong to the overlay, a candidate.
    pub fn handle_met(&mut self, now: Instant, contact: &NodeContact) {
        self.consider(now, contact.id, &contact.details, true);
    }

    /// Deletes a node that left the overlay or that ended its session with the caller.
    pub fn handle_leave(&mut self, now: Instant, id: NodeId) {
        self.forget(now, id);
    }

    /// Sends the probes and the gossip that are due, and treats overdue probes as missed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.timers.pop(now, |at, id| self.table.get(id).is_some_and(|n| n.timer == at)) {
            if let Some(neighbour) = self.table.get_mut(id) {
                neighbour.timer = Instant::FAR_FUTURE;
                for (via, seq) in neighbour.on_timeout(now, &self.timing).into_iter().flatten() {
                    let probe = if neighbour.is_member() {
                        OutgoingMessage::Probe(seq)
                    } else {
                        OutgoingMessage::Introduction(seq)
                    };
                    self.outgoing.push_back((id, via, probe));
                }
            }
            self.review(now, id);
        }
        if now >= self.gossip_at {
            self.gossip(now);
        }
    }

    /// Returns the time at which the next call of [`OverlayState::handle_timeout`] is due.
    pub fn next_timeout(&mut self) -> Instant {
        let timer = self.timers.next(|at, id| self.table.get(id).is_some_and(|n| n.timer == at));
        timer.map_or(self.gossip_at, |at| at.min(self.gossip_at))
    }

    /// Writes the next message into `out` and returns its destination.
    ///
    /// `out` must hold [`weft_wire::overlay::MAX_MESSAGE`] bytes. Call this after each `handle_*` and
    /// [`OverlayState::next_hop`] until it returns `None`.
    pub fn poll_transmit(&mut self, out: &mut [u8]) -> Option<OverlayTransmit> {
        loop {
            let (to, via, what) = self.outgoing.pop_front()?;
            let emitted = match what {
                OutgoingMessage::Probe(seq) => OverlayMessage::Probe { seq }.emit(out),
                OutgoingMessage::Introduction(seq) => {
                    OverlayMessage::Introduction { seq, details: &self.own.details }.emit(out)
                }
                OutgoingMessage::Echo(seq) => OverlayMessage::Echo { seq, state: self.state }.emit(out),
                OutgoingMessage::Find(query) => OverlayMessage::Find(query).emit(out),
                OutgoingMessage::Found(query) => self.answer(to, query, out),
                OutgoingMessage::Leave => OverlayMessage::Leave.emit(out),
            };
            if let Ok(len) = emitted {
                return Some(OverlayTransmit { to, via, len });
            }
        }
    }

    /// Queues a message to each member that this node leaves the overlay.
    pub fn leave(&mut self) {
        let members: Vec<NodeId> = self.members().collect();
        self.outgoing.extend(members.into_iter().map(|id| (id, None, OutgoingMessage::Leave)));
    }

    fn on_echo(&mut self, now: Instant, from: NodeId, via: Option<NodeId>, seq: u32, state: NodeState) {
        if let Some(neighbour) = self.table.get_mut(from)
            && let Some(link) = neighbour.link_via(via)
        {
            link.on_echo(now, seq);
            neighbour.state = state;
            self.judge(now, from);
            self.ask(now, from);
        }
    }

    fn send(&mut self, to: NodeId, what: OutgoingMessage) {
        self.outgoing.push_back((to, self.via(to), what));
    }

    /// Updates whether a neighbour is a candidate, a member or silent, and sets its timer.
    fn review(&mut self, now: Instant, id: NodeId) {
        self.judge(now, id);
        self.check_ready(now);
        self.set_timer(now, id);
    }

    fn set_timer(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            let due = neighbour.due(now, &self.timing);
            if due != neighbour.timer {
                neighbour.timer = due;
                self.timers.set(due, id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
