//! Measures what a packet, a new flow and a dead route cost: `cargo bench -p weft-flows --bench table`.
#![allow(missing_docs)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_flows::alternates::{AlternateGroups, ComponentId, DestinationId, GroupId, RouteFacts, RouteId};
use weft_flows::table::{FlowRef, FlowStart, FlowStates, PoliceVerdict, TableConfig};
use weft_flows::{Service, Treatment, UserId};
use weft_units::{Duration, Instant, Rate, Rng, VpnId};
use weft_wire::er_sig::Direction;
use weft_wire::ip::FlowKey;

/// Packets of one batch, as many as a TUN read yields.
const BATCH: usize = 64;

fn key(n: u32, v6: bool) -> (VpnId, FlowKey) {
    let address = |n: u32| match v6 {
        true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, (n >> 16) as u16, n as u16)),
        false => IpAddr::V4(Ipv4Addr::from_bits(n)),
    };
    let (src, dst) = (address(0x0a00_0000 | n >> 4), address(0x0808_0808));
    (VpnId::DEFAULT, FlowKey { src, dst, protocol: 6, src_port: (n & 15) as u16 + 1, dst_port: 443, flow_label: 0 })
}

fn start(user: u32) -> FlowStart {
    let granted = Treatment {
        service: Service::Maximum,
        maximum: Some(Rate::from_mbps(100)),
        burst_bytes: 64_000,
        ..Treatment::default()
    };
    FlowStart { user: UserId(user), granted, ..FlowStart::default() }
}

fn table(flows: u32) -> FlowStates {
    let config = TableConfig { flows, flows_per_user: flows, new_flows_per_second: None, ..TableConfig::default() };
    FlowStates::new(config, 1)
}

fn filled(flows: u32, v6: bool) -> FlowStates {
    let mut table = table(flows);
    for n in 0..flows {
        let (vpn, key) = key(n, v6);
        table.insert(Instant::ZERO, vpn, &key, &start(n % 1_000), &mut |_| ()).expect("there is room");
    }
    table
}

/// Draws the packets of many batches, so that the packets themselves come from memory in order.
fn packets(flows: u32, v6: bool) -> Vec<(VpnId, FlowKey)> {
    let mut rng = Rng::new(2);
    let mut packet = || {
        let (vpn, key) = key(rng.below(flows.into()) as u32, v6);
        (vpn, if rng.chance(0.5) { key } else { key.reversed() })
    };
    (0..1_024 * BATCH).map(|_| packet()).collect()
}

fn known_flow(c: &mut Criterion) {
    let mut group = c.benchmark_group("known flow: lookup, count and police");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (flows, v6) in [(10_000, false), (1_000_000, false), (10_000, true), (1_000_000, true)] {
        let (mut table, packets) = (filled(flows, v6), packets(flows, v6));
        let (mut at, mut now, mut found) = (0, Instant::ZERO, [None; BATCH]);
        let family = if v6 { "IPv6" } else { "IPv4" };
        group.bench_function(format!("{flows} flows, {family}, batches of {BATCH}"), |b| {
            b.iter(|| {
                now += Duration::from_micros(1);
                let batch = &packets[at..at + BATCH];
                at = (at + BATCH) % packets.len();
                table.find_batch(now, batch, &mut found);
                let mut excess = 0u32;
                for found in found.iter().flatten() {
                    table.count(found.flow, found.direction, 1, 1_400);
                    excess += u32::from(table.police(found.flow, now, 1_400) == PoliceVerdict::Excess);
                }
                excess
            });
        });
    }
}

fn single_lookup(c: &mut Criterion) {
    let mut group = c.benchmark_group("known flow: lookup alone, one by one");
    for flows in [10_000, 1_000_000] {
        let (mut table, packets) = (filled(flows, false), packets(flows, false));
        let mut at = 0;
        group.bench_function(format!("{flows} flows"), |b| {
            b.iter(|| {
                at = (at + 1) % packets.len();
                let (vpn, key) = &packets[at];
                table.find(Instant::ZERO, *vpn, key)
            });
        });
    }
}

fn new_flow(c: &mut Criterion) {
    let mut group = c.benchmark_group("new flow");
    for flows in [10_000u32, 1_000_000] {
        let (mut table, mut n) = (filled(flows, false), flows);
        let (mut now, mut ended) = (Instant::ZERO, 0u64);
        group.bench_function(format!("evicts one of {flows}"), |b| {
            b.iter(|| {
                n = n.wrapping_add(1) & 0x3ff_ffff;
                now += Duration::from_nanos(1_000);
                let (vpn, key) = key(n, false);
                table.insert(now, vpn, &key, &start(n % 1_000), &mut |record| ended += record.total[0].packets)
            });
        });
        black_box(ended);
    }
    group.sample_size(10).throughput(Throughput::Elements(1_000_000));
    group.bench_function("fills an empty table of 1000000", |b| {
        b.iter_batched(
            || table(1_000_000),
            |mut table| {
                for n in 0..1_000_000 {
                    let (vpn, key) = key(n, false);
                    let _ = table.insert(Instant::ZERO, vpn, &key, &start(n % 1_000), &mut |_| ());
                }
                table
            },
            BatchSize::PerIteration,
        );
    });
}

/// The cost of a forged flow: refused by the rate of its user, or an eviction of another forged flow.
fn forged_flow(c: &mut Criterion) {
    let mut group = c.benchmark_group("forged flow at 10^7/s");
    for (name, rate) in [("refused by the rate of its user", Some(10_000)), ("without a rate of new flows", None)] {
        let config = TableConfig { new_flows_per_second: rate, ..TableConfig::default() };
        let (mut table, mut n, mut now) = (FlowStates::new(config, 1), 0u32, Instant::ZERO);
        group.bench_function(name, |b| {
            b.iter(|| {
                n = n.wrapping_add(1) & 0x3ff_ffff;
                now += Duration::from_nanos(100);
                let (vpn, key) = key(n, false);
                table.insert(now, vpn, &key, &start(1), &mut |_| ()).is_ok()
            });
        });
    }
}

fn expiry(c: &mut Criterion) {
    let mut group = c.benchmark_group("expiry");
    group.sample_size(10).throughput(Throughput::Elements(1_000_000));
    group.bench_function("1000000 flows end", |b| {
        b.iter_batched(
            || filled(1_000_000, false),
            |mut table| {
                let now = Instant::from_millis(120_000);
                while !table.is_empty() {
                    table.expire(now, &mut |record| {
                        black_box(record);
                    });
                }
                table
            },
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("longest single call: 256 steps", |b| {
        b.iter_batched_ref(
            || {
                let mut table = filled(1_000, false);
                table.expire(Instant::from_millis(59_000), &mut |_| ());
                table
            },
            |table| {
                table.expire(Instant::from_millis(120_000), &mut |record| {
                    black_box(record);
                })
            },
            BatchSize::LargeInput,
        );
    });
}

/// The time from the death of a node until the last flow reads its alternate route, and the same for its return.
fn dead_node(c: &mut Criterion) {
    let mut group = c.benchmark_group("a dead node: verdict to the last flow on its alternate, and back");
    for flows in [1u32, 1_000_000] {
        let (mut groups, mut now) = (AlternateGroups::new(), Instant::ZERO);
        for route in 0..64u16 {
            let facts = RouteFacts {
                destination: DestinationId(u32::from(route) / 2),
                metric: Duration::from_millis(10),
                weight: 1,
                detection: Duration::from_millis(50),
                components: vec![ComponentId(1_000 + u32::from(route)), ComponentId(u32::from(route) % 2)],
            };
            groups.set_route(now, RouteId(route), facts);
        }
        groups.poll(now);
        let mut table = filled(flows, false);
        let mut last: Option<FlowRef> = None;
        for n in 0..flows {
            let (vpn, key) = key(n, false);
            let flow = table.find(now, vpn, &key).expect("it was inserted").flow;
            table.set_group(flow, Direction::Forward, Some(GroupId((n % 32 * 2) as u16)), &groups);
            last = Some(flow);
        }
        let last = last.expect("there is a flow");
        group.bench_function(format!("{flows} flows in 32 groups"), |b| {
            b.iter(|| {
                groups.set_component_alive(now, ComponentId(0), false);
                let followed = table.follow(last, Direction::Forward, &groups).expect("there is an alternate");
                assert!(followed.moved && followed.route.0 % 2 == 1);
                groups.set_component_alive(now, ComponentId(0), true);
                now += Duration::from_secs(3_600);
                groups.poll(now);
                table.follow(last, Direction::Forward, &groups)
            });
        });
    }
}

criterion_group!(benches, known_flow, single_lookup, new_flow, forged_flow, expiry, dead_node);
criterion_main!(benches);
