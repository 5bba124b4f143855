//! Bursts of many small packets.
//!
//! Queued packets must leave buffers for reception, and one peer's packets must leave buffers for another's.

use crate::mesh::{Knows, Mesh, Wire, wire};
use crate::net::liar::Liar;
use crate::net::{World, direction, inner, udp};
use weft_engine::{PathState, Policy};
use weft_units::{Duration, FlowId, FlowSeq};
use weft_wire::frame::Frame;
use weft_wire::hop::PacketType;
use weft_wire::inner::InnerHeader;

const FLOWS: u64 = 50_000;
const SMALL: usize = 8;

fn flood(world: &mut World, packets: u64) {
    for number in 0..packets {
        let port = 1_024 + (number % FLOWS) as u16;
        world.send_raw(0, &udp(inner(0), inner(1), port, number, SMALL));
    }
}

#[test]
fn a_flood_during_an_outage_does_not_make_it_last() {
    let mut world = World::new(&[direction(20, 5, 0.0)], &Policy::default());
    world.run_for(Duration::from_millis(500));
    for end in [0, 1] {
        world.set(0, end, |d| d.cut = true);
    }
    // The failure is detected soon only if something is sent.
    world.send(0, 700, 41, SMALL);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.state(0, 0), PathState::Down);
    flood(&mut world, 80_000);
    for end in [0, 1] {
        world.set(0, end, |d| d.cut = false);
    }
    world.run_for(Duration::from_secs(5));
    assert_ne!(world.state(0, 0), PathState::Down);
    world.take_numbers(1);
    world.send(0, 700, 42, SMALL);
    world.run_for(Duration::from_secs(1));
    assert!(world.take_numbers(1).iter().any(|(_, number)| *number == 42));
}

#[test]
fn a_crowd_of_sparse_flows_waits_in_queues_with_limits() {
    let mut world = World::new(&[direction(2, 5, 0.0)], &Policy::default());
    world.run_for(Duration::from_millis(500));
    flood(&mut world, 40_000);
    world.run_for(Duration::from_millis(1));
    let waiting = world.nodes[0].snapshot(world.now).buffers_in_use;
    assert!(waiting < 12_000, "{waiting} packets wait");
    // Each packet takes 60 bytes and about 80 of headers. At 2 Mbit/s, 10,240 of them take 6 s.
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.nodes[0].snapshot(world.now).buffers_in_use, 0);
}

/// Returns the number of packets of a burst that arrive at a peer while `gone` other peers are unreachable and have
/// full queues.
fn arrive_beside(gone: usize) -> usize {
    let there = gone + 1;
    let mut wires: Vec<Wire> = (1..=there).map(|node| wire(0, node)).collect();
    wires[..gone].iter_mut().for_each(|wire| wire.cut = true);
    let knows: Vec<Knows> = (0..=there)
        .map(|node| Knows { direct: if node == 0 { (1..=there).collect() } else { vec![0] }, ..Knows::default() })
        .collect();
    let mut mesh = Mesh::new(&wires, &knows);
    mesh.run_for(Duration::from_millis(500));
    for number in 0..10_240 {
        (1..=gone).for_each(|gone| mesh.send(0, gone, number, SMALL));
    }
    for number in 0..100 {
        mesh.send(0, there, number, SMALL);
        mesh.run_for(Duration::from_millis(10));
    }
    mesh.run_for(Duration::from_secs(1));
    assert_eq!(mesh.take_numbers(there), (0..100).collect::<Vec<_>>());
    // More bytes than wait for any other peer, in far fewer packets.
    (0..600).for_each(|number| mesh.send(0, there, number, 1_400));
    mesh.run_for(Duration::from_secs(3));
    mesh.take_numbers(there).len()
}

#[test]
fn peers_out_of_reach_do_not_take_the_room_of_others() {
    let (alone, beside) = (arrive_beside(0), arrive_beside(8));
    assert!(alone > 400 && beside >= alone, "{beside} of {alone}");
}

/// Checks that a peer with missing units and a long hold time leaves buffers for other peers.
#[test]
fn units_that_wait_for_order_leave_room_for_what_comes_in() {
    let mut liar = Liar::new(3);
    liar.frames(0, &[Frame::Hold { hold_us: 5_000_000 }]);
    let packet = udp(inner(0), inner(1), 4_000, 1, SMALL)[10..].to_vec();
    for number in 0..80_000u32 {
        let (flow, seq) = (FlowId((number % 2_048) as u16), FlowSeq::new(2 * (number / 2_048)));
        let mut bytes = vec![0; 6];
        InnerHeader::packet(false, flow, seq).emit(&mut bytes).unwrap();
        bytes.extend(&packet);
        let datagram = liar.seal(0, PacketType::Data, &bytes);
        liar.world.inject(1, 0, Liar::source(), &datagram);
        if number % 64 == 0 {
            liar.world.run_for(Duration::from_micros(100));
        }
    }
    let hub = liar.world.nodes[1].snapshot(liar.world.now);
    assert!(hub.peers[0].held_units > 10_000, "{} units wait", hub.peers[0].held_units);
    assert!(hub.buffers_in_use < 58_000, "{} buffers are in use", hub.buffers_in_use);
}
