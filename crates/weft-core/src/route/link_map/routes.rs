//! Finds routes over relays to a member: the best one, and others that share no relay and no link with it.
//!
//! A route has at most six relays. Its cost is the time that it takes for a small transfer: its round-trip time with
//! retransmissions, and the time of [`TRANSFER_BITS`] at its narrowest link.

use super::flow::disjoint_paths;
use super::graph::{LinkTo, MapEdge, MemberGraph};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use weft_units::Rate;
use weft_wire::relay::{Label, MAX_RELAYS};

/// Maximum number of links of a route.
const MAX_HOPS: usize = MAX_RELAYS + 1;
/// Size of the transfer whose time is the cost of a route, in bits. Chosen: a web page of 125 kB.
const TRANSFER_BITS: u64 = 1_000_000;
/// Rate of a link whose rate is unknown, for the cost.
const UNKNOWN_RATE: Rate = Rate::from_mbps(10);
/// Cost of a relay's work, in microseconds. Of two equal routes the shorter one wins.
const RELAY_US: u64 = 300;
/// Largest ratio of a route's delay to the least delay at which its rate does not matter. Chosen: a quarter more is hardly felt.
const NEAR: f64 = 1.25;
/// Classes of rates in an octave: each is 1.26 times the one before.
const CLASSES_IN_OCTAVE: usize = 3;
/// Maximum number of classes that a search looks at, so that a member with links of all rates does not prolong it.
///
/// *Tuned* on random maps: twelve are an octave each from 10 kbit/s to 40 Mbit/s, or from 10 Mbit/s to 40 Gbit/s.
const MOST_CLASSES: usize = 12;
/// Factor of the cost of a link that is in doubt, or that another route uses already. Tuned on random maps.
const PENALTY: u64 = 16;
/// Largest ratio of the cost of a new set of routes to the present one's at which it replaces it.
const BETTER: f64 = 0.8;

/// A route over relays.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundRoute {
    /// The relays in order, and then the destination.
    pub nodes: Vec<Label>,
    /// Round-trip time by the map, in microseconds.
    pub rtt_us: u64,
    /// Share of datagrams lost by the map, 0…1.
    pub loss: f64,
    /// Rate of the narrowest link, if the rates of all links are known.
    pub rate: Option<Rate>,
    /// Cost in microseconds.
    pub cost_us: u64,
}

/// Nodes and links that a search avoids.
#[derive(Clone, Default)]
pub(super) struct Avoided {
    /// Members that must not be crossed.
    pub nodes: BTreeSet<usize>,
    /// Links that cost more.
    pub doubted: BTreeSet<(usize, usize)>,
    /// A link that must not be crossed.
    pub banned: Option<(usize, usize)>,
}

impl Avoided {
    fn doubts(&self, one: usize, other: usize) -> bool {
        self.doubted.contains(&link_of(one, other))
    }

    fn doubt(&mut self, path: &[usize]) {
        self.doubted.extend(path.windows(2).map(|hop| link_of(hop[0], hop[1])));
    }
}

/// Returns a link by its two ends, whatever their order.
fn link_of(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

pub(super) fn edge_cost(edge: &MapEdge) -> u64 {
    (f64::from(edge.rtt_us) * (1.0 + 2.0 * edge.loss)) as u64 + u64::from(edge.jitter_us) + RELAY_US
}

pub(super) fn rate_of(edge: &MapEdge) -> Rate {
    edge.rate.unwrap_or(UNKNOWN_RATE)
}

/// Returns the greatest class of rates that is not above `rate`.
pub(super) fn class_of(rate: Rate) -> Rate {
    let octave = Rate::from_bps(1 << rate.bps().max(1).ilog2());
    let classes = [octave.scaled(1.587), octave.scaled(1.26)];
    classes.into_iter().find(|class| *class <= rate).unwrap_or(octave)
}

fn transfer_us(rate: Rate) -> u64 {
    TRANSFER_BITS.saturating_mul(1_000_000) / rate.bps().max(1)
}

/// True if `new` routes should replace the `present` ones: they are more, or clearly better.
pub fn are_better(present: &[FoundRoute], new: &[FoundRoute]) -> bool {
    let least = |routes: &[FoundRoute]| routes.iter().map(|route| route.cost_us).min().unwrap_or(0) as f64;
    let all = |routes: &[FoundRoute]| routes.iter().map(|route| route.cost_us).sum::<u64>() as f64;
    new.len() > present.len()
        || (new.len() == present.len() && (least(new) < BETTER * least(present) || all(new) < BETTER * all(present)))
}

impl MemberGraph {
    /// Returns up to `most` routes over relays from one member to another, the best first.
    ///
    /// They share no relay and no link if such routes exist. Otherwise the second one shares as little as possible
    /// with the first. Links between `doubted` pairs of members cost more.
    pub fn routes(&self, from: Label, to: Label, most: usize, doubted: &[(Label, Label)]) -> Vec<FoundRoute> {
        let (Some(source), Some(target)) = (self.place(from), self.place(to)) else { return Vec::new() };
        let mut avoided = Avoided::default();
        for (one, other) in doubted {
            if let (Some(one), Some(other)) = (self.place(*one), self.place(*other)) {
                avoided.doubt(&[one, other]);
            }
        }
        let mut paths = self.apart(source, target, most, &avoided);
        if paths.len() < most.min(2)
            && let Some(first) = paths.first()
        {
            let second = self.another(source, target, first, &avoided);
            paths.extend(second);
        }
        paths.iter().filter_map(|path| self.measured(path)).collect()
    }

    /// Returns a route with its figures by the map, or `None` if a link of it is down or a node of it is no relay.
    pub fn route(&self, from: Label, nodes: &[Label]) -> Option<FoundRoute> {
        let path: Option<Vec<usize>> = [from].iter().chain(nodes).map(|label| self.place(*label)).collect();
        let path = path?;
        let relays = path.get(1..path.len().checked_sub(1)?)?;
        if relays.iter().all(|relay| self.relays[*relay]) { self.measured(&path) } else { None }
    }

    /// Returns up to `most` paths that share no member and no link. One after the other is the cheapest that is left.
    ///
    /// If a cheap path blocks several others, paths of the least total cost take the place of all.
    fn apart(&self, source: usize, target: usize, most: usize, avoided: &Avoided) -> Vec<Vec<usize>> {
        let (mut paths, mut left): (Vec<Vec<usize>>, _) = (Vec::new(), avoided.clone());
        while paths.len() < most
            && let Some(path) = self.cheapest(source, target, &left)
        {
            left.nodes.extend(&path[1..path.len() - 1]);
            paths.push(path);
        }
        if paths.is_empty() || paths.len() == most {
            return paths;
        }
        let mut more = disjoint_paths(self, source, target, most);
        let are_short = more.iter().all(|path| path.len() <= MAX_HOPS + 1);
        if more.len() <= paths.len() || !are_short {
            return paths;
        }
        more.sort_by_key(|path| self.penalised(path, avoided));
        more
    }

    /// Returns a path that shares as little as possible with `first`.
    fn another(&self, source: usize, target: usize, first: &[usize], avoided: &Avoided) -> Option<Vec<usize>> {
        let mut avoided = avoided.clone();
        avoided.doubt(first);
        let without = |hop: &[usize]| {
            let avoided = Avoided { banned: Some(link_of(hop[0], hop[1])), ..avoided.clone() };
            let path = self.cheapest(source, target, &avoided)?;
            Some((self.penalised(&path, &avoided), path))
        };
        first.windows(2).filter_map(without).min().map(|(_, path)| path)
    }

    /// Returns the cheapest path over at least one relay.
    ///
    /// It has nearly the least delay or nearly the greatest rate of all paths. A path that has neither does not
    /// count, even if it is cheaper.
    fn cheapest(&self, source: usize, target: usize, avoided: &Avoided) -> Option<Vec<usize>> {
        let classes = &self.classes;
        let of_class = |least: &Rate| self.shortest(source, target, avoided, *least);
        let quickest = of_class(classes.first()?)?;
        let is_open = |least: &Rate| of_class(least).is_some();
        let open = classes.get(..classes.partition_point(is_open))?;
        let widest = *open.last()?;
        let least_delay = self.delay_us(&quickest, avoided) as f64;
        // An octave is three classes. Between the least and the greatest rate, one class in each is enough.
        let step = CLASSES_IN_OCTAVE.max(open.len().div_ceil(MOST_CLASSES));
        let some = open.iter().rev().step_by(step).filter_map(of_class);
        let is_near = |path: &Vec<usize>| {
            self.delay_us(path, avoided) as f64 <= NEAR * least_delay || self.narrowest(path) >= widest
        };
        let near = some.chain([quickest.clone()]).filter(is_near);
        near.min_by_key(|path| self.penalised(path, avoided))
    }

    /// Returns the delay of a path with all penalties, in microseconds.
    fn delay_us(&self, path: &[usize], avoided: &Avoided) -> u64 {
        let of_hop = |hop: &[usize]| {
            let factor = if avoided.doubts(hop[0], hop[1]) { PENALTY } else { 1 };
            self.between(hop[0], hop[1]).map_or(u64::MAX / 16, |link| link.cost_us * factor)
        };
        path.windows(2).map(of_hop).sum()
    }

    /// Returns the cost of a path with all penalties, in microseconds.
    fn penalised(&self, path: &[usize], avoided: &Avoided) -> u64 {
        self.delay_us(path, avoided) + transfer_us(self.narrowest(path))
    }

    /// Returns the rate of the narrowest link of a path.
    fn narrowest(&self, path: &[usize]) -> Rate {
        let rates = path.windows(2).filter_map(|hop| self.between(hop[0], hop[1])).map(|link| link.rate);
        rates.min().unwrap_or(Rate::ZERO)
    }

    fn between(&self, one: usize, other: usize) -> Option<&LinkTo> {
        self.edges[one].iter().find(|link| link.to == other)
    }

    /// Returns the path of least delay over at least one relay, of links that carry at least `least`.
    ///
    /// Bellman and Ford's algorithm, one round for each hop, so that the limit of hops holds. A round goes on from the
    /// members that the one before has reached at less cost.
    fn shortest(&self, source: usize, target: usize, avoided: &Avoided, least: Rate) -> Option<Vec<usize>> {
        let mut rounds: Vec<Vec<(u64, usize)>> = vec![vec![(u64::MAX, usize::MAX); self.labels.len()]];
        rounds[0][source].0 = 0;
        let (mut reached, has_doubts) = (vec![source], !avoided.doubted.is_empty());
        for hop in 0..MAX_HOPS {
            let before = &rounds[hop];
            let (mut next, mut nearer) = (before.clone(), Vec::new());
            for one in core::mem::take(&mut reached) {
                let is_passable = one == source || (self.relays[one] && !avoided.nodes.contains(&one));
                if one == target || !is_passable {
                    continue;
                }
                for link in self.edges[one].iter().filter(|link| link.rate >= least) {
                    let other = link.to;
                    let factor = if has_doubts && avoided.doubts(one, other) { PENALTY } else { 1 };
                    let total = before[one].0.saturating_add(link.cost_us.saturating_mul(factor));
                    let is_allowed = (one, other) != (source, target) && avoided.banned != Some(link_of(one, other));
                    if total < next[other].0 && is_allowed && other != source {
                        if next[other] == before[other] {
                            nearer.push(other);
                        }
                        next[other] = (total, one);
                    }
                }
            }
            if nearer.is_empty() {
                break;
            }
            nearer.sort_unstable();
            reached = nearer;
            rounds.push(next);
        }
        traced(&rounds, source, target)
    }

    fn measured(&self, path: &[usize]) -> Option<FoundRoute> {
        let (mut rtt_us, mut passes, mut cost_us, narrowest) = (0, 1.0, 0, self.narrowest(path));
        let mut is_rate_known = true;
        for hop in path.windows(2) {
            let LinkTo { edge, cost_us: of_link, .. } = self.between(hop[0], hop[1])?;
            rtt_us += u64::from(edge.rtt_us);
            passes *= 1.0 - edge.loss;
            cost_us += of_link;
            is_rate_known &= edge.rate.is_some();
        }
        let nodes = path.get(1..)?.iter().map(|place| self.labels[*place]).collect();
        let rate = is_rate_known.then_some(narrowest);
        Some(FoundRoute { nodes, rtt_us, loss: 1.0 - passes, rate, cost_us: cost_us + transfer_us(narrowest) })
    }
}

/// Follows the predecessors back from the last round.
fn traced(rounds: &[Vec<(u64, usize)>], source: usize, target: usize) -> Option<Vec<usize>> {
    let (mut at, mut path) = (target, vec![target]);
    let mut round = rounds.len() - 1;
    if rounds[round][target].0 == u64::MAX {
        return None;
    }
    while at != source {
        let before = rounds[round][at];
        // The earliest round with the same cost has the predecessor that was valid then.
        while round > 0 && rounds[round - 1][at] == before {
            round -= 1;
        }
        at = before.1;
        round = round.checked_sub(1)?;
        path.push(at);
    }
    path.reverse();
    Some(path)
}
