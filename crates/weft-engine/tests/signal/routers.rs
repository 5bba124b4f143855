//! Hosts with their own signalling, ER-SIG or Quick-Start. The engines act as routers.

use crate::hostile::{greedy, with_signal};
use crate::hosts::*;
use crate::net::*;
use weft_engine::*;
use weft_units::{Duration, Rate};
use weft_wire::er_sig::{Message, Rate16, Rates, Signal, carriage, ttl_difference};
use weft_wire::quick_start::{self, Function, QuickRate, QuickStart, nonces_agree};

fn speaking(node: usize, config: &mut SignalConfig) {
    (config.answers, config.rules) = (false, Vec::new());
    if node == 1 {
        // The receiver is behind this node, not on it.
        config.own_addresses.clear();
    }
}

/// Sends a packet, and returns it as the other host's edge delivers it.
fn pass(world: &mut World, from: usize, packet: &[u8]) -> Vec<u8> {
    send(world, from, packet);
    world.run_for(Duration::from_millis(60));
    hear(world, 1 - from).remove(0)
}

#[test]
fn requests_between_hosts_are_lowered_and_every_router_takes_part() {
    let mut world = world(&[direction(20, 5, 0.0), direction(30, 10, 0.0)], speaking);
    let asked = Rates { guaranteed: Rate16::floor(Rate::from_mbps(10)), ..greedy(Message::Request, 5).forward };
    let request = Signal { forward: asked, reverse: asked, ..greedy(Message::Request, 5) };
    let syn = with_signal(&tcp(0, 4000, SYN, 0), request, Some(KEY));
    let arrived = pass(&mut world, 0, &syn);
    let (_, signal) = carriage::parse(&arrived).unwrap().unwrap();
    let carries = capacity(&world, 0) * 8.0;
    let bps = |rate: Rate16| rate.rate().unwrap().bps() as f64;
    assert_near(bps(signal.forward.guaranteed), 10e6, 0.001);
    assert_near(bps(signal.forward.available), carries - 10e6, 0.01);
    assert_eq!((signal.reverse, signal.hops, signal.is_lowered, signal.tag != 0), (asked, 1, true, true));
    // The receiver's edge forwards the packet, which lowers its TTL once more.
    assert_eq!(ttl_difference(arrived[8] - 1, signal.qttl), ttl_difference(64, request.qttl));
    let response = Signal { message: Message::Response, echoed: signal.forward, qttl: 60, ..signal };
    let answer = pass(&mut world, 1, &with_signal(&tcp(1, 4000, SYN | ACK, 0), response, None));
    let (_, answer) = carriage::parse(&answer).unwrap().unwrap();
    assert_eq!((answer.echoed, answer.forward), (signal.forward, signal.forward));
    assert_near(bps(answer.reverse.guaranteed), 10e6, 0.001);
    for node in 0..2 {
        assert_near(status(&world, node).peers[0].guaranteed.bps() as f64, 10e6, 0.001);
    }
    let accepted = Rates { guaranteed: Rate16::floor(Rate::from_mbps(4)), ..asked };
    let confirm = Signal { message: Message::Confirm, echoed: accepted, reverse: accepted, ..request };
    pass(&mut world, 0, &with_signal(&tcp(0, 4000, ACK, 0), confirm, Some(KEY)));
    for node in 0..2 {
        assert_near(status(&world, node).peers[0].guaranteed.bps() as f64, 4e6, 0.001);
    }
    let release = Signal { message: Message::Release, ..request };
    pass(&mut world, 0, &with_signal(&tcp(0, 4000, ACK, 0), release, Some(KEY)));
    assert_eq!([0, 1].map(|node| status(&world, node).peers[0].guaranteed), [Rate::ZERO; 2]);
}

#[test]
fn a_strict_request_that_cannot_be_met_continues_as_a_rejection_and_returns() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, config| config.rules.clear());
    let request = Signal { must_be_met: true, ..greedy(Message::Request, 5) };
    let heard = pass(&mut world, 0, &with_signal(&tcp(0, 4000, SYN, 0), request, Some(KEY)));
    assert_eq!(carriage::locate(&heard), Ok(None), "the other edge keeps it for the answer");
    let answer = pass(&mut world, 1, &tcp(1, 4000, SYN | ACK, 0));
    let (_, answer) = carriage::parse(&answer).unwrap().unwrap();
    assert_eq!((answer.message, answer.nonce, answer.forward), (Message::Reject, 5, Rates::default()));
    assert_eq!(status(&world, 0).peers[0].guaranteed, Rate::ZERO);
}

pub fn quick(rate: QuickRate) -> QuickStart {
    QuickStart { function: Function::Request, rate, ttl: 9, nonce: 0x1357_9bdf }
}

pub fn quick_syn(port: u16, option: QuickStart) -> Vec<u8> {
    let mut out = vec![0; 100];
    let len = quick_start::insert(&tcp(0, port, SYN, 0), option, &mut out).unwrap();
    out.truncate(len);
    out
}

/// Checks a grant from the sum of all paths.
///
/// RFC 4782 §3.3 forbids approval by a router that spreads a flow over paths, but an edge knows all of them.
#[test]
fn quick_start_is_granted_what_is_left_of_all_paths() {
    let mut world = world(&[direction(20, 5, 0.0), direction(30, 10, 0.0)], speaking);
    let arrives = |world: &mut World, port, option| {
        let heard = pass(world, 0, &quick_syn(port, option));
        (quick_start::parse(&heard).unwrap().unwrap().1, heard[8])
    };
    let (option, ttl) = arrives(&mut world, 4001, quick(QuickRate::MOST));
    // Neither path alone could carry 40.96 Mbit/s.
    assert_eq!(option.rate.rate(), Rate::from_bps(40_960_000));
    assert!(nonces_agree(quick(QuickRate::MOST).nonce, option.nonce, option.rate));
    assert_ne!(option.nonce, quick(QuickRate::MOST).nonce, "what lowered it drew bits anew");
    assert_eq!(ttl_difference(ttl - 1, option.ttl), ttl_difference(64, 9), "the receiver's edge lowers both");
    let (second, _) = arrives(&mut world, 4002, quick(QuickRate::MOST));
    assert!(second.rate.rate() <= Rate::from_mbps(3), "the first has its slots: {:?}", second.rate);
    world.run_for(Duration::from_secs(1));
    let small = QuickRate::new(5);
    let (option, _) = arrives(&mut world, 4003, quick(small));
    assert_eq!((option.rate, option.nonce), (small, quick(small).nonce));
    // A link in use leaves no rate for further requests.
    for number in 0..4_000 {
        world.send(0, 7, number, 1_000);
        world.run_for(Duration::from_micros(180));
    }
    world.run_for(Duration::from_millis(150));
    hear(&mut world, 1);
    let heard = pass(&mut world, 0, &quick_syn(4004, quick(QuickRate::MOST)));
    let refused = quick_start::parse(&heard).unwrap().unwrap().1;
    assert_eq!((refused.rate, refused.ttl, refused.nonce), (QuickRate::ZERO, 0, 0));
    let totals = status(&world, 0).totals;
    assert_eq!((totals.quick_start_granted, totals.quick_start_refused), (3, 1));
}

#[test]
fn where_it_is_off_quick_start_passes_untouched_and_the_ttl_difference_shows_it() {
    let mut world = world(&[direction(20, 5, 0.0)], |node, config| {
        speaking(node, config);
        config.quick_start = false;
    });
    let heard = pass(&mut world, 0, &quick_syn(4000, quick(QuickRate::MOST)));
    let (_, option) = quick_start::parse(&heard).unwrap().unwrap();
    assert_eq!(option, quick(QuickRate::MOST));
    assert_ne!(ttl_difference(heard[8] - 1, option.ttl), ttl_difference(64, 9));
}
