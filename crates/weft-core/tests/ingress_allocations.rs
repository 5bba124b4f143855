//! In steady state the ingress allocates no memory for a packet of any VPN.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use weft_core::control_loop::accumulation::AccumulationConfig;
use weft_core::control_loop::aimd_window::AimdConfig;
use weft_core::control_loop::{LoopConfig, LoopEgress};
use weft_core::ingress::{Ingress, IngressConfig, Profile, VpnNo};
use weft_core::queue::{Arrival, QueueConfig, QueueKind};
use weft_core::service::Share;
use weft_units::{Duration, FlowId, Instant, Rng};

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

const VPNS: usize = 60;

/// Plays VPNs of every law and discipline over a path of 100 Mbit/s with a buffer of 50 packets.
///
/// They send more than the path carries.
fn run(ingress: &mut Ingress<u64>, egresses: &mut [LoopEgress], from: u64, packets: u64) {
    for n in from..from + packets {
        let now = Instant::ZERO + Duration::from_micros(100) * n as u32;
        let vpn = VpnNo((n * 7 % VPNS as u64) as u32);
        let arrival = Arrival { flow: FlowId((n % 5) as u16), bytes: 1_400, ecn_capable: n % 3 == 0 };
        ingress.enqueue(now, vpn, arrival, n, &mut |_| ());
        while ingress.next_marker(now).is_some() {}
        for _ in 0..2 {
            if ingress.head(now, &mut |_| ()).is_none() {
                break;
            }
            let Some(gone) = ingress.pop(now) else { break };
            let egress = &mut egresses[gone.vpn.0 as usize];
            if n % 97 != 0 {
                egress.on_packet(gone.unit.bytes, false);
                if let Some(report) = gone.marker.and_then(|marker| egress.on_marker(now, marker)) {
                    ingress.on_report(now, gone.vpn, &report);
                }
            }
        }
    }
}

#[test]
fn a_packet_costs_no_allocation() {
    let mut ingress = Ingress::new(IngressConfig { shared_events: true, ..IngressConfig::default() }, Rng::new(1));
    let laws = [
        None,
        Some(LoopConfig::AimdWindow(AimdConfig::default())),
        Some(LoopConfig::Accumulation(Arc::new(AccumulationConfig::default()))),
        Some(LoopConfig::ExplicitRate(Arc::default())),
    ];
    let kinds = [QueueKind::DropTail, QueueKind::FqCodel, QueueKind::Codel, QueueKind::Red, QueueKind::Fred];
    let sizes = QueueConfig { limit_units: 64, ..QueueConfig::default() };
    for n in 0..VPNS {
        let profile = Profile { queue: kinds[n % kinds.len()], sizes, control: laws[n / 5 % laws.len()].clone() };
        ingress.add(Share::default(), Arc::new(profile));
    }
    let mut egresses = vec![LoopEgress::default(); VPNS];
    run(&mut ingress, &mut egresses, 0, 60_000);
    let before = COUNT.get();
    run(&mut ingress, &mut egresses, 60_000, 60_000);
    assert_eq!(COUNT.get() - before, 0);
}
