//! Loops of VPNs over paths of unequal delay.
//!
//! A marker's path must not count as a queue, and units in flight on the slow path must not count as lost.

use crate::net::{Direction, World, direction, inner, udp};
use crate::tenants::{PAYLOAD, SHARE_OF_IP, accumulation, entry, explicit_rate, fill, laws, ms, of, window, world};
use weft_core::control_loop::LoopConfig;
use weft_core::service::Service;
use weft_engine::{Policy, Recovery, Reorder, Schedule};
use weft_units::{Duration, Rate, Rng, VpnId};

/// Returns the policies under test: earliest delivery, and round robin, which sends half of the packets by the slow
/// path.
///
/// Each is tested with and without recovery.
fn policies() -> Vec<Policy> {
    let mut all = Vec::new();
    for schedule in [Schedule::EarliestDelivery, Schedule::RoundRobin] {
        all.push(Policy { schedule, ..Policy::default() });
        all.push(Policy { schedule, recovery: Recovery::Off, reorder: Reorder::Off, ..Policy::default() });
    }
    all
}

fn unequal() -> [Direction; 2] {
    [direction(10, 5, 0.0), direction(10, 45, 0.0)]
}

/// Sends 8 Mbit/s in VPN 1 for `time`.
///
/// Returns the longest queue that its loop estimated, in bytes, and the most packets that waited.
fn pace(world: &mut World, time: Duration) -> (u64, usize) {
    let (mut believed, mut waited) = (0, 0);
    for number in 0..(time.as_secs_f64() * 8e6 / 8.0 / PAYLOAD as f64) as u64 {
        world.send_raw_in(0, VpnId(1), &udp(inner(0), inner(1), 4000 + number as u16 % 8, number, PAYLOAD));
        world.run_for(Duration::from_nanos(1_300_000));
        world.delivered_in[1].clear();
        let entry = entry(world, 0, 1);
        believed = believed.max(entry.control.map_or(0, |control| control.accumulation_bytes));
        waited = waited.max(entry.queued_packets);
    }
    (believed, waited)
}

#[test]
fn a_slower_path_is_no_queue_and_what_is_on_it_is_not_lost() {
    for policy in policies() {
        for law in [window(), accumulation(Rate::from_mbps(1_000))] {
            let mut world = world(&unequal(), &policy, &[(1, Service::BestEffort, law.clone())]);
            pace(&mut world, ms(5_000));
            let before = world.sent_bytes(1, 0);
            let (believed, waited) = pace(&mut world, ms(10_000));
            let by_the_slow_one = world.sent_bytes(1, 0) - before;
            let control = entry(&world, 0, 1).control.unwrap();
            let what = format!(
                "{:?} {:?} {law:?}: {believed} bytes, {waited} waited, {control:?}",
                policy.schedule, policy.recovery
            );
            assert_eq!(by_the_slow_one > 4_000_000, policy.schedule == Schedule::RoundRobin, "{what}");
            assert!(believed < 1_500 && waited <= 1, "{what}");
            assert_eq!((control.lost_packets, control.loss_event_rate), (0, None), "{what}");
        }
    }
}

#[test]
fn loops_fill_unequal_paths_by_weight() {
    for policy in policies() {
        for law in laws() {
            let tenants = [1, 3].map(|weight| (weight, Service::BestEffort, law.clone()));
            let mut world = world(&unequal(), &policy, &tenants);
            // The paths find their rates first, because a path may lose packets meanwhile.
            fill(&mut world, [0], ms(3_000));
            let [light, heavy] = fill(&mut world, [1, 2], ms(10_000));
            let what = format!("{:?} {:?} {law:?}: {light} {heavy}", policy.schedule, policy.recovery);
            // A rate does not grow while its packets see a queue, even a short one.
            let share = if matches!(law, Some(LoopConfig::Accumulation(_))) { 0.85 } else { 0.97 };
            assert!(light + heavy > 20e6 * SHARE_OF_IP * share, "{what}");
            assert!((heavy / (light + heavy) - 0.75).abs() < 0.08, "{what}");
            let control = entry(&world, 0, 1).control;
            assert!(control.is_none_or(|control| control.loss_event_rate.is_none()), "{what}: {control:?}");
        }
    }
}

/// Draws a fast path and one or two slower ones, in any order. The slower ones may lose packets.
fn fast_and_slow(rng: &mut Rng) -> (Vec<Direction>, u64) {
    let fast_mbps = 10 + rng.below(21);
    let mut links = vec![direction(fast_mbps, 2 + rng.below(40), 0.0)];
    for _ in 0..1 + rng.below(2) {
        let slow_mbps = (fast_mbps / (2 + rng.below(20))).max(1);
        let loss = [0.0, 0.01, 0.04][rng.below(3) as usize];
        let at = rng.below(links.len() as u64 + 1) as usize;
        links.insert(at, direction(slow_mbps, 2 + rng.below(40), loss));
    }
    (links, fast_mbps)
}

/// Checks that a slow path limits no VPN when a copy goes on each path, with a granted rate or without a loop.
#[test]
fn with_copies_on_every_path_a_vpn_gets_the_rate_of_the_fastest() {
    let policy = Policy { schedule: Schedule::Redundant, ..Policy::default() };
    for seed in 0..6 {
        let (links, fast_mbps) = fast_and_slow(&mut Rng::new(seed));
        for law in [None, explicit_rate()] {
            let mut world = world(&links, &policy, &[(1, Service::BestEffort, law.clone())]);
            let [got] = fill(&mut world, [1], ms(4_000));
            let full = fast_mbps as f64 * 1e6 * SHARE_OF_IP;
            assert!(got > full * 0.9, "seed {seed}, {law:?}: {got} of {full}");
        }
    }
}

/// Checks that only the lossy one of two slow paths counts as congested, and that the other path's delay is not taken
/// for loss.
#[test]
fn losses_on_unequal_paths_are_counted_as_the_paths_know_them() {
    for recovery in [Recovery::Arq, Recovery::Off] {
        for law in [window(), accumulation(Rate::from_mbps(1_000))] {
            let reorder = if recovery == Recovery::Arq { Reorder::Resequence } else { Reorder::Off };
            let policy = Policy { schedule: Schedule::RoundRobin, recovery, reorder, ..Policy::default() };
            let mut world = world(&unequal(), &policy, &[(1, Service::BestEffort, law.clone())]);
            pace(&mut world, ms(2_000));
            (0..2).for_each(|link| world.set(link, 0, |link| link.loss = 0.01));
            pace(&mut world, ms(8_000));
            (0..2).for_each(|link| world.set(link, 0, |link| link.loss = 0.0));
            pace(&mut world, ms(1_000));
            world.run_for(ms(3_000));
            let lost = of(&world, 0, 1).totals.sent_packets - of(&world, 1, 1).totals.received_packets;
            let control = entry(&world, 0, 1).control.unwrap();
            let what = format!("{recovery:?} {law:?}: {lost} lost, {control:?}");
            assert_eq!((u64::from(control.lost_packets), control.in_flight_bytes), (lost, 0), "{what}");
            assert_eq!(lost > 10, recovery == Recovery::Off, "{what}");
            let is_window = matches!(law, Some(LoopConfig::AimdWindow(_)));
            assert_eq!(control.loss_event_rate.is_some(), is_window, "first losses are events: {what}");
        }
    }
}
