//! Measures the cost of a loop per packet: `cargo bench -p weft-core --bench control_loop`.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::control_loop::{ControlLoop, Credit, LoopConfig, LoopEgress};
use weft_core::service::Share;
use weft_units::{Duration, Instant, Rate};

const PACKET: u32 = 1_500;
/// Interval between packets of 1500 bytes at 100 Mbit/s.
const GAP: Duration = Duration::from_micros(120);

/// Measures one packet of many loops in turn, from credit to departure and arrival.
///
/// The measurement includes the resulting markers and reports.
fn packet(c: &mut Criterion) {
    let rate = Rate::from_mbps(200);
    let accumulation = AccumulationConfig { initial: rate, cap: rate, ..AccumulationConfig::default() };
    let configs = [
        ("aimd-window", LoopConfig::AimdWindow(AimdConfig::default())),
        ("accumulation", LoopConfig::Accumulation(Arc::new(accumulation))),
    ];
    let mut group = c.benchmark_group("a packet through a loop, both edges");
    for (name, config) in configs {
        for loops in [1usize, 100, 10_000] {
            let mut ends: Vec<(ControlLoop, LoopEgress)> = (0..loops)
                .map(|_| (ControlLoop::new(config.clone(), Share::default()), LoopEgress::default()))
                .collect();
            let (mut now, mut next) = (Instant::ZERO, 0);
            group.bench_function(format!("{name}, {loops} loops"), |b| {
                b.iter(|| {
                    now += GAP;
                    next = (next + 1) % loops;
                    let (ingress, egress) = &mut ends[next];
                    if ingress.credit(now, PACKET) == Credit::Now {
                        let marker = ingress.on_sent(now, PACKET, true);
                        egress.on_packet(PACKET, false);
                        if let Some(report) = marker.and_then(|marker| egress.on_marker(now, marker)) {
                            ingress.on_report(now, &report);
                        }
                    }
                    black_box(ingress.deadline())
                });
            });
        }
    }
}

criterion_group!(benches, packet);
criterion_main!(benches);
