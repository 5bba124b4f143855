//! Computes the k link-disjoint paths with the least total cost (Suurballe 1974, Bhandari 1999).
//!
//! It begins without paths. Each step finds the cheapest change of the paths found so far that yields one path more.

use super::Graph;
use crate::{LinkId, NodeId};

/// Returns up to `k` link-disjoint paths from `from` to `to` with the least total cost.
///
/// The cheapest path comes first.
pub fn disjoint_paths(graph: &Graph, from: NodeId, to: NodeId, k: usize) -> Vec<Vec<LinkId>> {
    let mut used: Vec<LinkId> = Vec::new();
    let mut count = 0;
    while from != to
        && count < k
        && let Some(steps) = augmenting_path(graph, from, to, &used)
    {
        for step in steps {
            match step {
                ResidualStep::Take(link) => used.push(link),
                ResidualStep::GiveBack(link) => used.retain(|other| *other != link),
            }
        }
        count += 1;
    }
    used.sort_unstable();
    let mut paths: Vec<Vec<LinkId>> = (0..count).map(|_| take_path(graph, from, to, &mut used)).collect();
    paths.sort_by_cached_key(|path| (graph.cost_of(path), path.clone()));
    paths
}

/// One step of a change that yields one path more.
#[derive(Clone, Copy)]
enum ResidualStep {
    /// The new set of paths uses this link.
    Take(LinkId),
    /// The new set of paths no longer uses this link, which is followed backward and whose cost is saved.
    GiveBack(LinkId),
}

/// Returns the cheapest steps from `from` to `to` that yield one path more, or `None` if there is none.
///
/// It uses the Bellman-Ford algorithm because links that are given back have negative costs.
fn augmenting_path(graph: &Graph, from: NodeId, to: NodeId, used: &[LinkId]) -> Option<Vec<ResidualStep>> {
    let links = graph.links();
    let mut reached: Vec<Option<(i128, Option<ResidualStep>)>> = vec![None; graph.node_count()];
    reached[from.index()] = Some((0, None));
    let mut changed = true;
    while changed {
        changed = false;
        for link in &links {
            let edge = graph.edge(*link);
            let (start, end, cost, step) = if used.contains(link) {
                (edge.to, edge.from, -i128::from(edge.cost), ResidualStep::GiveBack(*link))
            } else {
                (edge.from, edge.to, i128::from(edge.cost), ResidualStep::Take(*link))
            };
            let Some((so_far, _)) = reached[start.index()] else { continue };
            if reached[end.index()].is_none_or(|(known, _)| so_far + cost < known) {
                reached[end.index()] = Some((so_far + cost, Some(step)));
                changed = true;
            }
        }
    }
    let mut steps = Vec::new();
    let mut node = to;
    while let (_, Some(step)) = reached[node.index()]? {
        steps.push(step);
        node = match step {
            ResidualStep::Take(link) => graph.edge(link).from,
            ResidualStep::GiveBack(link) => graph.edge(link).to,
        };
    }
    Some(steps)
}

/// Removes the links of one path from `from` to `to` from `used`, and returns them in order.
///
/// The links in `used` have the least total cost. They contain no cycle, so every walk from `from` ends at `to`.
fn take_path(graph: &Graph, from: NodeId, to: NodeId, used: &mut Vec<LinkId>) -> Vec<LinkId> {
    let mut path = Vec::new();
    let mut node = from;
    while node != to
        && let Some(at) = used.iter().position(|link| graph.edge(*link).from == node)
    {
        let link = used.remove(at);
        path.push(link);
        node = graph.edge(link).to;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::brute_force::{graphs, simple_paths};
    use super::*;
    use proptest::prelude::*;

    /// Returns the largest number of `paths`, up to `k`, that share no link, and the least total cost of that number.
    ///
    /// Paths with a link in `taken` are not used.
    fn best(graph: &Graph, paths: &[Vec<LinkId>], taken: &[LinkId], k: usize) -> (usize, u64) {
        let mut best = (0, 0);
        for (at, path) in paths.iter().enumerate().filter(|_| k > 0) {
            if path.iter().any(|link| taken.contains(link)) {
                continue;
            }
            let (count, cost) = best_after(graph, &paths[at + 1..], taken, path, k);
            if count > best.0 || (count == best.0 && cost < best.1) {
                best = (count, cost);
            }
        }
        best
    }

    fn best_after(graph: &Graph, paths: &[Vec<LinkId>], taken: &[LinkId], path: &[LinkId], k: usize) -> (usize, u64) {
        let (count, cost) = best(graph, paths, &[taken, path].concat(), k - 1);
        (count + 1, cost + graph.cost_of(path))
    }

    proptest! {
        #[test]
        fn no_set_of_disjoint_paths_is_larger_or_cheaper(graph in graphs(), k in 1_usize..4) {
            let (from, to) = (NodeId(0), NodeId(1));
            let paths = disjoint_paths(&graph, from, to, k);
            let all = simple_paths(&graph, from, to);
            let cost: u64 = paths.iter().map(|path| graph.cost_of(path)).sum();
            prop_assert_eq!((paths.len(), cost), best(&graph, &all, &[], k));
            prop_assert!(paths.iter().all(|path| all.contains(path)));
            prop_assert!(paths.is_sorted_by_key(|path| graph.cost_of(path)));
            let mut links = paths.concat();
            links.sort_unstable();
            prop_assert!(links.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }
}
