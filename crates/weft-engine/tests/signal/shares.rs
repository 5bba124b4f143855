//! Senders that obey their grants, under both controllers.

use crate::hosts::*;
use crate::net::*;
use std::collections::BTreeMap;
use weft_engine::*;
use weft_units::{Duration, Rate};

const PAYLOAD: usize = 1_000;

fn udp_rules(node: usize, config: &mut SignalConfig) {
    if node == 0 {
        config.rules = vec![SignalRule { protocol: 17, ports: 9..=9, reverse: false, ..rule() }];
    }
}

/// Rate of a flow without a grant, in bytes per second.
const UNGRANTED: f64 = 5e6;

/// Runs flows that send at the last granted rate, or at [`UNGRANTED`], with an answer every 20 ms.
///
/// Returns the mean grant of each flow in the second half.
fn run(world: &mut World, flows: &[u16], seconds: u64) -> Vec<f64> {
    let mut credit: BTreeMap<u16, f64> = BTreeMap::new();
    let (mut number, mut sums) = (0, vec![0.0; flows.len()]);
    for tick in 0..seconds * 1_000 {
        for port in flows {
            let grant = granted(world, 0, *port).filter(|grant| grant.bytes_per_second > 0);
            let rate = grant.map_or(UNGRANTED, |grant| grant.bytes_per_second as f64);
            let credit = credit.entry(*port).or_default();
            *credit += rate / 1_000.0;
            // The packet is not full, so that a signal fits.
            while *credit >= (PAYLOAD + 28) as f64 {
                *credit -= (PAYLOAD + 28) as f64;
                number += 1;
                world.send(0, *port, number, PAYLOAD);
            }
            if tick % 20 == 0 {
                let mut answer = udp(inner(1), inner(0), 9, number, 8);
                answer[32..34].copy_from_slice(&port.to_be_bytes());
                world.send_raw(1, &answer);
            }
        }
        world.run_for(Duration::from_millis(1));
        if tick >= seconds * 500 {
            for (sum, port) in sums.iter_mut().zip(flows) {
                *sum += granted(world, 0, *port).map_or(0.0, |grant| grant.bytes_per_second as f64);
            }
        }
        if tick % 1_000 == 999 {
            world.delivered.iter_mut().for_each(|delivered| delivered.clear());
            let (now, keep) = (world.now, Duration::from_secs(2));
            world.events.retain(|(_, at, _)| now - *at < keep);
        }
    }
    sums.iter().map(|sum| sum / (seconds * 500) as f64).collect()
}

fn shares(controller: RateController, least: f64) {
    let mut world = world(&[direction(20, 5, 0.0), direction(30, 10, 0.0)], |node, config| {
        udp_rules(node, config);
        config.controller = controller;
    });
    let alone = run(&mut world, &[1], 3);
    let carries = capacity(&world, 0);
    assert!((least..=1.001).contains(&(alone[0] / carries)), "{controller:?} {alone:?} of {carries}");
    for flows in [&[1, 2][..], &[1, 2, 3, 4]] {
        let shares = run(&mut world, flows, 8);
        let carries = capacity(&world, 0);
        let sum: f64 = shares.iter().sum();
        assert!((least - 0.1..=1.05).contains(&(sum / carries)), "{controller:?} {shares:?} of {carries}");
        for share in &shares {
            assert_near(*share, sum / flows.len() as f64, 0.15);
        }
    }
}

#[test]
fn a_common_rate_divides_the_bundle() {
    shares(RateController::Pi, 0.9);
}

#[test]
fn rates_of_their_own_divide_the_bundle() {
    shares(RateController::Erica, 0.9);
}

/// Checks that a flow without a grant that fills the bundle takes only its own share, because the queue separates
/// flows.
#[test]
fn a_flow_beyond_its_grant_does_not_take_that_of_others() {
    let mut world = world(&[direction(20, 5, 0.0), direction(30, 10, 0.0)], udp_rules);
    let carries = capacity(&world, 0);
    for tick in 0..4_000u64 {
        for number in 0..7 {
            let mut greedy = udp(inner(0), inner(1), 77, tick * 7 + number, 1_000);
            // The destination port matches no rule.
            greedy[33] = 10;
            world.send_raw(0, &greedy);
        }
        if tick % 10 == 0 {
            world.send(0, 1, tick, 1_000);
            let mut answer = udp(inner(1), inner(0), 9, tick, 8);
            answer[32..34].copy_from_slice(&1u16.to_be_bytes());
            world.send_raw(1, &answer);
        }
        world.run_for(Duration::from_millis(1));
        world.delivered.iter_mut().for_each(|delivered| delivered.clear());
    }
    let grant = granted(&world, 0, 1).expect("renewed");
    assert!(grant.bytes_per_second as f64 > carries * 0.3, "{} of {carries}", grant.bytes_per_second);
}

#[test]
fn a_flow_that_keeps_to_its_grants_finds_what_there_is_and_what_comes_to_it() {
    let links = [direction(20, 5, 0.005), direction(30, 10, 0.0)];
    let mut world = World::new(&links, &Policy::default());
    signal(&mut world, udp_rules);
    world.run_for(Duration::from_millis(200));
    let payload = 1_440.0 / 1_500.0 / 8.0;
    let alone = run(&mut world, &[1], 4);
    assert!((0.85..1.0).contains(&(alone[0] / (50e6 * payload))), "{alone:?}");
    world.set(1, 0, |link| link.rate = Rate::from_mbps(60));
    let more = run(&mut world, &[1], 40);
    assert!((0.85..1.0).contains(&(more[0] / (80e6 * payload))), "{more:?}");
}
