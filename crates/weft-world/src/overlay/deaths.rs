//! Stops nodes on the route of running flows, and measures how long each flow delivers nothing.

use super::judge::Roots;
use super::terrain::{Terrain, TerrainShape};
use super::world::{OverlayWorld, RootArrival};
use weft_core::route::overlay::{NextHop, OverlayTiming};
use weft_units::{Duration, Instant, NodeId, Rng};

const SETTLE: Duration = Duration::from_secs(120);
const WARM_UP: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(2);
/// Time for which the run waits after the restart of a node, so that the node is a member again.
const RETURN: Duration = Duration::from_secs(8);
/// Interval between two packets of a flow.
const SPACING: Duration = Duration::from_millis(2);
/// Maximum number of flows through each node that dies, and also of flows that end at it.
const FLOWS: usize = 3;
/// Number of random flows that are tried to find enough flows through and to a node that dies.
const TRIES: usize = 400;

/// The longest interruption of a flow after a node on its route was stopped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gap {
    /// Longest time between two successive packets that arrived, in ms, around and after the stop.
    pub ms: f64,
    /// Round-trip time of the flow's route before the stop, in ms.
    pub rtt_ms: f64,
    /// True if the stopped node was the root of the flow's key, so that another node had to take over.
    pub of_root: bool,
}

struct DeathsFlow {
    source: u32,
    key: NodeId,
    path: Vec<u32>,
    first_seq: u32,
}

/// Stops `deaths` times one of `nodes` nodes, and returns the interruptions of the flows.
///
/// A few flows pass through each of these nodes, and a few flows end there. The node starts again afterwards.
pub fn run(seed: u64, nodes: usize, deaths: usize) -> Vec<Gap> {
    let mut rng = Rng::new(seed).split(1);
    let mut terrain = Terrain::new(TerrainShape::Plane, rng.split(2));
    terrain.jitter = Duration::from_millis(2);
    let mut world = OverlayWorld::new(terrain, OverlayTiming::default(), rng.split(3));
    world.add(&[]);
    for _ in 1..nodes {
        world.run_until(world.now() + Duration::from_millis(100));
        world.add(&[0]);
    }
    world.run_until(Instant::ZERO + SETTLE);
    let mut gaps = Vec::new();
    for _ in 0..deaths {
        gaps.extend(one_death(&mut world, &mut rng, nodes as u32));
    }
    gaps
}

fn one_death(world: &mut OverlayWorld, rng: &mut Rng, nodes: u32) -> Vec<Gap> {
    let victim = rng.below(nodes.into()) as u32;
    let mut flows = flows_by(world, rng, victim);
    world.take_arrivals();
    let kill_at = world.now() + WARM_UP + Duration::from_micros(rng.below(100_000));
    send_until(world, &mut flows, kill_at);
    world.kill(victim);
    let end = world.now() + AFTER;
    send_until(world, &mut flows, end);
    let arrivals = world.take_arrivals();
    let gaps = flows.iter().filter_map(|flow| gap(world, flow, victim, kill_at, &arrivals)).collect();
    world.start(victim, &[(victim + 1) % nodes]);
    world.run_until(world.now() + RETURN);
    gaps
}

/// Returns flows that `victim` forwards, and flows that end at it. Each flow has its own source.
fn flows_by(world: &OverlayWorld, rng: &mut Rng, victim: u32) -> Vec<DeathsFlow> {
    let mut flows: Vec<DeathsFlow> = Vec::new();
    let nodes = world.alive();
    for _ in 0..TRIES {
        let source = nodes[rng.below(nodes.len() as u64) as usize];
        let key = NodeId::random(rng);
        let path = path(world, source, key);
        let is_root = path.last() == Some(&victim);
        let is_on_way = path.contains(&victim) && source != victim;
        let alike = flows.iter().filter(|flow| (flow.path.last() == Some(&victim)) == is_root).count();
        if is_on_way && alike < FLOWS && flows.iter().all(|flow| flow.source != source) {
            flows.push(DeathsFlow { source, key, path, first_seq: 0 });
        }
    }
    flows
}

fn path(world: &OverlayWorld, source: u32, key: NodeId) -> Vec<u32> {
    let mut path = vec![source];
    let mut at = source;
    while let Some(NextHop::Forward(to)) = world.overlay(at).map(|overlay| overlay.next_hop_for(key, false)) {
        at = world.node(to);
        path.push(at);
    }
    path
}

fn send_until(world: &mut OverlayWorld, flows: &mut [DeathsFlow], end: Instant) {
    while world.now() < end {
        for flow in &mut *flows {
            let seq = world.send(flow.source, flow.key);
            if flow.first_seq == 0 {
                flow.first_seq = seq;
            }
        }
        world.run_until((world.now() + SPACING).min(end));
    }
}

fn gap(
    world: &OverlayWorld,
    flow: &DeathsFlow,
    victim: u32,
    kill_at: Instant,
    arrivals: &[RootArrival],
) -> Option<Gap> {
    let before = *flow.path.last()?;
    let after = world.node(Roots::beside(world, flow.source).of(flow.key)?);
    let is_right = |a: &&RootArrival| {
        let root = if a.sent_at < kill_at { a.root == before || a.root == after } else { a.root == after };
        a.source == flow.source && a.seq >= flow.first_seq && root
    };
    let mut at: Vec<Instant> = arrivals.iter().filter(is_right).map(|a| a.at).collect();
    at.sort();
    // If no further packet arrives, the interruption lasts until the end of the wait.
    at.push(world.now());
    let longest = at.windows(2).filter(|pair| pair[1] >= kill_at).map(|pair| pair[1] - pair[0]).max()?;
    let one_way: Duration = flow.path.windows(2).map(|hop| world.terrain.delay(hop[0], hop[1])).sum();
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    Some(Gap { ms: ms(longest), rtt_ms: 2.0 * ms(one_way), of_root: before == victim })
}
