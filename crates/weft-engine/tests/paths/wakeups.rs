//! A node that has something to send must request a wake-up for it.

use crate::mesh::{Knows, Mesh, wire};
use crate::net::{World, direction};
use weft_engine::Policy;
use weft_units::{Duration, Rate, Rng};

const BULK: u16 = 5000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Runs a large transfer, and sends `count` more packets after the reports stopped arriving.
fn without_reports(count: u64) -> World {
    let mut world = World::new(&[direction(5, 150, 0.0)], &Policy::default());
    world.run_for(ms(1_000));
    for number in 0..2_000 {
        world.send(0, BULK, number, 1200);
        world.run_for(ms(1));
    }
    world.run_for(ms(2_000));
    world.set(0, 1, |back| back.cut = true);
    for number in 2_000..2_000 + count {
        world.send(0, BULK, number, 1200);
        world.run_for(Duration::from_micros(2_100));
    }
    world
}

/// Returns the number of packets at which the path's window is full.
fn one_too_many() -> u64 {
    (150..300).find(|count| held_bytes(&without_reports(*count)) > 0).expect("a window that fills")
}

fn held_bytes(world: &World) -> u64 {
    world.nodes[0].snapshot(world.now).peers[0].queue_bytes
}

#[test]
fn a_node_that_holds_data_checks_again_soon() {
    let world = without_reports(one_too_many());
    let asked = world.nodes[0].next_timeout(world.now);
    assert!(asked.is_some_and(|at| at <= world.now + ms(5)), "at {:?}: {asked:?}", world.now);
}

#[test]
fn datagrams_that_arrived_before_a_link_went_down_are_reported() {
    let mut world = World::new(&[direction(20, 5, 0.0), direction(20, 15, 0.0)], &Policy::default());
    world.run_for(ms(700));
    world.send(0, BULK, 0, 64);
    while world.take_numbers(1).is_empty() {
        world.run_for(ms(1));
    }
    assert_eq!(world.nodes[0].snapshot(world.now).peers[0].units_in_flight, 1);
    world.link_down(1, 0);
    world.run_for(ms(28));
    assert_eq!(world.nodes[0].snapshot(world.now).peers[0].units_in_flight, 0);
}

/// Returns four nodes that all know each other, the first of which is a relay. Some pairs may have no link.
fn random_mesh(rng: &mut Rng) -> Mesh {
    let mut wires = Vec::new();
    for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
        if a == 0 || rng.chance(0.8) {
            let mut wire = wire(a, b);
            wire.delay = Duration::from_micros(300 + rng.below(45_000));
            wire.rate = Rate::from_mbps(2 + rng.below(99));
            wire.loss = [0.0, 0.005, 0.04][rng.below(3) as usize];
            wires.push(wire);
        }
    }
    let relay = rng.below(4) as usize;
    let knows: Vec<_> = (0..4)
        .map(|node| Knows {
            direct: (0..4).filter(|other| *other != node).collect(),
            is_relay: node == 0 || node == relay || rng.chance(0.5),
            ..Knows::default()
        })
        .collect();
    Mesh::new(&wires, &knows)
}

/// Checks that no change of a relayed network leaves a node with work that it did not announce.
#[test]
fn changes_of_routes_leave_no_node_with_unannounced_work() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut mesh = random_mesh(&mut rng);
        for step in 0..600 {
            if rng.chance(0.02) {
                let wire = rng.below(mesh.wires.len() as u64) as usize;
                mesh.wires[wire].cut = !mesh.wires[wire].cut;
            }
            if rng.chance(0.7) {
                let (from, to) = (rng.below(4) as usize, rng.below(3) as usize);
                mesh.send(from, if to < from { to } else { to + 1 }, step, 20 + rng.below(1_000) as usize);
            }
            mesh.run_for(Duration::from_micros(1_000 + rng.below(12_000)));
            assert_eq!(mesh.early(ms(10)), None, "seed {seed}, {:?}", mesh.now);
        }
    }
}
