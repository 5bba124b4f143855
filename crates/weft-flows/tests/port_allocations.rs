//! In steady state a port allocates no memory for a packet of any service.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use weft_core::queue::{Arrival, QueueConfig};
use weft_flows::port::Port;
use weft_flows::{ClassId, Service, Treatment};
use weft_units::{Duration, FlowId, Instant, Rate, Rng};

/// The system allocator, with a count of this thread's allocations.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every method passes its arguments unchanged to the system allocator and returns its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Plays `packets` packets of 200 flows of all services, first more than the port carries, then less.
fn run(port: &mut Port<u64>, rng: &mut Rng, from: u64, packets: u64) {
    for n in from..from + packets {
        let now = Instant::from_micros(n * 50);
        let flow = FlowId(rng.below(200) as u16);
        let arrival = Arrival { flow, bytes: 40 + rng.below(1_460) as u32, ecn_capable: rng.chance(0.3) };
        port.enqueue(now, arrival, n, &mut |_| ());
        let takes = if n % 20_000 < 12_000 { 1 } else { 3 };
        for _ in 0..takes {
            if port.head(now, &mut |_| ()).is_some() && (rng.chance(0.95) || !port.on_hold(now)) {
                port.pop(now);
            }
        }
        if n % 400 == 0 {
            port.end_interval(now, Rate::from_mbps(100));
        }
        if n % 20_000 == 11_999 {
            port.shed(&mut |_| ());
        }
    }
}

#[test]
fn a_packet_costs_no_allocation() {
    let (mut port, mut rng) = (Port::new(QueueConfig { limit_units: 3_000, ..QueueConfig::default() }), Rng::new(1));
    for flow in 0..190_u16 {
        let services = [Service::Available, Service::Guaranteed, Service::Maximum, Service::Variable];
        let treatment = Treatment {
            class: ClassId(flow % 5),
            service: services[usize::from(flow % 4)],
            guaranteed: Rate::from_bps(400_000),
            maximum: flow.is_multiple_of(3).then_some(Rate::from_bps(900_000)),
            burst_bytes: 3_000,
            delay_variance: Some(Duration::from_millis(10)),
            delay_priority: (flow % 7) as u8,
            ..Treatment::default()
        };
        port.set_flow(FlowId(flow), u32::from(flow % 23), 1 + u32::from(flow % 3), &treatment);
    }
    // The port reserves memory for all the packets that it may hold when it first holds as many.
    for n in 0..3_100 {
        let arrival = Arrival { flow: FlowId(rng.below(200) as u16), bytes: 40, ecn_capable: false };
        port.enqueue(Instant::ZERO, arrival, n, &mut |_| ());
    }
    run(&mut port, &mut rng, 0, 60_000);
    let before = COUNT.get();
    run(&mut port, &mut rng, 60_000, 200_000);
    assert_eq!(COUNT.get() - before, 0);
    let counters = port.counters();
    assert!(counters.dropped_full > 100 && counters.dropped_aqm > 100 && counters.marked > 100, "{counters:?}");
    assert!(port.policing().dropped > 10, "{:?}", port.policing());
}
