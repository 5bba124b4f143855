//! The network and its clock.

use crate::link::{Link, LinkSpec};
use crate::node::{Node, Ports};
use crate::schedule::Schedule;
use crate::{LinkId, NodeId, Packet};
use weft_units::{Instant, Rng};

#[derive(Clone, Copy)]
enum Source {
    Link(LinkId),
    Node(NodeId),
}

/// Sees every packet that arrives over the links it is told to watch.
pub type Tap = Box<dyn FnMut(Instant, LinkId, &Packet) + Send>;

/// A network of nodes of type `N` in virtual time, from time zero.
///
/// What happens between two calls of [`Simulator::run_until`] happens at the time of the first.
pub struct Simulator<N> {
    now: Instant,
    rng: Rng,
    schedule: Schedule,
    sources: Vec<Source>,
    nodes: Vec<N>,
    node_sources: Vec<u32>,
    links: Vec<Link>,
    link_sources: Vec<u32>,
    is_tapped: Vec<bool>,
    tap: Option<Tap>,
}

impl<N: Node> Simulator<N> {
    /// An empty network. Each link draws from its own stream of `seed`, so that adding one disturbs no other.
    pub fn new(seed: u64) -> Simulator<N> {
        Simulator {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            schedule: Schedule::new(),
            sources: Vec::new(),
            nodes: Vec::new(),
            node_sources: Vec::new(),
            links: Vec::new(),
            link_sources: Vec::new(),
            is_tapped: Vec::new(),
            tap: None,
        }
    }

    fn add_source(&mut self, source: Source) -> u32 {
        self.sources.push(source);
        self.schedule.add()
    }

    /// Adds a node; its number counts from 0.
    pub fn add_node(&mut self, node: N) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        let source = self.add_source(Source::Node(id));
        self.schedule.set(source, node.deadline().unwrap_or(Instant::FAR_FUTURE));
        self.nodes.push(node);
        self.node_sources.push(source);
        id
    }

    /// Adds one direction of a link; its number counts from 0.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, spec: LinkSpec) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        let source = self.add_source(Source::Link(id));
        let rng = self.rng.split(u64::from(id.0) + 1);
        self.links.push(Link::new(from, to, spec, &rng, self.now));
        self.link_sources.push(source);
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
        self.schedule.set(self.link_sources[link.index()], way.next());
    }

    /// Lets `tap` see every packet that arrives over `links` from now on; one tap at a time.
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
        let (nodes, mut ports) = self.split();
        let now = ports.now;
        let result = work(&mut nodes[node.index()], now, &mut ports);
        self.reschedule(node);
        result
    }

    fn split(&mut self) -> (&mut [N], Ports<'_>) {
        let ports = Ports {
            now: self.now,
            links: &mut self.links,
            link_sources: &self.link_sources,
            schedule: &mut self.schedule,
        };
        (&mut self.nodes, ports)
    }

    fn reschedule(&mut self, node: NodeId) {
        let deadline = self.nodes[node.index()].deadline();
        self.schedule.set(self.node_sources[node.index()], deadline.unwrap_or(Instant::FAR_FUTURE));
    }

    /// Lets everything happen that happens until `end`, `end` included.
    pub fn run_until(&mut self, end: Instant) {
        loop {
            let (at, source) = self.schedule.first();
            if at > end || at == Instant::FAR_FUTURE {
                self.now = end;
                return;
            }
            self.now = at.max(self.now);
            match self.sources[source as usize] {
                Source::Link(link) => self.arrive(link, source),
                Source::Node(node) => self.with_node(node, |node, now, ports| node.wake(now, ports)),
            }
        }
    }

    fn arrive(&mut self, link: LinkId, source: u32) {
        let way = &mut self.links[link.index()];
        let arrived = way.arrive(self.now);
        self.schedule.set(source, way.next());
        let (to, Some(packet)) = (way.to(), arrived) else { return };
        if self.is_tapped[link.index()]
            && let Some(tap) = &mut self.tap
        {
            tap(self.now, link, &packet);
        }
        let (nodes, mut ports) = self.split();
        let (node, now) = (&mut nodes[to.index()], ports.now);
        node.receive(now, link, packet, &mut ports);
        let deadline = node.deadline().unwrap_or(Instant::FAR_FUTURE);
        self.schedule.set(self.node_sources[to.index()], deadline);
    }
}

#[cfg(test)]
mod tests;
