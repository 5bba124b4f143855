//! Signalling over IPv6, where the signal is in a hop-by-hop options header.

use crate::hosts::*;
use crate::net::*;
use std::net::{IpAddr, Ipv6Addr};
use weft_engine::*;
use weft_units::Duration;
use weft_wire::checksum::finish_partial;
use weft_wire::er_sig::carriage;
use weft_wire::super_packet::partial_l4_checksum;

fn host(node: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1 + node as u16)
}

/// Returns a TCP packet between port 4000 at node 0 and port 80 at node 1.
fn tcp6(from: usize, flags: u8) -> Vec<u8> {
    let options: &[u8] = if flags & SYN != 0 { &[2, 4, 0x05, 0xa0] } else { &[] };
    let len = 20 + options.len() as u8;
    let mut packet = vec![0x60, 0, 0, 0, 0, len, 6, 64];
    packet.extend([host(from).octets(), host(1 - from).octets()].concat());
    let ports: [u16; 2] = if from == 0 { [4_000, 80] } else { [80, 4_000] };
    packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, (len / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    let partial = partial_l4_checksum(&packet).unwrap();
    packet[56..58].copy_from_slice(&partial.to_be_bytes());
    finish_partial(&mut packet, 40, 16).unwrap();
    packet
}

#[test]
fn a_connection_is_granted_what_the_path_carries() {
    let six = |node: usize| {
        let mut config = config(node, 1, &Policy::default(), 1);
        config.peers[0].prefixes.push(Prefix { address: IpAddr::V6(host(1 - node)), length: 128 });
        config
    };
    let world = World::with(&[direction(20, 5, 0.0)], [six(0), six(1)]);
    let mut world = world_of(world, |node, config| config.own_addresses.push(host(node).into()));
    for (from, flags) in [(0, SYN), (1, SYN | ACK), (0, ACK)] {
        send(&mut world, from, &tcp6(from, flags));
        world.run_for(Duration::from_millis(60));
        let heard: Vec<_> = world.delivered[1 - from].drain(..).map(|(_, read)| read[10..].to_vec()).collect();
        assert_eq!((heard.len(), carriage::locate(&heard[0])), (1, Ok(None)));
        assert_eq!((heard[0][6], heard[0].len()), (6, tcp6(from, flags).len()), "no header is left");
        let mut again = heard[0].clone();
        again[56..58].fill(0);
        let partial = partial_l4_checksum(&again).unwrap();
        again[56..58].copy_from_slice(&partial.to_be_bytes());
        finish_partial(&mut again, 40, 16).unwrap();
        assert_eq!(again, heard[0], "the TCP checksum");
    }
    for node in 0..2 {
        let grant = granted(&world, node, 4_000).expect("granted");
        assert_eq!(grant.flow.src, IpAddr::V6(host(node)));
        assert_near(grant.bytes_per_second as f64, capacity(&world, node) * 0.95, 0.01);
    }
}
