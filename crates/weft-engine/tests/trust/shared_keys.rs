//! A second node runs with a node's key for a while.
//!
//! After it has gone, the peer of both must serve the first node as before.

use crate::net::{World, config, direction, draws, story};
use std::cell::RefCell;
use std::rc::Rc;
use weft_engine::{Engine, Event, Policy};
use weft_units::{Duration, Rng};

const HOME: usize = 0;
const HUB: usize = 1;
const PORT: u16 = 7_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Replaces the home node by a second one with the same key for `time`.
///
/// The second node has `links` links. Its handshake stamps begin at `stamp_base`. `at_end` runs before it goes.
fn let_twin_run(world: &mut World, links: usize, stamp_base: u64, time: Duration, at_end: impl FnOnce(&mut World)) {
    let twin = Engine::new(config(HOME, links, &Policy::default(), stamp_base), world.time_of(HOME), [9; 32]);
    let node = std::mem::replace(&mut world.nodes[HOME], twin.unwrap_or_else(|why| panic!("{why}")));
    world.plug_in(HOME);
    world.run_for(time);
    at_end(world);
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
    let_twin_run(&mut world, 1, 1, ms(500), |_| {});
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
    let_twin_run(&mut world, 1, 1 << 60, ms(5), |_| {});
    let arrived = talk(&mut world, 400, ms(500));
    assert_eq!(arrived, 400, "\n{}", story(&world));
    assert!(!world.events.iter().any(|(_, _, event)| matches!(event, Event::Lost { .. })), "\n{}", story(&world));
}

/// Checks that a path which an attacker has moved to its own address does not stand for a node that is gone.
///
/// The hub would take the calls of the first node for recordings as long as that path seems to work.
#[test]
fn a_node_returns_within_seconds_after_a_second_one_whose_paths_an_attacker_moved() {
    let mut rng = Rng::new(1);
    let mut longest = Duration::ZERO;
    for _ in 0..draws(60) {
        let links: Vec<_> =
            (0..1 + rng.below(3)).map(|_| direction(2 + rng.below(100), 1 + rng.below(60), 0.0)).collect();
        let mut world = World::new(&links, &Policy::default());
        world.run_for(ms(2_000 + rng.below(3_000)));
        assert!(talk(&mut world, 20, ms(20)) > 0);
        let (stamp_base, time_ms, forwarded) = (1 << (40 + rng.below(20)), 60 + rng.below(300), rng.unit() / 2.0);
        let mut attacker = Rng::new(rng.next_u64());
        let_twin_run(&mut world, links.len(), stamp_base, Duration::ZERO, |world| {
            let kept = Rc::new(RefCell::new(Vec::new()));
            let keeps = kept.clone();
            world.meddler = Some(Box::new(move |from, datagram| {
                if from == HUB || !attacker.chance(forwarded) {
                    return vec![Duration::ZERO];
                }
                keeps.borrow_mut().push(datagram.to_vec());
                Vec::new()
            }));
            for _ in 0..time_ms {
                world.run_for(ms(1));
                for datagram in kept.take() {
                    world.inject(HUB, 0, ([203, 0, 113, 10], 777).into(), &datagram);
                }
            }
            world.meddler = None;
        });
        world.take_numbers(HUB);
        let (began, every) = (world.now, ms(20 + rng.below(200)));
        while talk(&mut world, 1, every) == 0 {
            assert!(world.now - began < Duration::from_secs(60), "{} links\n{}", links.len(), story(&world));
        }
        longest = longest.max(world.now - began);
    }
    println!("back after {longest:?} at most");
    assert!(longest <= Duration::from_secs(6), "{longest:?}");
}
