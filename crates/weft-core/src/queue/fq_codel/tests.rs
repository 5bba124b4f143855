//! Tests of the order of service, the limits and the drops of [`FqCodel`].

use super::*;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use proptest::prelude::*;
use weft_units::Duration;

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn unit(flow: u16, bytes: u32) -> Arrival {
    Arrival { flow: FlowId(flow), bytes, ecn_capable: false }
}

/// Returns a queue with units of several flows: for each flow its number, the bytes of a unit and the count of units.
///
/// The item of a unit is the flow's number × 1,000 plus the unit's position.
fn filled(config: QueueConfig, flows: &[(u16, u32, u32)]) -> FqCodel<u32> {
    let mut q = FqCodel::new(config);
    for &(flow, bytes, count) in flows {
        for n in 0..count {
            q.enqueue(ms(0), unit(flow, bytes), u32::from(flow) * 1_000 + n, &mut |_| ());
        }
    }
    q
}

fn next(q: &mut FqCodel<u32>, at: u64) -> Option<Dequeued<u32>> {
    q.dequeue(ms(at), &mut |_| ())
}

#[test]
fn a_held_flow_delays_no_other_flow_and_loses_no_turn() {
    let mut q = filled(QueueConfig::default(), &[(1, 1_000, 50), (2, 1_000, 50), (3, 1_000, 50)]);
    let mut served = [0u32; 4];
    for turn in 0..90 {
        // During the first turns the path takes no unit of flow 1.
        while q.head(ms(1), &mut |_| ()).is_some_and(|head| head.flow == FlowId(1) && turn < 30) {
            assert!(q.pass_over());
        }
        served[usize::from(q.pop(ms(1)).unwrap().flow.0)] += 1;
    }
    assert!(served[1].abs_diff(20) <= 2 && served[2].abs_diff(35) <= 2, "{served:?}");
    let mut alone = filled(QueueConfig::default(), &[(1, 1_000, 2)]);
    assert!(!alone.pass_over(), "nothing is selected");
    alone.head(ms(1), &mut |_| ());
    assert!(!alone.pass_over(), "there is no other");
}

#[test]
fn where_all_flows_are_as_fat_a_batch_takes_from_many_and_spares_the_thin() {
    let config = QueueConfig { limit_units: 1_000, ..QueueConfig::default() };
    let mut flows: Vec<(u16, u32, u32)> = (0..999).map(|flow| (flow, 900, 1)).collect();
    flows[500].1 = 100;
    let mut q = filled(config, &flows);
    q.enqueue(ms(0), unit(2_000, 900), 0, &mut |_| ());
    let mut dropped = Vec::new();
    q.enqueue(ms(0), unit(2_001, 900), 0, &mut |item| dropped.push(item));
    assert_eq!((dropped.len(), q.len()), (62, 939), "one of sixteen of 1,001");
    assert!(q.flow_bytes(FlowId(500)) == 100 && q.flow_bytes(FlowId(2_001)) == 900);
}

#[test]
fn flows_share_bytes_not_packets() {
    let mut q = filled(QueueConfig::default(), &[(1, 1_500, 100), (2, 300, 500), (3, 700, 200)]);
    let mut served = [0u32; 4];
    for _ in 0..240 {
        let d = next(&mut q, 1).unwrap();
        served[usize::from(d.flow.0)] += d.bytes;
    }
    let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
    assert!(most - least <= 2 * 1_514 + 1_500, "{served:?}");
}

#[test]
fn a_sparse_flow_goes_first_and_stays_sparse() {
    let mut q = filled(QueueConfig::default(), &[(1, 1_500, 50)]);
    for _ in 0..5 {
        next(&mut q, 1);
    }
    for n in 0..5 {
        q.enqueue(ms(2), unit(9, 100), n, &mut |_| ());
        let d = next(&mut q, 2).unwrap();
        assert_eq!((d.item, d.sparse), (n, true));
        let bulk = next(&mut q, 2).unwrap();
        assert_eq!((bulk.flow, bulk.sparse), (FlowId(1), false));
        next(&mut q, 2);
    }
}

#[test]
fn a_flow_within_its_quantum_goes_first_however_long_the_others_wait() {
    let mut q = filled(QueueConfig::default(), &[(1, 1_500, 50)]);
    next(&mut q, 1);
    next(&mut q, 1);
    let mut first = 0;
    for n in 0..40 {
        // The test selects the bulk unit but does not remove it, so the round does not end.
        assert!(q.head(ms(2), &mut |_| ()).is_some_and(|head| head.flow == FlowId(1)));
        q.enqueue(ms(2), unit(9, 100), n, &mut |_| ());
        let Some(head) = q.head(ms(2), &mut |_| ()) else { panic!("two flows wait") };
        if head.flow == FlowId(9) {
            assert!(head.sparse);
            q.pop(ms(2));
            first += 1;
        }
    }
    assert_eq!(first, 16, "a quantum of 1514 bytes, the last of it overdrawn");
}

#[test]
fn a_flow_that_never_pauses_is_not_sparse() {
    let mut q = filled(QueueConfig::default(), &[(1, 1_500, 50)]);
    next(&mut q, 1);
    next(&mut q, 1);
    let mut sparse = 0;
    for n in 0..100 {
        q.enqueue(ms(2), unit(9, 1_000), n, &mut |_| ());
        q.enqueue(ms(2), unit(9, 1_000), n, &mut |_| ());
        sparse += u32::from(next(&mut q, 2).unwrap().sparse);
    }
    assert!(sparse <= 2, "{sparse}");
}

#[test]
fn over_the_limit_the_fattest_flow_loses_its_oldest() {
    let config = QueueConfig { limit_bytes: 10_000, ..QueueConfig::default() };
    let mut q = filled(config, &[(1, 1_000, 7), (2, 1_000, 3)]);
    let mut lost = vec![];
    q.enqueue(ms(1), unit(3, 1_000), 3_000, &mut |item| lost.push(item));
    q.enqueue(ms(1), unit(3, 1_000), 3_001, &mut |item| lost.push(item));
    assert_eq!((lost, q.backlog_bytes()), (vec![1_000, 1_001], 10_000));
    assert_eq!((q.flow_bytes(FlowId(1)), q.counters().dropped_full), (5_000, 2));
}

#[test]
fn over_its_own_limit_a_flow_loses_its_oldest_but_never_its_only_unit() {
    let config = QueueConfig { flow_limit_bytes: 2_500, ..QueueConfig::default() };
    let mut q = filled(config, &[(1, 1_000, 4), (2, 5_000, 1)]);
    assert_eq!((q.flow_bytes(FlowId(1)), q.flow_bytes(FlowId(2))), (2_000, 5_000));
    assert_eq!(next(&mut q, 0).map(|d| d.item), Some(1_002));
}

#[test]
fn the_selected_unit_stays_unless_it_is_dropped() {
    let config = QueueConfig { limit_bytes: 3_000, ..QueueConfig::default() };
    let mut q = filled(config, &[(1, 1_000, 3)]);
    assert_eq!(q.pop(ms(0)), None, "nothing selected");
    assert_eq!(q.head(ms(1), &mut |_| ()).map(|h| h.bytes), Some(1_000));
    assert_eq!(q.head(ms(2), &mut |_| ()), q.head(ms(2), &mut |_| ()));
    assert_eq!(q.head_item(), Some(&1_000));
    q.enqueue(ms(3), unit(1, 1_000), 1_003, &mut |_| ());
    assert_eq!(q.head_item(), None, "the selected unit made room");
    assert_eq!(q.pop(ms(3)), None);
    assert_eq!(next(&mut q, 3).map(|d| d.item), Some(1_001));
}

#[test]
fn a_standing_queue_is_dropped_from_or_marked() {
    for ecn_capable in [false, true] {
        let mut q = FqCodel::new(QueueConfig::default());
        let (mut lost, mut marks) = (0, 0);
        for at in 0..1_000 {
            if at % 2 == 0 || at < 100 {
                q.enqueue(ms(at), Arrival { ecn_capable, ..unit(1, 1_500) }, at, &mut |_| ());
            }
            if at % 2 == 0 {
                let d = q.dequeue(ms(at), &mut |_| lost += 1);
                marks += u64::from(d.is_some_and(|d| d.mark_ce));
            }
        }
        let counted = q.counters();
        assert_eq!((counted.dropped_aqm, counted.marked), (lost, marks));
        assert_eq!((lost > 5, marks > 5), (!ecn_capable, ecn_capable), "{lost} lost, {marks} marked");
    }
}

#[test]
fn state_of_a_flow_is_small() {
    let bytes = size_of::<FlowBacklog>();
    assert!(bytes <= 96, "{bytes} bytes per flow");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every unit leaves exactly once, by `pop` or by a drop, in its flow's order.
    ///
    /// The counters of the backlog are right after each step.
    #[test]
    fn nothing_is_lost_or_made_up(steps in prop::collection::vec((0..6u16, 40..9_000u32, 0..3u8, 0..20u64), 1..400)) {
        let config = QueueConfig { limit_bytes: 60_000, flow_limit_bytes: 30_000, ..QueueConfig::default() };
        let mut q = FqCodel::new(config);
        let mut waiting: BTreeMap<u16, VecDeque<(usize, u32)>> = BTreeMap::new();
        let mut clock = 0;
        for (n, (flow, bytes, action, later)) in steps.into_iter().enumerate() {
            clock += later;
            let mut gone = vec![];
            if action > 0 {
                waiting.entry(flow).or_default().push_back((n, bytes));
                q.enqueue(ms(clock), unit(flow, bytes), (flow, n), &mut |item| gone.push(item));
            } else if let Some(d) = q.dequeue(ms(clock), &mut |item| gone.push(item)) {
                gone.push(d.item);
            }
            for (flow, n) in gone {
                prop_assert_eq!(waiting.get_mut(&flow).and_then(VecDeque::pop_front).map(|(n, _)| n), Some(n));
            }
            let units = waiting.values().map(VecDeque::len).sum::<usize>();
            let bytes = waiting.values().flatten().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
            prop_assert_eq!((q.len(), q.backlog_bytes()), (units, bytes));
            prop_assert!(bytes <= config.limit_bytes);
        }
    }
}

#[test]
fn a_thousand_times_the_interval_overflows_nothing() {
    let slow =
        QueueConfig { interval: Duration::from_secs(u64::MAX), target: Duration::ZERO, ..QueueConfig::default() };
    let mut q = filled(slow, &[(1, 1_500, 10)]);
    assert!((0..10).all(|_| next(&mut q, 1_000_000).is_some()));
}
