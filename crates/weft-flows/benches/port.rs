//! Measures the cost of a packet in a port and in FQ-CoDel, and the cost of a decision of admission.
//!
//! Run `cargo bench -p weft-flows --bench port`.
#![allow(missing_docs)]

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use weft_core::queue::{Arrival, FlowQueue, QueueConfig, QueueKind};
use weft_flows::admission::{AdmissionControl, FlowRoutes, GrantRequest, RouteNo, Shortfall};
use weft_flows::port::Port;
use weft_flows::{Service, Treatment};
use weft_units::{Duration, FlowId, Instant, Rate, Rng};

/// Packets that wait while a packet enters and another one leaves.
const WAITING: u64 = 100;

fn arrival(n: u64, flows: u64) -> Arrival {
    let flow = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % flows;
    Arrival { flow: FlowId(flow as u16), bytes: 1_400, ecn_capable: true }
}

fn fq_codel(group: &mut BenchmarkGroup<'_, WallTime>, flows: u64) {
    let mut queue = FlowQueue::new(QueueKind::FqCodel, QueueConfig::default());
    let (mut n, mut now) = (0, Instant::ZERO);
    (0..WAITING).for_each(|n| queue.enqueue(now, arrival(n, flows), [n; 12], &mut |_| ()));
    group.bench_function(format!("fq-codel, {flows} flows"), |b| {
        b.iter(|| {
            (n, now) = (n + 1, now + Duration::from_micros(10));
            queue.enqueue(now, arrival(n, flows), [n; 12], &mut |_| ());
            queue.dequeue(now, &mut |_| ())
        });
    });
}

/// Flows of `users` users, or of none if it is zero.
///
/// Every `guaranteed`-th flow has a guarantee of 1.2 times what it sends.
fn port(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, (flows, users): (u64, u64), guaranteed: u64) {
    let mut port = Port::new(QueueConfig::default());
    let rate = Rate::from_bytes_over(1_400, Duration::from_micros(10) * flows as u32).scaled(1.2);
    for flow in 0..flows {
        let has = guaranteed > 0 && flow % guaranteed == 0;
        let service = if has { Service::Guaranteed } else { Service::Available };
        let treatment = Treatment { service, guaranteed: rate, burst_bytes: 30_000, ..Treatment::default() };
        if users > 0 {
            port.set_flow(FlowId(flow as u16), (flow % users) as u32, 1, &treatment);
        }
    }
    let (mut n, mut now) = (0, Instant::ZERO);
    (0..WAITING).for_each(|n| port.enqueue(now, arrival(n, flows), [n; 12], &mut |_| ()));
    group.bench_function(format!("port, {name}"), |b| {
        b.iter(|| {
            (n, now) = (n + 1, now + Duration::from_micros(10));
            port.enqueue(now, arrival(n, flows), [n; 12], &mut |_| ());
            port.dequeue(now, &mut |_| ())
        });
    });
}

fn packets(c: &mut Criterion) {
    let mut group = c.benchmark_group("enqueue and dequeue, 100 waiting");
    group.sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    fq_codel(&mut group, 1);
    port(&mut group, "1 flow, unnamed", (1, 0), 0);
    port(&mut group, "1 flow with a guarantee", (1, 1), 1);
    fq_codel(&mut group, 50);
    port(&mut group, "50 flows, unnamed", (50, 0), 0);
    port(&mut group, "50 flows of 10 users", (50, 10), 0);
    port(&mut group, "50 flows of 50 users", (50, 50), 0);
    port(&mut group, "50 flows of 10 users, 10 guaranteed", (50, 10), 5);
    port(&mut group, "50 flows of 10 users, all guaranteed", (50, 10), 1);
    fq_codel(&mut group, 5_000);
    port(&mut group, "5,000 flows of 500 users", (5_000, 500), 0);
    port(&mut group, "5,000 flows of 500 users, all guaranteed", (5_000, 500), 1);
    group.finish();
}

/// An admission of `grants` requests on a primary and an alternate route each, of 16 routes that are full.
fn full(grants: u32, rng: &mut Rng) -> AdmissionControl<u32> {
    let mut control = AdmissionControl::new(grants as usize + 1, 1);
    for route in 0..16 {
        let capacity = Rate::from_bps(u64::from(grants) * 82_000 * 2 / 16);
        control.set_capacity(RouteNo(route), capacity, &mut |_| ());
    }
    for flow in 0..grants {
        control.request(Instant::ZERO, flow, call(rng), routes(rng), &mut |_| ());
    }
    control
}

fn call(rng: &mut Rng) -> GrantRequest {
    let rate = Rate::from_bps(if rng.chance(0.8) { 82_000 } else { 64_000 + rng.below(400_000) });
    let lifetime = Some(Duration::from_secs(30));
    GrantRequest { rate, precedence: rng.below(8) as u8, shortfall: Shortfall::Wait, lifetime }
}

fn routes(rng: &mut Rng) -> FlowRoutes {
    let primary = rng.below(16) as u16;
    let alternate = (primary + 1 + rng.below(15) as u16) % 16;
    FlowRoutes::new(&[RouteNo(primary), RouteNo(alternate)]).unwrap_or(FlowRoutes::one(RouteNo(primary)))
}

fn admission(c: &mut Criterion) {
    let mut group = c.benchmark_group("admission");
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for grants in [1_000, 100_000] {
        let mut rng = Rng::new(1);
        let mut control = full(grants, &mut rng);
        let mut now = Instant::ZERO;
        group.bench_function(format!("request of a full admission, {grants} grants"), |b| {
            b.iter(|| {
                now += Duration::from_micros(1);
                let (flow, call, routes) = (rng.below(grants.into()) as u32, call(&mut rng), routes(&mut rng));
                control.request(now, flow, call, routes, &mut |_| ())
            });
        });
        let mut control = full(grants, &mut rng);
        group.bench_function(format!("release and request, {grants} grants"), |b| {
            b.iter(|| {
                let (flow, call, routes) = (rng.below(grants.into()) as u32, call(&mut rng), routes(&mut rng));
                control.release(&flow, &mut |_| ());
                control.request(now, flow, call, routes, &mut |_| ())
            });
        });
        let mut control = full(grants, &mut rng);
        group.bench_function(format!("renewal, {grants} grants"), |b| {
            b.iter(|| {
                now += Duration::from_micros(1);
                control.renew(now, &(rng.below(grants.into()) as u32));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, packets, admission);
criterion_main!(benches);
