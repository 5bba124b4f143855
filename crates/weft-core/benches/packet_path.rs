//! Measures the cost of each stage of the packet path: `cargo bench -p weft-core`.
#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use weft_core::flow::table::FlowTable;
use weft_core::queue::{Arrival, FlowQueue, QueueConfig, QueueKind, RedConfig};
use weft_core::reorder::resequencer::{Resequencer, ResequencerLimits};
use weft_core::sched::weighted_round_robin::RoundOrder;
use weft_core::sched::{PathView, Scheduler, SchedulerKind, UnitView};
use weft_units::{Duration, FlowId, FlowSeq, Instant, Rate, Rng};

fn paths() -> [PathView; 4] {
    let path = |mbps, delay_us| PathView {
        usable: true,
        suspect: false,
        room: true,
        ready_at: Instant::ZERO,
        backlog: Duration::from_micros(300),
        rate: Rate::from_mbps(mbps),
        delay_us,
        late_us: 0,
        weight: mbps as u32,
        loss: 0.001,
    };
    [path(50, 5_000), path(75, 6_000), path(100, 8_000), path(20, 40_000)]
}

fn schedule(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedule 4 paths");
    let kinds = [
        ("earliest-delivery", SchedulerKind::EarliestDelivery),
        ("round-robin", SchedulerKind::RoundRobin),
        ("weighted-round-robin smooth", SchedulerKind::WeightedRoundRobin(RoundOrder::Smooth)),
        ("weighted-round-robin block", SchedulerKind::WeightedRoundRobin(RoundOrder::Block)),
        ("flow-hash", SchedulerKind::FlowHash),
        ("random", SchedulerKind::Random),
    ];
    for (name, kind) in kinds {
        let mut scheduler = Scheduler::new(kind, Rng::new(1));
        let (paths, mut hash, mut now) = (paths(), 0u32, Instant::ZERO);
        group.bench_function(name, |b| {
            b.iter(|| {
                hash = hash.wrapping_add(0x9e37_79b9);
                now += Duration::from_micros(5);
                let unit = UnitView { bytes: 1_448, flow_hash: hash, urgent: false };
                scheduler.pick(now, black_box(&paths), unit)
            });
        });
    }
}

fn queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue and dequeue, 100 waiting");
    for (name, kind, flows) in [
        ("fq-codel 1 flow", QueueKind::FqCodel, 1),
        ("fq-codel 50 flows", QueueKind::FqCodel, 50),
        ("drop-tail", QueueKind::DropTail, 1),
        ("codel", QueueKind::Codel, 1),
        ("red", QueueKind::Red, 1),
        ("fred 50 flows", QueueKind::Fred, 50),
    ] {
        // RED and FRED run between their thresholds, where they do most work. They mark instead of dropping, so the
        // queue keeps its length.
        let red = RedConfig { min_threshold: 50.0, max_threshold: 200.0, ..RedConfig::default() };
        let mut queue = FlowQueue::new(kind, QueueConfig { red, ..QueueConfig::default() });
        let (mut n, mut now) = (0u32, Instant::ZERO);
        let mut enqueue = |queue: &mut FlowQueue<u32>, now| {
            n = n.wrapping_add(1);
            let arrival = Arrival { flow: FlowId((n % flows) as u16), bytes: 1_448, ecn_capable: true };
            queue.enqueue(now, arrival, n, &mut |_| ());
        };
        for _ in 0..100 {
            enqueue(&mut queue, now);
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                now += Duration::from_micros(5);
                enqueue(&mut queue, now);
                queue.dequeue(now, &mut |_| ())
            });
        });
    }
}

fn resequence(c: &mut Criterion) {
    let mut group = c.benchmark_group("resequence");
    for (name, swap) in [("in order", 0), ("every pair swapped", 1)] {
        let mut resequencer = Resequencer::new(Duration::from_millis(50), ResequencerLimits::default());
        let (mut n, mut delivered) = (0u32, 0u64);
        group.bench_function(name, |b| {
            b.iter(|| {
                let seq = FlowSeq::new(n ^ swap);
                n = n.wrapping_add(1);
                resequencer.insert(Instant::ZERO, FlowId(3), seq, n, &mut |_, _, _| delivered += 1)
            });
        });
        black_box(delivered);
    }
}

fn flow_lookup(c: &mut Criterion) {
    let mut group = c.benchmark_group("flow lookup");
    for flows in [1u32, 1_000, 60_000] {
        let mut table = FlowTable::new(1, 1 << 16);
        let key = |n: u32| (n, 0x0a00_0001u32, 443u16, n as u16, 6u8);
        for n in 0..flows {
            table.lookup(Instant::ZERO, &key(n));
        }
        let mut n = 0u32;
        group.bench_function(format!("{flows} flows"), |b| {
            b.iter(|| {
                n = (n + 1) % flows;
                table.lookup(Instant::ZERO, &key(n))
            });
        });
    }
}

criterion_group!(benches, schedule, queue, resequence, flow_lookup);
criterion_main!(benches);
