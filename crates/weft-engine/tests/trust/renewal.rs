//! A node whose machine slept or was copied must start its sessions anew.

use crate::net::{self, World, config, direction};
use weft_engine::{Event, Policy};
use weft_units::{Duration, Instant};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns the time of the first session at `node` after `since`.
fn established_since(world: &World, node: usize, since: Instant) -> Option<Instant> {
    let is_it = |(n, at, event): &(usize, Instant, Event)| {
        *n == node && *at >= since && matches!(event, Event::Established { .. })
    };
    world.events.iter().find(|event| is_it(event)).map(|(_, at, _)| *at)
}

#[test]
fn both_ends_are_back_within_a_second_and_packets_pass_again() {
    for node in [0, 1] {
        let mut world = World::new(&[direction(20, 10, 0.0), direction(5, 30, 0.0)], &Policy::default());
        world.run_for(Duration::from_secs(2));
        world.send(0, 4_000, 1, 100);
        world.run_for(ms(200));
        assert_eq!(world.take_numbers(1).len(), 1);
        let since = world.now;
        let unix_ns = 1_700_000_000_000_000_000;
        world.nodes[node].renew_sessions(since, [node as u8 + 1; 32], unix_ns, "test");
        assert_eq!(
            world.nodes[node].poll_event().map(|event| matches!(event, Event::Lost { cause: "test", .. })),
            Some(true)
        );
        world.run_for(Duration::from_secs(1));
        for end in [0, 1] {
            assert!(
                established_since(&world, end, since).is_some(),
                "node {node} renews: {end} is not back\n{}",
                net::story(&world)
            );
        }
        world.send(0, 4_000, 2, 100);
        world.send(1, 4_000, 3, 100);
        world.run_for(ms(300));
        assert_eq!([world.take_numbers(1).len(), world.take_numbers(0).len()], [1, 1], "node {node}");
    }
}

#[test]
fn a_peer_that_cannot_initiate_is_called_again_soon() {
    let configs = [0, 1].map(|node| {
        let mut config = config(node, 1, &Policy::default(), 1);
        if node == 1 {
            config.peers[0].endpoints.clear();
        }
        config
    });
    let mut world = World::with(&[direction(20, 10, 0.0)], configs);
    world.run_for(Duration::from_secs(2));
    let since = world.now;
    world.nodes[1].renew_sessions(since, [9; 32], 1_700_000_000_000_000_000, "test");
    for number in 0..300 {
        world.send(0, 4_000, number, 100);
        world.run_for(ms(10));
    }
    let back = established_since(&world, 1, since).expect("called again");
    assert!(back.since(since) < Duration::from_secs(1), "{:?}", back.since(since));
}

#[test]
fn stamps_go_on_above_those_that_a_copy_may_have_used() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    world.run_for(Duration::from_secs(1));
    let unix_ns = 1_700_000_000_000_000_000;
    world.nodes[0].renew_sessions(world.now, [1; 32], unix_ns, "test");
    world.run_for(Duration::from_secs(1));
    let accepted = world.nodes[1].accepted_stamps().map(|(_, stamp)| stamp).max();
    assert!(accepted.is_some_and(|stamp| stamp >= unix_ns), "{accepted:?}");
}
