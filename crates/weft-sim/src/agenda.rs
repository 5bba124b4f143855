//! Keeps the pending events of each node and determines which node runs next.

use crate::link::LinkDirectionState;
use crate::schedule::SourceSchedule;
use crate::{LinkId, NodeId};
use weft_units::{Duration, Instant};

/// An event at a node.
#[derive(Clone, Copy)]
pub(crate) enum AgendaEntry {
    /// The node's timer expires.
    Timer,
    /// A packet arrives at the node over this link.
    Arrival(LinkId),
    /// A packet leaves the managed queue of this link, on which the node sends.
    Departure(LinkId),
}

const TIMER: u32 = 0;

/// The pending events of one node.
struct Agenda {
    schedule: SourceSchedule,
    /// Events of the node, indexed by their source number in `schedule`. The first is the node's timer.
    events: Vec<AgendaEntry>,
    /// Least delay of the links to the node.
    ///
    /// No event at another node can affect this node sooner.
    lookahead: Duration,
}

/// The positions of a link's events in the agendas of its two end nodes.
#[derive(Clone, Copy)]
struct LinkSlots {
    arrival: u32,
    /// Position of the departure event, or `None` if the link has no managed queue.
    departure: Option<u32>,
}

/// The pending events of all nodes.
#[derive(Default)]
pub(crate) struct Agendas {
    /// Agendas, indexed by node number.
    agendas: Vec<Agenda>,
    /// Earliest event of each node.
    ///
    /// The entry of the running node is not up to date.
    nodes: SourceSchedule,
    running: Option<NodeId>,
    /// Positions of the links' events, by link.
    link_slots: Vec<LinkSlots>,
}

impl Agendas {
    /// Adds a node whose timer expires at `deadline`.
    pub(crate) fn add_node(&mut self, deadline: Instant) {
        let node = NodeId(self.nodes.add());
        let mut schedule = SourceSchedule::new();
        schedule.add();
        self.agendas.push(Agenda { schedule, events: vec![AgendaEntry::Timer], lookahead: Duration::MAX });
        self.set_timer(node, deadline);
    }

    /// Adds a link.
    pub(crate) fn add_link(&mut self, id: LinkId, link: &LinkDirectionState) {
        let arrival = self.add_event(link.to(), AgendaEntry::Arrival(id));
        let departure = link.is_managed().then(|| self.add_event(link.from(), AgendaEntry::Departure(id)));
        self.link_slots.push(LinkSlots { arrival, departure });
        let lookahead = &mut self.agendas[link.to().index()].lookahead;
        *lookahead = link.spec().delay.min(*lookahead);
    }

    fn add_event(&mut self, node: NodeId, event: AgendaEntry) -> u32 {
        let agenda = &mut self.agendas[node.index()];
        agenda.events.push(event);
        agenda.schedule.add()
    }

    /// Sets the least delay of the links to a node.
    pub(crate) fn set_lookahead(&mut self, node: NodeId, lookahead: Duration) {
        self.agendas[node.index()].lookahead = lookahead;
    }

    /// Sets the time at which a node's timer expires.
    #[inline]
    pub(crate) fn set_timer(&mut self, node: NodeId, at: Instant) {
        self.set(node, TIMER, at);
    }

    /// Updates the times of a link's next arrival and departure.
    #[inline]
    pub(crate) fn set_link(&mut self, id: LinkId, link: &LinkDirectionState) {
        let LinkSlots { arrival, departure } = self.link_slots[id.index()];
        self.set(link.to(), arrival, link.next_arrival());
        if let Some(departure) = departure {
            self.set(link.from(), departure, link.next_departure());
        }
    }

    #[inline]
    fn set(&mut self, node: NodeId, slot: u32, at: Instant) {
        let schedule = &mut self.agendas[node.index()].schedule;
        schedule.set(slot, at);
        if self.running != Some(node) {
            self.nodes.set(node.0, schedule.first().0);
        }
    }

    /// Marks the node as running.
    pub(crate) fn resume(&mut self, node: NodeId) {
        self.running = Some(node);
    }

    /// Marks the node as no longer running and updates its earliest event.
    pub(crate) fn pause(&mut self, node: NodeId) {
        self.running = None;
        self.nodes.set(node.0, self.agendas[node.index()].schedule.first().0);
    }

    /// Returns the node with the earliest event, and the time of that event.
    ///
    /// The third value is the last moment up to which no other node can affect the returned node.
    pub(crate) fn first(&self) -> (Instant, NodeId, Instant) {
        let (at, node) = self.nodes.first();
        let lookahead = self.agendas.get(node as usize).map_or(Duration::ZERO, |agenda| agenda.lookahead);
        let reached = at.as_nanos().saturating_add(u64::try_from(lookahead.as_nanos()).unwrap_or(u64::MAX));
        (at, NodeId(node), Instant::from_nanos(reached.saturating_sub(1)).max(at))
    }

    /// Returns the earliest event of a node and its time.
    #[inline]
    pub(crate) fn first_of(&self, node: NodeId) -> (Instant, AgendaEntry) {
        let agenda = &self.agendas[node.index()];
        let (at, slot) = agenda.schedule.first();
        (at, agenda.events[slot as usize])
    }
}
