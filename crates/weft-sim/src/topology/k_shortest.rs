//! Computes the k cheapest paths that visit no node twice (Yen 1971).

use super::Graph;
use super::dijkstra::shortest_path_over;
use crate::{LinkId, NodeId};
use std::collections::BTreeSet;

/// Returns up to `k` paths from `from` to `to`, the cheapest first.
///
/// Paths of equal cost are in the order of their links' numbers. No path visits a node twice.
pub fn k_shortest_paths(graph: &Graph, from: NodeId, to: NodeId, k: usize) -> Vec<Vec<LinkId>> {
    let mut found: Vec<Vec<LinkId>> = Vec::new();
    let mut candidates: BTreeSet<(u64, Vec<LinkId>)> = BTreeSet::new();
    candidates.extend(shortest_path_over(graph, from, to, |_| true).map(|path| (graph.cost_of(&path), path)));
    while found.len() < k
        && let Some((_, path)) = candidates.pop_first()
    {
        found.push(path);
        candidates.extend(deviations(graph, to, &found).map(|path| (graph.cost_of(&path), path)));
    }
    found
}

/// Returns new paths, up to one for each node of the path that was found last.
///
/// The path for a node is the cheapest one that equals the last path up to that node and then differs from all found
/// paths.
fn deviations(graph: &Graph, to: NodeId, found: &[Vec<LinkId>]) -> impl Iterator<Item = Vec<LinkId>> {
    let last = found.last().map_or(&[][..], Vec::as_slice);
    (0..last.len()).filter_map(move |shared| {
        let (root, spur) = (&last[..shared], graph.edge(last[shared]).from);
        let taken: Vec<LinkId> =
            found.iter().filter(|path| path.starts_with(root)).filter_map(|path| path.get(shared).copied()).collect();
        let visited: Vec<NodeId> = root.iter().map(|link| graph.edge(*link).from).collect();
        let usable = |link: LinkId| !taken.contains(&link) && !visited.contains(&graph.edge(link).to);
        let rest = shortest_path_over(graph, spur, to, usable)?;
        Some([root, &rest].concat())
    })
}

#[cfg(test)]
mod tests {
    use super::super::brute_force::{graphs, simple_paths};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_the_first_of_all_paths_sorted_by_cost(graph in graphs(), k in 1_usize..8) {
            let (from, to) = (NodeId(0), NodeId(1));
            let mut all: Vec<_> = simple_paths(&graph, from, to).into_iter().map(|p| (graph.cost_of(&p), p)).collect();
            all.sort();
            all.truncate(k);
            let expected: Vec<_> = all.into_iter().map(|(_, path)| path).collect();
            prop_assert_eq!(k_shortest_paths(&graph, from, to, k), expected);
        }
    }
}
