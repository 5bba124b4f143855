//! Measures overlays of any size: the members and traffic of a node, and how many hops packets take.

use super::judge::{Roots, Walk, missing_in_cells, walk};
use super::terrain::{Terrain, TerrainShape};
use super::world::OverlayWorld;
use weft_core::route::overlay::OverlayTiming;
use weft_units::{Duration, NodeId, Rng};

const GROWTH: f64 = 0.5;
const SETTLE: Duration = Duration::from_secs(15);
const MEASURE: Duration = Duration::from_secs(5);

/// The measurements of an overlay of one size.
#[derive(Clone, Debug, Default)]
pub struct ScaleOutcome {
    /// Number of nodes in the overlay.
    pub nodes: u32,
    /// Number of members that each node stores in its tables.
    pub members: Vec<u32>,
    /// Rate at which each node sends to maintain an overlay in which nothing changes, in bit/s, headers included.
    pub bps: Vec<f64>,
    /// Bytes that a new node sends in its first five seconds.
    pub join_bytes: f64,
    /// Hops of each packet that reached its root.
    pub hops: Vec<u32>,
    /// Number of packets that did not reach their root.
    pub lost: u64,
    /// Number of entries missing in the routing tables of all nodes checked, and the number of those nodes.
    pub missing: (u64, u64),
    /// Number of events (messages, packets and timers) in the simulation.
    pub events: u64,
}

/// Builds and measures an overlay of `nodes` nodes.
///
/// The overlay grows by about half its size each second, and then settles. `lookups` packets to random keys are
/// followed.
pub fn run(seed: u64, nodes: u32, lookups: u32) -> ScaleOutcome {
    let mut rng = Rng::new(seed).split(1);
    let terrain = Terrain::new(TerrainShape::Plane, rng.split(2));
    let mut world = OverlayWorld::new(terrain, OverlayTiming::default(), rng.split(3));
    world.add(&[]);
    for known in 1..nodes {
        let apart = Duration::from_secs_f64(1.0 / (5.0 + GROWTH * f64::from(known)));
        world.run_until(world.now() + apart);
        let via = rng.below(known.into()) as u32;
        world.add(&[via]);
    }
    let total = |world: &OverlayWorld, node| world.traffic(node).bytes as f64;
    world.run_until(world.now() + SETTLE);
    let before: Vec<f64> = (0..nodes).map(|node| total(&world, node)).collect();
    world.run_until(world.now() + MEASURE);
    let mut outcome = ScaleOutcome { nodes, ..ScaleOutcome::default() };
    outcome.bps = (0..nodes)
        .zip(&before)
        .map(|(node, before)| 8.0 * (total(&world, node) - before) / MEASURE.as_secs_f64())
        .collect();
    let members = |node| world.overlay(node).map_or(0, |overlay| overlay.census().members as u32);
    outcome.members = (0..nodes).map(members).collect();
    let roots = Roots::beside(&world, 0);
    for _ in 0..lookups {
        let (from, key) = (rng.below(nodes.into()) as u32, NodeId::random(&mut rng));
        match walk(&world, from, key) {
            Walk::Ends(root, hops) if Some(root) == roots.of(key) => outcome.hops.push(hops as u32),
            _ => outcome.lost += 1,
        }
    }
    for node in (0..nodes).step_by((nodes as usize / 200).max(1)) {
        outcome.missing.0 += missing_in_cells(&world, node, &roots) as u64;
        outcome.missing.1 += 1;
    }
    outcome.events = world.events();
    let newcomer = world.add(&[0]);
    world.run_until(world.now() + MEASURE);
    outcome.join_bytes = total(&world, newcomer);
    outcome
}
