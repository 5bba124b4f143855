//! What an overlay lies on: the addresses of links' ends, and which nodes with weft can be reached by which.

use super::Network;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// The first address of links' ends: 100.64.0.0 (RFC 6598), apart from those of hosts.
const FIRST_ADDRESS: u32 = 0x6440_0000;

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkEnd {
    /// The link's number.
    pub link: usize,
    /// Which of its two ends.
    pub end: usize,
}

/// A network's links and addresses, as its nodes with weft see them.
#[derive(Clone, Debug)]
pub struct Underlay<'a> {
    network: &'a Network,
    /// For each node the ends of links that are there.
    ends: Vec<Vec<LinkEnd>>,
}

impl LinkEnd {
    /// The link's other end.
    #[must_use]
    pub fn other(self) -> LinkEnd {
        LinkEnd { end: 1 - self.end, ..self }
    }

    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_ADDRESS + (4 * self.link + 1 + self.end) as u32)
    }
}

impl<'a> Underlay<'a> {
    /// That of a network.
    pub fn new(network: &'a Network) -> Underlay<'a> {
        let mut ends = vec![Vec::new(); network.nodes.len()];
        for (link, description) in network.links.iter().enumerate() {
            for (end, node) in description.ends.into_iter().enumerate() {
                ends[node].push(LinkEnd { link, end });
            }
        }
        Underlay { network, ends }
    }

    /// The ends of links at a node, in the order of the links.
    pub fn ends_at(&self, node: usize) -> &[LinkEnd] {
        &self.ends[node]
    }

    /// The node at the end of a link.
    pub fn node_at(&self, end: LinkEnd) -> usize {
        self.network.links[end.link].ends[end.end]
    }

    /// Who a node with weft knows: all that links and routers lead to, the other ends of its flows and of its tunnels.
    pub fn peers(&self, node: usize) -> BTreeSet<usize> {
        let direct = self.ends[node].iter().flat_map(|end| self.nodes_behind(*end));
        let pairs = self.network.flows.iter().map(|flow| [flow.from, flow.to]);
        let pairs = pairs.chain(self.network.overlay.tunnels.iter().map(|tunnel| tunnel.ends));
        let others = pairs.filter_map(|[a, b]| match node {
            _ if node == a => Some(b),
            _ if node == b => Some(a),
            _ => None,
        });
        direct.chain(others).filter(|other| *other != node).collect()
    }

    /// The addresses that can be reached by a link from one of its ends, and the nodes with weft whose they are; that of the link's
    /// other end is the first, where weft runs there.
    pub fn reached_by(&self, end: LinkEnd) -> Vec<(Ipv4Addr, usize)> {
        let there = self.node_at(end.other());
        match self.network.overlay.has(there) {
            true => vec![(end.other().address(), there)],
            false => self.nodes_behind(end).into_iter().flat_map(|node| self.addresses_among_routers(node)).collect(),
        }
    }

    /// A node's addresses on links that lead to routers.
    fn addresses_among_routers(&self, node: usize) -> impl Iterator<Item = (Ipv4Addr, usize)> {
        let leads_to_router = |end: &&LinkEnd| !self.network.overlay.has(self.node_at(end.other()));
        self.ends[node].iter().filter(leads_to_router).map(move |end| (end.address(), node))
    }

    /// The nodes with weft to which a link leads, over routers or directly, from one of its ends.
    fn nodes_behind(&self, end: LinkEnd) -> BTreeSet<usize> {
        let [first, next] = [end, end.other()].map(|end| self.node_at(end));
        let (mut seen, mut found, mut open) = (BTreeSet::from([first]), BTreeSet::new(), vec![next]);
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            match self.network.overlay.has(node) {
                true => drop(found.insert(node)),
                false => open.extend(self.ends[node].iter().map(|end| self.node_at(end.other()))),
            }
        }
        found
    }
}
