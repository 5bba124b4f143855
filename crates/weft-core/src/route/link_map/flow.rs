//! Search for several paths between two members that share no other member and have the least total cost.
//!
//! Successive shortest paths on a graph in which every member is split in two (Suurballe 1974, Bhandari 1999). A later
//! path may cross a link of an earlier path against its direction. This removes the link from both paths. Potentials
//! make all costs of a search positive (Johnson 1977), so that Dijkstra's algorithm finds each path.

use super::graph::MemberGraph;
use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Returns the index of the half of a member at which links arrive.
///
/// The search graph splits each member in two halves.
fn entry(place: usize) -> usize {
    2 * place
}

/// Returns the index of the half of a member from which links leave.
///
/// The search graph splits each member in two halves.
fn exit(place: usize) -> usize {
    2 * place + 1
}

/// The paths found so far, and the state of the search for the next one.
struct DisjointPaths<'a> {
    graph: &'a MemberGraph,
    source: usize,
    target: usize,
    /// The links of all paths, each in the direction of its path.
    used: Vec<(usize, usize)>,
    /// For each member that is a relay on a path: the members before and after it on that path. Listed by member.
    crossed: Vec<Option<(usize, usize)>>,
    /// Johnson's potential of each node of the search graph, in which each member is split into two nodes.
    ///
    /// The search adds the potential of an arc's start to the arc's cost, and subtracts that of its end.
    potentials: Vec<i64>,
}

/// Returns up to `most` paths over relays that have no member in common but the source and the target.
///
/// None of them is the direct link from the source to the target. `looked` is increased by the number of links
/// examined.
pub(super) fn disjoint_paths(
    graph: &MemberGraph,
    (source, target): (usize, usize),
    most: usize,
    looked: &mut usize,
) -> Vec<Vec<usize>> {
    let members = graph.labels.len();
    let (crossed, potentials) = (vec![None; members], vec![0; 2 * members]);
    let mut paths = DisjointPaths { graph, source, target, used: Vec::new(), crossed, potentials };
    for _ in 0..most {
        let Some(halves) = paths.shortest(looked) else { break };
        paths.cross(&halves);
    }
    paths.all()
}

impl DisjointPaths<'_> {
    /// Calls `arc` for each arc of the residual graph that leaves the node `half`, with the arc's end and cost.
    ///
    /// A node of this graph is one of the two halves of a member. A link of a path that was found before can only be
    /// crossed backwards, and all other links forwards.
    fn each_arc(&self, half: usize, mut arc: impl FnMut(usize, i64)) {
        let member = half / 2;
        if half == entry(member) {
            match self.crossed[member] {
                Some((before, _)) => arc(exit(before), -self.cost(before, member)),
                None if self.graph.relays[member] => arc(exit(member), 0),
                None => {}
            }
            return;
        }
        if self.crossed[member].is_some() {
            arc(entry(member), 0);
        }
        for link in &self.graph.edges[member] {
            let is_direct = (member, link.to) == (self.source, self.target);
            let is_crossed = match self.crossed[member] {
                Some((_, after)) => after == link.to,
                None => self.crossed[link.to].is_some_and(|(before, _)| before == member),
            };
            if link.to != self.source && !is_direct && !is_crossed {
                arc(entry(link.to), link.cost_us as i64);
            }
        }
    }

    fn cost(&self, one: usize, other: usize) -> i64 {
        self.graph.between(one, other).map_or(0, |link| link.cost_us as i64)
    }

    /// Returns the cheapest path in the residual graph as a list of halves of members, or `None` if there is no path.
    ///
    /// It also updates the potentials for the next search. The graph splits each member in two halves: links arrive
    /// at one and leave at the other.
    fn shortest(&mut self, looked: &mut usize) -> Option<Vec<usize>> {
        let (first, last) = (exit(self.source), entry(self.target));
        let mut least = vec![i64::MAX; self.potentials.len()];
        let mut before = vec![usize::MAX; self.potentials.len()];
        let mut next = BinaryHeap::from([Reverse((0, first))]);
        least[first] = 0;
        while let Some(Reverse((cost, half))) = next.pop() {
            if half == last {
                break;
            }
            if cost > least[half] {
                continue;
            }
            *looked += 1 + self.graph.edges[half / 2].len();
            self.each_arc(half, |to, of_arc| {
                let total = cost + of_arc + self.potentials[half] - self.potentials[to];
                if total < least[to] {
                    (least[to], before[to]) = (total, half);
                    next.push(Reverse((total, to)));
                }
            });
        }
        if least[last] == i64::MAX {
            return None;
        }
        // The search ends at the target, so a half of a member that lies farther than the target has no final cost. The
        // target's cost in its place keeps the cost of every arc, with the potentials, from becoming negative.
        let most = least[last];
        for (potential, least) in self.potentials.iter_mut().zip(&least) {
            *potential += most.min(*least);
        }
        let mut halves = vec![last];
        while halves.last() != Some(&first) {
            halves.push(before[*halves.last()?]);
        }
        halves.reverse();
        Some(halves)
    }

    /// Adds the path `halves` of the residual graph to the paths found.
    ///
    /// A link of an earlier path that it crosses backwards is removed from that path.
    fn cross(&mut self, halves: &[usize]) {
        for arc in halves.windows(2).filter(|arc| arc[0] / 2 != arc[1] / 2) {
            let (from, to) = (arc[0] / 2, arc[1] / 2);
            if arc[0] == exit(from) {
                self.used.push((from, to));
            } else {
                self.used.retain(|link| *link != (to, from));
            }
        }
        self.crossed.fill(None);
        for (before, relay) in self.used.iter().filter(|(_, to)| *to != self.target) {
            let after = self.used.iter().find(|(from, _)| from == relay);
            self.crossed[*relay] = after.map(|(_, after)| (*before, *after));
        }
    }

    /// Returns the paths found, each from the source to the target.
    fn all(&self) -> Vec<Vec<usize>> {
        let follow = |first: usize| {
            let (mut path, mut at) = (vec![self.source], first);
            while at != self.target {
                path.push(at);
                (_, at) = self.crossed[at]?;
            }
            path.push(self.target);
            Some(path)
        };
        let begins = self.used.iter().filter(|(from, _)| *from == self.source);
        begins.filter_map(|(_, first)| follow(*first)).collect()
    }
}
