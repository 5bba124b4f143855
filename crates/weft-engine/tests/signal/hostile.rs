//! Forged, malformed and excessive signals.

use crate::hosts::*;
use crate::net::*;
use weft_engine::*;
use weft_units::{Duration, PathUse, Rate, Rng};
use weft_wire::er_sig::{Message, Rate16, Rates, SIGNAL_LEN, Signal, SignalKey, carriage};
use weft_wire::ip::FlowKey;

/// Returns a signal that requests the largest rates.
pub fn greedy(message: Message, nonce: u32) -> Signal {
    let most = Rates { available: Rate16::UNLIMITED, guaranteed: Rate16::floor(Rate::from_mbps(900)) };
    let bytes = [0x14, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0x10, 0, 0];
    let signal = Signal::parse(&bytes).unwrap();
    Signal { message, forward: most, reverse: most, echoed: most, nonce, ..signal }
}

/// Returns the packet with a signal whose tag is made with `key`.
pub fn with_signal(packet: &[u8], signal: Signal, key: Option<[u8; 32]>) -> Vec<u8> {
    let flow = FlowKey::of(packet).unwrap();
    let flow = if signal.message == Message::Response { flow.reversed() } else { flow };
    let signal = key.map_or(signal, |key| SignalKey::new(key).sign(&flow, signal));
    let mut out = vec![0; packet.len() + carriage::ADDED_LEN];
    carriage::insert(packet, &signal, &mut out).unwrap();
    out
}

#[test]
fn ends_of_different_domains_do_not_hear_each_other() {
    let mut world = world(&[direction(20, 5, 0.0)], |node, config| {
        config.key = Some(SignalKey::new([node as u8; 32]));
    });
    send(&mut world, 0, &tcp(0, 4000, SYN, 0));
    world.run_for(Duration::from_millis(60));
    let heard = hear(&mut world, 1);
    assert!(carriage::locate(&heard[0]).unwrap().is_some(), "it is not stripped");
    send(&mut world, 1, &tcp(1, 4000, SYN | ACK, 0));
    world.run_for(Duration::from_millis(60));
    assert_eq!((granted(&world, 0, 4000), status(&world, 1).totals.forged, status(&world, 1).flows), (None, 1, 0));
}

#[test]
fn a_hosts_forged_signal_stays_unchanged_and_grants_nothing() {
    let mut world = world(&[direction(20, 5, 0.0)], |_, _| {});
    connect(&mut world, 4000);
    let (before, guaranteed) = (granted(&world, 1, 4000), status(&world, 0).peers[0].guaranteed);
    use Message::{Confirm, Reject, Release, Request, Response, Update};
    for (number, message) in [Request, Update, Confirm, Release, Reject, Response].into_iter().enumerate() {
        let forged = with_signal(&tcp(0, 4000, ACK, 9), greedy(message, number as u32), Some([1; 32]));
        send(&mut world, 0, &forged);
        world.run_for(Duration::from_millis(2));
    }
    world.run_for(Duration::from_millis(40));
    let heard = hear(&mut world, 1);
    assert_eq!(heard.iter().filter(|packet| carriage::locate(packet).unwrap().is_some()).count(), 6);
    assert_eq!((status(&world, 0).totals.forged, status(&world, 1).totals.forged), (6, 6));
    assert_eq!(status(&world, 0).peers[0].guaranteed, guaranteed);
    assert_eq!(granted(&world, 1, 4000), before);
}

/// Checks that no grant exceeds the interface's rate, although the remote edge has the key and its host answers with
/// higher rates.
#[test]
fn a_rate_above_the_interfaces_is_never_granted() {
    let capped = |node| EngineConfig {
        links: vec![LinkConfig {
            name: "link0".into(),
            cap: Some(Rate::from_mbps(8)),
            send: true,
            allowed: PathUse::default(),
        }],
        ..config(node, 1, &Policy::default(), 1)
    };
    let world = World::with(&[direction(20, 5, 0.0)], [capped(0), capped(1)]);
    let mut world = world_of(world, |node, config| {
        config.answers = node == 0;
        config.rules.iter_mut().for_each(|rule| rule.guaranteed = Rate::from_mbps(900));
    });
    for port in 4000..4020 {
        send(&mut world, 0, &tcp(0, port, SYN, 0));
        world.run_for(Duration::from_millis(30));
        let heard = hear(&mut world, 1);
        let (at, request) = carriage::parse(&heard[0]).unwrap().unwrap();
        assert!(at == 22 && request.forward.available.rate().unwrap() <= Rate::from_mbps(8));
        // The TTL difference of the request, which a packet with TTL 64 repeats.
        let echoed = greedy(Message::Response, 0).echoed;
        let response = Signal { message: Message::Response, echoed, ..request };
        send(&mut world, 1, &with_signal(&tcp(1, port, SYN | ACK, 0), response, None));
        world.run_for(Duration::from_millis(30));
        hear(&mut world, 0);
        let grant = granted(&world, 0, port);
        assert!(grant.is_none_or(|grant| grant.bytes_per_second <= 1_000_000), "{grant:?}");
        assert!(port > 4000 || grant.is_some());
    }
}

#[test]
fn state_is_bounded_and_expires() {
    let mut world = world(&[direction(100, 2, 0.0)], |_, config| {
        config.rules.iter_mut().for_each(|rule| rule.guaranteed = Rate::from_bps(2_000));
    });
    for port in 1..6_000 {
        send(&mut world, 0, &tcp(0, port, SYN, 0));
        if port % 50 == 0 {
            world.run_for(Duration::from_millis(5));
        }
    }
    world.run_for(Duration::from_millis(50));
    for node in 0..2 {
        assert_eq!(status(&world, node).flows, 4_096);
        assert!(status(&world, node).shown.len() <= 64);
    }
    assert!(status(&world, 0).peers[0].guaranteed <= Rate::from_bps(4_096 * 2_000));
    world.run_for(Duration::from_secs(31));
    for node in 0..2 {
        let status = status(&world, node);
        assert_eq!((status.flows, status.peers[0].guaranteed), (0, Rate::ZERO));
    }
}

/// Checks a million malformed signals: nothing may crash, be granted or be reserved, and the tunnel must still work.
#[test]
fn a_million_malformed_signals_grant_nothing() {
    let mut world = world(&[direction(100, 1, 0.0)], |_, _| {});
    let mut rng = Rng::new(3);
    let well_formed = with_signal(&tcp(0, 4000, ACK, 0), greedy(Message::Request, 1), Some(KEY));
    for round in 0..1_000_000u32 {
        let node = (round % 2) as usize;
        let mut packet = well_formed.clone();
        packet[12..20].copy_from_slice(&tcp(node, 4000, ACK, 0)[12..20]);
        // The packet is cut short or has header bytes changed. An unchanged one gets a wrong tag.
        let tag = 22 + SIGNAL_LEN - 1;
        packet[tag] ^= 1 + rng.below(255) as u8;
        for _ in 0..rng.below(4) {
            let at =
                [0, 2, 3, 6].get(rng.below(40) as usize).copied().unwrap_or(20 + rng.below(tag as u64 - 20) as usize);
            packet[at] = rng.next_u64() as u8;
        }
        if let (Ok(flow), Ok(Some((_, signal)))) = (FlowKey::of(&packet), carriage::parse(&packet))
            && [flow, flow.reversed()].iter().any(|flow| SignalKey::new(KEY).is_right(flow, &signal))
        {
            // A random tag is right with probability 1/65,536.
            continue;
        }
        let len = if rng.chance(0.2) { rng.below(packet.len() as u64) as usize } else { packet.len() };
        send(&mut world, node, &packet[..len]);
        if round % 64 == 0 {
            world.run_for(Duration::from_millis(1));
        }
    }
    world.run_for(Duration::from_millis(200));
    for node in 0..2 {
        let status = status(&world, node);
        assert_eq!((status.totals.granted, status.flows, status.peers[0].guaranteed), (0, 0, Rate::ZERO));
        assert!(status.totals.forged > 100_000, "{}", status.totals.forged);
        world.delivered[node].clear();
    }
    connect(&mut world, 4000);
    assert!(granted(&world, 0, 4000).is_some());
}
