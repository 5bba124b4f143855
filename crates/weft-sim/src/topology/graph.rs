//! Nodes and directed links with costs.

use crate::{LinkId, NodeId};

/// One direction of a link, as routing sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The node it leaves.
    pub from: NodeId,
    /// The node it leads to.
    pub to: NodeId,
    /// What taking it costs; 0 counts as 1, so that no route goes in a circle for nothing.
    pub cost: u64,
    /// Its share where traffic is spread by weight, in any unit that all edges have in common.
    pub weight: u32,
}

/// A directed graph whose edges are numbered like the links of the simulator: edge `i` is `LinkId(i)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    edges: Vec<Edge>,
    leaving: Vec<Vec<LinkId>>,
    arriving: Vec<Vec<LinkId>>,
}

impl Graph {
    /// A graph of `nodes` nodes.
    ///
    /// # Panics
    /// When an edge names a node that is not there.
    pub fn new(nodes: usize, edges: Vec<Edge>) -> Graph {
        let (mut leaving, mut arriving) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (number, edge) in edges.iter().enumerate() {
            let link = LinkId(number as u32);
            leaving[edge.from.index()].push(link);
            arriving[edge.to.index()].push(link);
        }
        let edges = edges.into_iter().map(|edge| Edge { cost: edge.cost.max(1), ..edge }).collect();
        Graph { edges, leaving, arriving }
    }

    /// Takes a link out, as when it fails; the others keep their numbers.
    pub fn remove(&mut self, link: LinkId) {
        let Edge { from, to, .. } = self.edge(link);
        self.leaving[from.index()].retain(|other| *other != link);
        self.arriving[to.index()].retain(|other| *other != link);
    }

    /// Takes out every link from and to a node, as when it fails.
    pub fn isolate(&mut self, node: NodeId) {
        let links: Vec<LinkId> = self.leaving(node).iter().chain(self.arriving(node)).copied().collect();
        links.into_iter().for_each(|link| self.remove(link));
    }

    /// The edge of this number.
    pub fn edge(&self, link: LinkId) -> Edge {
        self.edges[link.index()]
    }

    /// The links that leave a node, in the order of their numbers.
    pub fn leaving(&self, node: NodeId) -> &[LinkId] {
        &self.leaving[node.index()]
    }

    /// The links that lead to a node, in the order of their numbers.
    pub fn arriving(&self, node: NodeId) -> &[LinkId] {
        &self.arriving[node.index()]
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.leaving.len()
    }

    /// Every node.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.node_count() as u32).map(NodeId)
    }

    /// Every link that was not taken out, in the order of their numbers.
    pub(crate) fn links(&self) -> Vec<LinkId> {
        let mut links: Vec<LinkId> = self.leaving.iter().flatten().copied().collect();
        links.sort_unstable();
        links
    }

    /// What a path costs in all.
    pub fn cost_of(&self, path: &[LinkId]) -> u64 {
        path.iter().map(|link| self.edge(*link).cost).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: u32, to: u32) -> Edge {
        Edge { from: NodeId(from), to: NodeId(to), cost: 0, weight: 1 }
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
