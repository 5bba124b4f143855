//! A node's view of the link map: its claims about its own links, and the peers that still need an answer.
//!
//! [`LinkMap`] stores the claims of all members. [`LinkMapping`] decides when this node claims its own links, within
//! a limit of bytes, and chooses the peers to which new claims are forwarded. A *digest* lists for each member a
//! fingerprint of the claims that a node stores. The receiver answers with the claims that the digest's sender lacks.

use crate::api::ReportedLink;
use crate::overlay::chosen_routes::ChosenRoutes;
use crate::overlay::map_answers::{MapAnswers, PART_INTERVAL};
use crate::overlay::map_limits::MapLimits;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use weft_core::route::link_map::{LinkMap, MAX_AUTHORS, MemberGraph};
use weft_units::{Duration, Instant, NodeId, PeerId, Rng};
use weft_wire::er_sig::Rate16;
use weft_wire::link_map::{ClaimedLink, MAX_LINKS};
use weft_wire::relay::Label;

/// Interval at which a node compares its own links with its last claims about them.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a node sends a digest to a random peer, once no member has been added for a while.
pub const DIGEST_INTERVAL: Duration = Duration::from_secs(10);
/// Interval at which a node sends a digest to a random peer after a new member appeared. It doubles each time.
///
/// A new member sends a claim to a few peers only. The claim may miss a node, and a digest detects this.
const DIGEST_INTERVAL_AT_FIRST: Duration = Duration::from_secs(1);
/// Time from a new claim of a peer to the digest for that peer, so that one digest covers a batch of claims.
pub const DIGEST_DELAY: Duration = Duration::from_millis(150);
/// Number of new claims from a peer after which this node sends the peer a digest, to get the claims that it lacks.
pub const BATCH: usize = 8;

/// Maximum number of bytes per second that each node may send for the claims of all members.
///
/// *Standard*: 8 kbit/s a node at 50 members, less a third for digests and certificates.
const NODE_BYTES_PER_S: f64 = 670.0;
/// Number of copies of each message that a node forwards on average.
///
/// *Derived* from [`MOST_TOLD`]: the peer from which the message arrived gets none, and a peer may be chosen twice.
const COPIES: f64 = 2.5;
/// Maximum number of peers to which a node forwards a message about the link map.
const MOST_TOLD: usize = 4;
/// Length of the headers of a datagram that carries only one message about the link map, in bytes.
pub const HEADER_BYTES: u64 = 60;
/// Maximum number of bytes of claims that a node may send in one burst.
const BURST_BYTES: f64 = 2_400.0;
/// Number of bytes of a claim with its headers on the wire, without the claim's links.
const CLAIM_BYTES: f64 = 190.0;
/// Length of one link in a claim, in bytes.
const LINK_BYTES: f64 = 17.0;
/// Interval at which a node claims all of its links again, for each member of the network.
///
/// In a larger network, nodes repeat their claims less often.
const REPEAT_PER_MEMBER: Duration = Duration::from_secs(5);
/// Least interval at which a node claims all of its links again, however few members there are.
const REPEAT_LEAST: Duration = Duration::from_secs(60);
/// If more than this number of a node's own messages are in its map, the node claims all of its links again.
const MANY_MESSAGES: usize = 8;
/// Longest time for which a new link waits for its first claim, so that one claim covers all links that come up.
const MORE_LINKS_WITHIN: Duration = Duration::from_secs(1);
/// Smallest change of a link's round-trip time that causes a new claim, in microseconds.
const RTT_STEP_US: u32 = 3_000;
/// Smallest change of a link's loss that causes a new claim, in units of 1/256.
const LOSS_STEP: u8 = 8;

/// The link map of a node, its own claims, and its exchange of claims with the peers.
pub struct LinkMapping {
    pub map: LinkMap,
    /// Label of this node: the first 32 bits of its id.
    pub own: Label,
    /// Maximum number of relayed routes to find for each peer. With zero, no routes are searched for.
    pub most_routes: usize,
    pub look_at: Instant,
    /// Time of the next digest to a random peer, and the interval from it to the one after it.
    digest: (Instant, Duration),
    /// Peers to which a digest is to be sent, each with the time at which to send it.
    pub digests: BTreeMap<PeerId, Instant>,
    /// Number of new claims that arrived from each peer since this node's last digest to it.
    pub news_from: BTreeMap<PeerId, usize>,
    pub answers: MapAnswers,
    /// Peers whose arrived messages wait for a later turn, and the time of the next turn.
    unheard: (VecDeque<PeerId>, Instant),
    pub limits: MapLimits,
    pub routes: ChosenRoutes,
    /// Number of claims and certificates refused as forged since the start.
    pub forged: u64,
    /// Bytes sent for the link map since the start, with [`HEADER_BYTES`] for each message.
    pub sent_bytes: u64,
    told: BTreeMap<Label, ClaimedLink>,
    told_relay: bool,
    /// Number of own links that wait for their first claim, and the time since which the first of them waits.
    unclaimed: (usize, Instant),
    repeat_at: Instant,
    /// Labels of the members to which this node must claim its link again, whether or not it changed.
    ///
    /// A label is the first 32 bits of a node id.
    repeat: BTreeSet<Label>,
    seq: u64,
    allowance: (f64, Instant),
    graph: (u64, Arc<MemberGraph>),
    pub rng: Rng,
}

fn differ(one: Rate16, other: Rate16) -> bool {
    let bps = |rate: Rate16| rate.rate().map_or(0.0, |rate| rate.bps() as f64);
    let (one, other) = (bps(one), bps(other));
    (one - other).abs() > 0.25 * one.min(other)
}

/// True if a link differs so much from the last claim about it, `told`, that a new claim is needed.
fn is_news(told: &ClaimedLink, link: &ClaimedLink) -> bool {
    if told.is_down || link.is_down {
        return told.is_down != link.is_down;
    }
    let rtt_step = RTT_STEP_US.max(told.rtt_us / 4);
    told.rtt_us.abs_diff(link.rtt_us) > rtt_step
        || told.loss.abs_diff(link.loss) > LOSS_STEP
        || differ(told.capacity, link.capacity)
        || differ(told.available, link.available)
}

impl LinkMapping {
    pub fn new(now: Instant, own: Label, most_routes: usize, rng: Rng) -> LinkMapping {
        LinkMapping {
            map: LinkMap::default(),
            own,
            most_routes,
            look_at: now + LOOK_INTERVAL,
            digest: (now + DIGEST_INTERVAL_AT_FIRST, 2 * DIGEST_INTERVAL_AT_FIRST),
            digests: BTreeMap::new(),
            news_from: BTreeMap::new(),
            answers: MapAnswers::default(),
            unheard: (VecDeque::new(), now),
            limits: MapLimits::default(),
            routes: ChosenRoutes::default(),
            forged: 0,
            sent_bytes: 0,
            told: BTreeMap::new(),
            told_relay: false,
            unclaimed: (0, now),
            repeat_at: now,
            repeat: BTreeSet::new(),
            seq: 0,
            allowance: (BURST_BYTES, now),
            graph: (u64::MAX, Arc::default()),
            rng,
        }
    }

    /// Returns the time at which work for the link map is due next.
    pub fn next_timeout(&self) -> Instant {
        let unheard = self.unheard.0.front().map(|_| self.unheard.1);
        let others = self.answers.next_at().into_iter().chain(unheard).chain([self.look_at]);
        self.digests.values().copied().chain(others).min().unwrap_or(self.look_at)
    }

    /// Records that a peer's arrived messages are to be processed in a later turn.
    pub fn hear_more(&mut self, now: Instant, peer: PeerId) {
        if self.unheard.0.is_empty() {
            self.unheard.1 = now + PART_INTERVAL;
        }
        if !self.unheard.0.contains(&peer) {
            self.unheard.0.push_back(peer);
        }
    }

    /// Removes and returns the next peer whose arrived messages have waited, if the time of the next turn has come.
    pub fn next_to_hear(&mut self, now: Instant) -> Option<PeerId> {
        if self.unheard.1 > now {
            return None;
        }
        self.unheard.1 = now + PART_INTERVAL;
        self.unheard.0.pop_front()
    }

    /// Returns the graph of the members and links in the map. It is rebuilt if the map has changed.
    pub fn graph(&mut self) -> &MemberGraph {
        if self.graph.0 != self.map.version() {
            self.graph = (self.map.version(), Arc::new(MemberGraph::of(&self.map)));
        }
        &self.graph.1
    }

    /// Updates the relayed routes to a peer. `ends` are the labels of this node and of the peer.
    ///
    /// A label is the first 32 bits of a node id.
    pub fn choose_routes(&mut self, now: Instant, ends: (Label, Label), peer: PeerId) {
        self.graph();
        let (version, graph) = &self.graph;
        self.routes.choose(now, (graph, *version), ends, peer, self.most_routes);
    }

    /// Returns the number of the claim to send now, and the links in it. `links` are all of this node's links.
    ///
    /// Returns `None` if nothing has changed, or if earlier claims have used up the bytes allowed.
    pub fn claim_due(
        &mut self,
        now: Instant,
        unix_ms: u64,
        is_relay: bool,
        links: Vec<ClaimedLink>,
    ) -> Option<(u64, Vec<ClaimedLink>)> {
        let members = self.map.members().clamp(1, MAX_AUTHORS);
        self.fill_allowance(now, members);
        let mut current: BTreeMap<Label, ClaimedLink> = links.into_iter().map(|link| (link.to, link)).collect();
        for (to, told) in &self.told {
            current.entry(*to).or_insert(ClaimedLink { is_down: true, ..*told });
        }
        let is_full = self.repeat.is_empty()
            && (now >= self.repeat_at || is_relay != self.told_relay || self.map.messages_of(self.own) > MANY_MESSAGES);
        if is_full {
            self.repeat = current.keys().copied().collect();
            self.repeat_at = now + REPEAT_LEAST.max(REPEAT_PER_MEMBER * members as u32);
        }
        let is_due = |link: &&ClaimedLink| match self.told.get(&link.to) {
            _ if self.repeat.contains(&link.to) => true,
            Some(told) => is_news(told, link),
            None => !link.is_down,
        };
        let claimed: Vec<ClaimedLink> = current.values().filter(is_due).take(MAX_LINKS).copied().collect();
        let first_claims = claimed.iter().filter(|link| !self.told.contains_key(&link.to)).count();
        if first_claims == claimed.len() && self.waits_for_more_links(now, first_claims) {
            return None;
        }
        let bytes = COPIES * (CLAIM_BYTES + LINK_BYTES * claimed.len() as f64);
        if claimed.is_empty() || self.allowance.0 < bytes.min(BURST_BYTES) {
            return None;
        }
        self.allowance.0 -= bytes;
        self.told.extend(claimed.iter().map(|link| (link.to, *link)));
        self.told_relay = is_relay;
        for link in &claimed {
            // A link that stays down needs no further claim once it has been claimed as down again.
            if self.repeat.remove(&link.to) && link.is_down {
                self.told.remove(&link.to);
            }
        }
        self.seq = unix_ms.max(self.seq + 1);
        Some((self.seq, claimed))
    }

    /// True if claims should wait: more own links have come up since the last call, and the first is still new.
    fn waits_for_more_links(&mut self, now: Instant, count: usize) -> bool {
        let (before, since) = self.unclaimed;
        let since = if before == 0 { now } else { since };
        let waits = count > before && now - since < MORE_LINKS_WITHIN;
        self.unclaimed = (if waits { count } else { 0 }, since);
        waits
    }

    fn fill_allowance(&mut self, now: Instant, members: usize) {
        let (bytes, at) = self.allowance;
        let more = NODE_BYTES_PER_S / members as f64 * now.since(at).as_secs_f64();
        self.allowance = ((bytes + more).min(BURST_BYTES), now);
    }

    /// Returns the peers to which a message about the link map is forwarded, chosen from `places`.
    ///
    /// `places` are candidates and their positions on the ring. Among many candidates it chooses the next ones on the
    /// ring, which connect all nodes, and two random ones. `except` is never chosen.
    pub fn listeners(&mut self, own: NodeId, places: &[(NodeId, PeerId)], except: Option<PeerId>) -> Vec<PeerId> {
        let others = places.iter().filter(|(_, peer)| Some(*peer) != except);
        if places.len() <= MOST_TOLD {
            return others.map(|(_, peer)| *peer).collect();
        }
        let least = places.iter().min().map(|(_, peer)| *peer);
        let most = places.iter().max().map(|(_, peer)| *peer);
        let after = places.iter().filter(|(place, _)| *place > own).min().map(|(_, peer)| *peer).or(least);
        let before = places.iter().filter(|(place, _)| *place < own).max().map(|(_, peer)| *peer).or(most);
        let mut chosen: Vec<PeerId> = after.into_iter().chain(before).collect();
        for _ in 0..MOST_TOLD - 2 {
            let at = self.rng.below(places.len() as u64) as usize;
            chosen.extend(places.get(at).map(|(_, peer)| *peer));
        }
        chosen.sort_unstable();
        chosen.dedup();
        chosen.retain(|peer| Some(*peer) != except);
        chosen
    }

    /// Sends digests more often for a while, because the map has a new member.
    pub fn on_member(&mut self, now: Instant) {
        self.digest = (self.digest.0.min(now + DIGEST_INTERVAL_AT_FIRST), 2 * DIGEST_INTERVAL_AT_FIRST);
    }

    /// True if the periodic digest to a random peer is due. The next one is then scheduled.
    pub fn takes_digest_due(&mut self, now: Instant) -> bool {
        let (at, interval) = self.digest;
        if at > now {
            return false;
        }
        self.digest = (now + interval, DIGEST_INTERVAL.min(2 * interval));
        true
    }

    /// Schedules a digest to a peer for the time `at`, unless one is due sooner.
    pub fn owe_digest(&mut self, peer: PeerId, at: Instant) {
        let due = self.digests.entry(peer).or_insert(at);
        *due = at.min(*due);
    }

    /// Counts a new claim that arrived from a peer. After a batch of them, a digest asks the peer for missing claims.
    pub fn on_news(&mut self, now: Instant, from: PeerId) {
        let count = self.news_from.entry(from).or_default();
        *count += 1;
        if *count >= BATCH {
            *count = 0;
            self.owe_digest(from, now + DIGEST_DELAY);
        }
    }

    pub fn forget_peer(&mut self, peer: PeerId) {
        self.digests.remove(&peer);
        self.news_from.remove(&peer);
        self.answers.forget_peer(peer);
        self.unheard.0.retain(|waiting| *waiting != peer);
        self.limits.forget_peer(peer);
        self.routes.forget_peer(peer);
    }

    /// Returns all links that both ends claim to be up, with their RTT, jitter, loss and rate in the map.
    pub fn links(&mut self) -> Vec<ReportedLink> {
        let of = |(one, other, edge): (Label, Label, &weft_core::route::link_map::MapEdge)| ReportedLink {
            from: one.0,
            to: other.0,
            rtt: Duration::from_micros(edge.rtt_us.into()),
            jitter: Duration::from_micros(edge.jitter_us.into()),
            loss: edge.loss,
            rate: edge.rate,
        };
        self.graph().links().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn link(to: u32, rtt_us: u32) -> ClaimedLink {
        ClaimedLink {
            to: Label(to),
            is_down: false,
            confidence: 0,
            rtt_us,
            jitter_10us: 0,
            loss: 0,
            capacity: Rate16(0),
            available: Rate16(0),
            age_s: 0,
        }
    }

    #[test]
    fn changes_are_claimed_at_once_and_all_links_at_intervals() {
        let mut mapping = LinkMapping::new(Instant::ZERO, Label(1), 3, Rng::new(1));
        let at = |s: u64| Instant::from_millis(1_000 * s);
        let two = || vec![link(2, 20_000), link(3, 30_000)];
        assert_eq!(mapping.claim_due(at(0), 5, true, two()), None, "more links may come up");
        let first = mapping.claim_due(at(0) + LOOK_INTERVAL, 5, true, two()).unwrap();
        assert_eq!((first.0, first.1.len()), (5, 2));
        assert_eq!(mapping.claim_due(at(5), 5_000, true, two()), None);
        let slower = mapping.claim_due(at(10), 10_000, true, vec![link(2, 20_000), link(3, 40_000)]).unwrap();
        assert_eq!(slower, (10_000, vec![link(3, 40_000)]));
        let (_, down) = mapping.claim_due(at(20), 20_000, true, vec![link(3, 40_000)]).unwrap();
        assert!(down.len() == 1 && down[0].to == Label(2) && down[0].is_down);
        let (_, all) = mapping.claim_due(at(61), 61_000, true, vec![link(3, 40_000)]).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(mapping.claim_due(at(62), 62_000, true, vec![link(3, 40_000)]), None);
    }

    #[test]
    fn links_that_come_up_one_after_the_other_share_claims() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut mapping = LinkMapping::new(Instant::ZERO, Label(1), 3, Rng::new(1));
            let count = 2 + rng.below(20) as u32;
            let up_at: Vec<u64> = (0..count).map(|_| rng.below(2_000)).collect();
            let (mut claims, mut claimed) = (0, 0);
            for ms in (0..3_500).step_by(250) {
                let is_up = |to: &u32| up_at[*to as usize] <= ms;
                let links = (0..count).filter(is_up).map(|to| link(100 + to, 10_000)).collect();
                if let Some((_, links)) = mapping.claim_due(Instant::from_millis(ms), ms, true, links) {
                    (claims, claimed) = (claims + 1, claimed + links.len() as u32);
                }
            }
            assert!(claimed == count && claims <= 4, "seed {seed}: {claimed} of {count} in {claims} claims");
        }
    }

    #[test]
    fn a_link_that_never_rests_costs_no_more_than_the_allowance() {
        let mut mapping = LinkMapping::new(Instant::ZERO, Label(1), 3, Rng::new(1));
        for member in 0..50 {
            mapping.map.admit(Instant::ZERO, Label(member), [member as u8; 32], &[1], true, 0);
        }
        let mut bytes = 0.0;
        for quarter in 0..4 * 3_600 {
            let links = (0..40).map(|to| link(100 + to, if quarter % 2 == 0 { 10_000 } else { 90_000 })).collect();
            let now = Instant::from_millis(250 * quarter);
            if let Some((_, claimed)) = mapping.claim_due(now, 250 * quarter, true, links) {
                bytes += COPIES * (CLAIM_BYTES + LINK_BYTES * claimed.len() as f64);
            }
        }
        let allowed = BURST_BYTES + NODE_BYTES_PER_S / 50.0 * 3_600.0;
        assert!(bytes > 0.5 * allowed && bytes <= allowed + BURST_BYTES, "{bytes} of {allowed}");
    }

    #[test]
    fn all_peers_get_a_claim_if_few_and_the_next_on_the_ring_if_many() {
        let mut mapping = LinkMapping::new(Instant::ZERO, Label(1), 3, Rng::new(1));
        let place = |byte: u8| NodeId::new([byte; NodeId::LEN]);
        let places = |count: u8| (0..count).map(|n| (place(10 * n), PeerId(n.into()))).collect::<Vec<_>>();
        assert_eq!(mapping.listeners(place(15), &places(3), Some(PeerId(1))), [PeerId(0), PeerId(2)]);
        for _ in 0..100 {
            let told = mapping.listeners(place(15), &places(20), Some(PeerId(7)));
            assert!(told.contains(&PeerId(1)) && told.contains(&PeerId(2)) && !told.contains(&PeerId(7)));
            assert!(told.len() <= MOST_TOLD);
        }
        let told = mapping.listeners(place(250), &places(20), None);
        assert!(told.contains(&PeerId(0)) && told.contains(&PeerId(19)));
    }
}
