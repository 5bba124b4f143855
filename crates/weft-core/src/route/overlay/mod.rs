//! The overlay's routing: which node comes next on the way to a key's root (paper 001 §II; Chimera, and Tapestry, JSAC 22(1) 2004).
//!
//! A node knows O(log N) others: three in each cell of a prefix table ([`PrefixTable`]), and its neighbours on the ring ([`LeafSet`]).
//! Any of a cell's three is a step nearer to the key, so two of them are ready backups. [`Overlay`] is the whole protocol as a state
//! machine: [`Overlay::handle_message`] and [`Overlay::handle_timeout`] in, [`Overlay::poll_transmit`] and [`Overlay::next_timeout`] out.
//!
//! - **Probed before use.** What others say of third nodes makes candidates; only a node's own echoes admit it, only its own silence, or
//!   its own word, removes it. Who lies about others costs a few probes.
//! - **Around a cut.** A node on the ring's next places that cannot be reached directly is reached by a third one, if that works
//!   ([`Overlay::via`]); else two neighbours would both take themselves for the root of the keys between them.
//! - **Soft state.** Every echo carries counters of what changed at its sender. Who misses something that the sender may know asks until it is
//!   answered. Joining is no more than repair that begins with one known node.
//! - **No loops.** A packet goes to nodes strictly nearer to the key only ([`select`]).
//!
//! The layer below carries messages between authenticated nodes, and may report what it sees of their paths
//! ([`Overlay::handle_unreachable`]), quicker than probes could.

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
pub use link::{Link, Pace, Quality};
pub use loss::{Loss, run_length};
pub use neighbour::Standing;
pub use prefix_table::PrefixTable;
pub use select::{Choice, NextHop, select};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use neighbour::Neighbour;
use timers::Timers;
use weft_units::{Duration, Instant, NodeId, Rng};
use weft_wire::WireError;
pub use weft_wire::call::Header;
use weft_wire::overlay::{Message, NodeState, Query};

/// Nodes in a cell of the table: a primary and two backups (Chimera's MAX_ENTRY).
pub const CELL: usize = 3;

/// A node that found nobody is alone after this.
const ALONE_AFTER: Duration = Duration::from_secs(5);

/// How often neighbours are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Links that carried a packet in the last second.
    pub used: Pace,
    /// All others.
    pub idle: Pace,
    /// Between two looks for nearer nodes, and for what was missed, a third more or less; up to 32 times as long while nothing changes.
    pub gossip: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let pace =
            |calm, in_doubt| Pace { calm: Duration::from_millis(calm), in_doubt: Duration::from_millis(in_doubt) };
        Timing { used: pace(25, 10), idle: pace(1_000, 50), gossip: Duration::from_secs(2) }
    }
}

/// A node as others know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contact {
    /// Its place.
    pub id: NodeId,
    /// Its key and addresses, for the layer below; at most [`weft_wire::overlay::MAX_DETAILS`] bytes.
    pub details: Box<[u8]>,
}

/// How many nodes an overlay knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// In table and leaf set.
    pub members: usize,
    /// On trial.
    pub candidates: usize,
    /// Silent.
    pub lost: usize,
    /// How often a member has fallen silent since the start.
    pub losses: u64,
}

/// A message to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// For whom.
    pub to: NodeId,
    /// By whom, if not directly.
    pub via: Option<NodeId>,
    /// Its bytes.
    pub len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Outgoing {
    Probe(u32),
    Introduction(u32),
    Echo(u32),
    Find(Query),
    Found(Query),
    Leave,
}

/// A node's part in the overlay.
#[derive(Clone, Debug)]
pub struct Overlay {
    own: Contact,
    timing: Timing,
    rng: Rng,
    bootstrap: Vec<Contact>,
    table: PrefixTable<Neighbour>,
    leaves: LeafSet,
    state: NodeState,
    /// By row: how many more neighbours to ask for nodes after a loss.
    row_questions: Vec<u8>,
    alone_at: Instant,
    gossip_at: Instant,
    gossip_wait: Duration,
    gossips_with: Option<NodeId>,
    losses: u64,
    ghosts: u64,
    last_ghost: Instant,
    duplicates: Duplicates,
    timers: Timers,
    outgoing: VecDeque<(NodeId, Option<NodeId>, Outgoing)>,
}

impl Overlay {
    /// A node that knows `bootstrap`, which may be any nodes of the overlay, and asks its way to its own place from there. Without
    /// any it is the overlay's first node.
    pub fn new(now: Instant, own: Contact, bootstrap: Vec<Contact>, timing: Timing, rng: Rng) -> Overlay {
        let id = own.id;
        let mut overlay = Overlay {
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
            timers: Timers::default(),
            outgoing: VecDeque::new(),
        };
        overlay.handle_timeout(now);
        overlay
    }

    /// This node's place.
    pub fn id(&self) -> NodeId {
        self.own.id
    }

    /// This node, as others know it.
    pub fn contact(&self) -> &Contact {
        &self.own
    }

    /// This node can be reached otherwise than before: who meets it from now on is told so.
    pub fn set_own_details(&mut self, details: &[u8]) {
        self.own.details = details.into();
    }

    /// Whether it has found its place: before that it delivers nothing, and others route nothing by it.
    pub fn is_ready(&self) -> bool {
        self.state.is_ready
    }

    /// How to reach a node that messages or packets are sent to.
    pub fn details(&self, id: NodeId) -> Option<&[u8]> {
        self.table.get(id).map(|neighbour| &*neighbour.details)
    }

    /// What another node is to this one, if it knows it.
    pub fn standing(&self, id: NodeId) -> Option<Standing> {
        self.table.get(id).map(|neighbour| neighbour.standing)
    }

    /// What is known of the link to a neighbour.
    pub fn link(&self, id: NodeId) -> Option<&Link> {
        self.table.get(id).map(|neighbour| &neighbour.link)
    }

    /// The nodes in table and leaf set.
    pub fn members(&self) -> impl Iterator<Item = NodeId> {
        self.table.iter().filter(|(_, neighbour)| neighbour.is_member()).map(|(id, _)| id)
    }

    /// Every node it knows of, in the order of their places: members, those on trial, and those that are silent.
    pub fn known(&self) -> impl Iterator<Item = NodeId> {
        self.table.iter().map(|(id, _)| id)
    }

    /// The nodes next to this one on the ring.
    pub fn leaves(&self) -> &LeafSet {
        &self.leaves
    }

    /// How many nodes it knows.
    pub fn census(&self) -> Census {
        let mut census = Census { losses: self.losses, ..Census::default() };
        for (_, neighbour) in self.table.iter() {
            *match neighbour.standing {
                Standing::Member => &mut census.members,
                Standing::Candidate => &mut census.candidates,
                Standing::Lost => &mut census.lost,
            } += 1;
        }
        census
    }

    /// The third node that messages and packets for `id` go by, if its own link is down. What goes that way is sealed for `id`, as
    /// what goes directly.
    pub fn via(&self, id: NodeId) -> Option<NodeId> {
        self.table.get(id).and_then(Neighbour::via)
    }

    /// Whether this node hands on what others send to `id` by it.
    pub fn relays_to(&self, id: NodeId) -> bool {
        self.table.get(id).is_some_and(Neighbour::is_close)
    }

    /// Takes in a message of the authenticated node `from`, which came directly or by a third node.
    ///
    /// # Errors
    /// As [`Message::parse`]; nothing has changed then.
    pub fn handle_message(
        &mut self,
        now: Instant,
        from: NodeId,
        via: Option<NodeId>,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        match Message::parse(bytes)? {
            Message::Probe { seq } => {
                self.outgoing.push_back((from, via, Outgoing::Echo(seq)));
                if via.is_none() {
                    self.on_sign_of_life(now, from);
                }
            }
            Message::Introduction { seq, details } => {
                self.outgoing.push_back((from, via, Outgoing::Echo(seq)));
                self.on_introduction(now, from, details);
            }
            Message::Echo { seq, state } => {
                self.on_echo(now, from, via, seq, state);
                self.review(now, from);
            }
            Message::Find(query) => self.outgoing.push_back((from, via, Outgoing::Found(query))),
            Message::Found { query, news, contacts } => {
                self.on_found(now, from, query, news, contacts);
                self.check_ready(now);
            }
            Message::Leave => self.forget(now, from),
        }
        Ok(())
    }

    /// The layer below has lost `id`, or a part of the way to it, for good.
    pub fn handle_unreachable(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.link.mark_down(now);
            self.review(now, id);
        }
    }

    /// The layer below has a path to `id` again: it is probed at once, and used when it has answered often enough.
    pub fn handle_reachable(&mut self, now: Instant, id: NodeId) {
        if let Some(neighbour) = self.table.get_mut(id) {
            neighbour.link.hasten();
            self.review(now, id);
        }
    }

    /// The layer below knows better how to reach a node.
    pub fn set_details(&mut self, id: NodeId, details: &[u8]) {
        if let Some(neighbour) = self.table.get_mut(id)
            && *neighbour.details != *details
        {
            neighbour.details = details.into();
        }
    }

    /// The layer below has met a node that may be of the overlay: it is tried.
    pub fn handle_met(&mut self, now: Instant, contact: &Contact) {
        self.consider(now, contact.id, &contact.details, true);
    }

    /// A node has taken its leave, or the layer below has seen it go.
    pub fn handle_leave(&mut self, now: Instant, id: NodeId) {
        self.forget(now, id);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.timers.pop(now, |at, id| self.table.get(id).is_some_and(|n| n.timer == at)) {
            if let Some(neighbour) = self.table.get_mut(id) {
                neighbour.timer = Instant::FAR_FUTURE;
                for (via, seq) in neighbour.on_timeout(now, &self.timing).into_iter().flatten() {
                    let probe = if neighbour.is_member() { Outgoing::Probe(seq) } else { Outgoing::Introduction(seq) };
                    self.outgoing.push_back((id, via, probe));
                }
            }
            self.review(now, id);
        }
        if now >= self.gossip_at {
            self.gossip(now);
        }
    }

    /// When to call [`Overlay::handle_timeout`].
    pub fn next_timeout(&mut self) -> Instant {
        let timer = self.timers.next(|at, id| self.table.get(id).is_some_and(|n| n.timer == at));
        timer.map_or(self.gossip_at, |at| at.min(self.gossip_at))
    }

    /// Writes the next message into `out`, which has room for [`weft_wire::overlay::MAX_MESSAGE`] bytes; gives whom it is for.
    /// To be called until it gives none, after each `handle_*` and [`Overlay::next_hop`].
    pub fn poll_transmit(&mut self, out: &mut [u8]) -> Option<Transmit> {
        loop {
            let (to, via, what) = self.outgoing.pop_front()?;
            let emitted = match what {
                Outgoing::Probe(seq) => Message::Probe { seq }.emit(out),
                Outgoing::Introduction(seq) => Message::Introduction { seq, details: &self.own.details }.emit(out),
                Outgoing::Echo(seq) => Message::Echo { seq, state: self.state }.emit(out),
                Outgoing::Find(query) => Message::Find(query).emit(out),
                Outgoing::Found(query) => self.answer(to, query, out),
                Outgoing::Leave => Message::Leave.emit(out),
            };
            if let Ok(len) = emitted {
                return Some(Transmit { to, via, len });
            }
        }
    }

    /// Tells all members that this node goes away.
    pub fn leave(&mut self) {
        let members: Vec<NodeId> = self.members().collect();
        self.outgoing.extend(members.into_iter().map(|id| (id, None, Outgoing::Leave)));
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

    fn send(&mut self, to: NodeId, what: Outgoing) {
        self.outgoing.push_back((to, self.via(to), what));
    }

    /// Sees what has become of a neighbour, and sets its timer.
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
