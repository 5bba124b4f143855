//! Properties of every queue discipline.
//!
//! Each unit leaves once, by `pop` or by a drop, and the counters match.

use proptest::prelude::*;
use std::collections::BTreeSet;
use weft_core::queue::{Arrival, Expiry, FlowQueue, FredConfig, Measure, QueueConfig, QueueKind, RedConfig};
use weft_units::{Duration, FlowId, Instant, Rng};

const KINDS: [QueueKind; 5] =
    [QueueKind::FqCodel, QueueKind::DropTail, QueueKind::Codel, QueueKind::Red, QueueKind::Fred];

#[derive(Clone, Copy, Debug)]
enum Step {
    Enqueue(Arrival),
    Dequeue,
    Wait(Duration),
    /// Drops units older than this. The newest unit of a flow is dropped at twice this age.
    Expire(Duration),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arrival = (0..40u16, 0..9_000u32, any::<bool>())
        .prop_map(|(flow, bytes, ecn_capable)| Step::Enqueue(Arrival { flow: FlowId(flow), bytes, ecn_capable }));
    let wait = (0..40u64).prop_map(|ms| Step::Wait(Duration::from_millis(ms)));
    let expire = (0..400u64).prop_map(|ms| Step::Expire(Duration::from_millis(ms)));
    let steps = prop_oneof![50 => arrival, 30 => Just(Step::Dequeue), 20 => wait, 1 => expire];
    prop::collection::vec(steps, 1..800)
}

/// Generates parameters under which every discipline acts within a few hundred units.
fn configs() -> impl Strategy<Value = QueueConfig> {
    let limits = (1_000..200_000u64, 1..60usize);
    (limits, any::<[bool; 3]>(), 1..20u32).prop_map(|((limit_bytes, limit_units), [gentle, in_bytes, two], least)| {
        let (measure, unit) = if in_bytes { (Measure::Bytes, 4_500.0) } else { (Measure::Units, 1.0) };
        let min_threshold = f64::from(least) * unit;
        QueueConfig {
            target: Duration::from_millis(1),
            interval: Duration::from_millis(10),
            limit_bytes,
            limit_units,
            red: RedConfig {
                measure,
                min_threshold,
                max_threshold: 3.0 * min_threshold,
                weight: 0.2,
                gentle,
                mean_unit_bytes: 4_500,
                ..RedConfig::default()
            },
            fred: FredConfig { two_packet_buffers: two, ..FredConfig::default() },
            ..QueueConfig::default()
        }
    })
}

/// Units that left a queue, and the way in which they left.
#[derive(Default)]
struct Ledger {
    waiting: BTreeSet<(usize, u32)>,
    dropped: u64,
    marked: u64,
}

fn check(kind: QueueKind, config: QueueConfig, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut q = FlowQueue::with_rng(kind, config, Rng::new(11));
    let (mut ledger, mut now, mut newest_out) = (Ledger::default(), Instant::ZERO, None);
    let mut came = vec![];
    for (n, step) in steps.iter().enumerate() {
        let mut dropped = vec![];
        came.push(now);
        match *step {
            Step::Wait(time) => now += time,
            Step::Expire(age) => {
                let expiry = |n: &usize| Expiry { superseded_at: came[*n] + age, useless_at: came[*n] + age * 2 };
                q.expire(now, &expiry, &mut |item| dropped.push(item));
                for item in &dropped {
                    prop_assert!(now - came[*item] >= age, "{} was not old", item);
                }
            }
            Step::Enqueue(arrival) => {
                ledger.waiting.insert((n, arrival.bytes));
                q.enqueue(now, arrival, n, &mut |item| dropped.push(item));
            }
            Step::Dequeue => {
                if let Some(out) = q.dequeue(now, &mut |item| dropped.push(item)) {
                    prop_assert!(ledger.waiting.remove(&(out.item, out.bytes)), "{} was not waiting", out.item);
                    let Some(Step::Enqueue(arrival)) = steps.get(out.item).copied() else { unreachable!() };
                    prop_assert_eq!((out.flow, out.bytes), (arrival.flow, arrival.bytes));
                    prop_assert!(!out.mark_ce || arrival.ecn_capable, "a mark on what cannot be marked");
                    ledger.marked += u64::from(out.mark_ce);
                    if kind != QueueKind::FqCodel {
                        prop_assert!(newest_out < Some(out.item), "out of order");
                        newest_out = Some(out.item);
                    }
                }
            }
        }
        ledger.dropped += dropped.len() as u64;
        for item in dropped {
            let known = ledger.waiting.iter().find(|(n, _)| *n == item).copied();
            prop_assert!(known.is_some_and(|unit| ledger.waiting.remove(&unit)), "{} was dropped twice", item);
        }
        let bytes = ledger.waiting.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
        prop_assert_eq!((q.len(), q.backlog_bytes()), (ledger.waiting.len(), bytes));
        prop_assert!(q.len() <= config.limit_units && bytes <= config.limit_bytes);
        let counters = q.counters();
        prop_assert_eq!(counters.dropped_full + counters.dropped_aqm + counters.dropped_stale, ledger.dropped);
        prop_assert!(
            (ledger.marked..=ledger.marked + q.len() as u64 + counters.dropped_stale).contains(&counters.marked)
        );
        if let (FlowQueue::Fred(fred), false) = (&q, ledger.waiting.is_empty()) {
            prop_assert!((1..=q.len()).contains(&fred.active_flows()), "state without units");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_unit_left_or_was_dropped_or_waits(config in configs(), steps in steps()) {
        for kind in KINDS {
            check(kind, config, &steps)?;
        }
    }
}

#[test]
fn the_same_numbers_give_the_same_drops_and_others_give_others() {
    let red = RedConfig { min_threshold: 8.0, weight: 0.1, ..RedConfig::default() };
    let config = QueueConfig { red, ..QueueConfig::default() };
    for kind in [QueueKind::Red, QueueKind::Fred] {
        let drops = |seed| {
            let mut q = FlowQueue::with_rng(kind, config, Rng::new(seed));
            let mut dropped = vec![];
            for n in 0..2_000u32 {
                let arrival = Arrival { flow: FlowId((n % 2) as u16), bytes: 1_500, ecn_capable: false };
                q.enqueue(Instant::ZERO, arrival, n, &mut |n| dropped.push(n));
                if q.len() > 10 {
                    q.dequeue(Instant::ZERO, &mut |_| ());
                }
            }
            dropped
        };
        assert!(!drops(1).is_empty());
        assert_eq!(drops(1), drops(1));
        assert_ne!(drops(1), drops(2));
    }
}
