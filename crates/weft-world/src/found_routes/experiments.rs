//! Measures the routes that members of an overlay find by themselves.
//!
//! It returns figures that the callers compare with the requirements.

use super::world::{MemberLink, MemberWorld, key};
use std::collections::BTreeMap;
use weft_units::{Duration, Instant, Rate, Rng};

/// Time from the start of the network in which members find each other and their routes.
const SETTLE: Duration = Duration::from_secs(20);
/// Time from the start of a flow until a relay on its route is stopped, and the pause after its restart.
const WARM: Duration = Duration::from_secs(8);
/// Interval between two packets of a flow.
const EVERY: Duration = Duration::from_millis(2);
/// Length of a flow's packets, in IP bytes.
const PACKET_BYTES: usize = 200;
/// Time for which a flow is recorded after a relay on its route was stopped.
const WATCHED: Duration = Duration::from_secs(2);

/// Returns the links of `nodes` nodes at random places on a plane.
///
/// They join each node to its two neighbours on a ring and to random other nodes, so that each node has about `degree`
/// links. The delay of a link grows with its length.
fn plane(rng: &mut Rng, nodes: usize, degree: usize) -> BTreeMap<(usize, usize), MemberLink> {
    let places: Vec<(f64, f64)> = (0..nodes).map(|_| (rng.unit(), rng.unit())).collect();
    let mut links = BTreeMap::new();
    let mut join = |one: usize, other: usize| {
        let ((a, b), (c, d)) = (places[one], places[other]);
        let delay = Duration::from_secs_f64(0.002 + 0.030 * ((a - c).powi(2) + (b - d).powi(2)).sqrt());
        links.insert((one.min(other), one.max(other)), MemberLink::new(delay, Rate::from_mbps(100)));
    };
    (0..nodes).for_each(|node| join(node, (node + 1) % nodes));
    for _ in 0..nodes * degree.saturating_sub(2) / 2 {
        let (one, other) = (rng.below(nodes as u64) as usize, rng.below(nodes as u64) as usize);
        if one != other {
            join(one, other);
        }
    }
    links
}

/// The interruption of a flow after a relay on its route was stopped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeathGap {
    /// Longest time between two successive packets that arrived at the far end after the relay was stopped.
    pub gap: Duration,
    /// Round-trip time of the flow's quickest route before the relay was stopped.
    pub rtt: Duration,
    /// Number of routes that the flow could use before the relay was stopped.
    pub routes: usize,
}

/// Stops a relay on the route of a flow, `deaths` times, in an overlay of `nodes` nodes. Returns the interruptions.
///
/// The flow joins two nodes that do not reach each other directly. A node that was stopped is then started again. The
/// list is shorter if too few of the drawn flows have several routes.
pub fn deaths(seed: u64, nodes: usize, deaths: usize) -> Vec<DeathGap> {
    let mut rng = Rng::new(seed);
    let links = plane(&mut rng, nodes, 8);
    let mut world = MemberWorld::new(seed, nodes, links);
    world.run_for(SETTLE);
    let mut gaps = Vec::new();
    let mut number = 0;
    for _ in 0..deaths * 3 {
        let (from, to) = (rng.below(nodes as u64) as usize, rng.below(nodes as u64) as usize);
        if gaps.len() == deaths {
            break;
        }
        if from == to || world.reached(from).contains(&to) {
            continue;
        }
        run_flow(&mut world, (from, to), &mut number, WARM);
        let mut used = world.routes(from, to);
        used.retain(|route| route.answers && !route.is_standby);
        // A sparse flow takes the route with the shortest round-trip time.
        let Some(quickest) = used.iter().min_by_key(|route| route.rtt).filter(|_| used.len() > 1) else { continue };
        let relay = quickest.relays.first().and_then(|name| name.strip_prefix('n')?.parse::<usize>().ok());
        let Some(relay) = relay else { continue };
        let (rtt, routes) = (quickest.rtt, used.len());
        let before = world.now;
        world.nodes[to].delivered.clear();
        world.kill(relay);
        run_flow(&mut world, (from, to), &mut number, WATCHED);
        gaps.push(DeathGap { gap: longest_gap(&world, to, before), rtt, routes });
        world.restart(relay);
        world.run_for(WARM);
    }
    gaps
}

fn run_flow(world: &mut MemberWorld, (from, to): (usize, usize), number: &mut u64, time: Duration) {
    let until = world.now + time;
    while world.now < until {
        world.send(from, to, *number, PACKET_BYTES);
        *number += 1;
        world.run_for(EVERY);
    }
}

fn longest_gap(world: &MemberWorld, node: usize, since: Instant) -> Duration {
    let mut times: Vec<Instant> = world.nodes[node].delivered.iter().map(|(at, _)| *at).collect();
    times.extend([since, world.now]);
    times.sort();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Duration::MAX)
}

/// Returns the rate in bit/s at which inner packets arrive over two routes of 50 and 30 Mbit/s together.
///
/// Each route crosses two relays.
pub fn two_routes(seed: u64) -> f64 {
    let link = |mbps| MemberLink::new(Duration::from_millis(5), Rate::from_mbps(mbps));
    let (wide, narrow) = ([(0, 1), (1, 2), (2, 5)], [(0, 3), (3, 4), (4, 5)]);
    let links = wide.map(|ends| (ends, link(50))).into_iter().chain(narrow.map(|ends| (ends, link(30))));
    let mut world = MemberWorld::new(seed, 6, links);
    world.run_for(SETTLE);
    let bytes = 1_380;
    let mut number = 0;
    let mut offer = |world: &mut MemberWorld, time: Duration| {
        let until = world.now + time;
        while world.now < until {
            // 1,380 bytes every 110 µs are 100 Mbit/s.
            world.send(0, 5, number, bytes);
            number += 1;
            world.run_for(Duration::from_micros(110));
        }
    };
    offer(&mut world, Duration::from_secs(6));
    world.nodes[5].delivered.clear();
    let watched = Duration::from_secs(4);
    offer(&mut world, watched);
    (world.nodes[5].delivered.len() * bytes * 8) as f64 / watched.as_secs_f64()
}

/// The members' link maps, compared with the actual links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Knowledge {
    /// Share of the network's links that a member's link map contains: the least over all members, 0…1.
    pub least_known: f64,
    /// Fraction of the links in a member's link map whose round-trip time is within 15 % of the actual one, 0…1.
    ///
    /// It is the least over all members.
    pub least_right: f64,
}

/// Compares the link map of each of `nodes` members with the actual links, after the network has run for `time`.
pub fn knowledge(seed: u64, nodes: usize, time: Duration) -> Knowledge {
    let mut rng = Rng::new(seed);
    let links = plane(&mut rng, nodes, 8);
    let mut world = MemberWorld::new(seed, nodes, links.clone());
    world.run_for(time);
    let label = |node: usize| {
        let id = key(node).node_id();
        let bytes = id.as_bytes();
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let truth: BTreeMap<(u32, u32), Duration> = links
        .iter()
        .map(|((one, other), link)| ((label(*one).min(label(*other)), label(*one).max(label(*other))), 2 * link.delay))
        .collect();
    let (mut least_known, mut least_right) = (1.0f64, 1.0f64);
    for member in &mut world.nodes {
        let map = member.engine.link_map().unwrap_or_default();
        let known = map.links.iter().filter_map(|link| {
            let rtt = truth.get(&(link.from.min(link.to), link.from.max(link.to)))?;
            Some((link.rtt.as_secs_f64() / rtt.as_secs_f64() - 1.0).abs() <= 0.15)
        });
        let known: Vec<bool> = known.collect();
        least_known = least_known.min(known.len() as f64 / truth.len() as f64);
        least_right =
            least_right.min(known.iter().filter(|is_right| **is_right).count() as f64 / known.len().max(1) as f64);
    }
    Knowledge { least_known, least_right }
}

/// Returns the rate in bit/s at which a member sends messages of the link map, after the map has settled.
///
/// It is the mean over `nodes` members and over `time`, which begins after 40 s. For each message, 60 bytes of headers
/// are included, although several messages may share a datagram.
pub fn map_cost_bps(seed: u64, nodes: usize, time: Duration) -> f64 {
    let mut rng = Rng::new(seed);
    let links = plane(&mut rng, nodes, 8);
    let mut world = MemberWorld::new(seed, nodes, links);
    let sent = |world: &mut MemberWorld| -> f64 {
        let of = |engine: &mut weft_engine::Engine| engine.link_map().map_or(0, |map| map.sent_bytes) as f64;
        world.nodes.iter_mut().map(|member| of(&mut member.engine)).sum()
    };
    world.run_for(2 * SETTLE);
    let before = sent(&mut world);
    world.run_for(time);
    (sent(&mut world) - before) * 8.0 / time.as_secs_f64() / nodes as f64
}
