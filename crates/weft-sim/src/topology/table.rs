//! What a router looks up.

use super::Graph;
use crate::{LinkId, NodeId};
use std::collections::BTreeMap;

/// One way on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// The link to send on.
    pub link: LinkId,
    /// The label to put on the packet; 0 for none.
    pub label: u16,
    /// Its share where traffic is spread by weight.
    pub weight: u32,
}

/// All ways on to one destination; empty where there is none.
pub type NextHops = Vec<NextHop>;

/// One node's routes.
///
/// A packet without a label takes one of `by_destination[destination]` and that hop's label. A packet with a label takes
/// `by_label[label]` and keeps it; where that says nothing its path ends here: it loses the label and goes by destination.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteTable {
    /// The next hops, by the destination's number.
    pub by_destination: Vec<NextHops>,
    /// The link on which a label's path goes on, by label.
    pub by_label: Vec<Option<LinkId>>,
}

impl RouteTable {
    /// A table without a route, for a network of `nodes` nodes.
    pub fn empty(nodes: usize) -> RouteTable {
        RouteTable { by_destination: vec![NextHops::new(); nodes], by_label: Vec::new() }
    }

    /// The ways on to a destination.
    pub fn towards(&self, destination: NodeId) -> &[NextHop] {
        self.by_destination.get(destination.index()).map_or(&[], Vec::as_slice)
    }

    /// The link on which a packet of this label goes on; `None` where its path ends here.
    pub fn labelled(&self, label: u16) -> Option<LinkId> {
        self.by_label.get(usize::from(label)).copied().flatten()
    }
}

/// In how many ways the tables (one for each node) lead a packet from `from` to `to`: the N of paper 000's T(N).
pub fn path_count(graph: &Graph, tables: &[RouteTable], from: NodeId, to: NodeId) -> u64 {
    Counter { graph, tables, to, known: BTreeMap::new() }.ways(from, 0)
}

struct Counter<'a> {
    graph: &'a Graph,
    tables: &'a [RouteTable],
    to: NodeId,
    /// Ways on from a node with a label; a place that is still being counted has none, which ends circles.
    known: BTreeMap<(NodeId, u16), u64>,
}

impl Counter<'_> {
    fn ways(&mut self, node: NodeId, label: u16) -> u64 {
        if node == self.to {
            return 1;
        }
        if let Some(known) = self.known.get(&(node, label)) {
            return *known;
        }
        self.known.insert((node, label), 0);
        let table = &self.tables[node.index()];
        let ways = match table.labelled(label) {
            Some(link) => self.ways(self.graph.edge(link).to, label),
            None => {
                let hops = table.towards(self.to).iter();
                hops.map(|hop| self.ways(self.graph.edge(hop.link).to, hop.label)).fold(0, u64::saturating_add)
            }
        };
        self.known.insert((node, label), ways);
        ways
    }
}
