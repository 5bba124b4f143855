//! Keeps the pending events of each node, and determines which node's events are processed next.

use crate::link::LinkDirectionState;
use crate::schedule::SourceSchedule;
use crate::{LinkId, NodeId};
use weft_units::{Duration, Instant};

/// An event that is pending at a node.
#[derive(Clone, Copy)]
pub(crate) enum AgendaEntry {
    /// The node's timer expires: its deadline is reached.
    Timer,
    /// A packet arrives at the node over this link.
    Arrival(LinkId),
    /// A packet leaves the managed queue of this link, which begins at the node.
    Departure(LinkId),
}

const TIMER: u32 = 0;

/// The pending events of one node.
struct Agenda {
    schedule: SourceSchedule,
    /// Events of the node, indexed by their source number in `schedule`. The first is the node's timer.
    events: Vec<AgendaEntry>,
    /// Least delay of the links that lead to the node.
    ///
    /// No event at another node can affect this node sooner.
    lookahead: Duration,
}

/// The places of a link's events in the agendas of the two nodes at its ends.
///
/// A place is an index in `Agenda::events`.
#[derive(Clone, Copy)]
struct LinkSlots {
    arrival: u32,
    /// Place of the departure event in the sending node's agenda. `None` if the link has no managed queue.
    departure: Option<u32>,
}

/// The pending events of all nodes.
#[derive(Default)]
pub(crate) struct Agendas {
    /// The agenda of each node, by the node's number.
    agendas: Vec<Agenda>,
    /// Time of the earliest event of each node.
    ///
    /// The time of the node whose events are being processed is not up to date.
    nodes: SourceSchedule,
    running: Option<NodeId>,
    /// Places of the events of each link in the nodes' agendas, by the link's number.
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

    /// Sets the least delay of the links that lead to a node.
    pub(crate) fn set_lookahead(&mut self, node: NodeId, lookahead: Duration) {
        self.agendas[node.index()].lookahead = lookahead;
    }

    /// Sets the time at which a node's timer expires.
    #[inline]
    pub(crate) fn set_timer(&mut self, node: NodeId, at: Instant) {
        self.set(node, TIMER, at);
    }

    /// Updates the times of a link's next arrival and departure in the agendas of its end nodes.
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

    /// Records that the events of this node are being processed now.
    pub(crate) fn resume(&mut self, node: NodeId) {
        self.running = Some(node);
    }

    /// Records that the events of no node are being processed, and updates the earliest event of `node`.
    pub(crate) fn pause(&mut self, node: NodeId) {
        self.running = None;
        self.nodes.set(node.0, self.agendas[node.index()].schedule.first().0);
    }

    /// Returns the time of the earliest event of all nodes, and the node that has it.
    ///
    /// The third value is the last time at which no other node can yet affect this node.
    pub(crate) fn first(&self) -> (Instant, NodeId, Instant) {
        let (at, node) = self.nodes.first();
        let lookahead = self.agendas.get(node as usize).map_or(Duration::ZERO, |agenda| agenda.lookahead);
        let reached = at.as_nanos().saturating_add(u64::try_from(lookahead.as_nanos()).unwrap_or(u64::MAX));
        (at, NodeId(node), Instant::from_nanos(reached.saturating_sub(1)).max(at))
    }

    /// Returns the time of the earliest event of a node, and the event.
    #[inline]
    pub(crate) fn first_of(&self, node: NodeId) -> (Instant, AgendaEntry) {
        let agenda = &self.agendas[node.index()];
        let (at, slot) = agenda.schedule.first();
        (at, agenda.events[slot as usize])
    }
}
