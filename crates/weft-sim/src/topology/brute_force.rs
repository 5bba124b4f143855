//! Generates small random graphs and enumerates their paths, for tests.

use super::{Graph, GraphEdge};
use crate::{LinkId, NodeId};
use proptest::prelude::*;

/// Generates graphs with 2 to 6 nodes and up to 14 links.
///
/// The costs are from 1 to 4, so that paths of equal cost are frequent.
pub fn graphs() -> impl Strategy<Value = Graph> {
    (2_u32..7).prop_flat_map(|nodes| {
        let edge = (0..nodes, 0..nodes, 1_u64..5).prop_map(|(from, to, cost)| GraphEdge {
            from: NodeId(from),
            to: NodeId(to),
            cost,
            weight: 1,
        });
        let edges = proptest::collection::vec(edge.prop_filter("a link to itself", |e| e.from != e.to), 1..15);
        edges.prop_map(move |edges| Graph::new(nodes as usize, edges))
    })
}

/// Returns every path from `from` to `to` that visits no node twice, each as the list of its links.
pub fn simple_paths(graph: &Graph, from: NodeId, to: NodeId) -> Vec<Vec<LinkId>> {
    let mut paths = Vec::new();
    extend(graph, from, to, &mut vec![from], &mut Vec::new(), &mut paths);
    paths
}

fn extend(
    graph: &Graph,
    node: NodeId,
    to: NodeId,
    visited: &mut Vec<NodeId>,
    path: &mut Vec<LinkId>,
    paths: &mut Vec<Vec<LinkId>>,
) {
    if node == to {
        paths.push(path.clone());
        return;
    }
    for link in graph.leaving(node) {
        let next = graph.edge(*link).to;
        if visited.contains(&next) {
            continue;
        }
        visited.push(next);
        path.push(*link);
        extend(graph, next, to, visited, path, paths);
        path.pop();
        visited.pop();
    }
}
