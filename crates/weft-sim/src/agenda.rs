//! What each node has before it, and which node is next.

use crate::link::Link;
use crate::schedule::Schedule;
use crate::{LinkId, NodeId};
use weft_units::{Duration, Instant};

/// What happens at a node.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// It is woken.
    Timer,
    /// A packet arrives over a link to it.
    Arrival(LinkId),
    /// A packet leaves the managed queue of a link from it.
    Departure(LinkId),
}

const TIMER: u32 = 0;

/// What one node has before it.
struct Agenda {
    schedule: Schedule,
    /// By number in the schedule; the timer is the first.
    events: Vec<Event>,
    /// The least delay of the links to it: nothing that happens elsewhere can reach it sooner.
    lookahead: Duration,
}

/// Where a link's events stand in the agendas of its ends.
#[derive(Clone, Copy)]
struct Seats {
    arrival: u32,
    /// If its queue is managed.
    departure: Option<u32>,
}

/// What all nodes have before them.
#[derive(Default)]
pub(crate) struct Agendas {
    /// By node.
    agendas: Vec<Agenda>,
    /// Each node's earliest event, but for the one that runs.
    nodes: Schedule,
    running: Option<NodeId>,
    /// By link.
    seats: Vec<Seats>,
}

impl Agendas {
    /// A node more, to be woken at `deadline`.
    pub(crate) fn add_node(&mut self, deadline: Instant) {
        let node = NodeId(self.nodes.add());
        let mut schedule = Schedule::new();
        schedule.add();
        self.agendas.push(Agenda { schedule, events: vec![Event::Timer], lookahead: Duration::MAX });
        self.set_timer(node, deadline);
    }

    /// A link more.
    pub(crate) fn add_link(&mut self, id: LinkId, link: &Link) {
        let arrival = self.add_event(link.to(), Event::Arrival(id));
        let departure = link.is_managed().then(|| self.add_event(link.from(), Event::Departure(id)));
        self.seats.push(Seats { arrival, departure });
        let lookahead = &mut self.agendas[link.to().index()].lookahead;
        *lookahead = link.spec().delay.min(*lookahead);
    }

    fn add_event(&mut self, node: NodeId, event: Event) -> u32 {
        let agenda = &mut self.agendas[node.index()];
        agenda.events.push(event);
        agenda.schedule.add()
    }

    /// The least delay of the links to a node has become this.
    pub(crate) fn set_lookahead(&mut self, node: NodeId, lookahead: Duration) {
        self.agendas[node.index()].lookahead = lookahead;
    }

    /// When a node wants to be woken.
    #[inline]
    pub(crate) fn set_timer(&mut self, node: NodeId, at: Instant) {
        self.set(node, TIMER, at);
    }

    /// Takes over when a link's events come.
    #[inline]
    pub(crate) fn set_link(&mut self, id: LinkId, link: &Link) {
        let Seats { arrival, departure } = self.seats[id.index()];
        self.set(link.to(), arrival, link.next_arrival());
        if let Some(departure) = departure {
            self.set(link.from(), departure, link.next_departure());
        }
    }

    #[inline]
    fn set(&mut self, node: NodeId, seat: u32, at: Instant) {
        let schedule = &mut self.agendas[node.index()].schedule;
        schedule.set(seat, at);
        if self.running != Some(node) {
            self.nodes.set(node.0, schedule.first().0);
        }
    }

    /// A node runs.
    pub(crate) fn resume(&mut self, node: NodeId) {
        self.running = Some(node);
    }

    /// It does no longer.
    pub(crate) fn pause(&mut self, node: NodeId) {
        self.running = None;
        self.nodes.set(node.0, self.agendas[node.index()].schedule.first().0);
    }

    /// The node with the earliest event, its time, and the time until which nothing else can reach that node.
    pub(crate) fn first(&self) -> (Instant, NodeId, Instant) {
        let (at, node) = self.nodes.first();
        let lookahead = self.agendas.get(node as usize).map_or(Duration::ZERO, |agenda| agenda.lookahead);
        let reached = at.as_nanos().saturating_add(u64::try_from(lookahead.as_nanos()).unwrap_or(u64::MAX));
        (at, NodeId(node), Instant::from_nanos(reached.saturating_sub(1)).max(at))
    }

    /// A node's earliest event and its time.
    #[inline]
    pub(crate) fn first_of(&self, node: NodeId) -> (Instant, Event) {
        let agenda = &self.agendas[node.index()];
        let (at, seat) = agenda.schedule.first();
        (at, agenda.events[seat as usize])
    }
}
