//! Describes the network beneath an overlay.
//!
//! It assigns addresses to the ends of links and finds the nodes with weft that each node can reach.

use super::NetworkScenario;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// First of the addresses that the ends of links get: 100.64.0.0.
///
/// Standard: the shared address space of RFC 6598, which is separate from the hosts' addresses.
const FIRST_ADDRESS: u32 = 0x6440_0000;

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkEnd {
    /// Index of the link in the network's list of links.
    pub link: usize,
    /// Which of the two ends: the index in [`crate::Link::ends`], 0 or 1.
    pub end: usize,
}

/// The links and addresses of a network beneath its overlay.
#[derive(Clone, Debug)]
pub struct Underlay<'a> {
    network: &'a NetworkScenario,
    /// The link ends at each node, by the node's index.
    ends: Vec<Vec<LinkEnd>>,
}

impl LinkEnd {
    /// Returns the end on the other side of the same link.
    #[must_use]
    pub fn other(self) -> LinkEnd {
        LinkEnd { end: 1 - self.end, ..self }
    }

    /// Returns the IP address of this link end.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST_ADDRESS + (4 * self.link + 1 + self.end) as u32)
    }
}

impl<'a> Underlay<'a> {
    /// Creates the underlay of a network.
    pub fn new(network: &'a NetworkScenario) -> Underlay<'a> {
        let mut ends = vec![Vec::new(); network.nodes.len()];
        for (link, description) in network.links.iter().enumerate() {
            for (end, node) in description.ends.into_iter().enumerate() {
                ends[node].push(LinkEnd { link, end });
            }
        }
        Underlay { network, ends }
    }

    /// Returns the link ends at a node, in the order of the links.
    pub fn ends_at(&self, node: usize) -> &[LinkEnd] {
        &self.ends[node]
    }

    /// Returns the link ends at a node over which it may reach other nodes with weft: all but those to OpenVPN clients.
    pub fn tunnel_ends_at(&self, node: usize) -> impl Iterator<Item = LinkEnd> {
        let clients = &self.network.overlay.clients;
        let leads_to_client = |end: &LinkEnd| clients.iter().any(|client| client.link == end.link);
        self.ends[node].iter().copied().filter(move |end| !leads_to_client(end))
    }

    /// Returns the index of the node at a link end.
    pub fn node_at(&self, end: LinkEnd) -> usize {
        self.network.links[end.link].ends[end.end]
    }

    /// Returns the peers of a node with weft.
    ///
    /// They are all nodes with weft that it reaches by links and routers, and the nodes at the other ends of its flows
    /// and tunnels.
    pub fn peers(&self, node: usize) -> BTreeSet<usize> {
        let entry = |end: usize| self.network.overlay.entry_of(end).unwrap_or(end);
        let pairs = self.network.flows.iter().map(|flow| [flow.from, flow.to].map(entry));
        let pairs = pairs.chain(self.network.overlay.tunnels.iter().map(|tunnel| tunnel.ends));
        let others = pairs.filter_map(|[a, b]| match node {
            _ if node == a => Some(b),
            _ if node == b => Some(a),
            _ => None,
        });
        self.neighbours(node).into_iter().chain(others).filter(|other| *other != node).collect()
    }

    /// Returns the nodes with weft that `node` reaches by links and routers, without crossing another node with weft.
    pub fn neighbours(&self, node: usize) -> BTreeSet<usize> {
        let reached = self.ends[node].iter().flat_map(|end| self.nodes_behind(*end));
        reached.filter(|other| *other != node).collect()
    }

    /// Returns the addresses of other nodes with weft that a node reaches by one of its link ends.
    ///
    /// Each comes with the node that has the address. If weft runs at the link's other end, this is only the address of
    /// that end.
    pub fn reached_by(&self, end: LinkEnd) -> Vec<(Ipv4Addr, usize)> {
        let there = self.node_at(end.other());
        match self.network.overlay.has(there) {
            true => vec![(end.other().address(), there)],
            false => self.nodes_behind(end).into_iter().flat_map(|node| self.addresses_among_routers(node)).collect(),
        }
    }

    /// Returns the addresses of `node` on its links to nodes without weft, each with `node`.
    fn addresses_among_routers(&self, node: usize) -> impl Iterator<Item = (Ipv4Addr, usize)> {
        let leads_to_router = |end: &&LinkEnd| !self.network.overlay.has(self.node_at(end.other()));
        self.ends[node].iter().filter(leads_to_router).map(move |end| (end.address(), node))
    }

    /// Returns the nodes with weft that a node reaches by one of its link ends, directly or over routers.
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
