//! An experiment with a network that loses and delays packets, but in which no node stops.
//!
//! No node may declare a member down.

use super::terrain::{Terrain, TerrainShape};
use super::world::OverlayWorld;
use weft_core::route::overlay::OverlayTiming;
use weft_units::{Duration, Instant, NodeId, Rng};

const SPACING: Duration = Duration::from_millis(200);

/// The result of a run in which no node stops.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct QuietOutcome {
    /// Number of times that a node declared a member down, although no node stopped.
    pub false_alarms: u64,
    /// Number of messages that all nodes sent to maintain the overlay.
    pub messages: u64,
    /// Number of packets sent, and number of those that reached a root.
    pub packets: (u64, u64),
    /// Number of events (messages, packets and timers) in the simulation.
    pub events: u64,
}

/// Runs an overlay of `nodes` nodes for `duration`, with a few flows of five packets a second.
///
/// Links lose the fraction `loss` of the packets in each direction, and delay each packet by a random time of up to
/// `jitter`.
pub fn run(seed: u64, nodes: u32, duration: Duration, loss: f64, jitter: Duration) -> QuietOutcome {
    let rng = Rng::new(seed).split(1);
    let mut terrain = Terrain::new(TerrainShape::Plane, rng.split(2));
    (terrain.loss, terrain.jitter) = (loss, jitter);
    let mut world = OverlayWorld::new(terrain, OverlayTiming::default(), rng.split(3));
    let mut keys = rng.split(4);
    world.add(&[]);
    for _ in 1..nodes {
        world.run_until(world.now() + Duration::from_millis(200));
        world.add(&[0]);
    }
    let flows: Vec<(u32, NodeId)> = (0..nodes / 5).map(|source| (source, NodeId::random(&mut keys))).collect();
    let mut outcome = QuietOutcome::default();
    while world.now() < Instant::ZERO + duration {
        world.run_until(world.now() + SPACING);
        for (source, key) in &flows {
            world.send(*source, *key);
            outcome.packets.0 += 1;
        }
        outcome.packets.1 += world.take_arrivals().len() as u64;
    }
    for node in world.alive() {
        outcome.messages += world.traffic(node).messages;
        outcome.false_alarms += world.overlay(node).map_or(0, |overlay| overlay.census().losses);
    }
    outcome.events = world.events();
    outcome
}
