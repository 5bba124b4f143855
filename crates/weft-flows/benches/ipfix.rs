//! Measures the cost of exporting a record: into the queue, into a message, and out of the queue.
//!
//! Run it with `cargo bench -p weft-flows --bench ipfix`.
#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use weft_flows::ClassId;
use weft_flows::ipfix::{
    Dialect, EndReason, ExportRecord, ExportVerdict, Exporter, ExporterConfig, HOLD, MESSAGE_BYTES, RecordDirection,
};
use weft_units::{Instant, Rate, Rng, VpnId};
use weft_wire::ip::FlowKey;

/// Records that are exported at once: what 200,000 records/s make in 20 ms.
const RECORDS: usize = 4_000;

fn record(rng: &mut Rng, is_ipv6: bool) -> ExportRecord {
    let (src, dst) = if is_ipv6 {
        (Ipv6Addr::from_bits(rng.next_u64().into()).into(), Ipv6Addr::from_bits(rng.next_u64().into()).into())
    } else {
        (Ipv4Addr::from_bits(rng.next_u64() as u32).into(), Ipv4Addr::from_bits(rng.next_u64() as u32).into())
    };
    ExportRecord {
        key: FlowKey { src, dst, protocol: 6, src_port: rng.next_u64() as u16, dst_port: 443, flow_label: 0 },
        dscp: 0,
        vpn: VpnId(1),
        ingress_interface: 1,
        egress_interface: 2,
        direction: RecordDirection::Ingress,
        end_reason: EndReason::Active,
        start_ms: rng.next_u64(),
        end_ms: rng.next_u64(),
        total_bytes: rng.next_u64(),
        total_packets: rng.next_u64(),
        bytes: rng.below(1 << 40),
        packets: rng.below(1 << 30),
        asked: Rate::from_mbps(1),
        granted: Rate::from_mbps(1),
        achieved: Rate::from_mbps(1),
        class: ClassId(1),
        precedence: 1,
        is_on_alternate: false,
        verdict: ExportVerdict::Granted,
        path: 1,
    }
}

fn export(c: &mut Criterion) {
    let mut group = c.benchmark_group("a record, from the flow table to the message");
    group.throughput(Throughput::Elements(RECORDS as u64));
    for (name, dialect, share_of_ipv6) in [
        ("IPFIX, IPv4", Dialect::Ipfix, 0.0),
        ("IPFIX, half IPv6", Dialect::Ipfix, 0.5),
        ("NetFlow v9, IPv4", Dialect::NetflowV9, 0.0),
    ] {
        let mut rng = Rng::new(1);
        let records: Vec<_> = (0..RECORDS)
            .map(|_| {
                let is_ipv6 = rng.chance(share_of_ipv6);
                record(&mut rng, is_ipv6)
            })
            .collect();
        let mut exporter = Exporter::new(Instant::ZERO, ExporterConfig { dialect, ..ExporterConfig::default() });
        let (mut now, mut buffer) = (Instant::ZERO, [0; MESSAGE_BYTES]);
        group.bench_function(name, |b| {
            b.iter(|| {
                for record in &records {
                    assert!(exporter.push(*record));
                }
                while let Some(message) = exporter.poll_message(now, 1, &mut buffer) {
                    black_box(&buffer[..message.len]);
                }
                now += HOLD;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, export);
criterion_main!(benches);
