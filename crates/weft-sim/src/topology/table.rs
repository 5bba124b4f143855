//! Defines the table in which a router looks up the next hops of a packet.

use super::Graph;
use crate::{LinkId, NodeId};
use std::collections::BTreeMap;

/// One next hop of a [`RouteTable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopEntry {
    /// Link on which the packet is sent.
    pub link: LinkId,
    /// Label that the packet gets, or 0 for none.
    pub label: u16,
    /// Weight of the next hop among those to the same destination, where traffic is spread by weight.
    pub weight: u32,
}

/// All next hops to one destination, or empty if no route exists.
pub type NextHops = Vec<HopEntry>;

/// The routes of one node.
///
/// If a packet has no label, one of `by_destination[destination]` is its next hop, and the packet gets the label of
/// that entry. If a packet has a label, it leaves by the link `by_label[label]` and keeps its label. If that entry is
/// empty, the path ends at this node: the packet loses its label and is routed by destination.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteTable {
    /// Next hops to each destination. The index is the number of the destination.
    pub by_destination: Vec<NextHops>,
    /// Link on which the path of each label continues. The index is the label. `None`: no path continues here.
    pub by_label: Vec<Option<LinkId>>,
}

impl RouteTable {
    /// Returns a table without routes for a network of `nodes` nodes.
    pub fn empty(nodes: usize) -> RouteTable {
        RouteTable { by_destination: vec![NextHops::new(); nodes], by_label: Vec::new() }
    }

    /// Returns the next hops to a destination, which are none if no route exists.
    pub fn towards(&self, destination: NodeId) -> &[HopEntry] {
        self.by_destination.get(destination.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns the link on which a packet with this label continues, or `None` if the path ends here.
    pub fn labelled(&self, label: u16) -> Option<LinkId> {
        self.by_label.get(usize::from(label)).copied().flatten()
    }
}

/// Returns the number of routes by which the tables lead a packet from `from` to `to`.
///
/// It is the number N of paths in the formula T(N) of paper 000.
///
/// It is the N of paper 000's T(N).
///
/// `tables` has one table for each node.
pub fn path_count(graph: &Graph, tables: &[RouteTable], from: NodeId, to: NodeId) -> u64 {
    PathCounter { graph, tables, to, known: BTreeMap::new() }.count_paths(from, 0)
}

struct PathCounter<'a> {
    graph: &'a Graph,
    tables: &'a [RouteTable],
    to: NodeId,
    /// Number of routes to the destination for a packet at this node with this label.
    ///
    /// An entry whose number is not computed yet has 0. Cycles are thus not followed.
    known: BTreeMap<(NodeId, u16), u64>,
}

impl PathCounter<'_> {
    fn count_paths(&mut self, node: NodeId, label: u16) -> u64 {
        if node == self.to {
            return 1;
        }
        if let Some(known) = self.known.get(&(node, label)) {
            return *known;
        }
        self.known.insert((node, label), 0);
        let table = &self.tables[node.index()];
        let count_paths = match table.labelled(label) {
            Some(link) => self.count_paths(self.graph.edge(link).to, label),
            None => {
                let hops = table.towards(self.to).iter();
                hops.map(|hop| self.count_paths(self.graph.edge(hop.link).to, hop.label)).fold(0, u64::saturating_add)
            }
        };
        self.known.insert((node, label), count_paths);
        count_paths
    }
}
