//! The exporter allocates nothing after it was made.
#![allow(missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use weft_flows::ClassId;
use weft_flows::class::Classes;
use weft_flows::ipfix::{
    EndReason, ExportRecord, ExportVerdict, Exporter, ExporterConfig, MESSAGE_BYTES, RecordDirection,
};
use weft_flows::rules::{FirstPacket, FlowPrefix, FlowRule, FlowRules, NameId, Overrides, RuleLimits, RuleMatch};
use weft_units::{Duration, Instant, Rate, VpnId};
use weft_wire::ip::FlowKey;

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

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are those that `System` requires.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn key() -> FlowKey {
    let address = std::net::Ipv4Addr::new(10, 0, 0, 1).into();
    FlowKey { src: address, dst: address, protocol: 17, src_port: 1, dst_port: 2, flow_label: 0 }
}

#[test]
fn the_exporter_allocates_nothing_after_it_was_made() {
    let record = ExportRecord {
        key: key(),
        dscp: 46,
        vpn: VpnId::DEFAULT,
        ingress_interface: 1,
        egress_interface: 2,
        direction: RecordDirection::Ingress,
        end_reason: EndReason::Active,
        start_ms: 1,
        end_ms: 2,
        total_bytes: 3,
        total_packets: 4,
        bytes: 5,
        packets: 6,
        asked: Rate::ZERO,
        granted: Rate::ZERO,
        achieved: Rate::ZERO,
        class: ClassId(1),
        precedence: 1,
        is_on_alternate: false,
        verdict: ExportVerdict::NothingAsked,
        path: 1,
    };
    let mut exporter =
        Exporter::new(Instant::ZERO, ExporterConfig { queue_records: 1_000, ..ExporterConfig::default() });
    exporter.set_class_names(Classes::built_in().names());
    let (mut now, mut buffer, mut messages) = (Instant::ZERO, [0; MESSAGE_BYTES], 0);
    let before = COUNT.get();
    for turn in 0..2_000 {
        for _ in 0..200 {
            exporter.push(record);
        }
        while exporter.poll_message(now, 1, &mut buffer).is_some() {
            messages += 1;
        }
        if turn % 97 == 0 {
            exporter.on_refused(now, None);
        }
        now += Duration::from_millis(37);
    }
    assert_eq!(COUNT.get(), before);
    assert!(messages > 10_000 && exporter.counters().not_sent.records > 0, "{messages}");
}

#[test]
fn a_lookup_allocates_nothing() {
    let rule = |number: u8| FlowRule {
        name: number.to_string(),
        matches: RuleMatch {
            to: Some(FlowPrefix { address: std::net::Ipv4Addr::new(10, 0, 0, number).into(), length: 32 }),
            ..RuleMatch::default()
        },
        class: "voice".to_owned(),
        overrides: Overrides::default(),
    };
    let list = FlowRules::new((0..200).map(rule).collect());
    let classifier = list.compile(&Classes::built_in(), &RuleLimits::default()).unwrap();
    let packet = FirstPacket { key: key(), dscp: 0, vpn: VpnId(0), user: NameId(0), near: NameId(0), far: NameId(0) };
    let before = COUNT.get();
    assert_eq!(classifier.classify(&packet).rule, Some(1));
    assert_eq!(COUNT.get(), before);
}
