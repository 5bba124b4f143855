//! Runs the simulated network: its clock, its nodes and its links.

use crate::agenda::{AgendaEntry, Agendas};
use crate::link::{LinkDirectionState, LinkSpec};
use crate::node::{Ports, SimNode};
use crate::{LinkId, NodeId, Packet};
use weft_units::{Duration, Instant, Rng};

/// A function that is called for every packet that arrives over the links that [`Simulator::tap`] got.
pub type Tap = Box<dyn FnMut(Instant, LinkId, &Packet) + Send>;

/// A network of nodes of type `N` in virtual time, which begins at zero.
///
/// A node runs ahead of the other nodes until the earliest time at which one of them can affect it. That limit is the
/// earliest event of any node plus the least delay of the links to the running node. The events of each node happen
/// in order of time. The result equals that of a run in which all events happen in order of time. A node that runs
/// ahead processes several events in a row while its memory is in the cache.
///
/// Actions of the caller between two calls of [`Simulator::run_until`] happen at the end time of the first call.
pub struct Simulator<N> {
    now: Instant,
    rng: Rng,
    agendas: Agendas,
    nodes: Vec<N>,
    links: Vec<LinkDirectionState>,
    is_tapped: Vec<bool>,
    tap: Option<Tap>,
}

impl<N: SimNode> Simulator<N> {
    /// Creates an empty network, whose random numbers derive from `seed`.
    ///
    /// Each link has its own stream of random numbers, so that an additional link does not change the others.
    pub fn new(seed: u64) -> Simulator<N> {
        Simulator {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            agendas: Agendas::default(),
            nodes: Vec::new(),
            links: Vec::new(),
            is_tapped: Vec::new(),
            tap: None,
        }
    }

    /// Adds a node and returns its number. Numbers start at 0.
    pub fn add_node(&mut self, node: N) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.agendas.add_node(node.deadline().unwrap_or(Instant::FAR_FUTURE));
        self.nodes.push(node);
        id
    }

    /// Adds one direction of a link, from one node to another, and returns its number. Numbers start at 0.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        let rng = self.rng.split(u64::from(id.0) + 1);
        let link = LinkDirectionState::new(from, to, spec, &rng, self.now);
        self.agendas.add_link(id, &link);
        self.links.push(link);
        self.is_tapped.push(false);
        id
    }

    /// Returns the present simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns all nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[N] {
        &self.nodes
    }

    /// Returns all nodes in the order of their numbers, for changes that change no deadline of a node.
    pub fn nodes_mut(&mut self) -> &mut [N] {
        &mut self.nodes
    }

    /// Returns all links, in the order of their numbers.
    pub fn links(&self) -> &[LinkDirectionState] {
        &self.links
    }

    /// Returns a link for access to its statistics.
    ///
    /// # Panics
    /// Panics if the link does not exist.
    pub fn link_mut(&mut self, link: LinkId) -> &mut LinkDirectionState {
        &mut self.links[link.index()]
    }

    /// Changes the properties of a link now, as `change` does to its description.
    ///
    /// # Panics
    /// Panics if the link does not exist.
    pub fn set_link(&mut self, link: LinkId, change: impl FnOnce(&mut LinkSpec)) {
        let way = &mut self.links[link.index()];
        let mut spec = way.spec().clone();
        change(&mut spec);
        way.set(self.now, spec);
        self.agendas.set_link(link, way);
        let to = way.to();
        let delays = self.links.iter().filter(|way| way.to() == to).map(|way| way.spec().delay);
        self.agendas.set_lookahead(to, delays.min().unwrap_or(Duration::MAX));
    }

    /// Starts the run on an impaired link: its outages, swings, handovers, policer and trace begin again now.
    ///
    /// # Panics
    /// Panics if the link does not exist.
    pub fn restart_link(&mut self, link: LinkId) {
        let way = &mut self.links[link.index()];
        way.restart(self.now);
        self.agendas.set_link(link, way);
    }

    /// Makes the simulator call `tap` with every packet that arrives over `links`, in order of time.
    ///
    /// A new tap replaces the old one.
    pub fn tap(&mut self, links: &[LinkId], tap: Tap) {
        self.is_tapped.fill(false);
        links.iter().for_each(|link| self.is_tapped[link.index()] = true);
        self.tap = Some(tap);
    }

    /// Calls `work` with a node, which may then send packets, and returns its result.
    ///
    /// # Panics
    /// Panics if the node does not exist.
    pub fn with_node<T>(&mut self, node: NodeId, work: impl FnOnce(&mut N, Instant, &mut Ports<'_>) -> T) -> T {
        self.at_node(self.now, node, work)
    }

    fn at_node<T>(&mut self, now: Instant, node: NodeId, work: impl FnOnce(&mut N, Instant, &mut Ports<'_>) -> T) -> T {
        let (nodes, mut ports) = self.split(now);
        let result = work(&mut nodes[node.index()], now, &mut ports);
        self.reschedule(node);
        result
    }

    fn split(&mut self, now: Instant) -> (&mut [N], Ports<'_>) {
        (&mut self.nodes, Ports { now, links: &mut self.links, agendas: &mut self.agendas })
    }

    fn reschedule(&mut self, node: NodeId) {
        let deadline = self.nodes[node.index()].deadline();
        self.agendas.set_timer(node, deadline.unwrap_or(Instant::FAR_FUTURE));
    }

    /// Processes all events up to and including `end`.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            let (at, node, reached) = self.agendas.first();
            if at > end || at == Instant::FAR_FUTURE {
                self.now = end;
                return;
            }
            let until = if self.tap.is_some() { at } else { reached };
            self.run_node(node, until.min(end));
        }
    }

    /// Processes the events of one node up to `until`. No other node can affect this node before this time.
    fn run_node(&mut self, node: NodeId, until: Instant) {
        let mut now = self.now;
        self.agendas.resume(node);
        loop {
            let (at, event) = self.agendas.first_of(node);
            if at > until || at == Instant::FAR_FUTURE {
                return self.agendas.pause(node);
            }
            now = now.max(at);
            match event {
                AgendaEntry::Arrival(link) => self.arrive(now, link),
                AgendaEntry::Departure(link) => {
                    self.links[link.index()].depart_managed(now);
                    self.agendas.set_link(link, &self.links[link.index()]);
                }
                AgendaEntry::Timer => self.at_node(now, node, |node, now, ports| node.wake(now, ports)),
            }
        }
    }

    fn arrive(&mut self, now: Instant, link: LinkId) {
        let way = &mut self.links[link.index()];
        let arrived = way.arrive(now);
        self.agendas.set_link(link, way);
        let (to, Some(packet)) = (way.to(), arrived) else { return };
        if self.is_tapped[link.index()]
            && let Some(tap) = &mut self.tap
        {
            tap(now, link, &packet);
        }
        let (nodes, mut ports) = self.split(now);
        let node = &mut nodes[to.index()];
        let Some(packet) = node.pass_on(packet, &mut ports) else { return };
        node.receive(now, link, packet, &mut ports);
        self.reschedule(to);
    }
}

#[cfg(test)]
mod tests;
