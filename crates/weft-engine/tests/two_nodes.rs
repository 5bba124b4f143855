//! Two nodes over emulated links: packets must be delivered at the other end, in order, at the links' rate.
#![allow(missing_docs)]

mod net;

use net::{World, direction, inner as inner_address, udp};
use weft_engine::{Dscp, Event, PathState, Policy, Recovery, Reorder, Schedule, Weights};
use weft_units::{Duration, Instant};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Keeps the sender's queue filled with a bulk flow for `time`.
///
/// Returns the rate of UDP payload delivered in the second half, in bit/s.
fn bulk(world: &mut World, time: Duration, per_ms: usize) -> f64 {
    let end = world.now + time;
    let half = world.now + time / 2;
    let (mut number, mut received) = (0, 0u64);
    while world.now < end {
        for _ in 0..per_ms {
            if world.nodes[0].snapshot(world.now).peers[0].queue_bytes < 300_000 {
                world.send(0, 4000, number, 1400);
                number += 1;
            }
        }
        world.run_for(ms(1));
        let numbers = world.take_numbers(1);
        received += numbers.iter().filter(|(at, _)| *at > half).count() as u64;
    }
    received as f64 * 1400.0 * 8.0 / (time / 2).as_secs_f64()
}

#[test]
fn a_session_comes_up_and_a_packet_crosses() {
    let mut world = World::new(&[direction(10, 5, 0.0)], &Policy::default());
    world.run_for(ms(500));
    assert!(world.events.iter().any(|(n, _, e)| *n == 0 && matches!(e, Event::Established { .. })));
    assert_eq!(world.state(0, 0), PathState::Good);
    assert_eq!(world.state(1, 0), PathState::Good);
    for number in 0..10 {
        world.send(0, 4000, number, 100);
        world.send(1, 4000, number, 100);
    }
    world.run_for(ms(100));
    for node in 0..2 {
        let numbers: Vec<u64> = world.take_numbers(node).into_iter().map(|(_, n)| n).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn datagrams_carry_the_configured_class_and_inner_packets_keep_their_own() {
    const HEADER: usize = 10;
    for (dscp, inner, outer) in
        [(Dscp::Copy, 0xb8, 0xb8), (Dscp::Fixed(18), 0xb8, 18 << 2), (Dscp::Fixed(18), 0x02, 18 << 2 | 2)]
    {
        let mut world = World::new(&[direction(10, 5, 0.0)], &Policy { dscp, ..Policy::default() });
        world.run_for(ms(500));
        world.seen = Some(Vec::new());
        let mut packet = udp(inner_address(0), inner_address(1), 4000, 1, 500);
        packet[HEADER + 1] = inner;
        // Updates the header checksum as the kernel does (RFC 1624).
        let sum = !u16::from_be_bytes([packet[HEADER + 10], packet[HEADER + 11]]);
        let sum = !(sum + u16::from(inner));
        packet[HEADER + 10..HEADER + 12].copy_from_slice(&sum.to_be_bytes());
        world.send_raw(0, &packet);
        world.run_for(ms(100));
        let data = world.seen.take().unwrap().into_iter().find(|seen| seen.to == 1 && seen.bytes.len() > 500);
        assert_eq!(data.map(|seen| seen.tos), Some(outer), "{dscp:?}");
        assert_eq!(world.delivered[1].pop_front().map(|(_, packet)| packet[HEADER + 1]), Some(inner), "{dscp:?}");
    }
}

#[test]
fn one_link_is_filled_and_nothing_is_lost() {
    let mut world = World::new(&[direction(20, 10, 0.01)], &Policy::default());
    world.run_for(ms(500));
    let rate = bulk(&mut world, Duration::from_secs(8), 4);
    assert!(rate > 20e6 * 1400.0 / 1500.0 * 0.95, "{rate}");
    let s = world.nodes[0].snapshot(world.now);
    assert!(s.peers[0].paths[0].queue_delay < ms(10), "{:?}", s.peers[0].paths[0]);
}

#[test]
fn heavy_loss_costs_its_share_and_no_more() {
    for loss in [0.02, 0.05] {
        let mut world =
            World::new(&[direction(50, 8, loss), direction(30, 35, loss), direction(20, 60, loss)], &Policy::default());
        world.run_for(ms(1000));
        let rate = bulk(&mut world, Duration::from_secs(12), 12);
        let s = &world.nodes[0].snapshot(world.now).peers[0];
        assert!(rate > 100e6 * 1400.0 / 1500.0 * (1.0 - loss) * 0.9, "loss {loss}: {rate}\n{s:#?}");
        assert!(
            (s.repeated_units as f64) < 3.0 * loss * s.sent_units as f64,
            "loss {loss}: {} of {}\n{}{s:#?}",
            s.repeated_units,
            s.sent_units,
            net::story(&world)
        );
    }
}

#[test]
fn repeats_go_out_twice_where_many_packets_would_be_lost_a_second_time() {
    for (delay_ms, loss, twice) in [(100, 0.02, true), (8, 0.003, false)] {
        let mut world = World::new(&[direction(50, delay_ms, loss)], &Policy::default());
        world.run_for(ms(1000));
        bulk(&mut world, Duration::from_secs(8), 12);
        world.run_for(ms(1000));
        let [sender, receiver] = [0, 1].map(|node| world.nodes[node].snapshot(world.now).peers[0].clone());
        let copies = receiver.duplicate_units as f64 / sender.repeated_units as f64;
        assert!(sender.repeated_units > 50, "{} repeated", sender.repeated_units);
        assert!(if twice { copies > 0.8 } else { copies < 0.1 }, "{delay_ms} ms, {loss}: {copies}");
        assert_eq!(sender.abandoned_units, 0);
    }
}

#[test]
fn three_unequal_links_carry_one_flow_in_order() {
    let mut world =
        World::new(&[direction(50, 8, 0.0), direction(30, 35, 0.003), direction(20, 150, 0.005)], &Policy::default());
    world.run_for(ms(1000));
    let rate = bulk(&mut world, Duration::from_secs(12), 12);
    assert!(rate > 100e6 * 1400.0 / 1500.0 * 0.93, "{rate}\n{:#?}", world.nodes[0].snapshot(world.now).peers[0]);
    let (mut last, mut out_of_order) = (None, 0);
    world.run_for(ms(2000));
    world.take_numbers(1);
    for number in 0..2000 {
        world.send(0, 4001, number, 1400);
    }
    world.run_for(ms(3000));
    for (_, n) in world.take_numbers(1) {
        out_of_order += u32::from(last.is_some_and(|l| n < l));
        last = Some(n);
    }
    assert_eq!(out_of_order, 0);
}

#[test]
fn a_cut_link_costs_a_probe_less_than_100_ms() {
    for (from, both) in [(0, true), (0, false), (1, false)] {
        let mut world = World::new(&[direction(50, 8, 0.0), direction(30, 35, 0.003)], &Policy::default());
        world.run_for(ms(1000));
        let mut arrivals: Vec<Instant> = Vec::new();
        for number in 0..4000u64 {
            if number == 1000 {
                world.set(0, from, |d| d.cut = true);
                if both {
                    world.set(0, 1 - from, |d| d.cut = true);
                }
            }
            if number == 2000 {
                world.set(0, 0, |d| d.cut = false);
                world.set(0, 1, |d| d.cut = false);
            }
            world.send(0, 4000, number, 64);
            world.run_for(ms(1));
            arrivals.extend(world.take_numbers(1).iter().map(|(at, _)| *at));
        }
        let gap = arrivals.windows(2).map(|w| w[1] - w[0]).max().unwrap();
        assert!(gap < ms(100), "cut from {from}, both {both}: {gap:?}\n{}", net::story(&world));
        assert!(
            arrivals.len() >= 3985,
            "{}\n{}{:#?}",
            arrivals.len(),
            net::story(&world),
            world.nodes[0].snapshot(world.now).peers[0]
        );
        assert_eq!(world.state(0, 0), PathState::Good, "the restored link is used again\n{}", net::story(&world));
    }
}

#[test]
fn without_recovery_and_order_every_schedule_delivers() {
    let schedules =
        [Schedule::RoundRobin, Schedule::Random, Schedule::WeightedRoundRobin, Schedule::FlowHash, Schedule::Redundant];
    for schedule in schedules {
        let policy = Policy { schedule, recovery: Recovery::Off, reorder: Reorder::Off, ..Policy::default() };
        let mut world = World::new(&[direction(20, 10, 0.0), direction(20, 10, 0.0)], &policy);
        world.run_for(ms(1000));
        for number in 0..1000 {
            world.send(0, 4000, number, 1000);
            world.run_for(ms(1));
        }
        world.run_for(ms(500));
        let mut numbers: Vec<u64> = world.take_numbers(1).into_iter().map(|(_, n)| n).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1000).collect::<Vec<_>>(), "{schedule:?}");
    }
}

/// Checks that flows bound to a full path do not block others.
///
/// About eight flows share the narrow link and offer five times its rate.
#[test]
fn flows_that_keep_to_a_full_path_do_not_hold_those_of_another_back() {
    let weights =
        Weights::Static([("link0", 1), ("link1", 1)].map(|(link, weight)| (link.to_owned(), weight)).to_vec());
    let policy = Policy { schedule: Schedule::FlowHash, weights, ..Policy::default() };
    let mut world = World::new(&[direction(2, 10, 0.0), direction(20, 10, 0.0)], &policy);
    world.run_for(ms(1000));
    for number in 0..570 {
        (4000..4016).for_each(|port| world.send(0, port, number, 1000));
        world.run_for(ms(7));
    }
    let arrived = world.take_numbers(1).len();
    // Each flow sends 1.14 Mbit/s. Without the property, all flows would be limited to the narrow link's pace, and
    // half of this number would arrive.
    assert!(arrived > 3_800, "{arrived}\n{}", net::story(&world));
}

#[test]
fn bursts_do_not_overflow_the_links() {
    let mut world =
        World::new(&[direction(50, 8, 0.0), direction(30, 35, 0.0), direction(20, 150, 0.0)], &Policy::default());
    world.run_for(ms(1000));
    let mut number = 0;
    for _ in 0..20 {
        for _ in 0..2000 {
            world.send(0, 4000, number, 1400);
            number += 1;
        }
        world.run_for(ms(500));
    }
    let s = &world.nodes[0].snapshot(world.now).peers[0];
    for p in s.paths.iter().filter(|p| p.active) {
        println!(
            "{} sent {} lost {} cap {:?} pacing {:?} {} queue {:?} state {:?} {}",
            p.link_name,
            p.sent_datagrams,
            p.lost_datagrams,
            p.capacity,
            p.pacing,
            p.mode,
            p.queue_delay,
            p.state,
            p.loss
        );
    }
    println!(
        "repeated {} abandoned {} dropped {} of {number}\n{}",
        s.repeated_units,
        s.abandoned_units,
        s.queue_drops,
        net::story(&world)
    );
    assert!(s.repeated_units * 50 < number, "{} of {number} repeated", s.repeated_units);
}

/// Checks that a peer that restarted while the only link was down is called.
///
/// After the link's return only a handshake reaches it.
#[test]
fn a_peer_that_restarted_while_the_link_was_gone_is_called() {
    let policy = Policy::default();
    let mut world = World::new(&[direction(20, 10, 0.0)], &policy);
    world.run_for(Duration::from_secs(2));
    world.link_down(0, 0);
    world.run_for(Duration::from_millis(200));
    world.restart(1, &policy, 1 << 50);
    world.run_for(Duration::from_millis(200));
    world.link_up(0, 0);
    world.run_for(Duration::from_secs(3));
    world.take_numbers(1);
    world.send(0, 4000, 7, 100);
    world.run_for(Duration::from_secs(1));
    let numbers: Vec<u64> = world.take_numbers(1).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, [7], "{}", net::story(&world));
}

#[test]
fn the_use_of_a_path_is_sent_until_it_arrives() {
    // A node that receives datagrams all the time does not probe, and a probe would repeat the frame.
    let talk = |world: &mut World, number: u64| {
        world.send(0, 4000, number, 100);
        world.send(1, 4000, number, 100);
        world.run_for(ms(5));
    };
    let is_active = |world: &World, node: usize| {
        let peers = world.nodes[node].snapshot(world.now).peers;
        peers[0].paths.first().is_some_and(|path| path.active)
    };
    let links = [direction(10, 20, 0.0)];
    let mut world = World::new(&links, &Policy::default());
    let told = (0..).find(|number| {
        talk(&mut world, *number);
        is_active(&world, 0)
    });
    let told = told.expect("the path answers");
    let mut world = World::new(&links, &Policy::default());
    for number in 0..told + 100 {
        world.set(0, 0, |link| link.loss = if number == told { 1.0 } else { 0.0 });
        talk(&mut world, number);
    }
    assert!(is_active(&world, 0) && is_active(&world, 1));
}

#[test]
fn a_sparse_packet_outlives_a_gap() {
    let mut world = World::new(&[direction(10, 5, 0.0)], &Policy::default());
    world.run_for(ms(500));
    for from in 0..2 {
        world.set(0, from, |link| link.loss = 1.0);
    }
    world.send(0, 4000, 0, 100);
    world.run_for(ms(250));
    for from in 0..2 {
        world.set(0, from, |link| link.loss = 0.0);
    }
    world.run_for(ms(500));
    assert_eq!(world.take_numbers(1).len(), 1);
}
