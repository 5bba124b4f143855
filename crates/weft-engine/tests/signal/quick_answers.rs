//! Quick-Start requests to hosts without support for it. The edge before such a host answers (RFC 4782 §4).

use crate::hosts::*;
use crate::net::*;
use crate::routers::{quick, quick_syn};
use weft_core::explicit_rate::quick_start::PendingQuickStart;
use weft_engine::*;
use weft_units::{Duration, Rate};
use weft_wire::checksum::finish_partial;
use weft_wire::ip::TcpFlags;
use weft_wire::quick_start::{self, QuickRate, QuickStartResponse, nonces_agree};
use weft_wire::super_packet::partial_l4_checksum;

/// Configures hosts behind their nodes. Only node 1 answers for its host.
fn behind(node: usize, config: &mut SignalConfig) {
    config.rules.clear();
    config.answers = node == 1;
    config.own_addresses.clear();
}

/// Returns the SYN/ACK for a SYN with sequence number 1. `options` follow the MSS option.
fn syn_ack(port: u16, ack: u32, options: &[u8]) -> Vec<u8> {
    let mut packet = tcp(1, port, SYN | ACK, options.len());
    let at = packet.len() - options.len();
    packet[at..].copy_from_slice(options);
    packet[32] = ((24 + options.len() as u8) / 4) << 4;
    packet[28..32].copy_from_slice(&ack.to_be_bytes());
    let partial = partial_l4_checksum(&packet).unwrap();
    packet[36..38].copy_from_slice(&partial.to_be_bytes());
    finish_partial(&mut packet, 20, 16).unwrap();
    packet
}

fn pass(world: &mut World, from: usize, packet: &[u8]) -> Vec<Vec<u8>> {
    send(world, from, packet);
    world.run_for(Duration::from_millis(60));
    hear(world, 1 - from)
}

#[test]
fn a_sender_that_asks_is_granted_what_the_paths_carry() {
    let mut world = world(&[direction(20, 5, 0.0), direction(30, 10, 0.0)], behind);
    let (option, began) = (quick(QuickRate::MOST), world.now);
    // The host before the first node sent it with a TTL higher by one, and that node's kernel lowered the packet's
    // TTL.
    let asked = PendingQuickStart::new(began, &option, 65);
    let heard = pass(&mut world, 0, &quick_syn(4001, option));
    assert_eq!((heard[0].len(), heard[0][0]), (tcp(0, 4001, SYN, 0).len(), 0x45), "the plain host gets a plain SYN");
    let answered = pass(&mut world, 1, &syn_ack(4001, 2, &[])).remove(0);
    let response = QuickStartResponse::of(&answered).expect("an answer");
    // Neither path alone could carry 40.96 Mbit/s.
    assert_eq!(response.rate.rate(), Rate::from_bps(40_960_000));
    assert!(nonces_agree(option.nonce, response.nonce, response.rate));
    let round_trip = world.now - began;
    assert_eq!(asked.accept(world.now, &response, round_trip), Some(Rate::from_bps(40_960_000)));
    assert_eq!((mss(&answered).is_some(), answered.len()), (true, syn_ack(4001, 2, &[]).len() + 8));
    assert_eq!(status(&world, 1).totals.quick_start_answered, 1);
    let again = pass(&mut world, 1, &syn_ack(4001, 2, &[])).remove(0);
    assert_eq!(QuickStartResponse::of(&again), None, "an answer that is lost is not repeated");
}

#[test]
fn a_router_without_quick_start_shows_in_the_ttl_difference() {
    let mut world = world(&[direction(20, 5, 0.0)], |node, config| {
        behind(node, config);
        config.quick_start = node == 1;
    });
    let (option, began) = (quick(QuickRate::new(3)), world.now);
    pass(&mut world, 0, &quick_syn(4001, option));
    let response = QuickStartResponse::of(&pass(&mut world, 1, &syn_ack(4001, 2, &[])).remove(0)).unwrap();
    let asked = PendingQuickStart::new(began, &option, 65);
    assert_eq!(asked.accept(world.now, &response, Duration::from_secs(1)), None);
}

#[test]
fn refused_late_foreign_and_excess_requests_are_not_answered() {
    let mut world = world(&[direction(20, 5, 0.0)], behind);
    let answer = |world: &mut World, packet: &[u8]| QuickStartResponse::of(&pass(world, 1, packet).remove(0));
    let refused = pass(&mut world, 0, &quick_syn(4001, quick(QuickRate::ZERO))).remove(0);
    assert_eq!(quick_start::parse(&refused).unwrap().unwrap().1.rate, QuickRate::ZERO);
    assert_eq!(answer(&mut world, &syn_ack(4001, 2, &[])), None, "nothing was asked");
    let small = quick(QuickRate::new(1));
    pass(&mut world, 0, &quick_syn(4002, small));
    assert_eq!(answer(&mut world, &syn_ack(4003, 2, &[])), None, "another port");
    assert_eq!(answer(&mut world, &syn_ack(4002, 7, &[])), None, "another SYN");
    pass(&mut world, 0, &quick_syn(4004, small));
    world.run_for(Duration::from_secs(1));
    assert_eq!(answer(&mut world, &syn_ack(4004, 2, &[])), None, "late");
    pass(&mut world, 0, &quick_syn(4005, small));
    let crowded = [1; 28];
    assert_eq!(
        answer(&mut world, &syn_ack(4005, 2, &crowded)),
        Some(QuickStartResponse { rate: small.rate, ..answered(small) })
    );
    pass(&mut world, 0, &quick_syn(4006, small));
    let full = [1; 36];
    let heard = pass(&mut world, 1, &syn_ack(4006, 2, &full)).remove(0);
    assert_eq!(heard[44..], full, "there is no room in the header");
    pass(&mut world, 0, &quick_syn(4007, small));
    let own = [27, 8, 1, 9, 0, 0, 0, 0];
    let heard = pass(&mut world, 1, &syn_ack(4007, 2, &own)).remove(0);
    assert_eq!(heard[44..], own, "the host answers itself");
}

/// Returns the answer to a request that no node lowered.
///
/// The TTL difference is 64 - 9, plus one for the host before the first node.
fn answered(option: quick_start::QuickStart) -> QuickStartResponse {
    QuickStartResponse { rate: option.rate, ttl_difference: 56, nonce: option.nonce }
}

#[test]
fn requests_without_end_leave_room_for_the_next() {
    let mut world = world(&[direction(20, 5, 0.0)], behind);
    let small = quick(QuickRate::new(1));
    for number in 0..6_000u16 {
        send(&mut world, 0, &quick_syn(10_000 + number, small));
        if number % 50 == 0 {
            world.run_for(Duration::from_millis(4));
        }
    }
    world.run_for(Duration::from_millis(60));
    let heard = hear(&mut world, 1);
    let left_in = heard.iter().filter(|packet| quick_start::parse(packet).unwrap().is_some()).count();
    // Requests that do not fit are passed to their host unchanged.
    assert!(left_in >= heard.len() - 4_096 && left_in < 6_000, "{left_in} of {}", heard.len());
    world.run_for(Duration::from_secs(2));
    pass(&mut world, 0, &quick_syn(4001, small));
    let heard = pass(&mut world, 1, &syn_ack(4001, 2, &[])).remove(0);
    assert!(QuickStartResponse::of(&heard).is_some());
}

/// Checks that damaged options and answers cause no failure and no wrong checksum.
#[test]
fn broken_requests_are_left_alone() {
    let mut world = world(&[direction(20, 5, 0.0)], behind);
    let whole = quick_syn(4001, quick(QuickRate::MOST));
    for (at, byte) in (20..28).flat_map(|at| [0, 1, 7, 9, 0x80, 0xff].map(|byte| (at, byte))) {
        let mut packet = whole.clone();
        packet[at] = byte;
        packet[10..12].fill(0);
        let sum = weft_wire::checksum::checksum(&packet[..28]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(pass(&mut world, 0, &packet).len(), 1, "byte {at} is {byte}");
        let answer = pass(&mut world, 1, &syn_ack(4001, 2, &[])).remove(0);
        assert!(answer.len() == 44 || QuickStartResponse::of(&answer).is_some());
    }
    let mut reset = [0; 80];
    let len = quick_start::insert(&tcp(0, 4001, TcpFlags::RST, 0), quick(QuickRate::MOST), &mut reset).unwrap();
    send(&mut world, 0, &reset[..len]);
    world.run_for(Duration::from_millis(60));
    hear(&mut world, 1);
    assert_eq!(QuickStartResponse::of(&pass(&mut world, 1, &syn_ack(4001, 2, &[])).remove(0)), None, "no SYN asked");
}
