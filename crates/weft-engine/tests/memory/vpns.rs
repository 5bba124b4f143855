//! Memory of very many idle VPNs.

use crate::bytes_in_use;
use crate::net::{self, World, config, direction, inner, udp};
use std::net::Ipv4Addr;
use weft_core::service::Service;
use weft_engine::{EngineConfig, Entry, MemberConfig, Policy, Prefix, VpnConfig};
use weft_session::KEY_LIFETIME;
use weft_units::{Duration, VpnId};

const VPNS: u32 = 100_000;
const USED: u32 = 100;
const IDLE_BYTES: usize = 2_048;
/// Maximum number of bytes that may remain after VPNs were used.
///
/// Tables and records of sent packets keep their capacity.
const LEFT_BYTES: usize = 100_000;

fn vpns(node: usize) -> Vec<VpnConfig> {
    let public_key = config(node, 1, &Policy::default(), 1).peers[0].public_key;
    let behind = |node: usize| {
        let more = |n: u8| Prefix { address: Ipv4Addr::new(10, 20 + n, node as u8, 0).into(), length: 24 };
        vec![Prefix { address: inner(node).into(), length: 32 }, more(1), more(2), more(3)]
    };
    let vpn = |id: u32| VpnConfig {
        id: VpnId(id),
        name: format!("tenant-{id}"),
        weight: 1,
        service: Service::BestEffort,
        entry: Entry::default(),
        prefixes: behind(node),
        members: vec![MemberConfig { public_key, prefixes: behind(1 - node) }],
    };
    (1..=VPNS).map(vpn).collect()
}

fn world(are_there: bool) -> (World, usize) {
    let before = bytes_in_use();
    let vpns = |node| if are_there { vpns(node) } else { Vec::new() };
    let configs = [0, 1].map(|node| EngineConfig { vpns: vpns(node), ..config(node, 1, &Policy::default(), 1) });
    let mut world = World::with(&[direction(100, 5, 0.0)], configs);
    world.run_for(Duration::from_millis(500));
    (world, bytes_in_use() - before)
}

/// Sends packets in the first VPNs, and waits until all have arrived.
fn use_some(world: &mut World) {
    for number in 0..5 {
        (1..=USED).for_each(|vpn| world.send_raw_in(0, VpnId(vpn), &udp(inner(0), inner(1), 4000, number, 100)));
        world.run_for(Duration::from_millis(50));
    }
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.delivered_in[1].len(), 5 * USED as usize, "{}", net::story(world));
    world.delivered_in[1] = Vec::new();
}

#[test]
fn an_idle_vpn_costs_less_than_two_kilobytes_and_no_more_after_it_was_used() {
    let (plain, without) = world(false);
    drop(plain);
    let (mut world, with) = world(true);
    let idle = (with - without) / (2 * VPNS as usize);
    println!("{idle} bytes for an idle VPN at one node");
    assert!(idle < IDLE_BYTES, "{idle} bytes");
    use_some(&mut world);
    world.run_for(KEY_LIFETIME * 2);
    let quiet = bytes_in_use();
    for _ in 0..3 {
        use_some(&mut world);
        world.run_for(KEY_LIFETIME * 2);
    }
    let after = bytes_in_use();
    assert!(after < quiet + LEFT_BYTES, "{} bytes stay", after - quiet);
}
