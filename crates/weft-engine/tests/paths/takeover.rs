//! The end of the path in use.
//!
//! Another path of its link must take over, units in flight must wait for a path, and a restarted peer must be called
//! until it answers.

use crate::net::{self, World, address, config, direction, story};
use weft_engine::{Event, LinkConfig, PathState, Policy};
use weft_units::{Duration, Instant, PathUse};

const BULK: u16 = 5000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns a world in which one link of node 0 reaches two addresses of node 1: one path is in use and one is a
/// candidate.
fn one_link_to_two_addresses() -> World {
    let mut configs = [0, 1].map(|n| config(n, 2, &Policy::default(), 1));
    configs[0].links = vec![LinkConfig { name: "link1".into(), cap: None, send: false, allowed: PathUse::default() }];
    let mut world = World::with(&[direction(5, 5, 0.0), direction(5, 5, 0.0)], configs);
    world.crosses = true;
    world.run_for(ms(500));
    world
}

/// Returns the link at which node 1 is reached.
fn link_in_use(world: &World) -> usize {
    let peer = &world.nodes[0].snapshot(world.now).peers[0];
    let path = peer.paths.iter().find(|p| p.active).expect("a path in use");
    (0..2).find(|link| path.remote.ip() == address(1, *link)).expect("one of the two addresses")
}

/// Sends a packet every 5 ms from `from` for `time`. Returns the numbers that arrived at most 300 ms later.
fn steadily(world: &mut World, from: usize, time: Duration) -> Vec<u64> {
    for number in 0..time.as_millis() as u64 / 5 {
        world.send(from, BULK, number, 400);
        world.run_for(ms(5));
    }
    world.run_for(ms(300));
    world.take_numbers(1 - from).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn a_path_in_reserve_takes_over() {
    let mut world = one_link_to_two_addresses();
    let before = link_in_use(&world);
    world.deaf = Some((1, before));
    let arrived = steadily(&mut world, 0, Duration::from_secs(2));
    assert!(arrived.len() > 390, "{} of 400 arrived\n{}", arrived.len(), story(&world));
    assert_ne!(link_in_use(&world), before);
}

#[test]
fn a_path_of_a_silent_link_takes_over_only_when_it_answers() {
    let mut world = one_link_to_two_addresses();
    let in_use = |w: &World| w.nodes[0].snapshot(w.now).peers[0].paths.iter().position(|p| p.active);
    let before = in_use(&world);
    steadily(&mut world, 0, ms(500));
    world.set(0, 0, |forth| forth.cut = true);
    for number in 0..300 {
        world.send(0, BULK, number, 400);
        world.run_for(ms(5));
        assert_eq!(in_use(&world), before, "after {} ms\n{}", number * 5, story(&world));
    }
    world.set(0, 0, |forth| forth.cut = false);
    world.run_for(Duration::from_secs(2));
    assert!(steadily(&mut world, 0, ms(500)).len() >= 100, "{}", story(&world));
}

#[test]
fn a_path_the_peer_gave_up_keeps_nothing() {
    let mut world = one_link_to_two_addresses();
    let before = link_in_use(&world);
    // These packets exceed the link's capacity in that time.
    for number in 0..1_500 {
        match number {
            100 => world.deaf = Some((1, before)),
            400 => world.deaf = None,
            _ => {}
        }
        world.send(1, BULK, number, 1200);
        world.run_for(ms(1));
    }
    world.run_for(Duration::from_secs(6));
    assert_ne!(link_in_use(&world), before, "{}", story(&world));
    let snapshot = world.nodes[1].snapshot(world.now);
    let peer = &snapshot.peers[0];
    assert_eq!((peer.units_in_flight, snapshot.buffers_in_use, peer.queue_bytes), (0, 0, 0), "{}", story(&world));
}

#[test]
fn a_peer_that_restarts_twice_is_called_twice() {
    let mut world = World::new(&[direction(20, 20, 0.0)], &Policy::default());
    world.run_for(ms(500));
    let established =
        |w: &World| w.events.iter().filter(|e| e.0 == 0 && matches!(e.2, Event::Established { .. })).count();
    world.restart(1, &Policy::default(), 1 << 60);
    let end = world.now + Duration::from_secs(10);
    while established(&world) < 2 && world.now < end {
        world.run_for(ms(1));
    }
    // The peer answers the call, and stops before it can answer on a path.
    world.restart(1, &Policy::default(), 1 << 61);
    let restarted: Instant = world.now;
    world.run_for(Duration::from_secs(8));
    assert_eq!(steadily(&mut world, 0, ms(100)).len(), 20, "restarted at {restarted:?}\n{}", story(&world));
}

#[test]
fn lost_units_wait_until_the_only_path_answers_again() {
    let mut world = World::new(&[direction(20, 30, 0.0)], &Policy::default());
    world.run_for(ms(500));
    for number in 0..600 {
        match number {
            // The reports about later packets arrive 120 ms late. The path goes down, and answers again at 380 ms.
            200 => world.set(0, 1, |back| back.delay += ms(120)),
            280 => world.set(0, 0, |forth| forth.cut = true),
            310 => world.set(0, 0, |forth| forth.cut = false),
            _ => {}
        }
        world.send(0, BULK, number, 64);
        world.run_for(ms(1));
    }
    world.run_for(ms(500));
    let down = |e: &Event| matches!(e, Event::Path { state: PathState::Down, .. });
    assert!(world.events.iter().any(|e| e.0 == 0 && down(&e.2)), "{}", story(&world));
    let mut arrived: Vec<u64> = world.take_numbers(1).into_iter().map(|(_, number)| number).collect();
    arrived.sort_unstable();
    let missing: Vec<u64> = (0..600).filter(|n| arrived.binary_search(n).is_err()).collect();
    // The AQM may drop packets that waited in the flow queue meanwhile.
    let dropped = world.nodes[0].snapshot(world.now).peers[0].queue_drops;
    assert_eq!(missing.len() as u64, dropped, "{missing:?}\n{}", story(&world));
}

#[test]
fn of_two_that_call_each_other_at_once_one_path_is_used() {
    for delay in [1, 5, 40] {
        let mut configs = [0, 1].map(|n| config(n, 1, &Policy::default(), 1));
        configs[1].peers[0].endpoints = vec![std::net::SocketAddr::new(address(0, 0), net::PORT)];
        let mut world = World::with(&[direction(5, delay, 0.0)], configs);
        world.run_for(ms(1_000));
        let in_use = |world: &World, node: usize| -> Vec<_> {
            let peer = &world.nodes[node].snapshot(world.now).peers[0];
            peer.paths.iter().filter(|p| p.active).map(|p| p.id).collect()
        };
        let used = in_use(&world, 0);
        assert!(used.len() == 1 && used == in_use(&world, 1), "{used:?}\n{}", story(&world));
        assert_eq!(steadily(&mut world, 0, ms(500)).len(), 100);
        // The remaining path falls silent with its link. Both nodes continue when it returns.
        for from in [0, 1] {
            world.set(0, from, |way| way.cut = true);
        }
        world.run_for(ms(3_000));
        for from in [0, 1] {
            world.set(0, from, |way| way.cut = false);
        }
        world.run_for(ms(12_000));
        assert_eq!(in_use(&world, 0).len(), 1, "{}", story(&world));
        assert_eq!(in_use(&world, 0), in_use(&world, 1), "{}", story(&world));
    }
}
