//! The relayed routes that this node has chosen in the link map, and the links that it avoids for a time.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_core::route::link_map::{FoundRoute, MemberGraph, RouteSearch, are_better};
use weft_units::{Duration, Instant, PeerId};
use weft_wire::relay::Label;

/// Time after its choice within which the peer must answer over a new route.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time for which the links of a route that did not answer are avoided.
const DOUBT_TIME: Duration = Duration::from_secs(60);
/// Interval at which the working routes to a peer are compared with all other routes.
const COMPARE_INTERVAL: Duration = Duration::from_secs(30);
/// Interval of the searches for routes to a peer that has fewer routes than wanted, if the map changes.
const SHORT_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the searches for routes to a peer that has no route, or has lost one.
const LOST_INTERVAL: Duration = Duration::from_secs(1);
/// Number of links that searches examine in a round before they pause until the next round.
///
/// *Tuned*: a round takes a millisecond in a map of any size. A whole search in a full mesh of 50 members examines
/// half as many links. The last shortest path of a round may exceed the limit, by 400,000 links at most with 256
/// members that are all adjacent.
const LINKS_IN_ROUND: i64 = 250_000;
/// Number of links in the map above which routes are compared less often than once per [`COMPARE_INTERVAL`].
///
/// *Derived*: twice the links of 50 members, all of which relay. With 256 such members a search examines a hundred
/// times as many links. Comparisons are fewer in proportion to the links, so that they use no more of a processor than
/// with 50 members.
const MANY_LINKS: usize = 2_500;

/// A relayed route to a peer, and the time at which it was chosen.
#[derive(Clone, Debug)]
pub struct ChosenRoute {
    pub found: FoundRoute,
    pub since: Instant,
}

/// The relayed routes to one peer, and the state of the search for better ones.
#[derive(Debug, Default)]
struct PeerRoutes {
    routes: Vec<ChosenRoute>,
    searched_at: Option<Instant>,
    /// True if a route to the peer was lost since the last search began.
    has_lost: bool,
    /// Version of the link map at the last search.
    version: u64,
    /// True if a search for the peer was due in this round, and no search for the peer has ended since.
    is_due: bool,
}

/// The relayed routes chosen for all peers.
#[derive(Debug, Default)]
pub struct ChosenRoutes {
    by_peer: BTreeMap<PeerId, PeerRoutes>,
    /// Links that searches avoid, each with the time until which they do.
    doubted: BTreeMap<(Label, Label), Instant>,
    /// Peers that are due for a search, in the order in which they became due. The search is for the first one.
    queue: VecDeque<PeerId>,
    /// The search for routes to the first peer of the queue, once begun, and the version of the map that it uses.
    search: Option<(RouteSearch, u64)>,
    /// Number of links that searches may still examine in this round.
    links_left: i64,
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

    /// Begins a round of searches for routes.
    ///
    /// The limit of links is renewed, links are no longer avoided after [`DOUBT_TIME`], and peers that were not due
    /// in the last round leave the queue.
    pub fn begin_round(&mut self, now: Instant) {
        self.links_left = LINKS_IN_ROUND;
        self.doubted.retain(|_, until| *until > now);
        let first = self.queue.front().copied();
        let by_peer = &mut self.by_peer;
        self.queue.retain(|peer| by_peer.get_mut(peer).is_some_and(|of| core::mem::take(&mut of.is_due)));
        if self.queue.front().copied() != first {
            self.search = None;
        }
    }

    /// True if some peer still waits for a search for its routes.
    pub fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Removes the routes to a peer that should answer and do not, and marks their links as doubtful.
    ///
    /// Doubtful links are avoided for a while. Links of routes that do answer are not marked, and neither is the link
    /// from this node to the first relay.
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

    /// Updates the routes to a peer from the link map.
    ///
    /// Present routes stay while they work, unless other routes are clearly better. Better routes are searched for
    /// one peer at a time, a part of the search in each round. `most` is the maximum number of routes.
    pub fn choose(
        &mut self,
        now: Instant,
        (graph, version): (&Arc<MemberGraph>, u64),
        (from, to): (Label, Label),
        peer: PeerId,
        most: usize,
    ) {
        let of = self.by_peer.entry(peer).or_default();
        of.keep_present(graph, from);
        if !of.is_search_due(now, graph, version, most) {
            return;
        }
        of.is_due = true;
        if !self.queue.contains(&peer) {
            self.queue.push_back(peer);
        }
        if self.queue.front() != Some(&peer) || self.links_left <= 0 {
            return;
        }
        let doubted = &self.doubted;
        let (search, searched) = self.search.get_or_insert_with(|| {
            of.has_lost = false;
            let doubted = doubted.keys().copied().collect();
            (RouteSearch::new(Arc::clone(graph), (from, to), most, doubted), version)
        });
        if let Some(new) = search.advance(&mut self.links_left) {
            (of.searched_at, of.version, of.is_due) = (Some(now), *searched, false);
            // The map may have changed since the search began, so routes that it no longer contains are left out.
            of.take_better(now, new.iter().filter_map(|found| graph.route(from, &found.nodes)).collect());
            self.queue.pop_front();
            self.search = None;
        }
    }
}

impl PeerRoutes {
    /// Drops routes that the map no longer contains, and updates the figures of the remaining routes.
    fn keep_present(&mut self, graph: &MemberGraph, from: Label) {
        let before = self.routes.len();
        self.routes.retain_mut(|route| {
            let still = graph.route(from, &route.found.nodes);
            still.map(|found| route.found = found).is_some()
        });
        self.has_lost |= self.routes.len() < before;
    }

    fn is_search_due(&self, now: Instant, graph: &MemberGraph, version: u64, most: usize) -> bool {
        let size = 1 + graph.link_count() / MANY_LINKS;
        let interval = match self.routes.len() {
            _ if self.has_lost => LOST_INTERVAL,
            0 if self.version != version => LOST_INTERVAL,
            few if few < most && self.version != version => SHORT_INTERVAL,
            _ => COMPARE_INTERVAL * size as u32,
        };
        self.searched_at.is_none_or(|at| now - at >= interval)
    }

    /// Replaces the routes to the peer by `new` ones if those are better.
    fn take_better(&mut self, now: Instant, new: Vec<FoundRoute>) {
        let present: Vec<FoundRoute> = self.routes.iter().map(|route| route.found.clone()).collect();
        if !are_better(&present, &new) {
            return;
        }
        let since = |found: &FoundRoute| {
            let known = self.routes.iter().find(|route| route.found.nodes == found.nodes);
            known.map_or(now, |route| route.since)
        };
        self.routes = new.into_iter().map(|found| ChosenRoute { since: since(&found), found }).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::route::link_map::MapEdge;

    const PEER: PeerId = PeerId(7);
    const ENDS: (Label, Label) = (Label(0), Label(9));

    /// Returns a graph of two ends with one relay between them for each RTT in `relays`, in milliseconds.
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
        routes.choose(now, (&Arc::new(graph.clone()), version), ENDS, PEER, 2);
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
