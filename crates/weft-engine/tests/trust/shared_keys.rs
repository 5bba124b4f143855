//! A second node runs with a node's key for a while.
//!
//! After it has gone, the peer of both must serve the first node as before.

use crate::net::{World, config, direction, story};
use weft_engine::{Engine, Event, Policy};
use weft_units::Duration;

const HOME: usize = 0;
const HUB: usize = 1;
const PORT: u16 = 7_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Replaces the home node by a second one with the same key for `time`.
///
/// The second node's handshake stamps begin at `stamp_base`.
fn let_twin_run(world: &mut World, stamp_base: u64, time: Duration) {
    let twin = Engine::new(config(HOME, 1, &Policy::default(), stamp_base), world.time_of(HOME), [9; 32]);
    let node = std::mem::replace(&mut world.nodes[HOME], twin.unwrap_or_else(|why| panic!("{why}")));
    world.plug_in(HOME);
    world.run_for(time);
    world.nodes[HOME] = node;
}

/// Sends `count` packets of one flow, one in each `interval`. Returns the number that arrived.
fn talk(world: &mut World, count: u64, interval: Duration) -> usize {
    for number in 0..count {
        world.send(HOME, PORT, number, 100);
        world.run_for(interval);
    }
    world.take_numbers(HUB).len()
}

#[test]
fn headers_that_only_a_second_nodes_peer_forgot_are_sent_again() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    world.run_for(ms(500));
    assert_eq!(talk(&mut world, 100, ms(20)), 100);
    let_twin_run(&mut world, 1, ms(500));
    assert!(world.events.iter().any(|(node, _, event)| {
        *node == HUB && *event == Event::Established { peer: weft_units::PeerId(0), fresh: true }
    }));
    talk(&mut world, 150, ms(20));
    world.run_for(ms(200));
    world.take_numbers(HUB);
    let arrived = talk(&mut world, 100, ms(20));
    assert!(arrived >= 99, "{arrived} of 100 arrived\n{}", story(&world));
}

#[test]
fn a_session_is_renewed_though_a_second_nodes_stamp_is_ahead() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    world.run_for(ms(500));
    assert_eq!(talk(&mut world, 10, ms(20)), 10);
    // The hub answers the second node, which never receives the answer.
    let_twin_run(&mut world, 1 << 60, ms(5));
    let arrived = talk(&mut world, 400, ms(500));
    assert_eq!(arrived, 400, "\n{}", story(&world));
    assert!(!world.events.iter().any(|(_, _, event)| matches!(event, Event::Lost { .. })), "\n{}", story(&world));
}
