//! Computes routes over the cheapest next hops: the first of them, or all of them (ECMP, RFC 2992).

use super::dijkstra::{distances_to, next_links};
use super::{Graph, HopEntry, NextHops, RouteTable};

/// Returns the route tables of all nodes, with one cheapest next hop for each destination.
///
/// Of equal next hops it is the link with the lowest number.
pub fn shortest_routes(graph: &Graph) -> Vec<RouteTable> {
    routes(graph, 1)
}

/// Returns the route tables of all nodes, with all cheapest next hops for each destination.
///
/// They are in the order of the links' numbers.
pub fn equal_cost_routes(graph: &Graph) -> Vec<RouteTable> {
    routes(graph, usize::MAX)
}

fn routes(graph: &Graph, most: usize) -> Vec<RouteTable> {
    let nodes = graph.node_count();
    let mut tables: Vec<RouteTable> = vec![RouteTable::empty(nodes); nodes];
    for destination in graph.nodes() {
        let distances = distances_to(graph, destination);
        for node in graph.nodes().filter(|node| *node != destination) {
            let next = next_links(graph, &distances, node).take(most);
            let hops = next.map(|link| HopEntry { link, label: 0, weight: graph.edge(link).weight });
            tables[node.index()].by_destination[destination.index()] = hops.collect::<NextHops>();
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::super::brute_force::{graphs, simple_paths};
    use super::super::path_count;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_next_hops_are_the_first_links_of_all_cheapest_paths(graph in graphs()) {
            let (first, all) = (shortest_routes(&graph), equal_cost_routes(&graph));
            for (from, to) in graph.nodes().flat_map(|from| graph.nodes().map(move |to| (from, to))).filter(|(a, b)| a != b) {
                let paths = simple_paths(&graph, from, to);
                let least = paths.iter().map(|path| graph.cost_of(path)).min();
                let cheapest: Vec<_> = paths.iter().filter(|path| Some(graph.cost_of(path)) == least).collect();
                let links: BTreeSet<_> = cheapest.iter().map(|path| path[0]).collect();
                let found = |tables: &[RouteTable]| {
                    tables[from.index()].by_destination[to.index()].iter().map(|hop| hop.link).collect::<Vec<_>>()
                };
                prop_assert_eq!(found(&all), links.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(found(&first), links.iter().copied().take(1).collect::<Vec<_>>());
                prop_assert_eq!(path_count(&graph, &all, from, to), cheapest.len() as u64);
                prop_assert_eq!(path_count(&graph, &first, from, to), cheapest.len().min(1) as u64);
            }
        }
    }
}
