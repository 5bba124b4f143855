//! Measures the cost of classifying a flow's first packet, and of checking and compiling the rules.
//!
//! Run it with `cargo bench -p weft-flows --bench rules`.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_flows::Classes;
use weft_flows::rules::{
    FirstPacket, FlowPrefix, FlowRule, FlowRules, NameId, Overrides, RuleEdit, RuleLimits, RuleMatch,
};
use weft_units::{Rng, VpnId};
use weft_wire::ip::FlowKey;

/// Packets that are classified in turn, so that the processor cannot learn the answers.
const PACKETS: usize = 1 << 16;

fn address(rng: &mut Rng, is_ipv6: bool) -> IpAddr {
    if is_ipv6 {
        Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())).into()
    } else {
        Ipv4Addr::from_bits(rng.next_u64() as u32).into()
    }
}

/// Draws a rule as packet filters have them: mostly prefixes and destination ports.
fn rule(rng: &mut Rng, number: usize) -> FlowRule {
    let is_ipv6 = rng.chance(0.3);
    let prefix = |rng: &mut Rng, chance| {
        let length = if is_ipv6 { 32 + rng.below(33) } else { 8 + rng.below(25) };
        let address = address(rng, is_ipv6);
        rng.chance(chance).then_some(FlowPrefix { address, length: length as u8 })
    };
    let from = prefix(rng, 0.5);
    // A rule without a prefix may shadow most of the others.
    let to = prefix(rng, if from.is_some() { 0.6 } else { 1.0 });
    let first = rng.below(60_000) as u16;
    let last = first + rng.below(50) as u16;
    let to_ports = rng.chance(0.6).then_some(first..=last);
    let first = 1_024 + rng.below(20_000) as u16;
    let from_ports = rng.chance(0.2).then_some(first..=first + 40_000);
    let has_ports = to_ports.is_some() || from_ports.is_some();
    let protocol = has_ports.then(|| if rng.chance(0.5) { 6 } else { 17 });
    let dscp = rng.chance(0.2).then(|| rng.below(64) as u8);
    let vpn = rng.chance(0.1).then(|| VpnId(rng.below(20) as u32));
    let mut name = |chance| rng.chance(chance).then(|| format!("node{}", rng.below(50)));
    let (user, near, far) = (name(0.1), name(0.1), name(0.1));
    let matches = RuleMatch { from, to, from_ports, to_ports, protocol, dscp, vpn, user, near, far };
    FlowRule { name: format!("r{number}"), matches, class: "voice".to_owned(), overrides: Overrides::default() }
}

/// Draws a list of at most `count` rules without faults.
fn rules(rng: &mut Rng, count: usize) -> FlowRules {
    let mut list = FlowRules::new((0..count).map(|number| rule(rng, number)).collect());
    let (classes, limits) = (Classes::built_in(), RuleLimits::default());
    for fault in list.check(&classes, &limits).into_iter().rev() {
        list.apply(RuleEdit::Remove { at: fault.rule }).unwrap();
    }
    list
}

/// Draws a packet; half of them match a random rule in addresses, ports and protocol.
fn packet(rng: &mut Rng, rules: &FlowRules) -> FirstPacket {
    let is_ipv6 = rng.chance(0.3);
    let (mut key, names) = (
        FlowKey {
            src: address(rng, is_ipv6),
            dst: address(rng, is_ipv6),
            protocol: if rng.chance(0.5) { 6 } else { 17 },
            src_port: rng.next_u64() as u16,
            dst_port: rng.next_u64() as u16,
            flow_label: 0,
        },
        |rng: &mut Rng| NameId(rng.below(60) as u32),
    );
    let target = rules.rules().get(rng.below(rules.rules().len() as u64) as usize);
    if let Some(RuleMatch { from, to, to_ports, protocol, .. }) =
        target.map(|rule| &rule.matches).filter(|_| rng.chance(0.5))
    {
        let is_ipv6 = from.or(*to).map_or(is_ipv6, |prefix| prefix.address.is_ipv6());
        key.src = from.map_or_else(|| address(rng, is_ipv6), |prefix| prefix.address);
        key.dst = to.map_or_else(|| address(rng, is_ipv6), |prefix| prefix.address);
        key.dst_port = to_ports.as_ref().map_or(key.dst_port, |ports| *ports.start());
        key.protocol = protocol.unwrap_or(key.protocol);
    }
    let (user, near, far) = (names(rng), names(rng), names(rng));
    FirstPacket { key, dscp: rng.below(64) as u8, vpn: VpnId(rng.below(25) as u32), user, near, far }
}

fn classify(c: &mut Criterion) {
    let (classes, limits) = (Classes::built_in(), RuleLimits::default());
    let mut group = c.benchmark_group("a first packet");
    group.throughput(Throughput::Elements(1));
    for count in [10, 100, 1_000, 4_000] {
        let mut rng = Rng::new(1);
        let list = rules(&mut rng, count);
        let classifier = list.compile(&classes, &limits).unwrap();
        let packets: Vec<_> = (0..PACKETS).map(|_| packet(&mut rng, &list)).collect();
        let matched = packets.iter().filter(|packet| classifier.first_match(packet).is_some()).count();
        println!(
            "{} rules: {} KiB, {matched} of {PACKETS} packets match one",
            classifier.len(),
            classifier.bytes() / 1024
        );
        let mut next = 0;
        group.bench_function(format!("{count} rules"), |b| {
            b.iter(|| {
                next = (next + 1) % PACKETS;
                black_box(classifier.classify(&packets[next]))
            });
        });
        if count <= 1_000 {
            group.bench_function(format!("{count} rules, by a scan"), |b| {
                b.iter(|| {
                    next = (next + 1) % PACKETS;
                    black_box(list.first_match(&packets[next]))
                });
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("a list of 1000 rules");
    group.sample_size(10);
    let list = rules(&mut Rng::new(2), 1_000);
    group.bench_function("check", |b| b.iter(|| black_box(list.check(&classes, &limits))));
    group.bench_function("check and compile", |b| b.iter(|| black_box(list.compile(&classes, &limits).is_ok())));
    group.finish();
}

criterion_group!(benches, classify);
criterion_main!(benches);
