//! VPNs between two nodes, each with a queue and a loop, and traffic that keeps the queues filled.
#![allow(dead_code, missing_docs)]

use crate::net::{Direction, World, config, inner, udp};
use std::sync::Arc;
use weft_core::control_loop::LoopConfig;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::queue::QueueKind;
use weft_core::service::Service;
use weft_engine::{EngineConfig, Entry, MemberConfig, Policy, Prefix, VpnConfig, VpnSnapshot, VpnStatus};
use weft_units::{Duration, Rate, VpnId};

pub const PAYLOAD: usize = 1_300;
pub const IP_BYTES: f64 = PAYLOAD as f64 + 28.0;
/// Share of a link's rate that remains for the IP bytes of such packets.
pub const SHARE_OF_IP: f64 = IP_BYTES / (IP_BYTES + 60.0);

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn window() -> Option<LoopConfig> {
    Some(LoopConfig::AimdWindow(AimdConfig::default()))
}

pub fn accumulation(cap: Rate) -> Option<LoopConfig> {
    Some(LoopConfig::Accumulation(Arc::new(AccumulationConfig { cap, ..AccumulationConfig::default() })))
}

pub fn explicit_rate() -> Option<LoopConfig> {
    Some(LoopConfig::ExplicitRate(Arc::default()))
}

pub fn laws() -> [Option<LoopConfig>; 4] {
    [None, window(), accumulation(Rate::from_mbps(1_000)), explicit_rate()]
}

/// Returns the VPN with this number, from one on, as configured at `node`.
pub fn vpn(node: usize, number: u32, weight: u32, service: Service, control: Option<LoopConfig>) -> VpnConfig {
    let peer = config(node, 1, &Policy::default(), 1).peers.remove(0);
    let prefixes = vec![Prefix { address: inner(1 - node).into(), length: 32 }];
    VpnConfig {
        id: VpnId(number),
        name: format!("vpn{number}"),
        weight,
        service,
        entry: Entry { queue: QueueKind::DropTail, limit_packets: 128, control, ..Entry::default() },
        prefixes: vec![Prefix { address: inner(node).into(), length: 32 }],
        members: vec![MemberConfig { public_key: peer.public_key, prefixes }],
    }
}

pub type Tenant = (u32, Service, Option<LoopConfig>);

pub fn world(links: &[Direction], policy: &Policy, tenants: &[Tenant]) -> World {
    let configs = [0, 1].map(|node| {
        let vpns = (1..).zip(tenants).map(|(n, (weight, service, law))| vpn(node, n, *weight, *service, law.clone()));
        EngineConfig { vpns: vpns.collect(), ..config(node, links.len(), policy, 1) }
    });
    let mut world = World::with(links, configs);
    world.run_for(ms(500));
    world
}

pub fn of(world: &World, node: usize, number: u32) -> VpnSnapshot {
    world.nodes[node].vpns().into_iter().find(|vpn| vpn.id == VpnId(number)).unwrap()
}

pub fn entry(world: &World, node: usize, number: u32) -> VpnStatus {
    of(world, node, number).members[0].entry.unwrap()
}

/// Keeps the queues of all `vpns` filled for `time`.
///
/// Returns the IP rate of each VPN delivered in the second half, in bit/s.
pub fn fill<const N: usize>(world: &mut World, vpns: [u32; N], time: Duration) -> [f64; N] {
    let end = world.now + time;
    let half = world.now + time / 2;
    let mut before = [0; N];
    let mut number = 0;
    let received = |world: &World| vpns.map(|vpn| of(world, 1, vpn).totals.received_bytes);
    while world.now < end {
        for vpn in vpns {
            let waits = match vpn {
                0 => world.nodes[0].snapshot(world.now).peers[0].queue_bytes as usize / 1_500 / N,
                _ => entry(world, 0, vpn).queued_packets,
            };
            for _ in waits..40 {
                world.send_raw_in(0, VpnId(vpn), &udp(inner(0), inner(1), 4000, number, PAYLOAD));
                number += 1;
            }
        }
        if world.now < half {
            before = received(world);
        }
        world.run_for(ms(2));
        world.delivered[1].clear();
        world.delivered_in[1].clear();
    }
    let after = received(world);
    std::array::from_fn(|at| (after[at] - before[at]) as f64 * 8.0 / (time / 2).as_secs_f64())
}
