//! Transit: the node in the middle forwards packets from one peer to the other, as a router does.
#![allow(missing_docs)]

mod mesh;
mod net;

use mesh::*;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::*;
use weft_units::{Duration, Rng};
use weft_wire::ip::{IpView, protocol};

const LEFT: usize = 0;
const MIDDLE: usize = 1;
const RIGHT: usize = 2;
/// Bytes of the virtio-net header before each packet.
const HEADER: usize = 10;

fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').unwrap();
    Prefix { address: address.parse().unwrap(), length: length.parse().unwrap() }
}

/// Returns a chain of three nodes. The ends know that everything in 10.9.0.0/16 lies behind the middle.
fn chain(transit: Option<TransitConfig>) -> Mesh {
    let ends = |config: EngineConfig| match config.peers.as_slice() {
        [only] if only.name == "n1" => {
            let peer = PeerConfig { prefixes: vec![prefix("10.9.0.0/16")], ..only.clone() };
            EngineConfig { peers: vec![peer], ..config }
        }
        _ => config,
    };
    let knows = [vec![MIDDLE], vec![LEFT, RIGHT], vec![MIDDLE]];
    let knows = knows.map(|direct| Knows { direct, ..Knows::default() });
    let mut mesh = Mesh::with(&[wire(0, 1), wire(1, 2)], &knows, ends);
    let now = mesh.now;
    mesh.nodes[MIDDLE].set_transit(now, transit);
    mesh.written = Some(Vec::new());
    mesh.run_for(Duration::from_millis(500));
    mesh
}

fn here() -> TransitConfig {
    TransitConfig { local: Vec::new(), addresses: vec![inner(MIDDLE).into()] }
}

/// Returns the packets written at a node since the last call.
fn written(mesh: &mut Mesh, node: usize) -> Vec<Vec<u8>> {
    let all = mesh.written.replace(Vec::new()).unwrap();
    all.into_iter().filter(|(at, _)| *at == node).map(|(_, packet)| packet).collect()
}

/// Sets a packet's TTL and corrects its checksum.
fn with_ttl(mut packet: Vec<u8>, ttl: u8) -> Vec<u8> {
    packet[HEADER + 8] = ttl;
    packet[HEADER + 10..HEADER + 12].fill(0);
    let sum = weft_wire::checksum::checksum(&packet[HEADER..HEADER + 20]);
    packet[HEADER + 10..HEADER + 12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn packets_cross_the_middle_with_a_hop_less_and_otherwise_unchanged() {
    let mut mesh = chain(Some(here()));
    let mut rng = Rng::new(5);
    let mut sent = Vec::new();
    for number in 0..200 {
        let ttl = 2 + rng.below(254) as u8;
        let packet = net::udp(inner(LEFT), inner(RIGHT), 4000, number, 8 + rng.below(1_300) as usize);
        let packet = with_ttl(packet, ttl);
        mesh.send_raw(LEFT, &packet);
        sent.push(with_ttl(packet, ttl - 1));
        mesh.run_for(Duration::from_millis(2));
    }
    mesh.run_for(Duration::from_millis(200));
    assert_eq!(written(&mut mesh, RIGHT), sent);
    let totals = mesh.nodes[MIDDLE].transit_totals().unwrap();
    assert_eq!((totals.packets, totals.errors), (200, 0));
    assert_eq!(totals.bytes, sent.iter().map(|packet| (packet.len() - HEADER) as u64).sum::<u64>());
}

#[test]
fn without_transit_the_device_gets_the_packets() {
    let mut mesh = chain(None);
    mesh.send(LEFT, RIGHT, 7, 100);
    mesh.run_for(Duration::from_millis(200));
    assert_eq!((mesh.take_numbers(MIDDLE), mesh.take_numbers(RIGHT)), (vec![7], vec![]));
}

#[test]
fn a_packet_at_its_last_hop_is_reported_to_its_sender_at_most_a_thousand_times_a_second() {
    let mut mesh = chain(Some(here()));
    // The first error then begins a new second.
    mesh.run_for(Duration::from_secs(1));
    let last = with_ttl(net::udp(inner(LEFT), inner(RIGHT), 4000, 1, 60), 1);
    mesh.send_raw(LEFT, &last);
    mesh.run_for(Duration::from_millis(200));
    let back = written(&mut mesh, LEFT);
    let [error] = back.as_slice() else { panic!("one error comes back: {back:?}") };
    let error = IpView::parse(&error[HEADER..]).unwrap();
    assert_eq!((error.src, error.dst), (IpAddr::from(inner(MIDDLE)), IpAddr::from(inner(LEFT))));
    assert_eq!((error.protocol, error.payload()[0]), (protocol::ICMP, 11));
    assert_eq!(&error.payload()[8..], &last[HEADER..]);
    for _ in 0..1_500 {
        mesh.send_raw(LEFT, &last);
        mesh.run_for(Duration::from_micros(400));
    }
    mesh.run_for(Duration::from_millis(50));
    let totals = mesh.nodes[MIDDLE].transit_totals().unwrap();
    assert_eq!((totals.expired, totals.packets), (1_501, 0));
    assert_eq!(totals.errors, 1_000);
}

#[test]
fn an_ipv4_packet_that_may_not_be_split_and_is_too_long_gets_the_mtu() {
    let mut mesh = chain(Some(here()));
    let mtu = mesh.nodes[MIDDLE].inner_mtu();
    for length in [usize::from(mtu) - 28, usize::from(mtu) - 27] {
        mesh.send_raw(LEFT, &net::udp(inner(LEFT), inner(RIGHT), 4000, 1, length));
        mesh.run_for(Duration::from_millis(200));
    }
    let totals = mesh.nodes[MIDDLE].transit_totals().unwrap();
    assert_eq!((totals.packets, totals.too_big, totals.errors), (1, 1, 1));
    let [error] = &written(&mut mesh, LEFT)[..] else { panic!("one error comes back") };
    assert_eq!(error[HEADER + 26..HEADER + 28], mtu.to_be_bytes());
}

/// Where a packet from the left may go.
#[derive(Debug, PartialEq)]
enum Way {
    Device,
    Right,
}

#[test]
fn the_longest_prefix_decides_and_a_local_one_or_a_default_route_leads_to_the_device() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let draw = |rng: &mut Rng, least: u64| {
            let length = (least + rng.below(33 - least)) as u8;
            let host = u32::from(Ipv4Addr::new(10, 9, 0, 0)) | rng.below(64) as u32;
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Prefix { address: Ipv4Addr::from(host & mask).into(), length }
        };
        let mut local: Vec<Prefix> = (0..rng.below(4)).map(|_| draw(&mut rng, 20)).collect();
        let mut either = || {
            let least = 26 * rng.below(2);
            draw(&mut rng, least)
        };
        let to_right = [either(), either(), either()];
        // The left end keeps its own address, so that its packets are accepted.
        local.retain(|prefix| !prefix.contains(inner(LEFT).into()));
        let knows = [vec![MIDDLE], vec![LEFT, RIGHT], vec![MIDDLE]];
        let knows = knows.map(|direct| Knows { direct, ..Knows::default() });
        let change = |mut config: EngineConfig| {
            match config.peers.as_mut_slice() {
                [only] if only.name == "n1" => only.prefixes = vec![prefix("0.0.0.0/0")],
                [_, right] => right.prefixes = to_right.to_vec(),
                _ => {}
            }
            config
        };
        let mut mesh = Mesh::with(&[wire(0, 1), wire(1, 2)], &knows, change);
        let now = mesh.now;
        mesh.nodes[MIDDLE].set_transit(now, Some(TransitConfig { local: local.clone(), ..here() }));
        mesh.run_for(Duration::from_millis(500));
        for host in 0..64 {
            let to = Ipv4Addr::new(10, 9, 0, host);
            let longest = |list: &[Prefix]| {
                list.iter().filter(|prefix| prefix.contains(to.into())).map(|prefix| prefix.length).max()
            };
            let is_here = to == inner(MIDDLE) || to == inner(LEFT);
            let goes_on = longest(&to_right).is_some_and(|right| right > 0 && longest(&local) < Some(right));
            let expected = if goes_on && !is_here { Way::Right } else { Way::Device };
            mesh.send_raw(LEFT, &net::udp(inner(LEFT), to, 4000, u64::from(host), 20));
            mesh.run_for(Duration::from_millis(40));
            let (middle, right) = (mesh.take_numbers(MIDDLE), mesh.take_numbers(RIGHT));
            let met = match (middle.len(), right.len()) {
                (1, 0) => Way::Device,
                (0, 1) => Way::Right,
                _ => panic!("seed {seed}: {to} arrived {middle:?} {right:?}"),
            };
            assert_eq!(met, expected, "seed {seed}: {to}, local {local:?}, right {to_right:?}");
        }
    }
}
