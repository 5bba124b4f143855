//! Paths that cannot carry a full inner packet of 1280 bytes carry it in parts.

use crate::net::{self, Direction, World, direction};
use weft_engine::{PathState, Policy, Recovery, Reorder, Schedule};
use weft_units::{Duration, Rng};

/// UDP payload of an inner packet of 1280 bytes.
const FULL: usize = 1280 - 28;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn narrow(mbps: u64, delay_ms: u64, loss: f64, mtu: u64) -> Direction {
    Direction { mtu, ..direction(mbps, delay_ms, loss) }
}

/// Sends `count` packets from node 0, one in each interval of `every`. Returns the numbers of the packets delivered.
fn send(world: &mut World, count: u64, every: Duration, payload: impl Fn(u64) -> usize) -> Vec<u64> {
    let mut out = Vec::new();
    for number in 0..count {
        world.send(0, 4000, number, payload(number));
        world.run_for(every);
        out.extend(world.take_numbers(1).into_iter().map(|(_, number)| number));
    }
    world.run_for(ms(1000));
    out.extend(world.take_numbers(1).into_iter().map(|(_, number)| number));
    out
}

/// Checks that each packet was delivered once and in order.
///
/// The order of a flow begins with its first unit that arrives.
fn assert_all(out: &[u64], count: u64, context: impl Fn() -> String) {
    let mut sorted = out.to_vec();
    sorted.sort_unstable();
    let missing: Vec<u64> = (0..count).filter(|n| sorted.binary_search(n).is_err()).collect();
    assert_eq!((out.len() as u64, missing), (count, Vec::new()), "{}", context());
    let late: Vec<_> = out.windows(2).filter(|pair| pair[1] < pair[0]).collect();
    assert!(late.len() <= 1, "out of order at {late:?}: {}", context());
}

fn mtu(world: &World, link: usize) -> u16 {
    let snapshot = world.nodes[0].snapshot(world.now);
    let name = format!("link{link}");
    snapshot.peers[0].paths.iter().find(|p| p.link_name == name).map_or(0, |p| p.mtu)
}

#[test]
fn everything_crosses_a_narrow_path_from_the_first_packet_on() {
    for (link_mtu, found) in [(1500, 1500), (1339, 1320), (1300, 1300), (1200, 1200), (600, 600), (576, 576)] {
        let mut world = World::new(&[narrow(20, 10, 0.0, link_mtu)], &Policy::default());
        world.run_for(ms(100));
        let lengths = [FULL, 64, 1200, FULL - 1, 500, 900, 1440 - 28];
        let out = send(&mut world, 4_000, ms(1), |number| lengths[number as usize % lengths.len()]);
        assert_all(&out, 4_000, || format!("MTU {link_mtu}\n{}", net::story(&world)));
        assert_eq!(mtu(&world, 0), found);
        assert_eq!(world.state(0, 0), PathState::Good, "a search is no loss\n{}", net::story(&world));
        assert_eq!(world.nodes[0].inner_mtu(), (found - 60).max(1280));
        let s = &world.nodes[0].snapshot(world.now).peers[0];
        assert_eq!((s.repeated_units, s.abandoned_units), (0, 0));
        assert_eq!(world.nodes[1].snapshot(world.now).peers[0].broken_parts, 0);
    }
}

#[test]
fn a_narrow_path_bears_its_share_of_a_bundle() {
    for link_mtu in [1300, 1200, 600] {
        let mut world = World::new(&[direction(10, 10, 0.0), narrow(10, 20, 0.0, link_mtu)], &Policy::default());
        world.run_for(ms(1500));
        let before = [0, 1].map(|link| world.sent_bytes(link, 0));
        // The rate is 15.4 of 20 Mbit/s, with overhead.
        let out = send(&mut world, 6_000, Duration::from_micros(700), |_| FULL);
        assert_all(&out, 6_000, || format!("MTU {link_mtu}\n{}", net::story(&world)));
        let [wide, narrow] = [0, 1].map(|link| (world.sent_bytes(link, 0) - before[link]) as f64);
        assert!(narrow > 0.3 * wide, "MTU {link_mtu}: {narrow} bytes on the narrow path, {wide} on the wide one");
    }
}

#[test]
fn lost_parts_are_repeated_alone_and_in_a_bundle() {
    const COUNT: u64 = 5_000;
    let mut rng = Rng::new(3);
    for draw in 0..40 {
        let link_mtu = [1300, 600][draw % 2];
        let (links, every) = [
            (vec![narrow(20, 10, 0.03, link_mtu)], ms(1)),
            (vec![direction(10, 10, 0.01), narrow(10, 25, 0.03, link_mtu)], Duration::from_micros(800)),
        ][draw / 2 % 2]
            .clone();
        let mut world = World::new(&links, &Policy::default());
        world.run_for(ms(1_000 + rng.below(1_000)));
        let out = send(&mut world, COUNT, every, |_| FULL);
        let s = &world.nodes[0].snapshot(world.now).peers[0];
        assert_all(&out, COUNT, || format!("MTU {link_mtu} of {} links\n{s:#?}", links.len()));
        assert!(s.repeated_units > 50, "{} repeated", s.repeated_units);
        assert!(s.repeated_units < 1_200, "{} repeated", s.repeated_units);
        let buffers = world.nodes[1].snapshot(world.now).buffers_in_use;
        assert!(buffers < 300, "{buffers} buffers are kept");
    }
}

#[test]
fn without_recovery_and_order_parts_find_together() {
    for schedule in [Schedule::RoundRobin, Schedule::FlowHash, Schedule::Redundant] {
        let policy = Policy { schedule, recovery: Recovery::Off, reorder: Reorder::Off, ..Policy::default() };
        let mut world = World::new(&[direction(20, 10, 0.0), narrow(20, 10, 0.0, 1200)], &policy);
        world.run_for(ms(1500));
        let mut out = send(&mut world, 1_000, ms(2), |_| FULL);
        out.sort_unstable();
        assert_all(&out, 1_000, || format!("{schedule:?}"));
    }
}

#[test]
fn a_path_that_gets_narrow_is_found_out_and_used() {
    for link_mtu in [1300, 600] {
        let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
        world.run_for(ms(1500));
        assert_eq!(mtu(&world, 0), 1500);
        (0..2).for_each(|from| world.set(0, from, |d| d.mtu = link_mtu));
        // Both long and short packets are sent, so that some of the traffic arrives.
        let lengths = [FULL, FULL, 200, FULL];
        send(&mut world, 3_000, ms(1), |number| lengths[number as usize % lengths.len()]);
        assert_eq!(u64::from(mtu(&world, 0)), link_mtu, "{}", net::story(&world));
        world.run_for(ms(2000));
        world.take_numbers(1);
        let out = send(&mut world, 2_000, ms(2), |_| FULL);
        assert_all(&out, 2_000, || format!("MTU {link_mtu}\n{}", net::story(&world)));
    }
}

#[test]
fn a_narrow_path_that_is_cut_leaves_nothing_behind() {
    for link_mtu in [1300, 600] {
        let mut world = World::new(&[direction(20, 30, 0.0), narrow(20, 10, 0.0, link_mtu)], &Policy::default());
        world.run_for(ms(1500));
        let mut out = Vec::new();
        for number in 0..4_000 {
            if number % 1_000 == 500 {
                (0..2).for_each(|from| world.set(1, from, |d| d.cut = number % 2_000 == 500));
            }
            world.send(0, 4000, number, FULL);
            world.run_for(ms(1));
            out.extend(world.take_numbers(1).into_iter().map(|(_, number)| number));
        }
        world.run_for(ms(2000));
        out.extend(world.take_numbers(1).into_iter().map(|(_, number)| number));
        assert_all(&out, 4_000, || format!("MTU {link_mtu}\n{}", net::story(&world)));
    }
}

/// Checks that a held unit leaves when its path is ready.
///
/// Parts leave in one batch, which moves the pacer far ahead, and no path queue sets a timer.
#[test]
fn a_unit_held_back_leaves_when_its_path_is_ready() {
    let policy = Policy { schedule: Schedule::RoundRobin, ..Policy::default() };
    let delay_ms = 200;
    let mut world = World::new(&[narrow(10, delay_ms, 0.0, 600)], &policy);
    world.run_for(ms(10_000));
    world.take_numbers(1);
    let sent_at = world.now;
    (0..6).for_each(|number| world.send(0, 4000, number, FULL));
    world.run_for(ms(5_000));
    let out = world.take_numbers(1);
    assert_eq!(out.len(), 6, "{}", net::story(&world));
    let last = out.iter().map(|(at, _)| *at - sent_at).max().unwrap();
    assert!(last < ms(delay_ms + 50), "six units of 1 ms took {last:?}");
}
