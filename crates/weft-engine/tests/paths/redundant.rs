//! Tests of the redundant schedule on random pairs of paths. Its copies must cost no goodput.

use crate::net::{World, direction, draws, story};
use weft_engine::{Policy, Schedule};
use weft_units::{Duration, Rng};

const PAYLOAD: usize = 1_300;
/// Bytes of headers around the payload, with those of weft.
const HEADERS: usize = 88;
/// Packets of a window that arrives as one burst.
const WINDOW: u64 = 30;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn redundant() -> Policy {
    Policy { schedule: Schedule::Redundant, ..Policy::default() }
}

/// Keeps the queue filled for `time`. Returns the payload rate of the second half, in bit/s.
fn fill(world: &mut World, number: &mut u64, time: Duration) -> f64 {
    let (half, end) = (world.now + time / 2, world.now + time);
    let mut received = 0;
    while world.now < end {
        for _ in 0..24 {
            if world.nodes[0].snapshot(world.now).peers[0].queue_bytes < 600_000 {
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

/// Property: full paths carry each packet once, so together they carry the sum of their rates.
#[test]
fn copies_cost_no_goodput() {
    for seed in 0..draws(16) {
        let mut rng = Rng::new(seed);
        let mbps = [5 + rng.below(60), 5 + rng.below(60)];
        let mut world = World::new(&mbps.map(|mbps| direction(mbps, 2 + rng.below(40), 0.0)), &redundant());
        world.run_for(ms(1_000));
        let got = fill(&mut world, &mut 0, ms(8_000));
        let sum = (mbps[0] + mbps[1]) as f64 * 1e6 * PAYLOAD as f64 / (PAYLOAD + HEADERS) as f64;
        assert!(got > sum * 0.85, "seed {seed}, {mbps:?} Mbit/s: {:.2} of the sum\n{}", got / sum, story(&world));
    }
}

/// Property: of a window that arrives as a burst, each packet crosses both paths, and hardly any waits for a
/// retransmission.
#[test]
fn a_burst_crosses_both_paths() {
    for seed in 0..draws(16) {
        let mut rng = Rng::new(seed);
        let mbps = [20 + rng.below(60), 20 + rng.below(60)];
        let delays = [10 + rng.below(50), 10 + rng.below(50)];
        let losses = [0.01 + 0.04 * rng.unit(), 0.01 + 0.04 * rng.unit()];
        let links = [0, 1].map(|at| direction(mbps[at], delays[at], losses[at]));
        let mut world = World::new(&links, &redundant());
        world.run_for(ms(1_000));
        let mut number = 0;
        fill(&mut world, &mut number, ms(3_000));
        world.run_for(ms(1_000));
        world.take_numbers(1);
        let (before, first, rounds) = ([0, 1].map(|at| world.sent_bytes(at, 0)), number, 200);
        let round_trip = ms(2 * delays[0].max(delays[1]) + 20);
        let slowest = mbps[0].min(mbps[1]) * 1_000_000;
        let burst = Duration::from_micros(WINDOW * (PAYLOAD + HEADERS) as u64 * 8 * 1_000_000 / slowest);
        let (mut late, mut arrived) = (0, 0);
        for _ in 0..rounds {
            let due = world.now + ms(delays[0].max(delays[1]) + 10) + burst;
            for _ in 0..WINDOW {
                world.send(0, 4_000, number, PAYLOAD);
                number += 1;
            }
            world.run_for(round_trip);
            let numbers = world.take_numbers(1);
            arrived += numbers.len() as u64;
            late += numbers.iter().filter(|(at, _)| *at > due).count() as u64;
        }
        world.run_for(ms(1_000));
        arrived += world.take_numbers(1).len() as u64;
        let packets = number - first;
        let crossed = [0, 1].map(|at| (world.sent_bytes(at, 0) - before[at]) / (packets * PAYLOAD as u64 / 20));
        let what = format!("seed {seed}, {mbps:?} Mbit/s, {delays:?} ms, {losses:?}");
        assert!(crossed.iter().all(|twentieths| *twentieths >= 18), "{what}: {crossed:?} twentieths");
        assert!(arrived * 1_000 >= packets * 999, "{what}: {arrived} of {packets}");
        let late = late as f64 / packets as f64;
        // One that is lost on both paths holds back the later ones of its burst.
        let expected = losses[0] * losses[1] * WINDOW as f64 / 2.0;
        assert!(late <= 0.01 + 2.0 * expected, "{what}: {late:.3} late, {expected:.3} expected");
    }
}

/// Property: a path that is cut takes no packet with it, although the other path has no time for copies.
#[test]
fn a_cut_under_load_loses_no_packet() {
    for seed in 0..draws(24) {
        let mut rng = Rng::new(seed);
        let mbps = [5 + rng.below(60), 5 + rng.below(60)];
        let mut world = World::new(&mbps.map(|mbps| direction(mbps, 2 + rng.below(40), 0.0)), &redundant());
        world.run_for(ms(1_000));
        let mut number = 0;
        let (cut_at, link) = (world.now + ms(1_500 + rng.below(1_000)), rng.below(2) as usize);
        while world.now < cut_at + ms(1_000) {
            while world.nodes[0].snapshot(world.now).peers[0].queue_bytes < 100_000 {
                world.send(0, 4_000, number, PAYLOAD);
                number += 1;
            }
            world.run_for(ms(1));
            if world.now >= cut_at {
                for from in [0, 1] {
                    world.set(link, from, |direction| direction.cut = true);
                }
            }
        }
        world.run_for(ms(4_000));
        let arrived = world.take_numbers(1).len() as u64;
        let peer = &world.nodes[0].snapshot(world.now).peers[0];
        // A unit that waited past its deadline is given up, and the peer learns it.
        let accounted = arrived + peer.queue_drops + peer.abandoned_units;
        assert!(accounted >= number, "seed {seed}, {mbps:?} Mbit/s, link {link}: {accounted} of {number}");
    }
}
