//! Represents a network as nodes and directed links with costs.

use crate::{LinkId, NodeId};

/// One direction of a link, with the properties that routing uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraphEdge {
    /// Node at which the edge begins.
    pub from: NodeId,
    /// Node to which the edge leads.
    pub to: NodeId,
    /// Routing cost of the edge.
    ///
    /// [`Graph::new`] replaces zero by 1, so that every cycle has a cost.
    pub cost: u64,
    /// Weight of the edge where traffic is spread by weight, in a unit that all edges share.
    pub weight: u32,
}

/// A directed graph whose edges have the numbers of the simulator's links: edge `i` is `LinkId(i)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    edges: Vec<GraphEdge>,
    leaving: Vec<Vec<LinkId>>,
    arriving: Vec<Vec<LinkId>>,
}

impl Graph {
    /// Returns a graph of `nodes` nodes and these edges.
    ///
    /// # Panics
    /// Panics if an edge names a node that does not exist.
    pub fn new(nodes: usize, edges: Vec<GraphEdge>) -> Graph {
        let (mut leaving, mut arriving) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (number, edge) in edges.iter().enumerate() {
            let link = LinkId(number as u32);
            leaving[edge.from.index()].push(link);
            arriving[edge.to.index()].push(link);
        }
        let edges = edges.into_iter().map(|edge| GraphEdge { cost: edge.cost.max(1), ..edge }).collect();
        Graph { edges, leaving, arriving }
    }

    /// Removes a link from the graph, for example because it failed.
    ///
    /// The other links keep their numbers.
    pub fn remove(&mut self, link: LinkId) {
        let GraphEdge { from, to, .. } = self.edge(link);
        self.leaving[from.index()].retain(|other| *other != link);
        self.arriving[to.index()].retain(|other| *other != link);
    }

    /// Removes every link from and to a node, as when the node fails.
    pub fn isolate(&mut self, node: NodeId) {
        let links: Vec<LinkId> = self.leaving(node).iter().chain(self.arriving(node)).copied().collect();
        links.into_iter().for_each(|link| self.remove(link));
    }

    /// Returns the edge with this number.
    pub fn edge(&self, link: LinkId) -> GraphEdge {
        self.edges[link.index()]
    }

    /// Returns the links that leave a node, in the order of their numbers.
    pub fn leaving(&self, node: NodeId) -> &[LinkId] {
        &self.leaving[node.index()]
    }

    /// Returns the links that lead to a node, in the order of their numbers.
    pub fn arriving(&self, node: NodeId) -> &[LinkId] {
        &self.arriving[node.index()]
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.leaving.len()
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.node_count() as u32).map(NodeId)
    }

    /// Returns all links that were not removed, in the order of their numbers.
    pub(crate) fn links(&self) -> Vec<LinkId> {
        let mut links: Vec<LinkId> = self.leaving.iter().flatten().copied().collect();
        links.sort_unstable();
        links
    }

    /// Returns the total cost of a path.
    pub fn cost_of(&self, path: &[LinkId]) -> u64 {
        path.iter().map(|link| self.edge(*link).cost).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: u32, to: u32) -> GraphEdge {
        GraphEdge { from: NodeId(from), to: NodeId(to), cost: 0, weight: 1 }
    }

    #[test]
    fn links_taken_out_leave_the_others_their_numbers() {
        let mut graph = Graph::new(3, vec![edge(0, 1), edge(1, 2), edge(0, 2), edge(2, 1)]);
        assert_eq!((graph.leaving(NodeId(0)), graph.edge(LinkId(2)).cost), (&[LinkId(0), LinkId(2)][..], 1));
        graph.remove(LinkId(0));
        assert_eq!(graph.leaving(NodeId(0)), [LinkId(2)]);
        assert_eq!(graph.links(), [LinkId(1), LinkId(2), LinkId(3)]);
        graph.isolate(NodeId(1));
        assert_eq!((graph.links(), graph.arriving(NodeId(2))), (vec![LinkId(2)], &[LinkId(2)][..]));
    }
}
