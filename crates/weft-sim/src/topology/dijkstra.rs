//! Computes shortest paths (Dijkstra 1959).

use super::Graph;
use crate::{LinkId, NodeId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns, for each node, the cost of the cheapest path from it to `destination`.
///
/// An entry is `None` if no path exists.
pub fn distances_to(graph: &Graph, destination: NodeId) -> Vec<Option<u64>> {
    distances_over(graph, destination, |_| true)
}

/// Returns the links of the cheapest path from `from` to `to`, or `None` if no path exists.
///
/// Of paths with equal cost it returns the one whose first differing link has the lower number.
pub fn shortest_path(graph: &Graph, from: NodeId, to: NodeId) -> Option<Vec<LinkId>> {
    shortest_path_over(graph, from, to, |_| true)
}

/// Returns the [`shortest_path`] that uses only links for which `usable` is true.
pub(super) fn shortest_path_over(
    graph: &Graph,
    from: NodeId,
    to: NodeId,
    usable: impl Fn(LinkId) -> bool,
) -> Option<Vec<LinkId>> {
    let distances = distances_over(graph, to, &usable);
    let mut path = Vec::new();
    let mut node = from;
    while node != to {
        let link = next_links(graph, &distances, node).find(|link| usable(*link))?;
        path.push(link);
        node = graph.edge(link).to;
    }
    Some(path)
}

/// Returns the links that leave `node` and begin a cheapest path.
///
/// `distances` is the result of [`distances_to`] for the destination.
pub(super) fn next_links<'a>(
    graph: &'a Graph,
    distances: &'a [Option<u64>],
    node: NodeId,
) -> impl Iterator<Item = LinkId> + 'a {
    let here = distances[node.index()];
    graph.leaving(node).iter().copied().filter(move |link| {
        let edge = graph.edge(*link);
        let through = distances[edge.to.index()].map(|rest| rest.saturating_add(edge.cost));
        through.is_some() && through == here
    })
}

fn distances_over(graph: &Graph, destination: NodeId, usable: impl Fn(LinkId) -> bool) -> Vec<Option<u64>> {
    let mut distances: Vec<Option<u64>> = vec![None; graph.node_count()];
    let mut reached = BinaryHeap::from([Reverse((0_u64, destination))]);
    while let Some(Reverse((distance, node))) = reached.pop() {
        if distances[node.index()].is_some() {
            continue;
        }
        distances[node.index()] = Some(distance);
        for link in graph.arriving(node).iter().copied().filter(|link| usable(*link)) {
            let edge = graph.edge(link);
            reached.push(Reverse((distance.saturating_add(edge.cost), edge.from)));
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::super::brute_force::{graphs, simple_paths};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_path_is_cheaper(graph in graphs()) {
            for (from, to) in graph.nodes().flat_map(|from| graph.nodes().map(move |to| (from, to))) {
                let cheapest = simple_paths(&graph, from, to).into_iter().map(|path| (graph.cost_of(&path), path)).min();
                let path = shortest_path(&graph, from, to);
                prop_assert_eq!(distances_to(&graph, to)[from.index()], cheapest.as_ref().map(|(cost, _)| *cost));
                prop_assert_eq!(path, cheapest.map(|(_, path)| path));
            }
        }
    }
}
