//! Paths that move to another address.
//!
//! They move at once, but the bytes sent to the new address are limited until the peer has answered there.

use crate::mesh::{Hijack, Mesh};
use crate::net::liar::Liar;
use crate::net::{self, World, direction, draws, story};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use weft_engine::Policy;
use weft_units::{Duration, PathId, Rate, Rng};
use weft_wire::frame::{Frame, FrameWriter};
use weft_wire::hop::{HopHeader, PacketType};

/// IP and UDP header bytes of a datagram.
const HEADERS: usize = 28;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Runs a bulk transfer from the hub to the home node for `time`.
///
/// Returns the number of datagrams that arrived at home.
fn bulk(world: &mut World, number: &mut u64, time: Duration) -> usize {
    let end = world.now + time;
    let mut received = 0;
    while world.now < end {
        for _ in 0..4 {
            if world.nodes[1].snapshot(world.now).peers[0].queue_bytes < 300_000 {
                world.send(1, 4_000, *number, 1_400);
                *number += 1;
            }
        }
        world.run_for(ms(1));
        received += world.take_numbers(0).len();
    }
    received
}

/// Returns the bytes that the hub sent to addresses where the home node never was.
fn astray(world: &World) -> usize {
    world.astray[1].iter().map(|datagram| datagram.len() + HEADERS * datagram.len().div_ceil(1_472)).sum()
}

/// Simulates an attacker that copies a datagram of the home node in each interval of `every`.
///
/// The copy arrives from another address, before the delayed original.
fn attacked(every: Duration, delay: Duration) -> (usize, usize, f64) {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    let mut number = 0;
    let before = bulk(&mut world, &mut number, Duration::from_secs(3));
    let captured: Rc<RefCell<Option<Vec<u8>>>> = Rc::default();
    let copy = Rc::clone(&captured);
    world.meddler = Some(Box::new(move |from, datagram| {
        if from == 0 {
            *copy.borrow_mut() = Some(datagram.to_vec());
            return vec![delay];
        }
        vec![Duration::ZERO]
    }));
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 9));
    let (mut injected, mut received) = (0, 0);
    for _ in 0..Duration::from_secs(3).as_micros() / every.as_micros() {
        let seen = captured.borrow_mut().take();
        if let Some(datagram) = seen {
            injected += datagram.len() + HEADERS;
            world.inject(1, 0, elsewhere, &datagram);
        }
        received += bulk(&mut world, &mut number, every);
    }
    (injected, astray(&world), received as f64 / before as f64)
}

#[test]
fn a_replay_from_a_third_address_gets_at_most_three_times_its_bytes() {
    for (every, delay) in [(1_000, 300), (300, 200), (100, 50), (20, 100), (5, 20)] {
        let (injected, astray, _) = attacked(ms(every), ms(delay));
        assert!(injected > 0 && astray <= 3 * injected, "every {every} ms: {astray} of {injected} bytes");
        assert!(astray > 0, "the path does move");
    }
}

/// Brings the home node's second link up later.
///
/// An attacker makes all datagrams of that link arrive from another address only.
fn attacked_from_the_start(seed: u64) -> (usize, usize) {
    let mut rng = Rng::new(seed);
    let links = [direction(20, 10, 0.0), direction(20, 1 + rng.below(20), 0.0)];
    let mut world = World::with(&links, [0, 1].map(|node| net::config(node, 2, &Policy::default(), 1)));
    world.link_down(0, 1);
    world.rebind(0, 1, 41_000);
    let mut number = 0;
    bulk(&mut world, &mut number, ms(1_000 + rng.below(1_000)));
    let captured: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let (copies, known): (_, Rc<RefCell<BTreeSet<u8>>>) = (Rc::clone(&captured), Rc::default());
    let is_begun = Rc::new(Cell::new(false));
    let begun = Rc::clone(&is_begun);
    world.meddler = Some(Box::new(move |from, datagram| {
        let header = HopHeader::parse(datagram);
        let path = header.map_or(0, |header| header.path.0);
        if from != 0 || header.is_err() {
            return vec![Duration::ZERO];
        }
        if !begun.get() {
            known.borrow_mut().insert(path);
        }
        if known.borrow().contains(&path) {
            return vec![Duration::ZERO];
        }
        copies.borrow_mut().push(datagram.to_vec());
        Vec::new()
    }));
    bulk(&mut world, &mut number, ms(500));
    is_begun.set(true);
    world.link_up(0, 1);
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 9));
    let mut injected = 0;
    for _ in 0..1_000 {
        for datagram in captured.borrow_mut().drain(..) {
            injected += datagram.len() + HEADERS;
            world.inject(1, 1, elsewhere, &datagram);
        }
        bulk(&mut world, &mut number, ms(2));
    }
    (injected, astray(&world))
}

#[test]
fn a_new_path_from_a_third_address_gets_three_times_what_came_at_most() {
    for seed in 0..20 {
        let (injected, astray) = attacked_from_the_start(seed);
        assert!(injected > 0 && astray <= 3 * injected, "seed {seed}: {astray} of {injected} bytes");
    }
}

#[test]
fn a_single_replay_costs_the_peer_little() {
    let (.., share) = attacked(ms(1_000), ms(5));
    assert!(share > 0.8, "{share}");
}

#[test]
fn a_peer_behind_a_nat_that_rebinds_is_followed_at_once() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    let mut number = 0;
    bulk(&mut world, &mut number, Duration::from_secs(1));
    let steady = bulk(&mut world, &mut number, Duration::from_secs(3));
    let mut rebinding = 0;
    for port in 0..6 {
        world.rebind(0, 0, 40_000 + port);
        rebinding += bulk(&mut world, &mut number, ms(500));
    }
    assert!(rebinding as f64 > 0.7 * steady as f64, "{rebinding} of {steady}");
    assert_eq!(world.nodes[1].snapshot(world.now).peers[0].paths.len(), 1);
}

#[test]
fn an_idle_node_does_not_spin_while_an_address_is_in_doubt() {
    let mut world = World::new(&[direction(20, 10, 0.0)], &Policy::default());
    world.run_for(Duration::from_secs(2));
    let captured: Rc<RefCell<Option<Vec<u8>>>> = Rc::default();
    let copy = Rc::clone(&captured);
    world.meddler = Some(Box::new(move |from, datagram| {
        if from == 0 {
            *copy.borrow_mut() = Some(datagram.to_vec());
        }
        Vec::new()
    }));
    world.send(0, 4_000, 1, 100);
    world.run_for(ms(5));
    let datagram = captured.borrow_mut().take().expect("home sent something");
    world.inject(1, 0, SocketAddr::from(([203, 0, 113, 9], 9)), &datagram);
    world.run_for(ms(5));
    world.send(1, 4_000, 2, 1_400);
    let mut turns = 0;
    let end = world.now + Duration::from_secs(2);
    while world.now < end {
        let next = world.nodes[1].next_timeout(world.now).unwrap_or(end).max(world.now + Duration::from_micros(1));
        world.run_until(next.min(end));
        turns += 1;
    }
    assert!(turns < 1_000, "{turns} turns in two seconds");
}

/// Property: nothing leaves by a path that the peer has given up, whatever its credit and whether its address is proved.
///
/// No timer is set for such a path, so a datagram would leave by chance.
#[test]
fn nothing_leaves_by_a_path_that_the_peer_gave_up() {
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 9));
    for seed in 0..60 {
        let (mut rng, mut liar) = (Rng::new(seed), Liar::new(1 + seed as u8));
        liar.frames(0, &[Frame::Ping { token: 0 }]);
        let path = 2 + 2 * rng.below(8) as u8;
        let source = if rng.chance(0.7) { elsewhere } else { Liar::source() };
        for token in 0..1 + rng.below(12) {
            let mut room = [0; 400];
            FrameWriter::new(&mut room).write(&Frame::Ping { token: token as u32 }).unwrap();
            let datagram = liar.seal(path, PacketType::Control, &room[..5 + rng.below(300) as usize]);
            liar.world.inject(1, 0, source, &datagram);
            liar.world.run_for(Duration::from_micros(rng.below(20_000)));
        }
        liar.frames(0, &[Frame::Gone { path: PathId(path) }]);
        liar.world.astray[1].clear();
        for token in 0..100 {
            liar.frames(0, &[Frame::Ping { token }]);
            liar.world.run_for(ms(10));
        }
        let is_by_it = |datagram: &&Vec<u8>| HopHeader::parse(datagram).is_ok_and(|header| header.path == PathId(path));
        let count = liar.world.astray[1].iter().filter(is_by_it).count();
        assert_eq!(count, 0, "seed {seed}: path {path} from {source}");
    }
}

/// Checks that calls do not escape the limit.
///
/// A node that starts its sessions anew calls an address in doubt within its credit, and the peer where it was.
#[test]
fn calls_to_an_address_in_doubt_count_too() {
    let elsewhere = SocketAddr::from(([203, 0, 113, 9], 9));
    let mut called = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut world = World::new(&[direction(20, 1 + rng.below(60), 0.0)], &Policy::default());
        world.run_for(ms(1_000 + rng.below(2_000)));
        let captured: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
        let copies = Rc::clone(&captured);
        world.meddler = Some(Box::new(move |from, datagram| {
            if from == 0 && HopHeader::parse(datagram).is_ok() {
                copies.borrow_mut().push(datagram.to_vec());
                return Vec::new();
            }
            vec![Duration::ZERO]
        }));
        for number in 0..1 + rng.below(3) {
            world.send(0, 4_000, number, 20 + rng.below(400) as usize);
        }
        world.run_for(ms(2));
        let mut injected = 0;
        for datagram in captured.borrow().iter() {
            injected += datagram.len() + HEADERS;
            world.inject(1, 0, elsewhere, datagram);
        }
        world.run_for(Duration::from_micros(1 + rng.below(400_000)));
        world.meddler = None;
        let before = astray(&world);
        let now = world.now;
        world.nodes[1].renew_sessions(now, [seed as u8; 32], 1 << 60, "the machine slept");
        world.run_for(Duration::from_secs(5));
        assert!(injected > 0 && astray(&world) <= 3 * injected, "seed {seed}: {} of {injected}", astray(&world));
        called += usize::from(astray(&world) > before);
        world.delivered[1].clear();
        world.send(0, 4_000, 99, 100);
        world.run_for(ms(200));
        assert_eq!(world.take_numbers(1).len(), 1, "seed {seed}: the peer is reached again");
    }
    assert!(called > 0, "some calls fit into the credit");
}

/// Checks that relayed datagrams do not escape the limit, at a relay and at a node behind it.
#[test]
fn relayed_datagrams_count_against_the_limit() {
    let mut most = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut mesh = Mesh::chain(1);
        for wire in &mut mesh.wires {
            wire.delay = ms(1 + rng.below(40));
            wire.rate = Rate::from_mbps(5 + rng.below(50));
        }
        mesh.run_for(Duration::from_secs(3));
        let node = rng.below(3) as usize;
        mesh.hijack = Some(Hijack { node, share: 0.02 + rng.unit() * 0.3, forwarded: 0, received: 0 });
        for number in 0..1_500 {
            mesh.send(0, 2, number, 1_000);
            mesh.send(2, 0, number, 1_000);
            mesh.run_for(Duration::from_micros(500 + rng.below(1_500)));
        }
        let Hijack { forwarded, received, .. } = mesh.hijack.unwrap();
        assert!(received <= 3 * forwarded, "seed {seed}, node {node}: {received} of {forwarded} bytes");
        most = most.max(received);
    }
    assert!(most > 0, "paths do move");
}

/// Simulates an attacker that moves a path of the home node to an address where nobody answers.
///
/// It takes a datagram away, sends it from that address, and takes away whatever follows on the path. Returns the
/// longest interval without a packet at home, and the story of the run.
fn taken_away(seed: u64) -> (Duration, String) {
    let mut rng = Rng::new(seed);
    let links: Vec<_> = (0..2 + rng.below(2)).map(|_| direction(5 + rng.below(50), 1 + rng.below(80), 0.0)).collect();
    let mut world = World::new(&links, &Policy::default());
    let (every, len) = (ms(5 + rng.below(60)), 20 + rng.below(1_350) as usize);
    let mut number = 0;
    let mut talk = |world: &mut World, time: Duration| {
        let end = world.now + time;
        while world.now < end {
            world.send(1, 4_000, number, len);
            number += 1;
            world.run_for(every);
        }
    };
    talk(&mut world, ms(2_000 + rng.below(2_000)));
    let taken: Rc<RefCell<Option<Vec<u8>>>> = Rc::default();
    let first = Rc::clone(&taken);
    world.meddler = Some(Box::new(move |from, datagram| {
        let path = |datagram: &[u8]| HopHeader::parse(datagram).map(|header| header.path);
        let mut first = first.borrow_mut();
        let is_taken = from == 0 && path(datagram).is_ok_and(|of| first.as_ref().is_none_or(|f| path(f) == Ok(of)));
        if is_taken {
            first.get_or_insert_with(|| datagram.to_vec());
            return Vec::new();
        }
        vec![Duration::ZERO]
    }));
    while taken.borrow().is_none() {
        talk(&mut world, every);
    }
    let datagram = taken.borrow().clone().unwrap_or_default();
    world.take_numbers(0);
    let began = world.now;
    world.inject(1, 0, SocketAddr::from(([203, 0, 113, 9], 9)), &datagram);
    talk(&mut world, Duration::from_secs(4));
    let arrivals = world.take_numbers(0);
    let mut times: Vec<_> = arrivals.iter().map(|(at, _)| *at).collect();
    times.push(world.now);
    let gap = times.iter().scan(began, |last, at| Some(*at - std::mem::replace(last, *at))).max();
    (gap.unwrap_or_default(), story(&world))
}

/// Checks that silence at an attacker's address is noticed as soon as silence at the peer's.
#[test]
fn a_path_that_an_attacker_takes_away_is_noticed_at_once() {
    let mut gaps: Vec<_> = (0..draws(80)).map(|seed| (taken_away(seed), seed)).collect();
    gaps.sort();
    let ((gap, story), seed) = gaps.last().expect("some draws");
    println!("median {:?}, worst {gap:?}", gaps[gaps.len() / 2].0.0);
    assert!(*gap < ms(300), "seed {seed}: {gap:?}\n{story}");
}
