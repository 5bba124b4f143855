//! Trains measure the paths that carry no data: the rate that cross traffic leaves available.

use crate::net::{World, direction};
use weft_engine::{Policy, Schedule, SensedSnapshot, Weights};
use weft_units::{Duration, Rate, Rng};

fn policy() -> Policy {
    Policy { sense: true, ..Policy::default() }
}

fn sensed(world: &World, node: usize) -> Option<SensedSnapshot> {
    world.nodes[node].snapshot(world.now).peers[0].paths.iter().find(|path| path.active)?.sensed.clone()
}

/// Runs for `time` while cross traffic takes the share `load` of node 0's link, in packets of 1200 bytes at random
/// times.
fn run_beside(world: &mut World, time: Duration, rate: Rate, load: f64, rng: &mut Rng) {
    let end = world.now + time;
    let mean = rate.time_for(1200).as_secs_f64() / load;
    loop {
        let at = world.now + Duration::from_secs_f64(-mean * rng.unit().max(1e-9).ln());
        world.run_until(at.min(end));
        if at >= end {
            return;
        }
        world.occupy(0, 0, 1200);
    }
}

#[test]
fn an_idle_path_knows_what_others_leave_of_it() {
    for (mbps, load) in [(5, 0.3), (20, 0.6), (100, 0.4)] {
        let mut world = World::new(&[direction(mbps, 10, 0.0)], &policy());
        let (rate, mut rng) = (Rate::from_mbps(mbps), Rng::new(mbps));
        run_beside(&mut world, Duration::from_secs(30), rate, load, &mut rng);
        let before = world.sent_bytes(0, 0);
        run_beside(&mut world, Duration::from_secs(10), rate, load, &mut rng);
        let found = sensed(&world, 0).unwrap();
        let off = |found: Option<Rate>, truth: f64| found.unwrap().bps() as f64 / truth - 1.0;
        let capacity = rate.bps() as f64;
        assert!(off(found.capacity, capacity).abs() < 0.05, "{mbps}: {found:?}");
        assert!(off(found.available, capacity * (1.0 - load)).abs() < 0.15, "{mbps}: {found:?}");
        assert!(found.age < Duration::from_secs(2), "{found:?}");
        let own = (world.sent_bytes(0, 0) - before) as f64 * 8.0 / 10.0 / capacity;
        assert!((0.001..0.0105).contains(&own), "{mbps}: {own}");
    }
}

#[test]
fn measured_weights_begin_with_what_trains_found() {
    let weights = |sense| {
        let policy = Policy { schedule: Schedule::WeightedRoundRobin, weights: Weights::Measured, sense, ..policy() };
        let mut world = World::new(&[direction(40, 10, 0.0), direction(10, 10, 0.0)], &policy);
        world.run_for(Duration::from_secs(30));
        let paths = world.nodes[0].snapshot(world.now).peers.remove(0).paths;
        let weight = |link: &str| paths.iter().find(|p| p.active && p.link_name == link).map_or(0, |path| path.weight);
        f64::from(weight("link0")) / f64::from(weight("link1"))
    };
    let (sensed, unknown) = (weights(true), weights(false));
    assert!((3.6..4.4).contains(&sensed) && unknown == 1.0, "{sensed} {unknown}");
}

#[test]
fn path_capacity_is_known_before_data_is_sent() {
    let rate = |sense| {
        let mut world = World::new(&[direction(40, 10, 0.0), direction(10, 10, 0.0)], &Policy { sense, ..policy() });
        world.run_for(Duration::from_secs(30));
        world.nodes[0].payload_rates(world.now).next().unwrap().rate
    };
    // The rate excludes 60 bytes of each packet.
    let sensed = rate(true).unwrap().bps() as f64 / 48e6;
    assert!((0.9..1.05).contains(&sensed), "{sensed}");
    // Without trains the grant is the initial rate of the two paths.
    let tried = rate(false).unwrap();
    assert!((18_000_000..20_000_000).contains(&tried.bps()), "{tried:?}");
}

#[test]
fn losses_are_counted_and_trains_that_lose_still_tell() {
    let mut world = World::new(&[direction(20, 10, 0.1)], &policy());
    world.run_for(Duration::from_secs(60));
    let found = sensed(&world, 0).unwrap();
    assert!((0.08..0.12).contains(&found.loss), "{found:?}");
    assert!((18_000_000..=20_500_000).contains(&found.available.unwrap().bps()), "{found:?}");
}

#[test]
fn nothing_is_sensed_beside_data_nor_unasked() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &policy());
    world.run_for(Duration::from_millis(500));
    for number in 0..200 {
        world.send(0, 4000, number, 100);
        world.run_for(Duration::from_millis(50));
    }
    assert!(sensed(&world, 0).is_none_or(|found| found.age > Duration::from_secs(9)));
    assert!(sensed(&world, 1).is_some_and(|found| found.age < Duration::from_secs(2)), "the other direction is idle");
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    world.run_for(Duration::from_secs(20));
    assert!(sensed(&world, 0).is_none() && world.sent_bytes(0, 0) < 20_000, "{}", world.sent_bytes(0, 0));
}
