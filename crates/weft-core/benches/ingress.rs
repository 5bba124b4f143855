//! Measures the cost of the ingress per packet, for any number of VPNs.
//!
//! Run it with `cargo bench -p weft-core --bench ingress`.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::control_loop::{LoopConfig, LoopEgress};
use weft_core::ingress::{Ingress, IngressConfig, Profile, VpnNo};
use weft_core::queue::{Arrival, QueueConfig, QueueKind};
use weft_core::service::Share;
use weft_units::{Duration, FlowId, Instant, Rate, Rng};

const PACKET: u32 = 1_500;
/// Interval between packets of 1500 bytes at 1 Gbit/s.
const GAP: Duration = Duration::from_micros(12);
/// Number of VPNs with traffic.
const ACTIVE: usize = 100;

/// Measures one packet of the active VPNs in turn: enqueue, dequeue, count at the egress, and report.
fn packet(c: &mut Criterion) {
    let rate = Rate::from_mbps(1_000);
    let accumulation = AccumulationConfig { initial: rate, cap: rate, ..AccumulationConfig::default() };
    let laws = [
        ("no loop", None),
        ("aimd-window", Some(LoopConfig::AimdWindow(AimdConfig { initial_packets: 64, ..AimdConfig::default() }))),
        ("accumulation", Some(LoopConfig::Accumulation(Arc::new(accumulation)))),
    ];
    let mut group = c.benchmark_group("a packet through the ingress");
    for (name, control) in laws {
        for vpns in [1usize, 100, 10_000, 100_000] {
            for active in [ACTIVE.min(vpns), vpns] {
                let (queue, sizes) = (QueueKind::DropTail, QueueConfig::default());
                let profile = Arc::new(Profile { queue, sizes, control: control.clone() });
                let mut ingress = Ingress::new(IngressConfig::default(), Rng::new(1));
                let all: Vec<VpnNo> = (0..vpns).map(|_| ingress.add(Share::default(), profile.clone())).collect();
                let mut egress = vec![LoopEgress::default(); vpns];
                let (mut now, mut next, stride) = (Instant::ZERO, 0, vpns / active);
                let mut turn = || {
                    now += GAP;
                    next = (next + 1) % active;
                    let arrival = Arrival { flow: FlowId(0), bytes: PACKET, ecn_capable: false };
                    ingress.enqueue(now, all[next * stride], arrival, next, &mut |_| ());
                    while ingress.head(now, &mut |_| ()).is_some() {
                        let Some(gone) = ingress.pop(now) else { break };
                        let far = &mut egress[gone.vpn.0 as usize];
                        far.on_packet(gone.unit.bytes, false);
                        if let Some(report) = gone.marker.and_then(|marker| far.on_marker(now, marker)) {
                            ingress.on_report(now, gone.vpn, &report);
                        }
                    }
                    black_box(ingress.deadline())
                };
                for _ in 0..4 * vpns {
                    turn();
                }
                group.bench_function(format!("{name}, {vpns} VPNs, {active} active"), |b| b.iter(&mut turn));
                if active == vpns {
                    break;
                }
            }
        }
    }
}

criterion_group!(benches, packet);
criterion_main!(benches);
