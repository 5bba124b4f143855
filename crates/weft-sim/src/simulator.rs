//! The network and its clock.

use crate::agenda::{Agendas, Event};
use crate::link::{Link, LinkSpec};
use crate::node::{Node, Ports};
use crate::{LinkId, NodeId, Packet};
use weft_units::{Duration, Instant, Rng};

/// Sees every packet that arrives over the links it is told to watch.
pub type Tap = Box<dyn FnMut(Instant, LinkId, &Packet) + Send>;

/// A network of nodes of type `N` in virtual time, from time zero.
///
/// A node runs ahead of the others as far as nothing of them can reach it, which is the least delay of the links to it: what happens at
/// one node happens in order of time, and what happens at several comes to the same as if it did. Ahead of the others its memory is still
/// at hand from the event before. What happens between two calls of [`Simulator::run_until`] happens at the time of the first.
pub struct Simulator<N> {
    now: Instant,
    rng: Rng,
    agendas: Agendas,
    nodes: Vec<N>,
    links: Vec<Link>,
    is_tapped: Vec<bool>,
    tap: Option<Tap>,
}

impl<N: Node> Simulator<N> {
    /// An empty network. Each link draws from its own stream of `seed`, so that adding one disturbs no other.
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

    /// Adds a node; its number counts from 0.
    pub fn add_node(&mut self, node: N) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.agendas.add_node(node.deadline().unwrap_or(Instant::FAR_FUTURE));
        self.nodes.push(node);
        id
    }

    /// Adds one direction of a link; its number counts from 0.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        let rng = self.rng.split(u64::from(id.0) + 1);
        let link = Link::new(from, to, spec, &rng, self.now);
        self.agendas.add_link(id, &link);
        self.links.push(link);
        self.is_tapped.push(false);
        id
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The nodes, by number.
    pub fn nodes(&self) -> &[N] {
        &self.nodes
    }

    /// The nodes, by number, to change what moves no deadline of theirs.
    pub fn nodes_mut(&mut self) -> &mut [N] {
        &mut self.nodes
    }

    /// The links, by number.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A link, for its statistics.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn link_mut(&mut self, link: LinkId) -> &mut Link {
        &mut self.links[link.index()]
    }

    /// Changes a link's properties.
    ///
    /// # Panics
    /// When there is no such link.
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

    /// Has a run begin on a link: outages, swings, handovers and policers of an impaired one start anew.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn restart_link(&mut self, link: LinkId) {
        let way = &mut self.links[link.index()];
        way.restart(self.now);
        self.agendas.set_link(link, way);
    }

    /// Lets `tap` see every packet that arrives over `links` from now on, in order of time; one tap at a time.
    pub fn tap(&mut self, links: &[LinkId], tap: Tap) {
        self.is_tapped.fill(false);
        links.iter().for_each(|link| self.is_tapped[link.index()] = true);
        self.tap = Some(tap);
    }

    /// Does something to a node, which may send.
    ///
    /// # Panics
    /// When there is no such node.
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

    /// Lets everything happen that happens until `end`, `end` included.
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

    /// Lets happen what happens at one node.
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
                Event::Arrival(link) => self.arrive(now, link),
                Event::Departure(link) => {
                    self.links[link.index()].depart_managed(now);
                    self.agendas.set_link(link, &self.links[link.index()]);
                }
                Event::Timer => self.at_node(now, node, |node, now, ports| node.wake(now, ports)),
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
