//! Cost of signalling for packets without a signal, from the TUN device to the queue.
//!
//! Run `cargo bench -p weft-engine`.
#![allow(missing_docs)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::net::Ipv4Addr;
use weft_engine::*;
use weft_session::{Cipher, Identity};
use weft_units::{Instant, Rate, Rng, VpnId};
use weft_wire::er_sig;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

fn engine(signals: Option<Vec<SignalRule>>) -> Engine {
    let config = EngineConfig {
        identity: Identity::from_secret([1; 32]),
        cipher: Cipher::Aes256Gcm,
        peers: vec![PeerConfig {
            preshared_key: None,
            name: "hub".into(),
            public_key: Identity::from_secret([2; 32]).public_key(),
            endpoints: Vec::new(),
            routes: Vec::new(),
            prefixes: vec![Prefix { address: THERE.into(), length: 32 }],
            policy: Policy::default(),
        }],
        vpns: Vec::new(),
        links: Vec::new(),
        accepted_stamps: Vec::new(),
        stamp_base: 1,
        inner_mtu: None,
    };
    let mut engine = Engine::new(config, Instant::from_millis(1), [3; 32]).unwrap();
    let signal = signals.map(|rules| SignalConfig {
        key: Some(SignalKey::new([4; SIGNAL_KEY_LEN])),
        controller: RateController::Pi,
        reservable: 0.5,
        answers: true,
        quick_start: true,
        plain_routers: false,
        own_addresses: vec![HERE.into()],
        rules,
    });
    engine.set_signalling(Instant::from_millis(1), signal);
    engine
}

fn rule(ports: std::ops::RangeInclusive<u16>) -> SignalRule {
    SignalRule {
        name: "rule".into(),
        from: None,
        to: None,
        protocol: 6,
        ports,
        dscp: None,
        available: None,
        guaranteed: Rate::ZERO,
        reverse: true,
        preemption: 0,
    }
}

/// Returns a TUN read of a TCP packet with 1,380 bytes of payload.
///
/// Its checksum is not valid, and no code here checks it.
fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let total = 1_420u16;
    let mut packet = vec![0; 10];
    packet.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend([HERE.octets(), THERE.octets()].concat());
    packet.extend(port.to_be_bytes());
    packet.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.resize(10 + usize::from(total), 0x5a);
    packet
}

fn take(engine: &mut Engine, packet: &[u8]) {
    let buf = engine.pool().alloc_small().expect("without a buffer nothing would be measured");
    engine.pool().bytes_mut(buf)[..packet.len()].copy_from_slice(packet);
    engine.handle_packet(Instant::from_millis(2), VpnId::DEFAULT, buf, packet.len());
}

fn ingress(c: &mut Criterion) {
    let mut group = c.benchmark_group("a packet without signals");
    for (name, signals, signalled) in [
        ("signalling off", None, 0),
        ("on, no rule", Some(Vec::new()), 0),
        ("on, another rule", Some(vec![rule(443..=443)]), 0),
        ("on, beside 1,000 signalled flows", Some(vec![rule(80..=80)]), 1_000),
    ] {
        let mut engine = engine(signals);
        for port in 0..signalled {
            let mut syn = tcp(1_000 + port, 0x02);
            syn.truncate(10 + 40);
            syn[12..14].copy_from_slice(&40u16.to_be_bytes());
            take(&mut engine, &syn);
        }
        let packet = tcp(40_000, 0x10);
        // The queue is full, so that each packet costs the same.
        (0..20_000).for_each(|_| take(&mut engine, &packet));
        group.bench_function(name, |b| b.iter(|| take(&mut engine, &packet)));
    }
}

/// Returns 1,024 TUN packets with 40 random bytes of options. In half of them the options begin like a signal.
fn broken() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    let packet = |n: usize| {
        let mut packet = tcp(80, 0x02);
        packet.truncate(10 + 20);
        packet[10] = 0x4f;
        packet[12..14].copy_from_slice(&80u16.to_be_bytes());
        packet.extend(std::iter::repeat_with(|| rng.next_u64() as u8).take(40));
        if n.is_multiple_of(2) {
            packet[30..33].copy_from_slice(&[30, 30, 0x10]);
        }
        packet.extend(&tcp(80, 0x02)[30..50]);
        packet
    };
    (0..1_024).map(packet).collect()
}

fn decoder(c: &mut Criterion) {
    let packets = broken();
    let mut group = c.benchmark_group("1,024 packets with broken options");
    group.throughput(Throughput::Elements(packets.len() as u64));
    group.bench_function("the decoder", |b| {
        b.iter(|| packets.iter().filter(|packet| er_sig::carriage::parse(&packet[10..]).is_ok()).count());
    });
    // Packets that still parse wait in the queue and keep their buffers, so each round has a new node.
    let fresh = || engine(Some(vec![rule(80..=80)]));
    let take_all = |engine: &mut Engine| packets.iter().for_each(|packet| take(engine, packet));
    group.bench_function("the node", |b| b.iter_batched_ref(fresh, take_all, BatchSize::PerIteration));
}

criterion_group!(benches, ingress, decoder);
criterion_main!(benches);
