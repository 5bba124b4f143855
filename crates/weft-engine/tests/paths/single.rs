//! Peers to which only one path may be used at a time.

use crate::net::{Direction, World, direction, draws};
use weft_engine::{Bundle, Policy, Schedule};
use weft_units::{Duration, Rng};

const PAYLOAD: usize = 1_300;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Keeps the queue toward the hub filled for `time`. Returns the payload rate of the second half, in bit/s.
fn fill(world: &mut World, number: &mut u64, time: Duration) -> f64 {
    let (half, end) = (world.now + time / 2, world.now + time);
    let mut received = 0;
    while world.now < end {
        for _ in 0..12 {
            if world.nodes[0].snapshot(world.now).peers[0].queue_bytes < 300_000 {
                world.send(0, 4_000, *number, PAYLOAD);
                *number += 1;
            }
        }
        world.run_for(ms(1));
        let count = world.take_numbers(1).len();
        received += if world.now > half { count } else { 0 };
    }
    (received * PAYLOAD) as f64 * 8.0 / (time / 2).as_secs_f64()
}

/// Draws one or two slow links, and then a link of at least twice their rate.
fn slow_and_fast(rng: &mut Rng) -> (Vec<Direction>, u64) {
    let slow = |rng: &mut Rng| direction(1 + rng.below(4), 2 + rng.below(20), [0.0, 0.02, 0.05][rng.below(3) as usize]);
    let mut links: Vec<_> = (0..1 + rng.below(2)).map(|_| slow(rng)).collect();
    let fast_mbps = 8 + rng.below(40);
    links.push(direction(fast_mbps, 2 + rng.below(60), 0.0));
    (links, fast_mbps)
}

/// Property: a link that comes up beside a slower one is used, although no traffic has measured its capacity.
///
/// The slow links' capacities are known by then, whatever the schedule.
#[test]
fn a_faster_link_that_comes_up_later_is_tried() {
    for seed in 0..draws(12) {
        let mut rng = Rng::new(seed);
        let (links, fast_mbps) = slow_and_fast(&mut rng);
        let schedule = [Schedule::EarliestDelivery, Schedule::Redundant, Schedule::RoundRobin][rng.below(3) as usize];
        let policy = Policy { bundle: Bundle::Down, schedule, ..Policy::default() };
        let mut world = World::new(&links, &policy);
        let fast = links.len() - 1;
        (0..2).for_each(|node| world.link_down(node, fast));
        let mut number = 0;
        fill(&mut world, &mut number, ms(3_000));
        (0..2).for_each(|node| world.link_up(node, fast));
        let got = fill(&mut world, &mut number, ms(6_000));
        let full = fast_mbps as f64 * 1e6 * PAYLOAD as f64 / (PAYLOAD + 88) as f64;
        assert!(got > full * 0.8, "seed {seed}, {schedule:?}: {got} of {full}");
    }
}
