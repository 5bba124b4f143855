//! Several VPNs with the same addresses between two nodes.
//!
//! Each packet must be delivered in its own VPN, and only if both ends are members.

use crate::net::{self, World, config, direction, inner, udp};
use std::net::Ipv4Addr;
use weft_core::service::Service;
use weft_engine::{
    Command, CommandError, ConfigError, Engine, EngineConfig, Entry, MemberConfig, Policy, Prefix, VpnChange,
    VpnConfig, VpnError, VpnTotals,
};
use weft_session::KEY_LIFETIME;
use weft_units::{Duration, Instant, Rng, VpnId};

const RED: VpnId = VpnId(100_000);
const BLUE: VpnId = VpnId(7);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn prefix(text: &str, length: u8) -> Prefix {
    Prefix { address: text.parse().unwrap(), length }
}

/// Returns a VPN as configured at `node`, with the addresses of the default VPN.
fn vpn(node: usize, id: VpnId) -> VpnConfig {
    let behind = |node: usize| vec![Prefix { address: inner(node).into(), length: 32 }];
    let peer = config(node, 1, &Policy::default(), 1).peers.remove(0);
    let members = vec![MemberConfig { public_key: peer.public_key, prefixes: behind(1 - node) }];
    VpnConfig {
        id,
        name: format!("vpn{id}"),
        weight: 1,
        service: Service::BestEffort,
        entry: Entry::default(),
        prefixes: behind(node),
        members,
    }
}

fn configs(vpns: [&[VpnId]; 2], policy: &Policy) -> [EngineConfig; 2] {
    [0, 1].map(|node| EngineConfig {
        vpns: vpns[node].iter().map(|id| vpn(node, *id)).collect(),
        ..config(node, 1, policy, 1)
    })
}

fn world(vpns: [&[VpnId]; 2]) -> World {
    let mut world = World::with(&[direction(20, 10, 0.0)], configs(vpns, &Policy::default()));
    world.run_for(ms(500));
    world
}

fn send(world: &mut World, from: usize, vpn: VpnId, number: u64) {
    world.send_raw_in(from, vpn, &udp(inner(from), inner(1 - from), 4000, number, 100));
}

/// Returns the VPN and number of each packet delivered at `node` since the last call.
fn arrived(world: &mut World, node: usize) -> Vec<(VpnId, u64)> {
    let number = |packet: &[u8]| u64::from_be_bytes(packet[38..46].try_into().unwrap());
    let default = world.delivered[node].drain(..).map(|(_, packet)| (VpnId::DEFAULT, number(&packet)));
    default.chain(world.delivered_in[node].drain(..).map(|(vpn, packet)| (vpn, number(&packet)))).collect()
}

fn totals(world: &World, node: usize, id: VpnId) -> VpnTotals {
    world.nodes[node].vpns().iter().find(|vpn| vpn.id == id).unwrap().totals
}

fn is_open(node: &Engine, id: VpnId) -> bool {
    node.vpns().iter().find(|vpn| vpn.id == id).unwrap().members[0].is_open
}

fn reload(world: &mut World, node: usize, vpns: Vec<VpnConfig>) -> Result<(), ConfigError> {
    let peers = config(node, 1, &Policy::default(), 1).peers;
    world.nodes[node].reconfigure(world.now, peers, vpns, Vec::new(), None)
}

#[test]
fn the_same_addresses_and_ports_mean_something_else_in_every_vpn() {
    let all = [VpnId::DEFAULT, RED, BLUE];
    let mut world = world([&all[1..], &all[1..]]);
    assert!(!is_open(&world.nodes[0], RED), "opened when it is used");
    for number in 0..30 {
        for from in 0..2 {
            all.iter().for_each(|vpn| send(&mut world, from, *vpn, number * 1000 + u64::from(vpn.0 % 1000)));
        }
        world.run_for(ms(20));
    }
    world.run_for(ms(200));
    for node in 0..2 {
        let arrived = arrived(&mut world, node);
        for vpn in all {
            let numbers: Vec<_> = arrived.iter().filter(|(of, _)| *of == vpn).map(|(_, number)| *number).collect();
            assert_eq!(numbers, (0..30).map(|n| n * 1000 + u64::from(vpn.0 % 1000)).collect::<Vec<_>>(), "{vpn}");
            let totals = totals(&world, node, vpn);
            assert_eq!((totals.sent_packets, totals.received_packets), (30, 30), "{totals:?}");
            assert_eq!((totals.sent_bytes, totals.received_bytes), (30 * 128, 30 * 128));
            assert_eq!((totals.dropped_packets, totals.strays, totals.unroutable_packets), (0, 0, 0));
        }
        let flows = &world.nodes[node].snapshot(world.now).peers[0].flows;
        assert_eq!(flows.iter().map(|flow| flow.vpn).collect::<std::collections::BTreeSet<_>>(), all.into());
        assert!(is_open(&world.nodes[node], RED));
    }
}

#[test]
fn super_packets_and_units_in_parts_come_out_in_their_vpn() {
    for mtu in [1500, 900] {
        let narrow = net::Direction { mtu, ..direction(20, 10, 0.0) };
        let mut world = World::with(&[narrow], configs([&[RED, BLUE]; 2], &Policy::default()));
        world.run_for(ms(3000));
        for number in 0..20 {
            for vpn in [RED, BLUE] {
                let packet = udp(inner(0), inner(1), 4000, number * 2 + u64::from(vpn == BLUE), 1200);
                world.send_raw_in(0, vpn, &packet);
            }
            world.run_for(ms(10));
        }
        world.run_for(ms(500));
        let arrived = arrived(&mut world, 1);
        assert_eq!(arrived.len(), 40, "{}", net::story(&world));
        assert!(arrived.iter().all(|(vpn, number)| *vpn == if number % 2 == 1 { BLUE } else { RED }), "{arrived:?}");
    }
}

#[test]
fn a_vpn_that_only_one_end_knows_carries_nothing_and_holds_nothing_up() {
    let mut world = world([&[RED, BLUE], &[BLUE]]);
    for number in 0..100 {
        send(&mut world, 0, RED, number);
        send(&mut world, 0, BLUE, number);
        world.run_for(ms(20));
    }
    world.run_for(ms(300));
    assert_eq!(arrived(&mut world, 1), (0..100).map(|number| (BLUE, number)).collect::<Vec<_>>());
    assert!(!is_open(&world.nodes[0], RED));
    let red = totals(&world, 0, RED);
    assert_eq!((red.sent_packets, red.dropped_packets), (0, 100));
    world.run_for(ms(4000));
    assert_eq!(world.nodes[0].snapshot(world.now).buffers_in_use, 0);
}

#[test]
fn membership_comes_and_goes_with_the_configuration() {
    let mut world = world([&[RED, BLUE], &[BLUE]]);
    let traffic = |world: &mut World, count: u64| {
        for number in 0..count {
            send(world, 0, RED, number);
            world.run_for(ms(10));
        }
        world.run_for(ms(100));
        arrived(world, 1).len()
    };
    assert_eq!(traffic(&mut world, 50), 0);
    reload(&mut world, 1, vec![vpn(1, RED)]).unwrap();
    world.run_for(ms(2500));
    assert_eq!(traffic(&mut world, 50), 50, "asked again, and opened");
    let counted = totals(&world, 1, RED);
    reload(&mut world, 1, Vec::new()).unwrap();
    assert_eq!(traffic(&mut world, 50), 0);
    let refused = totals(&world, 0, RED).dropped_packets;
    assert!(refused > 80, "the sender was told: {refused}");
    reload(&mut world, 1, vec![vpn(1, RED)]).unwrap();
    world.run_for(ms(2500));
    assert_eq!(traffic(&mut world, 50), 50);
    assert_eq!(totals(&world, 1, RED).received_packets, 50, "a VPN that went and came counts anew; {counted:?}");
}

#[test]
fn packets_wait_until_the_other_end_has_answered() {
    let mut world = world([&[RED], &[RED]]);
    (0..2).for_each(|from| world.set(0, from, |link| link.cut = true));
    for number in 0..10 {
        send(&mut world, 0, RED, number);
    }
    world.run_for(ms(300));
    assert_eq!(world.nodes[0].snapshot(world.now).peers[0].waiting_for_vpns, 10);
    (0..2).for_each(|from| world.set(0, from, |link| link.cut = false));
    world.run_for(ms(1500));
    assert_eq!(arrived(&mut world, 1), (0..10).map(|number| (RED, number)).collect::<Vec<_>>());
    assert_eq!(world.nodes[0].snapshot(world.now).peers[0].waiting_for_vpns, 0);
}

/// Checks that packets outlive an outage shorter than 300 ms minus an RTT.
///
/// A returned path is probed within 100 ms, and the request for the VPN leaves with the probe. The answer then
/// arrives before the packets are 400 ms old.
#[test]
fn packets_outlive_a_short_outage_before_the_other_end_has_answered() {
    let mut rng = Rng::new(3);
    for _ in 0..60 {
        let delay = 3 + rng.below(30);
        let mut world = World::with(&[direction(20, delay, 0.0)], configs([&[RED], &[RED]], &Policy::default()));
        world.run_for(ms(500 + rng.below(1_000)));
        (0..2).for_each(|from| world.set(0, from, |link| link.cut = true));
        for number in 0..10 {
            send(&mut world, 0, RED, number);
        }
        let outage = ms(20 + rng.below(280 - 2 * delay));
        world.run_for(outage);
        (0..2).for_each(|from| world.set(0, from, |link| link.cut = false));
        world.run_for(ms(1_000));
        let numbers: Vec<_> = (0..10).map(|number| (RED, number)).collect();
        assert_eq!(arrived(&mut world, 1), numbers, "{outage:?}, {delay} ms one way\n{}", net::story(&world));
    }
}

/// Checks that a lost request or answer is sent again as soon as reports show its loss, not only when the peer asks again.
#[test]
fn a_vpn_opens_soon_over_a_lossy_link_with_traffic() {
    let mut rng = Rng::new(4);
    let (count, mut late) = (120, 0);
    for _ in 0..count {
        let delay = 2 + rng.below(30);
        let mut world = World::with(&[direction(20, delay, 0.0)], configs([&[RED], &[RED]], &Policy::default()));
        world.run_for(ms(500 + rng.below(500)));
        (0..2).for_each(|from| world.set(0, from, |link| link.loss = 0.2));
        let talk = |world: &mut World, time| {
            for number in 0..time / 4 {
                (0..2).for_each(|from| world.send(from, 5_000, number, 100));
                world.run_for(ms(4));
            }
        };
        talk(&mut world, 200);
        send(&mut world, 0, RED, 7);
        talk(&mut world, 4 * delay + 100);
        late += usize::from(!arrived(&mut world, 1).contains(&(RED, 7)));
    }
    println!("{late} of {count} later than two round trips and 100 ms");
    assert!(late <= count / 10, "{late} of {count}");
}

#[test]
fn waiting_packets_are_bounded_and_dropped_in_time() {
    let mut world = world([&[RED], &[RED]]);
    (0..2).for_each(|from| world.set(0, from, |link| link.cut = true));
    (0..1000).for_each(|number| send(&mut world, 0, RED, number));
    let snapshot = world.nodes[0].snapshot(world.now);
    assert!(snapshot.peers[0].waiting_for_vpns <= 64 && snapshot.buffers_in_use <= 64, "{}", snapshot.buffers_in_use);
    world.run_for(ms(4000));
    assert_eq!(world.nodes[0].snapshot(world.now).buffers_in_use, 0);
    assert_eq!(totals(&world, 0, RED).dropped_packets, 1000);
}

#[test]
fn a_vpn_outlives_rekeys_without_a_loss() {
    let mut world = world([&[RED], &[RED]]);
    let end = world.now + KEY_LIFETIME * 3;
    let mut number = 0;
    while world.now < end {
        (0..2).for_each(|from| send(&mut world, from, RED, number));
        number += 1;
        world.run_for(ms(100));
    }
    world.run_for(ms(200));
    for node in 0..2 {
        assert_eq!(arrived(&mut world, node), (0..number).map(|number| (RED, number)).collect::<Vec<_>>());
        assert_eq!(world.nodes[node].rejected_datagrams(), 0);
    }
    world.run_for(KEY_LIFETIME * 2);
    assert!(!is_open(&world.nodes[0], RED), "unused for long: its keys are gone");
    send(&mut world, 0, RED, 0);
    world.run_for(ms(200));
    assert_eq!(arrived(&mut world, 1), [(RED, 0)]);
}

#[test]
fn a_vpn_is_back_after_its_peer_started_anew() {
    let mut world = world([&[RED], &[RED]]);
    for node in [1, 0] {
        send(&mut world, 0, RED, 1);
        world.run_for(ms(200));
        assert_eq!(arrived(&mut world, 1), [(RED, 1)]);
        let [home, hub] = configs([&[RED]; 2], &Policy::default());
        let config = EngineConfig { stamp_base: u64::MAX / 2 + node as u64, ..if node == 0 { home } else { hub } };
        world.nodes[node] = Engine::new(config, world.now, [77 + node as u8; 32]).unwrap();
        world.plug_in(node);
        for number in 0..60 {
            send(&mut world, 0, RED, 100 + number);
            world.run_for(ms(100));
        }
        let arrived = arrived(&mut world, 1);
        assert_eq!(arrived.last(), Some(&(RED, 159)), "{}", net::story(&world));
    }
}

/// The peer starts anew while packets wait for a path. They then wait for the VPN, as the packets sent after them do.
#[test]
fn packets_that_waited_for_a_path_keep_their_order_while_the_vpn_opens_again() {
    let mut rng = Rng::new(6_564);
    for draw in 0..40 {
        let delay = 2 + rng.below(30);
        let mut world = World::with(&[direction(20, delay, 0.0)], configs([&[RED], &[RED]], &Policy::default()));
        world.run_for(ms(500));
        send(&mut world, 0, RED, 0);
        world.run_for(ms(500));
        arrived(&mut world, 1);
        (0..2).for_each(|from| world.set(0, from, |link| link.cut = true));
        let (cut_for, every) = (400 + rng.below(800), 5 + rng.below(60));
        let (back_at, end) = (world.now + ms(cut_for), world.now + ms(cut_for + 1_500));
        let [_, hub] = configs([&[RED]; 2], &Policy::default());
        let hub = EngineConfig { stamp_base: u64::MAX / 2, ..hub };
        world.nodes[1] = Engine::new(hub, world.now, [draw as u8; 32]).unwrap();
        world.plug_in(1);
        for number in 1.. {
            if world.now >= end {
                break;
            }
            if world.now >= back_at {
                (0..2).for_each(|from| world.set(0, from, |link| link.cut = false));
            }
            send(&mut world, 0, RED, number);
            world.run_for(ms(every));
        }
        world.run_for(ms(500));
        let numbers: Vec<u64> = arrived(&mut world, 1).into_iter().map(|(_, number)| number).collect();
        assert!(numbers.len() > 10 && numbers.is_sorted(), "cut for {cut_for} ms, each {every} ms: {numbers:?}");
    }
}

#[test]
fn a_source_that_is_another_vpns_is_refused() {
    let mut world = world([&[RED], &[RED]]);
    let elsewhere = Ipv4Addr::new(10, 50, 0, 1);
    for _ in 0..5 {
        world.send_raw_in(0, RED, &udp(elsewhere, inner(1), 4000, 9, 100));
        world.send_raw_in(0, RED, &udp(inner(0), elsewhere, 4000, 9, 100));
        world.run_for(ms(50));
    }
    assert_eq!(arrived(&mut world, 1), []);
    assert_eq!((totals(&world, 1, RED).strays, totals(&world, 1, VpnId::DEFAULT).strays), (5, 0));
    assert_eq!((totals(&world, 0, RED).unroutable_packets, totals(&world, 0, RED).sent_packets), (5, 5));
}

#[test]
fn a_packet_of_an_unknown_vpn_goes_nowhere() {
    let mut world = world([&[RED], &[RED]]);
    send(&mut world, 0, BLUE, 1);
    world.run_for(ms(200));
    assert_eq!(arrived(&mut world, 1), []);
    let snapshot = world.nodes[0].snapshot(world.now);
    assert_eq!((snapshot.unroutable_packets, snapshot.buffers_in_use), (1, 0));
}

#[test]
fn the_weight_of_a_vpn_can_be_set_by_its_name() {
    let mut world = world([&[RED], &[RED]]);
    let now = Instant::from_millis(500);
    let mut set = |vpn: &str, weight| {
        let change = VpnChange { weight: Some(weight), ..VpnChange::default() };
        world.nodes[0].handle_command(now, Command::SetVpn { vpn: vpn.into(), change })
    };
    assert_eq!(set("vpn100000", 5), Ok(()));
    assert_eq!(set("vpn100000", 0), Err(CommandError::Vpn(VpnError::NoWeight)));
    let known = vec!["vpn100000".to_owned()];
    assert_eq!(set("vpn10000", 5), Err(CommandError::UnknownVpn("vpn10000".into(), known)));
    assert_eq!(world.nodes[0].vpns()[1].weight, 5);
}

#[test]
fn mistakes_are_refused_with_the_reason_and_change_nothing() {
    let mut world = world([&[RED], &[RED]]);
    let red = || vpn(0, RED);
    let with = |change: fn(&mut VpnConfig)| {
        let mut vpn = VpnConfig { name: "wrong".into(), ..vpn(0, BLUE) };
        change(&mut vpn);
        vec![red(), vpn]
    };
    let overlap = |prefix, of: Option<&str>, with: Option<&str>| VpnError::Overlap {
        prefix,
        of: of.map(Into::into),
        with: with.map(Into::into),
    };
    let second = |vpn: &mut VpnConfig| vpn.members.push(vpn.members[0].clone());
    let cases: [(Vec<VpnConfig>, VpnError); 9] = [
        (with(|vpn| vpn.id = VpnId::DEFAULT), VpnError::ReservedId),
        (with(|vpn| vpn.id = RED), VpnError::DuplicateId(RED)),
        (
            vec![VpnConfig { name: "wrong".into(), ..red() }, VpnConfig { name: "wrong".into(), ..vpn(0, BLUE) }],
            VpnError::DuplicateName,
        ),
        (with(|vpn| vpn.weight = 0), VpnError::NoWeight),
        (
            with(|vpn| vpn.members[0].public_key = net::config(1, 1, &Policy::default(), 1).peers[0].public_key),
            VpnError::UnknownMember,
        ),
        (with(second), VpnError::DuplicateMember("hub".into())),
        (
            with(|vpn| vpn.members[0].prefixes.push(prefix("10.9.0.0", 24))),
            overlap(prefix("10.9.0.0", 24), Some("hub"), None),
        ),
        (
            with(|vpn| vpn.members[0].prefixes = vec![prefix("10.8.0.0", 16), prefix("10.8.1.0", 24)]),
            overlap(prefix("10.8.1.0", 24), Some("hub"), Some("hub")),
        ),
        (
            with(|vpn| vpn.prefixes = vec![prefix("fd00::", 8), prefix("fd00::", 8)]),
            overlap(prefix("fd00::", 8), None, None),
        ),
    ];
    for (vpns, why) in cases {
        let of = ConfigError::Vpn("wrong".into(), why);
        assert_eq!(reload(&mut world, 0, vpns.clone()), Err(of.clone()), "{of}");
        let start = EngineConfig { vpns, ..config(0, 1, &Policy::default(), 1) };
        assert_eq!(Engine::new(start, world.now, [3; 32]).err(), Some(of));
    }
    let text = ConfigError::Vpn("red".into(), overlap(prefix("10.9.0.0", 24), Some("hub"), None)).to_string();
    assert_eq!(text, "VPN `red`: 10.9.0.0/24 of hub overlaps with a prefix of this node");
    send(&mut world, 0, RED, 1);
    world.run_for(ms(200));
    assert_eq!(arrived(&mut world, 1), [(RED, 1)]);
    let default_route = |vpn: &mut VpnConfig| vpn.members[0].prefixes.push(prefix("0.0.0.0", 0));
    assert_eq!(reload(&mut world, 0, with(default_route)), Ok(()), "a default route lies around the others");
}
