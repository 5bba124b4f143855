//! A node that has something to send must request a wake-up for it.

use crate::net::{World, direction};
use weft_engine::Policy;
use weft_units::Duration;

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
fn who_holds_data_back_looks_again_soon() {
    let world = without_reports(one_too_many());
    let asked = world.nodes[0].next_timeout(world.now);
    assert!(asked.is_some_and(|at| at <= world.now + ms(5)), "at {:?}: {asked:?}", world.now);
}

#[test]
fn what_a_link_brought_before_it_went_down_is_reported() {
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
