//! Tests of one direction of a link, in virtual time.

use super::*;
use weft_scenario::trace::Trace;
use weft_units::{Duration, FlowId};

impl Classified for u32 {
    fn is_udp(&self) -> bool {
        true
    }

    fn flow(&self) -> FlowId {
        FlowId(0)
    }
}

const MBIT_12: Option<LinkCapacity> = Some(LinkCapacity::Rate(Rate::from_mbps(12))); // a packet of 1500 bytes each millisecond

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn spec(capacity: Option<LinkCapacity>, delay_ms: u64) -> EmulatedDirection {
    EmulatedDirection { capacity, delay: Duration::from_millis(delay_ms), ..EmulatedDirection::default() }
}

fn pipe(spec: EmulatedDirection) -> DirectionPipe<u32> {
    DirectionPipe::new(spec, &Rng::new(1), Instant::ZERO)
}

/// Delivers packets until `end`. Each call is at the time that `next_due` returns.
///
/// Returns each packet with its due time in µs.
fn drain(pipe: &mut DirectionPipe<u32>, end: Instant) -> Vec<(u32, u64)> {
    let mut got = Vec::new();
    while let Some(due) = pipe.next_due().filter(|&due| due <= end) {
        pipe.deliver(due, |&packet, due| {
            got.push((packet, due.as_micros()));
            true
        });
    }
    got
}

#[test]
fn a_rate_spaces_packets_exactly_however_late_one_looks() {
    let offer = |pipe: &mut DirectionPipe<u32>| (0..3).for_each(|n| pipe.offer(ms(0), n, 1500));
    let mut prompt = pipe(spec(MBIT_12, 5));
    offer(&mut prompt);
    let expected = [(0, 6_000), (1, 7_000), (2, 8_000)];
    assert_eq!(drain(&mut prompt, ms(100)), expected);
    let (mut late, mut got) = (pipe(spec(MBIT_12, 5)), Vec::new());
    offer(&mut late);
    late.deliver(ms(100), |&packet, due| {
        got.push((packet, due.as_micros()));
        true
    });
    assert_eq!(got, expected);
    assert_eq!(late.spent().count(), 3);
    // Capacity that an idle serialiser does not use is lost.
    late.offer(ms(200), 9, 1500);
    assert_eq!(drain(&mut late, ms(300)), [(9, 206_000)]);
}

#[test]
fn a_full_queue_drops_the_newcomer() {
    let mut pipe = pipe(EmulatedDirection { queue_bytes: 4500, ..spec(MBIT_12, 0) });
    (0..5).for_each(|n| pipe.offer(ms(0), n, 1500));
    assert_eq!(pipe.spent().collect::<Vec<_>>(), [3, 4]);
    pipe.offer(ms(1), 5, 1500);
    assert_eq!(drain(&mut pipe, ms(100)).iter().map(|&(n, _)| n).collect::<Vec<_>>(), [0, 1, 2, 5]);
    let stats = pipe.stats(ms(100));
    assert_eq!((stats.offered_packets, stats.sent_packets, stats.dropped_packets), (6, 4, 2));
    assert_eq!(stats.capacity_bytes, Some(150_000));
    assert_eq!(stats.utilisation(), Some(0.04));
    assert!(stats.queue_delay.max.abs_diff(Duration::from_millis(3)) < Duration::from_micros(50), "{stats:?}");
    let lengths = stats.queue_packets;
    assert_eq!((lengths.mean, lengths.max), (2.25, 3.0), "3, 3, 2 and 1 when one left: {lengths:?}");
}

#[test]
fn a_new_rate_holds_from_the_next_byte_on() {
    let mut pipe = pipe(spec(MBIT_12, 0));
    pipe.offer(ms(0), 0, 1500);
    pipe.offer(ms(0), 1, 1500);
    // Half of the first packet leaves at 12 Mbit/s, the rest at 6 Mbit/s.
    pipe.set(Instant::from_micros(500), spec(Some(LinkCapacity::Rate(Rate::from_mbps(6))), 0));
    assert_eq!(drain(&mut pipe, ms(100)), [(0, 1_500), (1, 3_500)]);
    assert_eq!(pipe.stats(Instant::from_micros(2_500)).capacity_bytes, Some(2_250));
}

#[test]
fn a_trace_fills_opportunities_and_wastes_the_unused() {
    let trace = Trace::parse("2\n4\n4\n10\n", "t").unwrap();
    let mut pipe = pipe(spec(Some(LinkCapacity::Trace(trace)), 1));
    pipe.offer(ms(3), 0, 1500); // the opportunity at 2 ms has passed unused
    pipe.offer(ms(3), 1, 700); // this and the next packet share the second opportunity at 4 ms
    pipe.offer(ms(3), 2, 700);
    pipe.offer(ms(3), 3, 1500); // begins in the rest of that opportunity, ends at 10 ms
    assert_eq!(drain(&mut pipe, ms(11)), [(0, 5_000), (1, 5_000), (2, 5_000), (3, 11_000)]);
    pipe.offer(ms(11), 4, 3000); // takes two opportunities of the second round: 12 and 14 ms
    assert_eq!(drain(&mut pipe, ms(30)), [(4, 15_000)]);
    assert_eq!(pipe.stats(ms(20)).capacity_bytes, Some(7 * 1500));
}

#[test]
fn an_unlimited_link_only_delays() {
    let mut pipe = pipe(EmulatedDirection { queue_bytes: 0, ..spec(None, 7) });
    (0..3).for_each(|n| pipe.offer(Instant::from_micros(u64::from(n)), n, 1500));
    assert_eq!(drain(&mut pipe, ms(20)), [(0, 7_000), (1, 7_001), (2, 7_002)]);
    assert_eq!(pipe.stats(ms(20)).capacity_bytes, None);
}

#[test]
fn loss_takes_its_share_and_repeats_with_the_seed() {
    let lossy = EmulatedDirection { loss: 0.1, queue_bytes: u64::MAX, ..spec(MBIT_12, 0) };
    let run = |seed| {
        let mut pipe = DirectionPipe::new(lossy.clone(), &Rng::new(seed), Instant::ZERO);
        (0..10_000).for_each(|n| pipe.offer(ms(0), n, 100));
        let got: Vec<u32> = drain(&mut pipe, ms(10_000)).into_iter().map(|(n, _)| n).collect();
        let stats = pipe.stats(ms(10_000));
        assert_eq!(stats.lost_packets + got.len() as u64, 10_000);
        assert_eq!(stats.transmitted_bytes, 1_000_000);
        got
    };
    let lost = 10_000 - run(1).len() as i64;
    assert!((lost - 1_000).abs() < 120, "{lost}"); // four standard deviations
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn jitter_keeps_the_order_unless_configured_otherwise() {
    let jittery = |reorder| {
        let jitter = Duration::from_millis(10);
        let mut pipe = pipe(EmulatedDirection { jitter, reorder, ..spec(None, 20) });
        (0..100).for_each(|n| pipe.offer(ms(u64::from(n)), n, 100));
        let got = drain(&mut pipe, ms(1_000));
        assert_eq!(got.len(), 100);
        assert!(got.is_sorted_by_key(|&(_, due)| due));
        for &(n, due) in &got {
            let took = due - u64::from(n) * 1_000;
            assert!((20_000..=30_000).contains(&took), "{n} took {took} µs");
        }
        got
    };
    assert!(jittery(false).is_sorted());
    assert!(!jittery(true).is_sorted());
}

#[test]
fn a_cut_swallows_everything_and_counts_no_capacity() {
    let mut pipe = pipe(spec(MBIT_12, 5));
    (0..3).for_each(|n| pipe.offer(ms(0), n, 1500));
    pipe.cut(ms(2), true); // two packets are in the delay line, one is in transmission
    pipe.offer(ms(3), 3, 1500);
    assert_eq!(pipe.next_due(), None);
    assert_eq!(pipe.spent().count(), 4);
    pipe.cut(ms(10), false);
    pipe.offer(ms(10), 4, 1500);
    assert_eq!(drain(&mut pipe, ms(100)), [(4, 16_000)]);
    let stats = pipe.stats(ms(20));
    assert_eq!((stats.cut_packets, stats.sent_packets), (4, 1));
    assert_eq!(stats.capacity_bytes, Some(12 * 1500));
}

#[test]
fn a_mark_forgets_what_was_before() {
    let mut pipe = pipe(spec(MBIT_12, 0));
    (0..2).for_each(|n| pipe.offer(ms(0), n, 1500));
    pipe.deliver(ms(1), |_, _| false);
    assert_eq!(pipe.stats(ms(1)).refused_packets, 1);
    pipe.mark(ms(1));
    drain(&mut pipe, ms(5));
    let stats = pipe.stats(ms(5));
    assert_eq!((stats.offered_packets, stats.sent_packets, stats.refused_packets), (0, 1, 0));
    assert_eq!(stats.capacity_bytes, Some(6_000));
}
