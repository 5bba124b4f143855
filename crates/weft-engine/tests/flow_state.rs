//! Flow state on the way to a peer: guarantees are kept, users share equally, and each byte is reported once.
#![allow(missing_docs)]

mod net;

use net::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weft_core::service::{DEFAULT_GAMMA, Service};
use weft_engine::*;
use weft_flows::router::{FlowVerdict, RouterConfig};
use weft_flows::rules::{FlowRule, FlowRules, RuleMatch};
use weft_flows::table::{FlowEnd, FlowRecord, TableConfig};
use weft_units::{Duration, Rate, Rng, VpnId};

/// Destination port of calls.
const CALL: u16 = 9;
/// Bytes of a call's packet, and its interval: 80 kbit/s.
const CALL_BYTES: usize = 200;
const CALL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the address of a host behind a node.
fn host(node: usize, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 20 + node as u8, 0, number)
}

/// Returns two nodes with a network behind each, and flow state on both.
fn world(links: &[Direction], rules: Vec<FlowRule>, reservable: f64) -> World {
    world_with(links, rules, PortSettings::reserving(reservable))
}

/// As [`world`], with these settings of the ports.
fn world_with(links: &[Direction], rules: Vec<FlowRule>, port: PortSettings) -> World {
    let configs = [0, 1].map(|node| {
        let mut config = config(node, links.len(), &Policy::default(), 1);
        config.peers[0].prefixes.push(Prefix { address: host(1 - node, 0).into(), length: 16 });
        config
    });
    let mut world = World::with(links, configs);
    let table = TableConfig { flows: 4_096, users: 256, idle: Duration::from_secs(5), ..TableConfig::default() };
    for node in 0..2 {
        let router = RouterConfig { rules: FlowRules::new(rules.clone()), table, ..RouterConfig::default() };
        let config = FlowsConfig { own_name: format!("n{node}"), router, port };
        world.nodes[node].set_flows(world.now, Some(config)).unwrap();
    }
    world.run_for(Duration::from_secs(1));
    world
}

fn voice_rule(precedence: Option<u8>) -> FlowRule {
    let mut rule = FlowRule { name: "calls".into(), class: "voice".into(), ..FlowRule::default() };
    rule.matches = RuleMatch { to_ports: Some(CALL..=CALL), protocol: Some(17), ..RuleMatch::default() };
    rule.overrides.precedence = precedence;
    rule
}

/// A UDP packet between two hosts, behind a virtio-net header. Its payload begins with `number`.
fn packet(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), number: u64, bytes: usize) -> Vec<u8> {
    let mut packet = udp(from, to, ports.0, number, bytes - 28);
    packet[10 + 22..10 + 24].copy_from_slice(&ports.1.to_be_bytes());
    packet
}

/// Sends bulk from each user's flows as fast as its queue takes it, and calls, for `seconds`.
///
/// `users` has the number of flows of each user, `calls` the number of calls of one more host. Returns the bytes that
/// arrived for each source address, and the delays of the calls' packets that arrived and the number sent.
fn run(world: &mut World, users: &[u16], calls: u16, seconds: u64) -> (BTreeMap<u32, u64>, Vec<Duration>, usize) {
    let (mut sent, mut sent_at) = (0, Vec::new());
    let mut rng = Rng::new(8);
    let (mut arrived, mut delays) = (BTreeMap::new(), Vec::new());
    let begin = world.now;
    let mut next_call = begin;
    while world.now - begin < Duration::from_secs(seconds) {
        if world.now >= next_call {
            for call in 0..calls {
                let number = begin.as_nanos() + sent_at.len() as u64;
                sent_at.push(world.now);
                world.send_raw(0, &packet(host(0, 250), host(1, 1), (10_000 + call, CALL), number, CALL_BYTES));
                sent += 1;
            }
            next_call += CALL_INTERVAL;
        }
        // Each flow is offered a fixed part of three times the capacity, in bursts.
        for (user, flows) in users.iter().enumerate() {
            for flow in 0..*flows {
                if rng.chance(0.5) {
                    let bytes = 200 + rng.below(1_200) as usize;
                    world.send_raw(0, &packet(host(0, 1 + user as u8), host(1, 1), (20_000 + flow, 5_000), 0, bytes));
                }
            }
        }
        world.run_for(Duration::from_millis(2));
        for (at, bytes) in world.delivered[1].drain(..) {
            let source = u32::from_be_bytes(bytes[22..26].try_into().unwrap());
            if bytes[32..34] == CALL.to_be_bytes() {
                let number = u64::from_be_bytes(bytes[38..46].try_into().unwrap());
                // Packets of an earlier run have lower numbers.
                let own = number.checked_sub(begin.as_nanos()).and_then(|own| sent_at.get(own as usize));
                delays.extend(own.map(|sent_at| at - *sent_at));
            } else {
                *arrived.entry(source).or_default() += (bytes.len() - 10) as u64;
            }
        }
    }
    (arrived, delays, sent)
}

/// A port uses its share of a link, whatever the link and the share, also after the link's rate rose or fell.
#[test]
fn a_port_keeps_to_its_target_use() {
    let mut rng = Rng::new(11);
    for _ in 0..draws(24) {
        let (mbps, delay_ms, share) = (5 + rng.below(40), 2 + rng.below(60), 0.5 + 0.47 * rng.unit());
        let port = PortSettings { reservable: 0.5, target_use: Some(share) };
        let mut world = world_with(&[direction(mbps, delay_ms, 0.0)], Vec::new(), port);
        let users = vec![4 + rng.below(4) as u16; 16];
        let change = 0.6 + rng.unit();
        for factor in [1.0, change] {
            let rate = Rate::from_bps((mbps as f64 * factor * 1e6) as u64);
            world.set(0, 0, |link| link.rate = rate);
            run(&mut world, &users, 0, 3);
            let before = world.sent_bytes(0, 0);
            run(&mut world, &users, 0, 4);
            let used = (world.sent_bytes(0, 0) - before) as f64 / rate.bytes_in(Duration::from_secs(4)) as f64;
            println!("{mbps} Mbit/s, {delay_ms} ms, times {factor:.2}: {used:.3} of {share:.3}");
            // For a sixth of the time and a little longer, the port uses all that the path carries.
            let most = share + 0.3 * (1.0 - share) + 0.02;
            assert!((share - 0.02..most).contains(&used), "{mbps} Mbit/s, {delay_ms} ms: {used} of {share} to {most}");
        }
    }
}

/// A cut of the only link while the port has used up its rate neither wakes the node in vain nor stops the port.
#[test]
fn a_port_with_a_target_use_survives_cuts() {
    let mut rng = Rng::new(13);
    for _ in 0..draws(24) {
        let port = PortSettings { reservable: 0.5, target_use: Some(0.5 + 0.5 * rng.unit()) };
        let mut world = world_with(&[direction(5 + rng.below(40), 2 + rng.below(60), 0.0)], Vec::new(), port);
        run(&mut world, &[4; 16], 0, 2);
        for is_cut in [true, false] {
            (0..2).for_each(|from| world.set(0, from, |link| link.cut = is_cut));
            run(&mut world, &[1], 0, 1 + rng.below(3));
        }
        let (arrived, _, _) = run(&mut world, &[1], 0, 2);
        assert!(arrived.values().sum::<u64>() > 200_000, "{arrived:?}");
    }
}

/// Returns all flows and users of a node.
fn listed(world: &World, node: usize) -> (Vec<FlowView>, Vec<UserView>) {
    let mut listing = FlowListing::new(1_000);
    while world.nodes[node].continue_listing(world.now, &mut listing) {}
    world.nodes[node].finish_listing(world.now, listing)
}

fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn users_share_equally_however_many_flows_they_have() {
    let mut world = world(&[direction(20, 10, 0.0)], Vec::new(), 0.5);
    run(&mut world, &[30, 60, 120], 0, 2);
    let (arrived, ..) = run(&mut world, &[30, 60, 120], 0, 8);
    let shares: Vec<f64> = (0..3).map(|user| arrived[&u32::from(host(0, 1 + user))] as f64).collect();
    assert!(jain(&shares) >= 0.99, "{shares:?}");
    let users = listed(&world, 0).1;
    let names: Vec<_> = users.iter().map(|user| (user.name.as_str(), user.flows)).collect();
    assert!(names.contains(&("10.20.0.1", 30)) && names.contains(&("10.20.0.3", 120)), "{names:?}");
}

#[test]
fn calls_keep_their_delay_beside_bulk_and_lose_nothing() {
    let mut world = world(&[direction(20, 10, 0.0)], vec![voice_rule(None)], 0.75);
    // The bulk lets the node measure the link's capacity.
    run(&mut world, &[20, 20], 0, 3);
    let (_, delays, sent) = run(&mut world, &[20, 20], 30, 10);
    let views = listed(&world, 0).0;
    let granted = views.iter().filter(|view| view.verdict == FlowVerdict::Granted).count();
    assert_eq!(granted, 30, "{:?}", world.nodes[0].port_views(world.now));
    let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    // Packets of the last two milliseconds are still in flight.
    assert!(sent - delays.len() <= 60, "{sent} sent, {} arrived", delays.len());
    assert!(*most - *least < Duration::from_millis(10), "delay from {least:?} to {most:?}");
}

#[test]
fn no_more_is_guaranteed_than_was_shown_and_the_higher_precedence_goes_first() {
    let mut world = world(&[direction(4, 10, 0.0)], Vec::new(), 0.5);
    let low = FlowRule { name: "low".into(), ..voice_rule(Some(3)) };
    let mut high = FlowRule { name: "high".into(), ..voice_rule(Some(9)) };
    high.matches.from_ports = Some(12_000..=12_999);
    let rules = FlowRules::new(vec![high, low]);
    let router = RouterConfig { rules, table: TableConfig::default(), ..RouterConfig::default() };
    let config = FlowsConfig { own_name: "n0".into(), router, port: PortSettings::reserving(0.5) };
    world.nodes[0].set_flows(world.now, Some(config)).unwrap();
    run(&mut world, &[20, 20], 0, 3);
    run(&mut world, &[20, 20], 40, 4);
    let port = &world.nodes[0].port_views(world.now)[0];
    assert!(port.guaranteed <= port.reservable && port.reservable <= port.capacity, "{port:?}");
    let fits = port.reservable.bps() / 82_000;
    let granted = |world: &World, rule: &str| {
        let views = listed(world, 0).0;
        let of_rule = views.iter().filter(|view| view.rule.as_deref() == Some(rule));
        of_rule.filter(|view| view.verdict == FlowVerdict::Granted).count() as u64
    };
    assert!(fits < 40 && granted(&world, "low").abs_diff(fits) <= 1, "{fits} fit, {}", granted(&world, "low"));
    for number in 0..10u16 {
        world.send_raw(0, &packet(host(0, 251), host(1, 1), (12_000 + number, CALL), 0, CALL_BYTES));
    }
    run(&mut world, &[20, 20], 0, 1);
    assert_eq!(granted(&world, "high"), 10);
    assert!(granted(&world, "low") + 10 <= fits + 1, "{fits} fit, {} low", granted(&world, "low"));
}

#[test]
fn each_byte_is_in_exactly_one_report_at_both_ends() {
    let mut world = world(&[direction(50, 5, 0.0), direction(20, 15, 0.0)], vec![voice_rule(None)], 0.5);
    let mut rng = Rng::new(3);
    let mut sent: BTreeMap<(Ipv4Addr, u16), (u64, u64)> = BTreeMap::new();
    let mut records: [Vec<FlowRecord>; 2] = Default::default();
    for _ in 0..3_000 {
        let (from, port) = (host(0, 1 + rng.below(5) as u8), 4_000 + rng.below(40) as u16);
        let bytes = 60 + rng.below(1_300) as usize;
        world.send_raw(0, &packet(from, host(1, 1), (port, 5_000), 0, bytes));
        let of = sent.entry((from, port)).or_default();
        *of = (of.0 + 1, of.1 + bytes as u64);
        world.run_for(Duration::from_micros(rng.below(6_000)));
    }
    world.run_for(Duration::from_secs(20));
    for (node, records) in records.iter_mut().enumerate() {
        records.extend(std::iter::from_fn(|| world.nodes[node].take_flow_record()));
        let mut told: BTreeMap<(Ipv4Addr, u16), (u64, u64)> = BTreeMap::new();
        for record in records.iter() {
            let std::net::IpAddr::V4(from) = record.key.src else { panic!("{record:?}") };
            let of = told.entry((from, record.key.src_port)).or_default();
            *of = (of.0 + record.delta[0].packets, of.1 + record.delta[0].bytes);
            assert!(matches!(record.end, Some(FlowEnd::Idle | FlowEnd::Active)), "{record:?}");
        }
        assert_eq!(told, sent, "node {node}");
        assert_eq!(world.nodes[node].flow_totals().unwrap().flows, 0);
    }
}

/// Returns settings of signalling. Node 0 asks a guarantee for flows to the port [`CALL`].
fn asking(node: usize, guaranteed: Rate) -> SignalConfig {
    let rule = SignalRule {
        name: "stream".into(),
        from: None,
        to: None,
        protocol: 17,
        ports: CALL..=CALL,
        dscp: None,
        available: Some(Rate::ZERO),
        guaranteed,
        reverse: false,
        preemption: 3,
    };
    SignalConfig {
        key: None,
        controller: RateController::Pi,
        reservable: 0.5,
        answers: true,
        quick_start: false,
        plain_routers: false,
        own_addresses: Vec::new(),
        rules: if node == 0 { vec![rule] } else { Vec::new() },
    }
}

/// Sends a stream of one host at `rate`, and bulk of some other hosts, for `seconds`.
///
/// Returns the bytes of the stream that arrived.
fn stream(world: &mut World, rate: Rate, users: u8, seconds: u64) -> u64 {
    let (begin, mut sent) = (world.now, 0);
    let (mut rng, mut arrived) = (Rng::new(5), 0);
    while world.now - begin < Duration::from_secs(seconds) {
        while sent < rate.bytes_in(world.now - begin) {
            world.send_raw(0, &packet(host(0, 240), host(1, 1), (7_000, CALL), 0, 1_000));
            sent += 1_000;
        }
        for user in 0..users {
            if rng.chance(0.7) {
                world.send_raw(0, &packet(host(0, 1 + user), host(1, 1), (20_000, 5_000), 0, 1_400));
            }
        }
        world.run_for(Duration::from_millis(2));
        for (_, bytes) in world.delivered[1].drain(..) {
            let is_stream = bytes[22..26] == host(0, 240).octets() && bytes[32..34] == CALL.to_be_bytes();
            arrived += if is_stream { (bytes.len() - 10) as u64 } else { 0 };
        }
    }
    arrived
}

#[test]
fn a_guarantee_that_was_asked_in_band_is_kept() {
    let (mut rng, mut shares) = (Rng::new(3), Vec::new());
    for _ in 0..6 {
        let (mbps, users) = (10 + rng.below(40), 8 + rng.below(20) as u8);
        let rate = Rate::from_bps(mbps * (200_000 + rng.below(200_000)));
        for asks in [true, false] {
            let mut world = world(&[direction(mbps, 10, 0.0)], Vec::new(), 0.6);
            stream(&mut world, Rate::ZERO, users, 3);
            for node in (0..2).filter(|_| asks) {
                world.nodes[node].set_signalling(world.now, Some(asking(node, rate)));
            }
            stream(&mut world, rate, users, 2);
            let arrived = stream(&mut world, rate, users, 5) as f64 / rate.bytes_in(Duration::from_secs(5)) as f64;
            let views = listed(&world, 0).0;
            let granted = views.iter().filter(|view| view.verdict == FlowVerdict::Granted).count();
            assert_eq!(granted, usize::from(asks), "{mbps} Mbit/s, {users} users");
            shares.push((asks, arrived));
        }
    }
    assert!(shares.iter().all(|(asks, arrived)| !asks || *arrived > 0.98), "{shares:?}");
    assert!(shares.iter().all(|(asks, arrived)| *asks || *arrived < 0.9), "the load is no test: {shares:?}");
}

/// Number of the VPN with a leased line.
const LINE: VpnId = VpnId(5);

/// Returns two nodes with flow state, and a VPN between them with this service.
fn world_with_vpn(link: Direction, service: Service, reservable: f64) -> World {
    let policy = Policy { leasable: Some(Rate::from_mbps(9)), ..Policy::default() };
    let configs = [0, 1].map(|node| {
        let mut config = config(node, 1, &policy, 1);
        config.peers[0].prefixes.push(Prefix { address: host(1 - node, 0).into(), length: 16 });
        let behind = |node: usize| vec![Prefix { address: inner(node).into(), length: 32 }];
        let members = vec![MemberConfig { public_key: config.peers[0].public_key, prefixes: behind(1 - node) }];
        let (entry, prefixes) = (Entry::default(), behind(node));
        config.vpns.push(VpnConfig { id: LINE, name: "line".into(), weight: 1, service, entry, prefixes, members });
        config
    });
    let mut world = World::with(&[link], configs);
    (0..2).for_each(|node| keep_calls(&mut world, node, Some(reservable)));
    world.run_for(Duration::from_secs(1));
    world
}

/// Gives a node flow state with a rule for calls, or takes it away.
fn keep_calls(world: &mut World, node: usize, reservable: Option<f64>) {
    let config = reservable.map(|reservable| {
        let rules = FlowRules::new(vec![voice_rule(None)]);
        let table = TableConfig { flows: 4_096, users: 256, ..TableConfig::default() };
        let router = RouterConfig { rules, table, ..RouterConfig::default() };
        FlowsConfig { own_name: format!("n{node}"), router, port: PortSettings::reserving(reservable) }
    });
    world.nodes[node].set_flows(world.now, config).unwrap();
}

/// Returns the service that the VPN's queue toward the peer has now.
fn service_in_force(world: &World) -> Service {
    world.nodes[0].vpns().iter().find(|vpn| vpn.id == LINE).unwrap().members[0].entry.unwrap().share.service()
}

fn granted_calls(world: &World) -> u64 {
    listed(world, 0).0.iter().filter(|view| view.verdict == FlowVerdict::Granted).count() as u64
}

#[test]
fn a_leased_line_and_calls_share_one_book() {
    let line = Service::LeasedLine { rate: Rate::from_mbps(4) };
    let without = Service::Assured { rate: Rate::from_mbps(4), gamma: DEFAULT_GAMMA };
    let mut world = world_with_vpn(direction(20, 10, 0.0), line, 0.5);
    assert_eq!(service_in_force(&world), without, "nothing was shown yet");
    run(&mut world, &[20, 20], 0, 35);
    assert_eq!(service_in_force(&world), line);
    let port = |world: &World| world.nodes[0].port_views(world.now).remove(0);
    assert_eq!(port(&world).guaranteed, Rate::from_mbps(4));
    run(&mut world, &[20, 20], 110, 3);
    let of = port(&world);
    assert!(of.guaranteed <= of.reservable && of.reservable <= of.capacity, "{of:?}");
    let fit = (of.reservable.bps() - 4_000_000) / 82_000;
    assert!(fit < 100 && granted_calls(&world).abs_diff(fit) <= 1, "{fit} fit, {}: {of:?}", granted_calls(&world));

    // Less may be guaranteed than the line has. It backs off from then on, and calls that fit pass it.
    keep_calls(&mut world, 0, Some(0.1));
    run(&mut world, &[20, 20], 0, 1);
    let of = port(&world);
    assert_eq!(service_in_force(&world), without, "{of:?}");
    assert_eq!(of.guaranteed.bps(), granted_calls(&world) * 82_000, "the line has a part");
    assert!(of.guaranteed <= of.reservable, "{of:?}");
    keep_calls(&mut world, 0, Some(0.5));
    run(&mut world, &[20, 20], 110, 1);
    assert_eq!(service_in_force(&world), line);

    // The line ends, and the calls that waited have its rate.
    let change = VpnChange { weight: None, service: Some(Service::BestEffort) };
    world.nodes[0].handle_command(world.now, Command::SetVpn { vpn: "line".into(), change }).unwrap();
    run(&mut world, &[20, 20], 110, 1);
    assert_eq!(service_in_force(&world), Service::BestEffort);
    let of = port(&world);
    assert!(granted_calls(&world) >= fit + 30, "{} after {fit}: {of:?}", granted_calls(&world));
    assert!(of.guaranteed <= of.reservable, "{of:?}");

    // A line that fits only beside fewer calls displaces them. Without its member it ends.
    let change = VpnChange { weight: None, service: Some(line) };
    world.nodes[0].handle_command(world.now, Command::SetVpn { vpn: "line".into(), change }).unwrap();
    run(&mut world, &[20, 20], 110, 1);
    assert!(service_in_force(&world) == line && granted_calls(&world) <= fit + 1, "{}", granted_calls(&world));
    let mut configs = config(0, 1, &Policy::default(), 1);
    configs.peers[0].prefixes.push(Prefix { address: host(1, 0).into(), length: 16 });
    world.nodes[0].reconfigure(world.now, configs.peers, Vec::new(), Vec::new(), None).unwrap();
    run(&mut world, &[20, 20], 110, 2);
    assert!(granted_calls(&world) >= fit + 30, "{} after {fit}", granted_calls(&world));
}

#[test]
fn a_leased_line_keeps_its_service_where_the_paths_are_not_measured() {
    let line = Service::LeasedLine { rate: Rate::from_mbps(4) };
    let mut world = world_with_vpn(direction(20, 10, 0.0), line, 0.5);
    assert_ne!(service_in_force(&world), line);
    keep_calls(&mut world, 0, None);
    world.run_for(Duration::from_secs(1));
    assert_eq!(service_in_force(&world), line);
}
