//! The routes that this node has chosen on the link map, and the links that were worse than their claims.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_core::route::link_map::{FoundRoute, MemberGraph, are_better};
use weft_units::{Duration, Instant, PeerId};
use weft_wire::relay::Label;

/// Time within which a new route must answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time for which the links of a route that did not answer are avoided.
const DOUBT_TIME: Duration = Duration::from_secs(60);
/// Interval at which routes that answer are compared with all others.
const COMPARE_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of the searches for a peer with fewer routes than wanted, if the map changes.
const SHORT_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the searches for a peer without a route, or with one that was lost.
const LOST_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of searches at once. Each takes about a millisecond with 50 members, and delays the node's other work.
const MAX_SEARCHES: usize = 2;
/// Number of links beyond which searches are rarer. Derived: twice the links of 50 members, all of which relay.
///
/// With 256 such members, a search takes a hundred times as long. Only one is made at once, and comparisons are
/// fewer in proportion to the links, so that they do not take more of a processor than with 50 members.
const MANY_LINKS: usize = 2_500;

/// A route to a peer.
#[derive(Clone, Debug)]
pub struct ChosenRoute {
    pub found: FoundRoute,
    pub since: Instant,
}

/// The routes to one peer.
#[derive(Debug, Default)]
struct PeerRoutes {
    routes: Vec<ChosenRoute>,
    searched_at: Option<Instant>,
    /// True if a route was lost since the last search.
    has_lost: bool,
    /// Version of the map at the last search.
    version: u64,
}

/// The routes to all peers.
#[derive(Debug, Default)]
pub struct ChosenRoutes {
    by_peer: BTreeMap<PeerId, PeerRoutes>,
    /// Links that are avoided, and until when.
    doubted: BTreeMap<(Label, Label), Instant>,
    searches: usize,
    is_behind: bool,
}

fn hops(from: Label, nodes: &[Label]) -> impl Iterator<Item = (Label, Label)> {
    [from].into_iter().chain(nodes.iter().copied()).zip(nodes.iter().copied())
}

impl ChosenRoutes {
    pub fn of(&self, peer: PeerId) -> &[ChosenRoute] {
        self.by_peer.get(&peer).map_or(&[], |of| &of.routes)
    }

    pub fn forget_peer(&mut self, peer: PeerId) {
        self.by_peer.remove(&peer);
    }

    /// Begins a round: a few searches are allowed, and old doubts end.
    pub fn begin_round(&mut self, now: Instant) {
        (self.searches, self.is_behind) = (0, false);
        self.doubted.retain(|_, until| *until > now);
    }

    /// True if a search was put off in this round.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Doubts the routes to a peer that should answer and do not.
    ///
    /// Their links are avoided for a while, except those of routes that do answer.
    pub fn doubt_silent(&mut self, now: Instant, from: Label, peer: PeerId, answers: impl Fn(&[Label]) -> bool) {
        let Some(of) = self.by_peer.get_mut(&peer) else { return };
        let is_silent = |route: &ChosenRoute| now - route.since >= ANSWER_WITHIN && !answers(&route.found.nodes);
        if !of.routes.iter().any(is_silent) {
            return;
        }
        let (silent, good): (Vec<_>, Vec<_>) = core::mem::take(&mut of.routes).into_iter().partition(is_silent);
        let proven: Vec<_> = good.iter().flat_map(|route| hops(from, &route.found.nodes)).collect();
        for hop in silent.iter().flat_map(|route| hops(from, &route.found.nodes).skip(1)) {
            if !proven.contains(&hop) {
                self.doubted.insert(hop, now + DOUBT_TIME);
            }
        }
        of.routes = good;
        of.has_lost = true;
    }

    /// Updates the routes to a peer by the map.
    ///
    /// Present routes stay while they work, unless others are clearly better.
    pub fn choose(
        &mut self,
        now: Instant,
        (graph, version): (&MemberGraph, u64),
        (from, to): (Label, Label),
        peer: PeerId,
        most: usize,
    ) {
        let doubted: Vec<_> = self.doubted.keys().copied().collect();
        let of = self.by_peer.entry(peer).or_default();
        let before = of.routes.len();
        of.routes.retain_mut(|route| {
            let still = graph.route(from, &route.found.nodes);
            still.map(|found| route.found = found).is_some()
        });
        of.has_lost |= of.routes.len() < before;
        let size = 1 + graph.link_count() / MANY_LINKS;
        let interval = match of.routes.len() {
            _ if of.has_lost => LOST_INTERVAL,
            0 if of.version != version => LOST_INTERVAL,
            few if few < most && of.version != version => SHORT_INTERVAL,
            _ => COMPARE_INTERVAL * size as u32,
        };
        if of.searched_at.is_some_and(|at| now - at < interval) {
            return;
        }
        self.searches += 1;
        self.is_behind = self.searches > if size > 1 { 1 } else { MAX_SEARCHES };
        if self.is_behind {
            return;
        }
        (of.searched_at, of.version, of.has_lost) = (Some(now), version, false);
        let new = graph.routes(from, to, most, &doubted);
        let present: Vec<FoundRoute> = of.routes.iter().map(|route| route.found.clone()).collect();
        if !are_better(&present, &new) {
            return;
        }
        let since = |found: &FoundRoute| {
            let known = of.routes.iter().find(|route| route.found.nodes == found.nodes);
            known.map_or(now, |route| route.since)
        };
        let new: Vec<_> = new.into_iter().map(|found| ChosenRoute { since: since(&found), found }).collect();
        of.routes = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::route::link_map::MapEdge;

    const PEER: PeerId = PeerId(7);
    const ENDS: (Label, Label) = (Label(0), Label(9));

    /// Returns a graph with a relay between the ends for each of these RTTs in milliseconds.
    fn graph(relays: &[u32]) -> MemberGraph {
        let mut graph = MemberGraph::default();
        graph.add_member(ENDS.0, false);
        graph.add_member(ENDS.1, false);
        for (relay, rtt_ms) in (1..).zip(relays) {
            graph.add_member(Label(relay), true);
            let edge = MapEdge { rtt_us: rtt_ms * 1_000, jitter_us: 0, loss: 0.0, rate: None };
            graph.add_edge(ENDS.0, Label(relay), edge);
            graph.add_edge(Label(relay), ENDS.1, edge);
        }
        graph
    }

    fn relays(routes: &ChosenRoutes) -> Vec<u32> {
        routes.of(PEER).iter().map(|route| route.found.nodes[0].0).collect()
    }

    fn choose(routes: &mut ChosenRoutes, s: u64, graph: &MemberGraph, version: u64) {
        let now = Instant::from_millis(1_000 * s);
        routes.begin_round(now);
        routes.choose(now, (graph, version), ENDS, PEER, 2);
    }

    #[test]
    fn routes_stay_until_others_are_clearly_better() {
        let mut routes = ChosenRoutes::default();
        choose(&mut routes, 0, &graph(&[10, 20, 30]), 1);
        assert_eq!(relays(&routes), [1, 2]);
        choose(&mut routes, 60, &graph(&[22, 20, 18]), 2);
        assert_eq!(relays(&routes), [1, 2], "one is a little better");
        choose(&mut routes, 120, &graph(&[200, 20, 18]), 3);
        assert_eq!(relays(&routes), [3, 2]);
    }

    #[test]
    fn a_route_that_fails_is_replaced_at_once() {
        let mut routes = ChosenRoutes::default();
        choose(&mut routes, 0, &graph(&[10, 20, 30]), 1);
        let mut without = graph(&[10, 20, 30]);
        without = {
            let mut fewer = MemberGraph::default();
            [ENDS.0, ENDS.1, Label(2), Label(3)].into_iter().for_each(|label| fewer.add_member(label, label.0 % 9 > 0));
            for (one, other, edge) in without.links().filter(|(one, other, _)| *one != Label(1) && *other != Label(1)) {
                fewer.add_edge(one, other, *edge);
            }
            fewer
        };
        choose(&mut routes, 2, &without, 2);
        assert_eq!(relays(&routes), [2, 3]);
    }

    #[test]
    fn a_route_that_does_not_answer_is_avoided_for_a_minute() {
        let mut routes = ChosenRoutes::default();
        let graph = graph(&[60, 100, 140]);
        choose(&mut routes, 0, &graph, 1);
        let answers = |nodes: &[Label]| nodes[0] != Label(1);
        routes.doubt_silent(Instant::from_millis(4_000), ENDS.0, PEER, answers);
        assert_eq!(relays(&routes), [1, 2], "it still has time");
        routes.doubt_silent(Instant::from_millis(6_000), ENDS.0, PEER, answers);
        choose(&mut routes, 6, &graph, 2);
        assert_eq!(relays(&routes), [2, 3]);
        choose(&mut routes, 100, &graph, 2);
        assert_eq!(relays(&routes), [1, 2]);
    }
}
