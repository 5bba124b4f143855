//! Edges that reach each other over relays: packets are delivered, routes fail over, and relays can neither read nor
//! forge data.

use crate::mesh::{Knows, Mesh, config, key, wire};
use weft_engine::{Engine, PathState, Policy, RouteError};
use weft_session::{Identity, PublicKey};
use weft_units::{Duration, Instant, Rng};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns nodes A and D, which reach each other only over B and over C. A initiates.
fn diamond() -> Mesh {
    diamond_called_by(A)
}

/// Returns the same nodes, with `caller` as the initiator.
fn diamond_called_by(caller: usize) -> Mesh {
    let wires = [wire(A, B), wire(A, C), wire(B, D), wire(C, D)];
    let relay = |a, d| Knows { direct: vec![a, d], is_relay: true, ..Knows::default() };
    let end = |own, other| {
        let routes = if own == caller { vec![vec![B], vec![C]] } else { Vec::new() };
        Knows { direct: vec![B, C], routed: vec![(other, routes)], is_relay: false }
    };
    let knows = [end(A, D), relay(A, D), relay(A, D), end(D, A)];
    Mesh::new(&wires, &knows)
}

fn established(mesh: &Mesh, node: usize, peer: usize) -> bool {
    let snapshot = mesh.nodes[node].snapshot(mesh.now);
    snapshot.peers.iter().any(|p| p.public_key == key(peer).to_string() && p.established_for.is_some())
}

fn exchange(mesh: &mut Mesh, a: usize, b: usize, len: usize) {
    mesh.take_numbers(a);
    mesh.take_numbers(b);
    for number in 0..50 {
        mesh.send(a, b, number, len);
        mesh.send(b, a, number, len);
        mesh.run_for(ms(2));
    }
    mesh.run_for(ms(500));
    for node in [a, b] {
        assert_eq!(mesh.take_numbers(node), (0..50).collect::<Vec<_>>(), "at node {node}");
    }
}

#[test]
fn edges_meet_over_relays_and_packets_cross_both_ways() {
    let mut mesh = diamond();
    mesh.run_for(Duration::from_secs(3));
    assert!(established(&mesh, A, D) && established(&mesh, D, A));
    exchange(&mut mesh, A, D, 1000);
    let snapshot = mesh.nodes[A].snapshot(mesh.now);
    let paths = snapshot.peers[2].paths.iter().filter(|path| path.active);
    let mut paths: Vec<_> = paths.map(|p| (p.link_name.as_str(), p.state)).collect();
    paths.sort();
    assert_eq!(paths, [("via n1", PathState::Good), ("via n2", PathState::Good)]);
}

/// Checks that either relay replaces the other. Both ends may open routes over a relay at any time.
#[test]
fn either_relay_replaces_the_other_in_whatever_order_links_came() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut mesh = diamond_called_by(if rng.chance(0.5) { A } else { D });
        let late = rng.below(4);
        let comes: Vec<u64> =
            (0..4).map(|wire| if wire == late || rng.chance(0.2) { rng.below(3_000) } else { 0 }).collect();
        for time in 0..3_100 {
            mesh.wires.iter_mut().zip(&comes).for_each(|(wire, comes)| wire.cut = time < *comes);
            mesh.run_for(ms(1));
        }
        mesh.run_for(Duration::from_millis(3_000 + rng.below(4_000)));
        assert!(established(&mesh, A, D), "seed {seed}, links came at {comes:?} ms");
        let lost = if rng.chance(0.5) { [0, 2] } else { [1, 3] };
        lost.iter().for_each(|wire| mesh.wires[*wire].cut = true);
        mesh.run_for(Duration::from_secs(1));
        for node in [A, D] {
            mesh.take_numbers(node);
        }
        for number in 0..50 {
            mesh.send(A, D, number, 100);
            mesh.send(D, A, number, 100);
            mesh.run_for(ms(2));
        }
        mesh.run_for(ms(500));
        for node in [A, D] {
            let count = mesh.take_numbers(node).len();
            assert_eq!(count, 50, "seed {seed}, links came at {comes:?} ms, {lost:?} lost: at node {node}");
        }
    }
}

#[test]
fn every_number_of_relays_carries_full_packets() {
    for relays in 1..=6 {
        let mut mesh = Mesh::chain(relays);
        mesh.run_for(Duration::from_secs(5));
        assert!(established(&mesh, 0, relays + 1), "over {relays}");
        let mtu = usize::from(mesh.nodes[0].inner_mtu());
        let longest = 1500 - 60 - 26 - 4 * relays;
        assert!((longest - 40..=longest).contains(&mtu), "{mtu} of {longest} over {relays}");
        exchange(&mut mesh, 0, relays + 1, mtu - 28);
        let passed: Vec<u64> = (1..=relays).map(|n| mesh.nodes[n].relay_totals().datagrams).collect();
        assert!(passed.iter().all(|count| *count >= 100), "{passed:?}");
    }
}

#[test]
fn a_node_that_is_no_relay_passes_nothing_on() {
    let mut mesh = Mesh::chain(1);
    mesh.nodes[1].set_relaying(false);
    mesh.run_for(Duration::from_secs(3));
    assert!(!established(&mesh, 0, 2));
    let totals = mesh.nodes[1].relay_totals();
    assert_eq!(totals.datagrams, 0);
    assert!(totals.refused_datagrams > 0);
}

/// Sends a packet each millisecond. Returns the longest time without a new packet after `harm`.
fn gap_after(mesh: &mut Mesh, harm: impl FnOnce(&mut Mesh)) -> Duration {
    let mut harm = Some(harm);
    let mut seen = 0;
    let mut last = mesh.now;
    let mut longest = Duration::ZERO;
    for number in 0..3_000 {
        mesh.send(A, D, number, 100);
        mesh.run_for(ms(1));
        if number == 1_000 {
            harm.take().into_iter().for_each(|harm| harm(mesh));
        }
        for (at, _) in mesh.delivered[D].drain(..) {
            seen += 1;
            longest = if number > 900 { longest.max(at - last) } else { Duration::ZERO };
            last = at;
        }
    }
    assert!(seen > 2_900, "{seen} of 3000");
    longest
}

#[test]
fn a_silent_cut_anywhere_on_the_way_is_over_within_fifty_milliseconds() {
    for cut in 0..4 {
        let mut mesh = diamond();
        mesh.run_for(Duration::from_secs(3));
        let gap = gap_after(&mut mesh, |mesh| mesh.wires[cut].cut = true);
        assert!(gap <= ms(50), "wire {cut}: {gap:?}");
    }
}

#[test]
fn a_relay_that_dies_is_replaced() {
    let mut mesh = diamond();
    mesh.run_for(Duration::from_secs(3));
    let gap = gap_after(&mut mesh, |mesh| {
        mesh.wires.iter_mut().filter(|w| w.ends.0 == B || w.ends.1 == B).for_each(|w| w.cut = true);
    });
    assert!(gap <= ms(50), "{gap:?}");
    assert!(established(&mesh, A, D));
}

#[test]
fn relays_see_nothing_of_what_they_pass_on() {
    let mut mesh = Mesh::chain(1);
    mesh.run_for(Duration::from_secs(3));
    mesh.seen = Some(Vec::new());
    mesh.send(0, 2, 0x7765_6674_7765_6674, 400);
    mesh.run_for(ms(100));
    assert_eq!(mesh.take_numbers(2), [0x7765_6674_7765_6674]);
    let seen = mesh.seen.take().unwrap();
    assert!(seen.iter().any(|(from, bytes)| *from == 1 && bytes.len() > 400), "it passed the relay");
    assert!(!seen.iter().any(|(_, bytes)| bytes.windows(8).any(|w| w == b"weftweft")));
}

#[test]
fn losses_at_a_relay_are_retransmitted() {
    let mut mesh = Mesh::chain(1);
    mesh.run_for(Duration::from_secs(3));
    let mut rng = weft_units::Rng::new(5);
    mesh.meddler = Some(Box::new(move |from, bytes| {
        let is_lost = from == 1 && bytes[0] & 0x0f == 6 && rng.chance(0.1);
        (!is_lost).then(|| bytes.to_vec())
    }));
    for number in 0..400 {
        mesh.send(0, 2, number, 600);
        mesh.run_for(ms(2));
    }
    mesh.run_for(ms(500));
    assert_eq!(mesh.take_numbers(2), (0..400).collect::<Vec<_>>());
    assert!(mesh.nodes[0].snapshot(mesh.now).peers[1].repeated_units > 20);
}

#[test]
fn a_route_that_makes_no_sense_is_refused() {
    let wires = [wire(A, B)];
    let refused = |relays: Vec<PublicKey>| {
        let mut config = config(
            A,
            &Knows { direct: vec![B], routed: vec![(D, Vec::new())], is_relay: false },
            &wires,
            &Policy::default(),
        );
        config.peers[1].routes = vec![relays];
        Engine::new(config, Instant::ZERO, [7; 32]).map(|_| ()).map_err(|why| why.to_string())
    };
    let said = |why: RouteError| Err(format!("route to `n3`: {why}"));
    let stranger = |n: u8| Identity::from_secret([n; 32]).public_key();
    assert_eq!(refused(vec![key(B)]), Ok(()));
    assert_eq!(refused(Vec::new()), said(RouteError::Empty));
    assert_eq!(refused(vec![stranger(9)]), said(RouteError::FirstIsNoPeer));
    for looped in [vec![key(B), key(B)], vec![key(B), key(A)], vec![key(B), key(D)]] {
        assert_eq!(refused(looped), said(RouteError::Loop));
    }
    let long = [key(B)].into_iter().chain((20..26).map(stranger)).collect();
    assert_eq!(refused(long), said(RouteError::TooLong));
}

/// Returns A, D and the relays B and C, each pair with a wire being peers.
///
/// A and D have a wire of their own and configure no routes.
fn square() -> Mesh {
    let wires = [wire(A, B), wire(A, C), wire(B, D), wire(C, D), wire(A, D)];
    let end = |other| Knows { direct: vec![B, C, other], ..Knows::default() };
    let relay = || Knows { direct: vec![A, D], is_relay: true, ..Knows::default() };
    Mesh::new(&wires, &[end(D), relay(), relay(), end(A)])
}

fn sent(mesh: &Mesh, wires: std::ops::Range<usize>) -> u64 {
    mesh.wires[wires].iter().map(|wire| wire.sent.iter().sum::<u64>()).sum()
}

#[test]
fn relays_stand_by_and_take_over_when_the_direct_way_falls_silent() {
    let mut mesh = square();
    mesh.run_for(Duration::from_secs(12));
    let before = sent(&mesh, 0..4);
    for number in 0..1_000 {
        mesh.send(A, D, number, 1_000);
        mesh.run_for(ms(1));
    }
    assert!(sent(&mesh, 0..4) - before < 20_000, "{} bytes over relays in a second", sent(&mesh, 0..4) - before);
    mesh.delivered[D].clear();
    let gap = gap_after(&mut mesh, |mesh| mesh.wires[4].cut = true);
    assert!(gap <= ms(50), "{gap:?}");
    assert!(established(&mesh, A, D));
    // The direct path has returned, so the relays are no longer used.
    mesh.wires[4].cut = false;
    mesh.run_for(Duration::from_secs(3));
    let before = sent(&mesh, 0..4);
    for number in 0..1_000 {
        mesh.send(A, D, number, 1_000);
        mesh.run_for(ms(1));
    }
    assert!(sent(&mesh, 0..4) - before < 20_000, "{} bytes over relays in a second", sent(&mesh, 0..4) - before);
}

#[test]
fn nodes_behind_nats_meet_over_a_relay_that_both_called() {
    // Each node initiates to the relay, and neither has an address of the other.
    let wires = [wire(A, B), wire(B, C)];
    let end = |other| Knows { direct: vec![B], routed: vec![(other, Vec::new())], is_relay: false };
    let relay = Knows { direct: vec![A, C], is_relay: true, ..Knows::default() };
    let mut mesh = Mesh::new(&wires, &[end(C), relay, end(A)]);
    mesh.run_for(Duration::from_secs(3));
    assert!(established(&mesh, A, C) && established(&mesh, C, A));
    exchange(&mut mesh, A, C, 500);
}

#[test]
fn a_relay_that_lies_about_its_reach_does_no_harm() {
    let mut mesh = square();
    // The relay claims to forward datagrams, but drops them all.
    mesh.meddler = Some(Box::new(|from, bytes| (from != B || bytes[0] & 0x0f != 6).then(|| bytes.to_vec())));
    mesh.run_for(Duration::from_secs(12));
    let gap = gap_after(&mut mesh, |mesh| mesh.wires[4].cut = true);
    assert!(gap <= ms(50), "{gap:?}");
}

#[test]
fn bulk_fills_both_routes_and_comes_in_order() {
    let mut mesh = diamond();
    mesh.run_for(Duration::from_secs(3));
    mesh.take_numbers(D);
    let (mut number, mut received) = (0, Vec::new());
    let end = mesh.now + Duration::from_secs(6);
    while mesh.now < end {
        let queued = mesh.nodes[A].snapshot(mesh.now).peers[2].queue_bytes;
        for _ in 0..(300_000_u64.saturating_sub(queued) / 1_400).min(20) {
            mesh.send(A, D, number, 1_350);
            number += 1;
        }
        mesh.run_for(ms(2));
        if end - mesh.now <= Duration::from_secs(3) {
            received.extend(mesh.take_numbers(D));
        } else {
            mesh.take_numbers(D);
        }
    }
    assert!(received.is_sorted(), "in order");
    let mbps = received.len() as f64 * 1_378.0 * 8.0 / 3e6;
    // The two routes carry 20 Mbit/s each. Each full packet has 90 bytes of overhead.
    assert!(mbps > 40.0 * 0.92 * 0.93, "{mbps:.1} Mbit/s");
}
