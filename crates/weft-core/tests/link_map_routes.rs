//! Compares routes on random maps with those of an oracle that tries all paths.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_core::route::link_map::{FoundRoute, MAX_AUTHORS, MapEdge, MemberGraph, RouteSearch, are_better};
use weft_units::{Rate, Rng};
use weft_wire::relay::{Label, MAX_RELAYS};

/// Maximum number of links that a search may examine between two pauses.
///
/// Derived: each member and all its links, once for each hop.
const MOST_LINKS: i64 = ((MAX_RELAYS + 1) * MAX_AUTHORS * (MAX_AUTHORS + 1)) as i64;

/// A random network. It is kept beside the graph, so that the oracle does not depend on the code under test.
struct RandomMap {
    relays: Vec<bool>,
    links: Vec<Vec<Option<MapEdge>>>,
}

fn edge(rng: &mut Rng) -> MapEdge {
    let exponent = rng.unit() * 3.0;
    MapEdge {
        rtt_us: 1_000 + rng.below(80_000) as u32,
        jitter_us: rng.below(1_000) as u32,
        loss: if rng.chance(0.3) { rng.unit() * 0.1 } else { 0.0 },
        rate: Some(Rate::from_bps((1e6 * 10f64.powf(exponent)) as u64)),
    }
}

impl RandomMap {
    fn random(rng: &mut Rng, nodes: usize) -> RandomMap {
        let density = 0.12 + 0.5 * rng.unit();
        let mut links = vec![vec![None; nodes]; nodes];
        for (one, other) in (0..nodes).flat_map(|one| (0..one).map(move |other| (one, other))) {
            if rng.chance(density) {
                let edge = edge(rng);
                (links[one][other], links[other][one]) = (Some(edge), Some(edge));
            }
        }
        RandomMap { relays: (0..nodes).map(|_| rng.chance(0.8)).collect(), links }
    }

    /// Changes the network: a link or a node fails, or a link comes back with other figures.
    fn churn(&mut self, rng: &mut Rng) {
        let nodes = self.relays.len() as u64;
        let (one, other) = (rng.below(nodes) as usize, rng.below(nodes) as usize);
        match rng.below(3) {
            0 if one != other => {
                let edge = edge(rng);
                (self.links[one][other], self.links[other][one]) = (Some(edge), Some(edge));
            }
            1 => (self.links[one][other], self.links[other][one]) = (None, None),
            _ => {
                for to in 0..nodes as usize {
                    (self.links[one][to], self.links[to][one]) = (None, None);
                }
            }
        }
    }

    fn graph(&self) -> MemberGraph {
        let mut graph = MemberGraph::default();
        for (node, is_relay) in self.relays.iter().enumerate() {
            graph.add_member(label(node), *is_relay);
        }
        for (one, links) in self.links.iter().enumerate() {
            for (other, edge) in links.iter().enumerate().take(one) {
                if let Some(edge) = edge {
                    graph.add_edge(label(one), label(other), *edge);
                }
            }
        }
        graph
    }

    /// Calls `found` with each path over one to six relays.
    fn each_path(&self, path: &mut Vec<usize>, to: usize, found: &mut impl FnMut(&[usize])) {
        let at = path[path.len() - 1];
        if at == to {
            return found(path);
        }
        let may_pass = path.len() == 1 || self.relays[at];
        if !may_pass || path.len() > MAX_RELAYS + 1 {
            return;
        }
        for next in 0..self.relays.len() {
            let is_direct = path.len() == 1 && next == to;
            if self.links[at][next].is_some() && !path.contains(&next) && !is_direct {
                path.push(next);
                self.each_path(path, to, found);
                path.pop();
            }
        }
    }

    /// Returns the least delay and the greatest rate over relays within the limit of hops.
    fn best(&self, from: usize, to: usize) -> Option<(f64, f64)> {
        let nodes = self.relays.len();
        let mut least = vec![f64::INFINITY; nodes];
        let mut most = vec![0.0f64; nodes];
        (least[from], most[from]) = (0.0, f64::INFINITY);
        for _ in 0..=MAX_RELAYS {
            let (before, wide) = (least.clone(), most.clone());
            for one in (0..nodes).filter(|one| *one == from || (self.relays[*one] && *one != to)) {
                for other in (0..nodes).filter(|other| (one, *other) != (from, to) && *other != from) {
                    let Some(edge) = self.links[one][other] else { continue };
                    least[other] = least[other].min(before[one] + delay(&edge));
                    let rate = edge.rate.map_or(0, Rate::bps) as f64;
                    most[other] = most[other].max(wide[one].min(rate));
                }
            }
        }
        least[to].is_finite().then_some((least[to], most[to]))
    }

    /// Checks that a route consists of links of the network, crosses relays only, and returns its delay and rate.
    fn walk(&self, from: usize, to: usize, route: &FoundRoute) -> (f64, f64) {
        let places: Vec<usize> = route.nodes.iter().map(|label| label.0 as usize / 7).collect();
        assert_eq!(places.last(), Some(&to));
        assert!((2..=MAX_RELAYS + 1).contains(&places.len()), "{places:?}");
        assert!(places[..places.len() - 1].iter().all(|relay| self.relays[*relay] && *relay != from));
        let (mut at, mut rtt, mut rate) = (from, 0.0, f64::INFINITY);
        for next in places {
            let edge = self.links[at][next].expect("a link of the network");
            rtt += delay(&edge);
            rate = rate.min(edge.rate.map_or(0, Rate::bps) as f64);
            at = next;
        }
        (rtt, rate)
    }
}

/// Returns the delay of a link with its jitter and its retransmissions, in microseconds.
fn delay(edge: &MapEdge) -> f64 {
    f64::from(edge.rtt_us) * (1.0 + 2.0 * edge.loss) + f64::from(edge.jitter_us)
}

fn label(node: usize) -> Label {
    Label(node as u32 * 7)
}

/// Returns the relays of a route.
fn relays(route: &FoundRoute) -> BTreeSet<Label> {
    route.nodes[..route.nodes.len() - 1].iter().copied().collect()
}

fn are_apart(routes: &[FoundRoute]) -> bool {
    let all: usize = routes.iter().map(|route| route.nodes.len() - 1).sum();
    routes.iter().flat_map(relays).collect::<BTreeSet<_>>().len() == all
}

#[test]
fn a_route_is_found_wherever_there_is_one_and_it_is_nearly_the_best() {
    let (mut asked, mut near) = (0, 0);
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let nodes = 4 + rng.below(37) as usize;
        let mut network = RandomMap::random(&mut rng, nodes);
        for _ in 0..3 {
            let graph = network.graph();
            let (from, to) = (rng.below(nodes as u64) as usize, rng.below(nodes as u64) as usize);
            let found = if from == to { Vec::new() } else { graph.routes(label(from), label(to), 3, &[]) };
            let best = if from == to { None } else { network.best(from, to) };
            assert_eq!(found.is_empty(), best.is_none(), "seed {seed}: {from} to {to}");
            assert!(found.windows(2).all(|pair| pair[0].nodes != pair[1].nodes));
            let walked: Vec<(f64, f64)> = found.iter().map(|route| network.walk(from, to, route)).collect();
            if let Some((least, most)) = best {
                asked += 1;
                let (rtt, rate) = walked[0];
                near += u32::from(rtt <= 1.25 * least || rate * 1.25 >= most);
            }
            network.churn(&mut rng);
        }
    }
    println!("{near} of {asked} first routes are within 1.25 of the least delay or the greatest rate");
    assert!(f64::from(near) >= 0.95 * f64::from(asked) && asked > 10_000, "{near} of {asked}");
}

#[test]
fn routes_share_no_relay_where_two_such_routes_exist() {
    let mut two = 0;
    for seed in 0..1_500 {
        let mut rng = Rng::new(seed);
        let nodes = 4 + rng.below(4) as usize;
        let network = RandomMap::random(&mut rng, nodes);
        let found = network.graph().routes(label(0), label(1), 3, &[]);
        let mut paths: Vec<BTreeSet<usize>> = Vec::new();
        network.each_path(&mut vec![0], 1, &mut |path| paths.push(path[1..path.len() - 1].iter().copied().collect()));
        let apart = paths.iter().any(|one| paths.iter().any(|other| one.is_disjoint(other)));
        assert_eq!(found.len(), if paths.len() < 2 { paths.len() } else { found.len().max(2) }, "seed {seed}");
        if apart {
            two += 1;
            assert!(found.len() >= 2 && are_apart(&found), "seed {seed}: {found:?}");
        }
    }
    assert!(two > 150, "{two}");
}

#[test]
fn only_clearly_better_routes_replace_others() {
    let route = |cost_us| FoundRoute { nodes: vec![Label(1), Label(2)], rtt_us: 0, loss: 0.0, rate: None, cost_us };
    assert!(!are_better(&[route(100), route(200)], &[route(90), route(190)]));
    assert!(are_better(&[route(100), route(200)], &[route(79), route(200)]));
    assert!(are_better(&[route(100), route(200)], &[route(100), route(130)]));
    assert!(are_better(&[route(100)], &[route(100), route(900)]));
    assert!(!are_better(&[route(100), route(900)], &[route(10)]));
}

#[test]
fn doubtful_links_are_used_only_without_an_alternative() {
    let mut graph = MemberGraph::default();
    (0..4).for_each(|node| graph.add_member(label(node), true));
    let edge = |rtt_us| MapEdge { rtt_us, jitter_us: 0, loss: 0.0, rate: None };
    for (relay, rtt_us) in [(1, 10_000), (2, 20_000)] {
        graph.add_edge(label(0), label(relay), edge(rtt_us));
        graph.add_edge(label(relay), label(3), edge(rtt_us));
    }
    let first = |doubted: &[(Label, Label)]| graph.routes(label(0), label(3), 1, doubted)[0].nodes[0];
    assert_eq!(first(&[]), label(1));
    assert_eq!(first(&[(label(1), label(3))]), label(2));
    assert_eq!(first(&[(label(1), label(3)), (label(2), label(3))]), label(1));
}

/// Returns a map of many members whose search is costly. All members are adjacent and relay, and all rates differ.
///
/// In some of these maps the target is far from all others, or has few neighbours, or each member's cheapest link is
/// the one to the next member.
fn dear(rng: &mut Rng, nodes: usize) -> RandomMap {
    let mut network = RandomMap { relays: vec![true; nodes], links: vec![vec![None; nodes]; nodes] };
    let (is_far, is_chain) = (rng.chance(0.5), rng.chance(0.5));
    let neighbours = if rng.chance(0.5) { nodes } else { 2 + rng.below(2) as usize };
    for (one, other) in (0..nodes).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let mut edge = edge(rng);
        let is_of_target = other == 1 || one == 1;
        if is_far && is_of_target {
            edge.rtt_us = 4_000_000;
        } else if is_chain {
            edge.rtt_us = 100 + 1_000 * (one - other).pow(2) as u32;
        }
        if !is_of_target || one <= neighbours + 1 {
            (network.links[one][other], network.links[other][one]) = (Some(edge), Some(edge));
        }
    }
    network
}

/// A search that pauses finds the same routes as a search without pauses, on maps that change during the search.
#[test]
fn pauses_change_no_routes() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let nodes = 4 + rng.below(30) as usize;
        let network = if rng.chance(0.3) { dear(&mut rng, nodes) } else { RandomMap::random(&mut rng, nodes) };
        let graph = Arc::new(network.graph());
        let doubted: Vec<_> = (0..rng.below(4)).map(|_| rng.below(nodes as u64) as usize).collect();
        let doubted: Vec<_> = doubted.windows(2).map(|pair| (label(pair[0]), label(pair[1]))).collect();
        let mut search = RouteSearch::new(graph.clone(), (label(0), label(1)), 3, doubted.clone());
        let found = (0..10_000).find_map(|_| search.advance(&mut (1 + rng.below(5_000) as i64)));
        assert_eq!(found, Some(graph.routes(label(0), label(1), 3, &doubted)), "seed {seed}");
    }
}

/// It also prints the longest time between two pauses, which other load of the machine increases.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that work takes is printed")]
fn a_part_of_a_search_takes_bounded_work_in_the_largest_map() {
    let (mut longest, mut most_links) = (Duration::ZERO, 0);
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let graph = Arc::new(dear(&mut rng, MAX_AUTHORS).graph());
        let mut search = RouteSearch::new(graph, (label(0), label(1)), 3, Vec::new());
        let (mut parts, mut whole) = (0, Duration::ZERO);
        loop {
            let (started, mut links) = (Instant::now(), 1);
            let found = search.advance(&mut links);
            let taken = started.elapsed();
            (parts, whole, longest) = (parts + 1, whole + taken, longest.max(taken));
            most_links = most_links.max(1 - links);
            assert!(parts < 1_000, "seed {seed}");
            if let Some(found) = found {
                println!("seed {seed}: {} routes in {parts} parts, {whole:?}", found.len());
                break;
            }
        }
    }
    println!("the longest part took {longest:?}, and the largest looked at {most_links} links");
    assert!(most_links <= MOST_LINKS, "{most_links}");
}
