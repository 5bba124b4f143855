//! Paths without a common member, of the least total cost.
//!
//! Successive shortest paths on a graph in which every member is split in two (Suurballe 1974, Bhandari 1999). A later
//! path may cross an earlier one against its direction, which takes that link out of both.

use super::graph::MemberGraph;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

/// A directed arc of the split graph: from, to, cost.
type SplitArc = (usize, usize, i64);

/// Returns the half of a member where links arrive.
fn entry(place: usize) -> usize {
    2 * place
}

/// Returns the half of a member where links leave.
fn exit(place: usize) -> usize {
    2 * place + 1
}

/// Returns up to `most` paths that share no member but their ends, and never the direct link.
pub(super) fn disjoint_paths(graph: &MemberGraph, source: usize, target: usize, most: usize) -> Vec<Vec<usize>> {
    let arcs = split(graph, source, target);
    let mut used: BTreeSet<usize> = BTreeSet::new();
    for _ in 0..most {
        let Some(path) = augmenting(&arcs, &used, 2 * graph.labels.len(), (exit(source), entry(target))) else { break };
        for (arc, is_forward) in path {
            if is_forward {
                used.insert(arc);
            } else {
                used.remove(&arc);
            }
        }
    }
    paths(&arcs, &used, source, target)
}

fn split(graph: &MemberGraph, source: usize, target: usize) -> Vec<SplitArc> {
    let mut arcs: Vec<SplitArc> = Vec::new();
    for place in (0..graph.labels.len()).filter(|place| graph.relays[*place]) {
        arcs.push((entry(place), exit(place), 0));
    }
    for (one, edges) in graph.edges.iter().enumerate().filter(|(one, _)| *one != target) {
        for link in edges.iter().filter(|link| link.to != source && (one, link.to) != (source, target)) {
            arcs.push((exit(one), entry(link.to), link.cost_us as i64));
        }
    }
    arcs
}

/// Returns the cheapest path in the residual graph: arcs that are unused, and used ones backwards.
fn augmenting(
    arcs: &[SplitArc],
    used: &BTreeSet<usize>,
    halves: usize,
    (source, target): (usize, usize),
) -> Option<Vec<(usize, bool)>> {
    let mut least = vec![i64::MAX; halves];
    let mut before: Vec<Option<(usize, bool)>> = vec![None; halves];
    least[source] = 0;
    for _ in 0..halves {
        let mut has_changed = false;
        for (number, &(from, to, cost)) in arcs.iter().enumerate() {
            let is_forward = !used.contains(&number);
            let (from, to, cost) = if is_forward { (from, to, cost) } else { (to, from, -cost) };
            if least[from] < i64::MAX && least[from] + cost < least[to] {
                (least[to], before[to]) = (least[from] + cost, Some((number, is_forward)));
                has_changed = true;
            }
        }
        if !has_changed {
            break;
        }
    }
    let (mut at, mut path) = (target, Vec::new());
    while at != source {
        let (arc, is_forward) = before[at]?;
        path.push((arc, is_forward));
        at = if is_forward { arcs[arc].0 } else { arcs[arc].1 };
        if path.len() > arcs.len() {
            return None;
        }
    }
    Some(path)
}

/// Returns the paths from the source to the target along the used arcs.
fn paths(arcs: &[SplitArc], used: &BTreeSet<usize>, source: usize, target: usize) -> Vec<Vec<usize>> {
    let next = |half: usize| used.iter().map(|arc| arcs[*arc]).find(|(from, ..)| *from == half).map(|(_, to, _)| to);
    let begins = used.iter().map(|arc| arcs[*arc]).filter(|(from, ..)| *from == exit(source));
    let follow = |(_, first, _): SplitArc| {
        let (mut path, mut at) = (vec![source], first);
        while at != entry(target) {
            path.push(at / 2);
            at = next(exit(at / 2))?;
        }
        path.push(target);
        Some(path)
    };
    begins.filter_map(follow).collect()
}
