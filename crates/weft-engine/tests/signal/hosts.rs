//! Hosts on both sides of two engines, and their packets.

use crate::net::*;
use weft_engine::*;
use weft_units::{Duration, Rate};
use weft_wire::checksum::checksum;
use weft_wire::er_sig::{KEY_LEN, SignalKey};
use weft_wire::ip::{IpView, TcpFlags, TcpOption};
use weft_wire::super_packet::partial_l4_checksum;

pub const KEY: [u8; KEY_LEN] = [9; KEY_LEN];
pub const SYN: u8 = TcpFlags::SYN;
pub const ACK: u8 = TcpFlags::ACK;
pub const FIN: u8 = TcpFlags::FIN;

pub fn rule() -> SignalRule {
    SignalRule {
        name: "bulk".into(),
        from: None,
        to: None,
        protocol: 6,
        ports: 80..=90,
        dscp: None,
        available: None,
        guaranteed: Rate::ZERO,
        reverse: true,
        preemption: 0,
    }
}

/// Returns the signalling configuration of a node. Only node 0 asks.
pub fn signalling(node: usize) -> SignalConfig {
    SignalConfig {
        key: Some(SignalKey::new(KEY)),
        controller: RateController::Pi,
        reservable: 0.5,
        answers: true,
        quick_start: true,
        plain_routers: false,
        own_addresses: vec![inner(node).into()],
        rules: if node == 0 { vec![rule()] } else { Vec::new() },
    }
}

/// Returns a world whose nodes signal and have learnt their paths' capacities.
pub fn world(links: &[Direction], change: impl Fn(usize, &mut SignalConfig)) -> World {
    world_of(World::new(links, &Policy::default()), change)
}

pub fn world_of(mut world: World, change: impl Fn(usize, &mut SignalConfig)) -> World {
    signal(&mut world, change);
    warm(&mut world);
    world
}

/// Enables signalling at both nodes.
pub fn signal(world: &mut World, change: impl Fn(usize, &mut SignalConfig)) {
    for node in 0..2 {
        let mut config = signalling(node);
        change(node, &mut config);
        world.nodes[node].set_signalling(world.now, Some(config));
    }
}

/// Fills the paths for a while in both directions, and lets the queues drain.
pub fn warm(world: &mut World) {
    world.run_for(Duration::from_millis(200));
    for at in 0..800u64 {
        for node in 0..2 {
            for number in 0..16 {
                world.send(node, 7, at * 16 + number, 1_000);
            }
        }
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(Duration::from_secs(16));
    hear(world, 0);
    hear(world, 1);
    world.events.clear();
}

/// Returns a TUN read of a TCP packet, with an MSS option on SYNs. The ports are those of a flow from node 0.
pub fn tcp(from: usize, port: u16, flags: u8, payload_len: usize) -> Vec<u8> {
    let options: &[u8] = if flags & SYN != 0 { &[2, 4, 0x05, 0xb4] } else { &[] };
    let ports = if from == 0 { [port, 80] } else { [80, port] };
    let total = (40 + options.len() + payload_len) as u16;
    let mut packet = vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0];
    packet.extend(inner(from).octets());
    packet.extend(inner(1 - from).octets());
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, (((20 + options.len()) / 4) << 4) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet.resize(total.into(), 0x5a);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let partial = partial_l4_checksum(&packet).unwrap();
    packet[36..38].copy_from_slice(&partial.to_be_bytes());
    weft_wire::checksum::finish_partial(&mut packet, 20, 16).unwrap();
    packet
}

/// Prepends a virtio-net header without offloads.
pub fn read(packet: &[u8]) -> Vec<u8> {
    [&[0; 10], packet].concat()
}

pub fn send(world: &mut World, from: usize, packet: &[u8]) {
    world.send_raw(from, &read(packet));
}

/// Returns the packets that a host got since the last call, without the virtio-net header. Checks their checksums.
pub fn hear(world: &mut World, node: usize) -> Vec<Vec<u8>> {
    let reads: Vec<_> = world.delivered[node].drain(..).map(|(_, read)| read).collect();
    for read in &reads {
        let (is_partial, packet) = (read[0] != 0, read[10..].to_vec());
        let header = usize::from(packet[0] & 0x0f) * 4;
        assert_eq!(checksum(&packet[..header]), 0);
        if packet[9] == 6 && !is_partial {
            let mut again = packet.clone();
            again[header + 16..header + 18].fill(0);
            let partial = partial_l4_checksum(&again).unwrap();
            again[header + 16..header + 18].copy_from_slice(&partial.to_be_bytes());
            weft_wire::checksum::finish_partial(&mut again, header, 16).unwrap();
            assert!(again == packet, "the TCP checksum of {} bytes", packet.len());
        }
    }
    reads.iter().map(|read| read[10..].to_vec()).collect()
}

pub fn mss(packet: &[u8]) -> Option<u16> {
    IpView::parse(packet).unwrap().tcp()?.options().find_map(|option| match option {
        TcpOption::Mss(mss) => Some(mss),
        _ => None,
    })
}

/// Sends SYN, SYN/ACK and ACK of a connection from node 0. Checks that the other host gets each without a signal.
pub fn connect(world: &mut World, port: u16) {
    for (from, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
        send(world, from, &tcp(from, port, flags, 0));
        world.run_for(Duration::from_millis(60));
        let heard = hear(world, 1 - from);
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0][0], 0x45, "no options are left");
    }
}

/// Returns the last grant reported at a node and not withdrawn, for the flow with this port on node 0's side.
pub fn granted(world: &World, node: usize, port: u16) -> Option<Grant> {
    let mut last = None;
    for (_, _, event) in world.events.iter().filter(|(at, ..)| *at == node) {
        match event {
            Event::Granted(grant) if grant.flow.src_port == port || grant.flow.dst_port == port => last = Some(*grant),
            Event::Withdrawn(flow) if flow.src_port == port || flow.dst_port == port => last = None,
            _ => {}
        }
    }
    last
}

/// Returns the learnt capacity of a node's paths for inner packets, in bytes per second.
pub fn capacity(world: &World, node: usize) -> f64 {
    let snapshot = world.nodes[node].snapshot(world.now);
    let paths = snapshot.peers[0].paths.iter().filter(|path| path.active);
    paths.map(|path| path.capacity.map_or(0.0, |rate| rate.bps() as f64 / 8.0) * path.packet_share).sum()
}

pub fn status(world: &World, node: usize) -> SignalStatus {
    world.nodes[node].signal_status(world.now).unwrap()
}

pub fn assert_near(value: f64, wanted: f64, within: f64) {
    assert!((value / wanted - 1.0).abs() < within, "{value} for {wanted}");
}
