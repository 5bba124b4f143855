//! Adds explicit label-switched paths (RFC 3031) to routes by destination.

use super::{Graph, HopEntry, RouteTable, distances_to};
use crate::{LinkId, NodeId};
use std::fmt;

/// A path whose packets carry a label by which the nodes forward them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelPath {
    /// Links of the path, each of which begins where the link before it ends.
    pub links: Vec<LinkId>,
    /// Weight of the path among the next hops of its first node, where traffic is spread by weight.
    pub weight: u32,
    /// Destinations whose packets may take the path at its first node (its forwarding equivalence class).
    pub destinations: Vec<NodeId>,
}

/// The error that more paths than labels exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyPaths {
    /// Number of paths that need a label.
    pub paths: usize,
}

impl fmt::Display for TooManyPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} label-switched paths, but only {} labels", self.paths, u16::MAX)
    }
}

impl std::error::Error for TooManyPaths {}

/// Adds label-switched paths to `tables`, which has one route table for each node.
///
/// Path `i` gets label `i + 1`.
///
/// At the first node of a path, the paths in `paths` replace the next hops to their destinations. Their order is kept.
///
/// # Errors
/// Fails without any change if there are more paths than labels.
pub fn lay_paths(graph: &Graph, tables: &mut [RouteTable], paths: &[LabelPath]) -> Result<(), TooManyPaths> {
    if paths.len() > usize::from(u16::MAX) {
        return Err(TooManyPaths { paths: paths.len() });
    }
    for path in paths {
        let Some(ingress) = ingress(graph, path) else { continue };
        let routes = &mut tables[ingress.index()].by_destination;
        path.destinations.iter().for_each(|destination| routes[destination.index()].clear());
    }
    for (path, label) in paths.iter().zip(1..) {
        lay_path(graph, tables, path, label);
    }
    Ok(())
}

fn ingress(graph: &Graph, path: &LabelPath) -> Option<NodeId> {
    path.links.first().map(|link| graph.edge(*link).from)
}

fn lay_path(graph: &Graph, tables: &mut [RouteTable], path: &LabelPath, label: u16) {
    let Some((first, rest)) = path.links.split_first() else { return };
    let ingress = graph.edge(*first).from;
    for destination in &path.destinations {
        let hop = HopEntry { link: *first, label, weight: path.weight };
        tables[ingress.index()].by_destination[destination.index()].push(hop);
    }
    for link in rest {
        let labels = &mut tables[graph.edge(*link).from.index()].by_label;
        labels.resize(labels.len().max(usize::from(label) + 1), None);
        labels[usize::from(label)] = Some(*link);
    }
}

/// Returns the destinations to which a cheapest path from `first` goes through `last`.
///
/// The result includes `last` itself.
pub fn destinations_behind(graph: &Graph, first: NodeId, last: NodeId) -> Vec<NodeId> {
    let Some(to_last) = distances_to(graph, last)[first.index()] else { return Vec::new() };
    let lies_behind = |destination: &NodeId| {
        let distances = distances_to(graph, *destination);
        let through = distances[last.index()].map(|rest| rest.saturating_add(to_last));
        *destination != first && through.is_some() && distances[first.index()] == through
    };
    graph.nodes().filter(lies_behind).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{GraphEdge, path_count, shortest_routes};
    use super::*;

    /// Returns the graph 0 → 1 → 2 → 3 with the detour 1 → 4 → 5 → 2. All costs are 1.
    fn detour() -> Graph {
        let ends = [(0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (5, 2)];
        let edges = ends.map(|(from, to)| GraphEdge { from: NodeId(from), to: NodeId(to), cost: 1, weight: 1 });
        Graph::new(6, edges.into())
    }

    #[test]
    fn a_label_leads_along_its_path_and_is_taken_off_at_its_end() {
        let graph = detour();
        let mut tables = shortest_routes(&graph);
        let behind = destinations_behind(&graph, NodeId(1), NodeId(2));
        assert_eq!(behind, [NodeId(2), NodeId(3)]);
        let path = |links: &[u32], weight| LabelPath {
            links: links.iter().copied().map(LinkId).collect(),
            weight,
            destinations: behind.clone(),
        };
        lay_paths(&graph, &mut tables, &[path(&[1], 3), path(&[3, 4, 5], 1)]).unwrap();
        let hops =
            [HopEntry { link: LinkId(1), label: 1, weight: 3 }, HopEntry { link: LinkId(3), label: 2, weight: 1 }];
        assert_eq!(tables[1].towards(NodeId(3)), hops);
        assert_eq!(tables[1].towards(NodeId(5)), [HopEntry { link: LinkId(3), label: 0, weight: 1 }]);
        assert_eq!((tables[4].labelled(2), tables[5].labelled(2)), (Some(LinkId(4)), Some(LinkId(5))));
        assert_eq!((tables[2].labelled(2), tables[4].labelled(1)), (None, None));
        assert_eq!(path_count(&graph, &tables, NodeId(0), NodeId(3)), 2);
    }

    #[test]
    fn more_paths_than_labels_change_nothing() {
        let graph = detour();
        let mut tables = shortest_routes(&graph);
        let path = LabelPath { links: vec![LinkId(0)], weight: 1, destinations: vec![NodeId(1)] };
        let error = lay_paths(&graph, &mut tables, &vec![path; 65_536]).unwrap_err();
        assert_eq!(error, TooManyPaths { paths: 65_536 });
        assert_eq!(tables, shortest_routes(&graph));
    }
}
