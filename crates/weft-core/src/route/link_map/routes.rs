//! Routes over relays, their RTTs, rates and costs, and the search for the shortest path over links of enough rate.
//!
//! A route has at most six relays. Its cost is the time that it takes for a small transfer: its round-trip time with
//! retransmissions, and the time of [`TRANSFER_BITS`] at its narrowest link.

use super::graph::{LinkTo, MapEdge, MemberGraph};
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use weft_units::Rate;
use weft_wire::relay::{Label, MAX_RELAYS};

/// Maximum number of links of a route.
pub(super) const MAX_HOPS: usize = MAX_RELAYS + 1;
/// Size of the transfer whose time is the cost of a route, in bits. Chosen: a web page of 125 kB.
const TRANSFER_BITS: u64 = 1_000_000;
/// Rate that is assumed for a link whose ends claim no rate.
const UNKNOWN_RATE: Rate = Rate::from_mbps(10);
/// Addition to the cost of each link in microseconds, so that of two equal routes the one with fewer relays wins.
const RELAY_US: u64 = 300;
/// Factor by which a search raises the cost of a link that it should avoid.
///
/// It avoids links of a route that did not answer, and links of a route chosen before. *Tuned* on random maps.
const PENALTY: u64 = 16;
/// New routes replace as many present routes only if their cost is below this fraction of the present cost.
const BETTER: f64 = 0.8;

/// A route over relays.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundRoute {
    /// The relays in order, and then the destination.
    pub nodes: Vec<Label>,
    /// Round-trip time of the route according to the link map, in microseconds.
    pub rtt_us: u64,
    /// Fraction of the datagrams that the route loses according to the link map, 0…1.
    pub loss: f64,
    /// Rate of the route's slowest link; `None` if the rate of one of its links is unknown.
    pub rate: Option<Rate>,
    /// Cost of the route: the time of a small transfer over it, in microseconds.
    pub cost_us: u64,
}

/// Members and links that a search does not use, and links that it uses only at a higher cost.
#[derive(Clone, Default)]
pub(super) struct Avoided {
    /// Indices of the members that no path may cross.
    pub nodes: BTreeSet<usize>,
    /// Links that are avoided if possible: their cost is multiplied by [`PENALTY`].
    pub doubted: BTreeSet<(usize, usize)>,
    /// A link that no path may use.
    pub banned: Option<(usize, usize)>,
}

impl Avoided {
    fn doubts(&self, one: usize, other: usize) -> bool {
        self.doubted.contains(&link_of(one, other))
    }

    pub fn doubt(&mut self, path: &[usize]) {
        self.doubted.extend(path.windows(2).map(|hop| link_of(hop[0], hop[1])));
    }
}

/// Returns the pair of indices that stands for the link between two members, whatever their order.
pub(super) fn link_of(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

pub(super) fn edge_cost(edge: &MapEdge) -> u64 {
    (f64::from(edge.rtt_us) * (1.0 + 2.0 * edge.loss)) as u64 + u64::from(edge.jitter_us) + RELAY_US
}

pub(super) fn rate_of(edge: &MapEdge) -> Rate {
    edge.rate.unwrap_or(UNKNOWN_RATE)
}

/// Returns the least rate of the rate class to which `rate` belongs.
///
/// Each doubling of the rate is divided into three classes.
pub(super) fn class_of(rate: Rate) -> Rate {
    let octave = Rate::from_bps(1 << rate.bps().max(1).ilog2());
    let classes = [octave.scaled(1.587), octave.scaled(1.26)];
    classes.into_iter().find(|class| *class <= rate).unwrap_or(octave)
}

fn transfer_us(rate: Rate) -> u64 {
    TRANSFER_BITS.saturating_mul(1_000_000) / rate.bps().max(1)
}

/// True if `new` routes should replace the `present` ones.
///
/// They should if they are more, or if they are as many and their best or total cost is below 0.8 times the present
/// one.
pub fn are_better(present: &[FoundRoute], new: &[FoundRoute]) -> bool {
    let least = |routes: &[FoundRoute]| routes.iter().map(|route| route.cost_us).min().unwrap_or(0) as f64;
    let all = |routes: &[FoundRoute]| routes.iter().map(|route| route.cost_us).sum::<u64>() as f64;
    new.len() > present.len()
        || (new.len() == present.len() && (least(new) < BETTER * least(present) || all(new) < BETTER * all(present)))
}

impl MemberGraph {
    /// Returns a route over `nodes`, of which the last is the destination, with its figures by the link map.
    ///
    /// Returns `None` if a link of it is missing or down, or a node before the last is not a relay.
    pub fn route(&self, from: Label, nodes: &[Label]) -> Option<FoundRoute> {
        let path: Option<Vec<usize>> = [from].iter().chain(nodes).map(|label| self.place(*label)).collect();
        let path = path?;
        let relays = path.get(1..path.len().checked_sub(1)?)?;
        if relays.iter().all(|relay| self.relays[*relay]) { self.measured(&path) } else { None }
    }

    /// Returns the delay of a path in microseconds. A link that `avoided` lists as doubted counts [`PENALTY`]-fold.
    pub(super) fn delay_us(&self, path: &[usize], avoided: &Avoided) -> u64 {
        let of_hop = |hop: &[usize]| {
            let factor = if avoided.doubts(hop[0], hop[1]) { PENALTY } else { 1 };
            self.between(hop[0], hop[1]).map_or(u64::MAX / 16, |link| link.cost_us * factor)
        };
        path.windows(2).map(of_hop).sum()
    }

    /// Returns the cost of a path in microseconds. A link that `avoided` lists as doubted counts [`PENALTY`]-fold.
    pub(super) fn penalised(&self, path: &[usize], avoided: &Avoided) -> u64 {
        self.delay_us(path, avoided) + transfer_us(self.narrowest(path))
    }

    /// Returns the rate of the slowest link of a path, or zero if the path has no link.
    pub(super) fn narrowest(&self, path: &[usize]) -> Rate {
        let rates = path.windows(2).filter_map(|hop| self.between(hop[0], hop[1])).map(|link| link.rate);
        rates.min().unwrap_or(Rate::ZERO)
    }

    pub(super) fn between(&self, one: usize, other: usize) -> Option<&LinkTo> {
        let edges = &self.edges[one];
        edges.binary_search_by_key(&other, |link| link.to).ok().map(|at| &edges[at])
    }

    /// Returns the path of least delay over at least one relay, over links with a rate of at least `least`.
    ///
    /// Bellman and Ford's algorithm, one round for each hop, so that the limit of hops holds. A round continues from
    /// the members that the previous round has reached at less cost, if they are nearer than the target. The links to
    /// the target are examined first, because its cost decides which other links are examined. `looked` is increased
    /// by the number of links examined.
    pub(super) fn shortest(
        &self,
        (source, target): (usize, usize),
        avoided: &Avoided,
        least: Rate,
        looked: &mut usize,
    ) -> Option<Vec<usize>> {
        let mut rounds: Vec<RoundCosts> = vec![vec![(u64::MAX, usize::MAX); self.labels.len()]];
        rounds[0][source].0 = 0;
        let has_doubts = !avoided.doubted.is_empty();
        let cost = |before: &RoundCosts, one: usize, link: &LinkTo| {
            let is_barred = (one, link.to) == (source, target) || avoided.banned == Some(link_of(one, link.to));
            let factor = if has_doubts && avoided.doubts(one, link.to) { PENALTY } else { 1 };
            let total = before[one].0.saturating_add(link.cost_us.saturating_mul(factor));
            if is_barred || link.rate < least { u64::MAX } else { total }
        };
        let mut reached = vec![source];
        for hop in 0..MAX_HOPS {
            let before = &rounds[hop];
            let (mut next, mut nearer) = (before.clone(), Vec::new());
            for (one, link) in reached.iter().filter_map(|one| Some((*one, self.between(*one, target)?))) {
                let total = cost(before, one, link);
                if total < next[target].0 {
                    next[target] = (total, one);
                }
            }
            *looked += reached.len();
            let most = next[target].0;
            for one in reached.into_iter().filter(|one| before[*one].0 < most) {
                *looked += self.edges[one].len();
                for link in self.edges[one].iter().filter(|link| link.to != source && link.to != target) {
                    let total = cost(before, one, link);
                    if total < next[link.to].0 {
                        if next[link.to] == before[link.to] {
                            nearer.push(link.to);
                        }
                        next[link.to] = (total, one);
                    }
                }
            }
            let is_found = next[target] != before[target];
            rounds.push(next);
            nearer.retain(|one| self.relays[*one] && !avoided.nodes.contains(one));
            if nearer.is_empty() && !is_found {
                break;
            }
            nearer.sort_unstable();
            reached = nearer;
        }
        traced(&rounds, source, target)
    }

    pub(super) fn measured(&self, path: &[usize]) -> Option<FoundRoute> {
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

/// For each member: the least cost so far of a path to it, and the member before it on that path.
type RoundCosts = Vec<(u64, usize)>;

/// Returns the path to the target, by following the predecessors back to the source, beginning in the last round.
///
/// Returns `None` if no round reached the target.
fn traced(rounds: &[RoundCosts], source: usize, target: usize) -> Option<Vec<usize>> {
    let (mut at, mut path) = (target, vec![target]);
    let mut round = rounds.len() - 1;
    if rounds[round][target].0 == u64::MAX {
        return None;
    }
    while at != source {
        let before = rounds[round][at];
        // Go back to the first round in which this member had this cost. The member before it on the path reached its
        // own cost in the round before that one.
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
