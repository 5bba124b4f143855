//! Routing protocols beside weft: learnt prefixes, multicast to all members, and the sensing of watched peers.
#![allow(missing_docs)]

mod mesh;
mod net;

use mesh::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::*;
use weft_units::{Duration, PeerId, Rng, VpnId};

const HERE: usize = 0;
const OSPF: u8 = 188;

/// Returns a star: node 0 has links to nodes 1 to 3.
fn star(change: impl Fn(EngineConfig) -> EngineConfig) -> Mesh {
    let knows = [vec![1, 2, 3], vec![HERE], vec![HERE], vec![HERE]];
    let knows = knows.map(|direct| Knows { direct, ..Knows::default() });
    let mut mesh = Mesh::with(&[wire(0, 1), wire(0, 2), wire(0, 3)], &knows, change);
    mesh.run_for(Duration::from_millis(500));
    mesh
}

fn prefix(bits: u32, length: u8) -> Prefix {
    let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
    Prefix { address: Ipv4Addr::from(bits & mask).into(), length }
}

/// Draws a prefix of 10.9.0.0/16 or 10.64.0.0/16, or a short one that contains both.
fn draw(rng: &mut Rng) -> Prefix {
    let net = if rng.below(2) == 0 { Ipv4Addr::new(10, 9, 0, 0) } else { Ipv4Addr::new(10, 64, 0, 0) };
    let length = if rng.below(6) == 0 { rng.below(9) } else { 24 + rng.below(9) };
    prefix(u32::from(net) | rng.below(64) as u32, length as u8)
}

/// A model of the rules: assigned prefixes, and learnt ones.
#[derive(Default)]
struct Model {
    assigned: BTreeMap<(u8, u32), usize>,
    learnt: BTreeMap<(u8, u32), usize>,
}

fn bits(prefix: Prefix) -> (u8, u32) {
    let IpAddr::V4(address) = prefix.address else { panic!("an IPv4 prefix") };
    (prefix.length, address.into())
}

fn longest(map: &BTreeMap<(u8, u32), usize>, to: Ipv4Addr) -> Option<(u8, usize)> {
    let holds = |(length, net): &(u8, u32)| prefix(u32::from(to), *length) == prefix(*net, *length);
    map.iter().rev().find(|(key, _)| holds(key)).map(|((length, _), owner)| (*length, *owner))
}

impl Model {
    fn owner(&self, to: Ipv4Addr) -> Option<usize> {
        match (longest(&self.assigned, to), longest(&self.learnt, to)) {
            (Some((assigned, owner)), Some((learnt, _))) if assigned >= learnt => Some(owner),
            (owner, None) => owner.map(|(_, owner)| owner),
            (_, Some((_, owner))) => Some(owner),
        }
    }

    fn outcome(&mut self, change: &LearntChange) -> Result<(), LearntRefusal> {
        let key = bits(change.prefix);
        self.learnt.remove(&key);
        let Some(IpAddr::V4(hop)) = change.next_hop else { return Ok(()) };
        match longest(&self.assigned, hop).filter(|(length, _)| *length > 0) {
            Some((_, owner)) => {
                self.learnt.insert(key, owner);
                Ok(())
            }
            None if longest(&self.learnt, hop).is_some_and(|(length, _)| length > 0) => Err(LearntRefusal::Loop),
            None => Err(LearntRefusal::NoPeer),
        }
    }
}

#[test]
fn random_changes_route_as_the_model_and_an_assigned_prefix_wins_when_equal() {
    let (mut loops, mut strangers) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut model = Model::default();
        let more: Vec<Vec<Prefix>> = (0..3).map(|_| (0..3).map(|_| draw(&mut rng)).collect()).collect();
        let change = |mut config: EngineConfig| {
            if config.peers.len() == 3 {
                config.peers.iter_mut().zip(&more).for_each(|(peer, more)| peer.prefixes.extend(more));
            }
            config
        };
        let mut mesh = star(change);
        for (peer, more) in more.iter().enumerate() {
            let own = Prefix { address: inner(peer + 1).into(), length: 32 };
            for each in std::iter::once(&own).chain(more) {
                model.assigned.entry(bits(*each)).or_insert(peer);
            }
        }
        for _ in 0..150 {
            let hop = match rng.below(6) {
                0 => None,
                1 => Some(Ipv4Addr::new(10, 64, 0, rng.below(64) as u8).into()),
                2 => Some(Ipv4Addr::new(192, 0, 2, rng.below(64) as u8).into()),
                _ => Some(inner(1 + rng.below(4) as usize).into()),
            };
            let change = LearntChange { prefix: draw(&mut rng), next_hop: hop, protocol: OSPF };
            let expected = model.outcome(&change);
            loops += u32::from(expected == Err(LearntRefusal::Loop));
            strangers += u32::from(expected == Err(LearntRefusal::NoPeer));
            assert_eq!(mesh.nodes[HERE].learn(VpnId::DEFAULT, &change), expected, "seed {seed}: {change:?}");
        }
        assert_eq!(mesh.nodes[HERE].learnt_count(VpnId::DEFAULT), model.learnt.len());
        for number in 0..60 {
            let net = if rng.below(2) == 0 { 9 } else { 64 };
            let to = Ipv4Addr::new(10, net, 0, 5 + rng.below(59) as u8);
            mesh.send_raw(HERE, &net::udp(inner(HERE), to, 4000, number, 20));
            mesh.run_for(Duration::from_millis(40));
            let met: Vec<usize> = (0..3).filter(|peer| !mesh.take_numbers(peer + 1).is_empty()).collect();
            assert_eq!(met, Vec::from_iter(model.owner(to)), "seed {seed}: {to}");
        }
    }
    assert!(loops > 20 && strangers > 20, "the draws met {loops} loops and {strangers} strangers");
}

#[test]
fn a_source_behind_a_learnt_prefix_is_accepted_from_its_peer_alone_until_it_is_withdrawn() {
    let mut mesh = star(|config| config);
    let guest = Ipv4Addr::new(172, 16, 3, 9);
    let learn = |mesh: &mut Mesh, hop: Option<IpAddr>| {
        let change = LearntChange { prefix: prefix(guest.into(), 24), next_hop: hop, protocol: OSPF };
        mesh.nodes[HERE].learn(VpnId::DEFAULT, &change)
    };
    let arrive = |mesh: &mut Mesh| {
        for from in 1..=3 {
            mesh.send_raw(from, &net::udp(guest, inner(HERE), 4000, from as u64, 40));
        }
        mesh.run_for(Duration::from_millis(200));
        mesh.take_numbers(HERE)
    };
    assert_eq!(arrive(&mut mesh), []);
    assert_eq!(learn(&mut mesh, Some(inner(2).into())), Ok(()));
    assert_eq!(arrive(&mut mesh), [2]);
    assert_eq!(learn(&mut mesh, Some(inner(3).into())), Ok(()), "the route moves");
    assert_eq!(arrive(&mut mesh), [3]);
    assert_eq!(learn(&mut mesh, None), Ok(()));
    assert_eq!(arrive(&mut mesh), []);
}

#[test]
fn prefixes_of_a_removed_peer_are_forgotten_and_those_of_others_stay() {
    let mut mesh = star(|config| config);
    let now = mesh.now;
    let of = |peer: u8, third: u8| LearntChange {
        prefix: Prefix { address: Ipv4Addr::new(10, 64, third, 0).into(), length: 24 },
        next_hop: Some(inner(usize::from(peer)).into()),
        protocol: OSPF,
    };
    for third in 0..200 {
        assert_eq!(mesh.nodes[HERE].learn(VpnId::DEFAULT, &of(1 + third % 3, third)), Ok(()));
    }
    let wires = [wire(0, 1), wire(0, 2), wire(0, 3)];
    let knows = Knows { direct: vec![1, 3], ..Knows::default() };
    let peers = config(HERE, &knows, &wires, &Policy::default()).peers;
    mesh.nodes[HERE].reconfigure(now, peers, Vec::new(), Vec::new(), None).unwrap();
    let left: Vec<OwnedPrefix> = mesh.nodes[HERE].prefixes().filter(|of| of.protocol == Some(OSPF)).collect();
    assert_eq!(left.len(), 133);
    assert!(left.iter().all(|of| ["n1", "n3"].contains(&of.peer.as_str())));
}

#[test]
fn link_local_multicast_reaches_every_member_once_unchanged_and_only_where_it_is_on() {
    let mut mesh = star(|config| config);
    mesh.written = Some(Vec::new());
    let mut hello = net::udp(inner(HERE), Ipv4Addr::new(224, 0, 0, 5), 4000, 9, 64);
    // A TTL of 1, as OSPF sends; byte 9 is the protocol, and the header's sum lies behind it.
    hello[10 + 8] = 1;
    hello[20..22].fill(0);
    let sum = weft_wire::checksum::checksum(&hello[10..30]);
    hello[20..22].copy_from_slice(&sum.to_be_bytes());
    let send = |mesh: &mut Mesh, packet: &[u8]| {
        mesh.send_raw(HERE, packet);
        mesh.run_for(Duration::from_millis(200));
        let mut written = mesh.written.replace(Vec::new()).unwrap();
        written.sort_by_key(|(node, _)| *node);
        written
    };
    assert_eq!(send(&mut mesh, &hello), []);
    mesh.nodes[HERE].set_multicast(true);
    assert_eq!(send(&mut mesh, &hello), [1, 2, 3].map(|node| (node, hello.clone())));
    let other_group = net::udp(inner(HERE), Ipv4Addr::new(224, 0, 1, 5), 4000, 9, 64);
    assert_eq!(send(&mut mesh, &other_group), [], "other groups are routed by PIM and the like");
    let forged = net::udp(inner(2), Ipv4Addr::new(224, 0, 0, 5), 4000, 9, 64);
    assert_eq!(send(&mut mesh, &forged), [], "another node's tunnel address is no source");
    assert_eq!(mesh.nodes[HERE].snapshot(mesh.now).buffers_in_use, 0);
}

#[test]
fn a_watched_peer_is_found_silent_within_50_ms_although_no_packet_passes() {
    let mut rng = Rng::new(11);
    let mut worst = Duration::ZERO;
    for _ in 0..40 {
        let mut mesh = star(|config| config);
        let now = mesh.now;
        let peer = PeerId(1);
        mesh.nodes[HERE].set_probe_pace(now, peer, Some(Duration::from_millis(5)));
        // The watch of the session's start has ended, so that only the pace causes probes.
        mesh.run_for(Duration::from_secs(40) + Duration::from_micros(rng.below(1_000_000)));
        assert!(mesh.nodes[HERE].is_answering(peer));
        mesh.wires[1].cut = true;
        let cut = mesh.now;
        while mesh.nodes[HERE].is_answering(peer) && mesh.now - cut < Duration::from_secs(2) {
            mesh.run_for(Duration::from_millis(1));
        }
        worst = worst.max(mesh.now - cut);
        mesh.wires[1].cut = false;
        mesh.run_for(Duration::from_secs(2));
        assert!(mesh.nodes[HERE].is_answering(peer), "it answers again");
    }
    assert!(worst <= Duration::from_millis(50), "{worst:?}");
}
