//! Prefixes with several next hops: for each flow, one of the peers that forward toward the prefix.
//!
//! The peer that has the prefix in its configuration is its owner. Other peers are alternates, which the program names.
//! A new flow takes one of the peers that answer and whose delay is near-equal, and avoids a peer that reports a full
//! port. It keeps that peer until the peer stops answering. An answer takes the peer by which its flow arrived, so that
//! both directions cross the same nodes. Only the default VPN has such prefixes.

use crate::api::Prefix;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_core::flow::table::{FlowTable, MAX_FLOWS};
use weft_core::route::prefix_map::PrefixMap;
use weft_flows::ClassId;
use weft_flows::alternates::{AlternateGroups, ComponentId, DestinationId, GroupId, RouteFacts, RouteId};
use weft_flows::load::HeardLoads;
use weft_units::{Duration, Instant, PeerId, Rate};
use weft_wire::ip::FlowKey;

/// Delay that is added to that of the path to a next hop. It stands for the unknown rest of the route.
///
/// *Tuned*: routes are near-equal if one is at most 25 % slower than the other. A next hop that is 10 ms farther away
/// than the nearest one is then still used.
const REST_OF_ROUTE: Duration = Duration::from_millis(40);
/// Change of a next hop's delay from which the metric of its route is changed.
///
/// *Tuned*: a fortieth of [`REST_OF_ROUTE`]. Smaller changes would only cause work.
const DELAY_STEP: Duration = Duration::from_millis(1);
/// Time until the silent death of a next hop is noticed, for the time after which flows return to it.
///
/// *Tuned*: a busy path is suspect after some round trips. A revived next hop that is not faster than the others gets
/// no new flow for 32 times as long.
const DETECTION: Duration = Duration::from_millis(100);

/// A prefix with several next hops.
#[derive(Clone, PartialEq, Debug)]
struct SharedPrefix {
    prefix: Prefix,
    /// The owner, then the alternates.
    peers: Vec<PeerId>,
    /// Number of the route of the first peer. Those of the other peers follow.
    first_route: u16,
}

/// The route over one next hop.
#[derive(Clone, Copy, Debug)]
struct HopRoute {
    peer: PeerId,
    destination: DestinationId,
    /// Delay in the route's metric. Before the peer's first answer, the route does not exist for [`AlternateGroups`].
    ///
    /// A route that existed from the start would count as dead and revived, and would get no flow at first.
    delay: Option<Duration>,
}

/// The next hop of one flow.
#[derive(Clone, Copy, Debug)]
struct ChosenHop {
    /// Position of the flow's prefix among the shared prefixes.
    shared: u16,
    group: GroupId,
    /// True if the flow began with a packet from a peer. It then takes the peer of the last arrival.
    is_answer: bool,
}

/// The prefixes with several next hops, and the next hop of each flow toward them.
#[derive(Debug)]
pub struct NextHops {
    configured: Vec<(Prefix, PeerId)>,
    shared: Vec<SharedPrefix>,
    /// Positions in `shared`, by prefix.
    prefixes: PrefixMap<u16>,
    /// Next hops by the numbers of their routes.
    routes: Vec<HopRoute>,
    /// Each peer of the routes once, with its delay at the last change.
    hops: Vec<(PeerId, Option<Duration>)>,
    groups: AlternateGroups,
    flows: FlowTable<FlowKey>,
    /// Next hops by flow number. `None`: nothing was chosen for the flow yet.
    chosen: Vec<Option<ChosenHop>>,
}

impl NextHops {
    /// Returns the next hops of the `configured` alternates, which [`NextHops::resolve`] must join with the owners.
    ///
    /// `seed` is the seed of the hash by which flows are spread.
    pub fn new(configured: Vec<(Prefix, PeerId)>, seed: u64) -> NextHops {
        NextHops {
            configured,
            shared: Vec::new(),
            prefixes: PrefixMap::default(),
            routes: Vec::new(),
            hops: Vec::new(),
            groups: AlternateGroups::new(),
            flows: FlowTable::new(seed, MAX_FLOWS),
            chosen: Vec::new(),
        }
    }

    /// Returns the alternates as they were configured.
    pub fn configured(&self) -> &[(Prefix, PeerId)] {
        &self.configured
    }

    /// Joins each alternate with the owner of its prefix. A prefix without an owner has no next hops.
    ///
    /// `owner` returns the peer that has exactly this prefix.
    ///
    /// Flows keep their next hops if nothing has changed.
    pub fn resolve(&mut self, owner: impl Fn(Prefix) -> Option<PeerId>) {
        let mut shared: Vec<SharedPrefix> = Vec::new();
        for (prefix, peer) in &self.configured {
            let Some(of) = owner(*prefix).filter(|of| of != peer) else { continue };
            match shared.iter_mut().find(|known| known.prefix == *prefix) {
                Some(known) if known.peers.contains(peer) => {}
                Some(known) => known.peers.push(*peer),
                None => shared.push(SharedPrefix { prefix: *prefix, peers: alloc::vec![of, *peer], first_route: 0 }),
            }
        }
        let mut next = 0;
        for known in &mut shared {
            known.first_route = next;
            next += known.peers.len() as u16;
        }
        if shared != self.shared {
            self.begin_anew(shared);
        }
    }

    fn begin_anew(&mut self, shared: Vec<SharedPrefix>) {
        (self.prefixes, self.groups) = (PrefixMap::default(), AlternateGroups::new());
        self.routes.clear();
        self.chosen.clear();
        for (at, of) in shared.iter().enumerate() {
            // The result is ignored: each prefix occurs once.
            let _ = self.prefixes.insert(of.prefix.address, of.prefix.length, at as u16);
            let destination = DestinationId(at as u32);
            self.routes.extend(of.peers.iter().map(|peer| HopRoute { peer: *peer, destination, delay: None }));
        }
        self.hops = self.routes.iter().map(|route| (route.peer, None)).collect();
        self.hops.sort_unstable_by_key(|(peer, _)| *peer);
        self.hops.dedup_by_key(|(peer, _)| *peer);
        self.shared = shared;
    }

    /// True if `peer` forwards toward `address`. `length` is that of the longest prefix that contains the address.
    pub fn has_member(&self, peer: PeerId, address: IpAddr, length: u8) -> bool {
        self.shared_of(address, length).is_some_and(|(_, of)| of.peers.contains(&peer))
    }

    fn shared_of(&self, address: IpAddr, length: u8) -> Option<(u16, &SharedPrefix)> {
        let (found, at) = self.prefixes.longest(address)?;
        self.shared.get(usize::from(at)).filter(|_| found == length).map(|of| (at, of))
    }

    /// Updates which peers answer. `delay` returns the one-way delay of a peer, or `None` while it does not answer.
    ///
    /// The flows of a peer that stops answering move to another one at once.
    pub fn refresh(&mut self, now: Instant, delay: impl Fn(PeerId) -> Option<Duration>) {
        for at in 0..self.hops.len() {
            let (peer, before) = self.hops[at];
            let after = delay(peer);
            let is_same = match (before, after) {
                (Some(before), Some(after)) => before.abs_diff(after) < DELAY_STEP,
                (before, after) => before == after,
            };
            if !is_same {
                self.hops[at].1 = after;
                self.set_delay(now, peer, after);
            }
        }
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.groups.poll(now);
        }
    }

    /// Returns the time at which flows may return to a next hop that answers again, or `None` if none waits for it.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.groups.next_timeout()
    }

    /// Updates the routes over a peer. `delay` is `None` while the peer does not answer.
    fn set_delay(&mut self, now: Instant, peer: PeerId, delay: Option<Duration>) {
        for (number, route) in self.routes.iter_mut().enumerate().filter(|(_, route)| route.peer == peer) {
            let id = RouteId(number as u16);
            if let Some(delay) = delay {
                match route.delay.replace(delay) {
                    None => self.groups.set_route(now, id, facts(route, REST_OF_ROUTE + delay)),
                    Some(_) => self.groups.set_metric(id, REST_OF_ROUTE + delay),
                }
            }
        }
        self.groups.set_component_alive(now, component(peer), delay.is_some());
    }

    /// Returns the next hop of a packet of a host here, or `None` if its destination has one next hop or none answers.
    ///
    /// `to` is the destination and the length of the longest prefix that contains it. `asks` returns the class of the
    /// packet's flow and the guarantee that the flow asks for. It is called for new flows alone.
    pub fn next_hop(
        &mut self,
        now: Instant,
        to: (IpAddr, u8),
        key: &FlowKey,
        heard: &HeardLoads,
        asks: impl FnOnce() -> (ClassId, Rate),
    ) -> Option<PeerId> {
        let (shared, _) = self.shared_of(to.0, to.1)?;
        let (at, hash) = self.look_up(now, key);
        let known = self.chosen.get(at).copied().flatten().filter(|known| known.shared == shared);
        if let Some(current) = known.and_then(|known| self.groups.current(known.group)) {
            return self.peer(current.route);
        }
        let asks = asks();
        let is_full = |route: RouteId| self.peer(route).is_some_and(|peer| heard.is_full(now, peer, to.0, asks));
        let group = self.groups.choose_unless(DestinationId(shared.into()), hash, is_full)?;
        self.set_chosen(at, ChosenHop { shared, group, is_answer: false });
        self.peer(self.groups.current(group)?.route)
    }

    /// Records a packet of the flow `key` from a peer, so that its answers take the same peer.
    ///
    /// `length` is that of the longest prefix that contains the flow's source. Flows that began here keep their choice.
    pub fn on_arrived(&mut self, now: Instant, peer: PeerId, key: &FlowKey, length: u8) {
        let Some((shared, of)) = self.shared_of(key.src, length) else { return };
        let Some(nth) = of.peers.iter().position(|member| *member == peer) else { return };
        let group = GroupId(of.first_route + nth as u16);
        let (at, _) = self.look_up(now, &key.reversed());
        if self.chosen.get(at).copied().flatten().is_none_or(|known| known.is_answer) {
            self.set_chosen(at, ChosenHop { shared, group, is_answer: true });
        }
    }

    /// Returns the number of a flow and its hash. For a new flow, nothing is chosen under its number.
    fn look_up(&mut self, now: Instant, key: &FlowKey) -> (usize, u64) {
        let id = self.flows.lookup(now, key);
        let (is_new, at) = (self.flows.get(id).is_none_or(|entry| entry.packets == 0), usize::from(id.0));
        self.flows.count(id, 1, 0);
        if let Some(of_former_flow) = self.chosen.get_mut(at).filter(|_| is_new) {
            *of_former_flow = None;
        }
        // The hash decides in its high bits which route is taken, and the second choice depends on all bits.
        let hash = u64::from(self.flows.hash(key));
        (at, hash << 32 | hash)
    }

    fn set_chosen(&mut self, at: usize, hop: ChosenHop) {
        if self.chosen.len() <= at {
            self.chosen.resize(at + 1, None);
        }
        self.chosen[at] = Some(hop);
    }

    fn peer(&self, route: RouteId) -> Option<PeerId> {
        self.routes.get(usize::from(route.0)).map(|route| route.peer)
    }
}

fn facts(route: &HopRoute, metric: Duration) -> RouteFacts {
    let components = alloc::vec![component(route.peer)];
    RouteFacts { destination: route.destination, metric, weight: 1, detection: DETECTION, components }
}

fn component(peer: PeerId) -> ComponentId {
    ComponentId(peer.0.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::net::Ipv4Addr;
    use weft_flows::load::{LOAD_CLASSES, LoadReport, TransitLoad};
    use weft_units::Rng;
    use weft_wire::er_sig::Rate16;

    const PREFIX: Prefix = Prefix { address: IpAddr::V4(Ipv4Addr::new(10, 23, 0, 0)), length: 16 };
    const BULK: (ClassId, Rate) = (ClassId(0), Rate::ZERO);

    fn key(number: u64) -> FlowKey {
        let [a, b, .., c, d] = number.to_be_bytes();
        let (src, dst) = (IpAddr::from([10, 20, a, b]), IpAddr::from([10, 23, 0, 1]));
        FlowKey { src, dst, protocol: 17, src_port: u16::from_be_bytes([c, d]), dst_port: 9, flow_label: 0 }
    }

    fn next(hops: &mut NextHops, now: Instant, heard: &HeardLoads, flow: u64) -> Option<PeerId> {
        let key = key(flow);
        hops.next_hop(now, (key.dst, 16), &key, heard, || BULK)
    }

    /// Returns the next hops over peers 0 to `count` − 1, of which peer 0 is the owner.
    fn hops(count: u16, seed: u64, delay: impl Fn(PeerId) -> Option<Duration>) -> NextHops {
        let alternates = (1..count).map(|peer| (PREFIX, PeerId(peer))).collect();
        let mut hops = NextHops::new(alternates, seed);
        hops.resolve(|prefix| (prefix == PREFIX).then_some(PeerId(0)));
        hops.refresh(Instant::from_millis(1), delay);
        hops
    }

    /// Returns any report: of a full, of a free and of a random port.
    fn report(rng: &mut Rng, sequence: u8) -> TransitLoad {
        let mut rate = |most: u64| Rate16::floor(Rate::from_bps(rng.below(most)));
        let mut headroom = [Rate16::ZERO; LOAD_CLASSES];
        headroom[0] = rate(10_000_000);
        let rate = rate(100_000_000);
        let queue_delay = Duration::from_millis(rng.below(100));
        let report = LoadReport { sequence, rate, queue_delay, classes: 1, headroom, ..LoadReport::default() };
        TransitLoad { network: PREFIX.address, length: PREFIX.length, report }
    }

    #[test]
    fn no_report_gains_a_flow_or_a_peer_that_is_farther_away() {
        let mut rng = Rng::new(7);
        for seed in 0..200 {
            let count = 2 + rng.below(4) as u16;
            let delays: Vec<_> = (0..count).map(|_| Duration::from_millis(rng.below(40))).collect();
            let delay = |peer: PeerId| Some(delays[usize::from(peer.0)]);
            let most = (REST_OF_ROUTE + *delays.iter().min().unwrap()).mul_f64(1.25) - REST_OF_ROUTE;
            let liar = PeerId(rng.below(count.into()) as u16);
            let now = Instant::from_millis(2);
            let (mut silent, mut loud) = (HeardLoads::default(), HeardLoads::default());
            for peer in (0..count).map(PeerId) {
                let (heard, load) = (rng.chance(0.7), report(&mut rng, 1));
                if heard && peer != liar {
                    silent.insert(now, peer, load);
                }
                if heard || peer == liar {
                    loud.insert(now, peer, load);
                }
            }
            let (mut without, mut with) = (hops(count, seed, delay), hops(count, seed, delay));
            for _ in 0..100 {
                let flow = rng.next_u64();
                let [before, after] = [next(&mut without, now, &silent, flow), next(&mut with, now, &loud, flow)];
                assert!(after != Some(liar) || before == after, "the report of {liar:?} gained a flow");
                let taken = delays[usize::from(after.unwrap().0)];
                assert!(taken <= most + Duration::from_nanos(1), "{taken:?} of {delays:?}");
            }
        }
    }

    #[test]
    fn a_flow_keeps_its_hop_whatever_is_reported_and_loses_it_only_by_death() {
        let mut rng = Rng::new(8);
        for seed in 0..100 {
            let (count, mut heard, mut now) = (2 + rng.below(4) as u16, HeardLoads::default(), Instant::from_millis(1));
            let mut alive = vec![true; usize::from(count)];
            let delay = Duration::from_millis(10);
            let mut hops = hops(count, seed, |_| Some(delay));
            let mut taken: Vec<(u64, PeerId)> = Vec::new();
            for step in 0..200u64 {
                now += Duration::from_millis(20);
                heard.insert(now, PeerId(rng.below(count.into()) as u16), report(&mut rng, step as u8));
                if rng.chance(0.02) {
                    let at = rng.below(count.into()) as usize;
                    alive[at] = !alive[at] || !alive.iter().enumerate().any(|(other, alive)| other != at && *alive);
                    hops.refresh(now, |peer| alive[usize::from(peer.0)].then_some(delay));
                }
                let flow = rng.next_u64();
                taken.push((flow, next(&mut hops, now, &heard, flow).expect("one answers")));
                for (flow, peer) in &mut taken {
                    let again = next(&mut hops, now, &heard, *flow).expect("one answers");
                    assert!(alive[usize::from(again.0)], "a dead hop is not taken");
                    *peer = again;
                }
                if alive.iter().all(|alive| *alive) && hops.groups.next_timeout().is_none() {
                    let before: Vec<_> = taken.clone();
                    for peer in 0..count {
                        heard.insert(now, PeerId(peer), report(&mut rng, (step as u8).wrapping_add(100)));
                    }
                    let after = taken.iter().map(|(flow, _)| (*flow, next(&mut hops, now, &heard, *flow).unwrap()));
                    assert_eq!(after.collect::<Vec<_>>(), before);
                }
            }
        }
    }

    #[test]
    fn answers_follow_also_after_the_owner_has_changed() {
        let mut rng = Rng::new(10);
        for seed in 0..50 {
            let alternates = (1..4).map(|peer| (PREFIX, PeerId(peer))).collect();
            let (mut hops, heard, now) =
                (NextHops::new(alternates, seed), HeardLoads::default(), Instant::from_millis(3));
            let flows: Vec<u64> = (0..20).map(|_| rng.next_u64()).collect();
            for owner in [0, 5, 6] {
                hops.resolve(|prefix| (prefix == PREFIX).then_some(PeerId(owner)));
                hops.refresh(now, |_| Some(Duration::from_millis(5)));
                // In any order, so that the first flow of the new table is not that with the lowest number.
                for _ in 0..100 {
                    let (flow, peer) = (flows[rng.below(20) as usize], PeerId(1 + rng.below(3) as u16));
                    hops.on_arrived(now, peer, &key(flow).reversed(), 16);
                    assert_eq!(next(&mut hops, now, &heard, flow), Some(peer), "owner {owner}");
                }
            }
        }
    }

    #[test]
    fn a_flow_that_began_while_no_peer_answered_chooses_when_one_does() {
        for seed in 0..50 {
            let (heard, now) = (HeardLoads::default(), Instant::from_millis(3));
            let mut hops = hops(3, seed, |_| Some(Duration::from_millis(5)));
            hops.refresh(now, |_| None);
            assert_eq!(next(&mut hops, now, &heard, seed), None);
            hops.refresh(now, |peer| (peer == PeerId(2)).then_some(Duration::from_millis(5)));
            assert_eq!(next(&mut hops, now, &heard, seed), Some(PeerId(2)));
        }
    }

    #[test]
    fn an_answer_follows_its_flow_and_a_flow_of_a_host_here_does_not() {
        let mut rng = Rng::new(9);
        for seed in 0..100 {
            let mut hops = hops(4, seed, |_| Some(Duration::from_millis(5)));
            let (heard, now) = (HeardLoads::default(), Instant::from_millis(3));
            for _ in 0..20 {
                let (own, foreign, peer) = (rng.next_u64(), rng.next_u64(), PeerId(rng.below(4) as u16));
                let first = next(&mut hops, now, &heard, own);
                hops.on_arrived(now, peer, &key(own).reversed(), 16);
                assert_eq!(next(&mut hops, now, &heard, own), first);
                hops.on_arrived(now, peer, &key(foreign).reversed(), 16);
                assert_eq!(next(&mut hops, now, &heard, foreign), Some(peer));
            }
            assert!(hops.has_member(PeerId(3), key(1).dst, 16) && !hops.has_member(PeerId(4), key(1).dst, 16));
            assert!(!hops.has_member(PeerId(3), key(1).dst, 24), "a longer prefix has its own owner");
        }
    }
}
