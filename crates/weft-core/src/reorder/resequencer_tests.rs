use super::*;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use proptest::prelude::*;

const HOLD: Duration = Duration::from_millis(50);
const A: FlowId = FlowId(7);

fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// A resequencer of units that are plain numbers, and the flow and number of each unit that it delivered.
struct ResequencerBench {
    inner: Resequencer<u32>,
    out: Vec<(u16, u32)>,
}

impl ResequencerBench {
    fn new() -> ResequencerBench {
        ResequencerBench::with(ResequencerLimits::default())
    }

    fn with(limits: ResequencerLimits) -> ResequencerBench {
        ResequencerBench { inner: Resequencer::new(HOLD, limits), out: Vec::new() }
    }

    fn insert(&mut self, at: u64, flow: FlowId, seq: u32) -> Inserted<u32> {
        let out = &mut self.out;
        self.inner.insert(ms(at), flow, FlowSeq::new(seq), seq, &mut |flow, seq, item| {
            assert_eq!(seq.get(), item & 0x00ff_ffff);
            out.push((flow.0, item));
        })
    }

    fn expire(&mut self, at: u64) {
        let out = &mut self.out;
        self.inner.expire(ms(at), &mut |flow, _, item| out.push((flow.0, item)));
    }

    fn skip(&mut self, at: u64, flow: FlowId, seq: u32, count: u32) {
        let out = &mut self.out;
        self.inner.skip(ms(at), flow, FlowSeq::new(seq), count, &mut |flow, _, item| out.push((flow.0, item)));
    }

    fn delivered(&mut self) -> Vec<u32> {
        self.out.drain(..).map(|(_, seq)| seq).collect()
    }
}

#[test]
fn in_order_units_pass_at_once() {
    let mut b = ResequencerBench::new();
    for seq in 0..2_000 {
        assert_eq!(b.insert(0, A, seq), Inserted::Delivered);
    }
    assert_eq!(b.delivered(), (0..2_000).collect::<Vec<_>>());
    assert_eq!((b.inner.held(), b.inner.next_deadline()), (0, None));
}

#[test]
fn a_hole_is_filled_or_given_up_at_its_deadline() {
    let mut b = ResequencerBench::new();
    b.insert(0, A, 0);
    assert_eq!(b.insert(10, A, 2), Inserted::Held);
    assert_eq!(b.insert(11, A, 3), Inserted::Held);
    assert_eq!(b.insert(12, A, 5), Inserted::Held);
    assert_eq!(b.insert(13, A, 1), Inserted::Delivered);
    assert_eq!(b.delivered(), [0, 1, 2, 3]);
    assert!(b.inner.next_deadline().is_some_and(|at| at <= ms(62)));
    b.expire(61);
    assert_eq!(
        (b.delivered(), b.inner.next_deadline()),
        (vec![], Some(ms(62))),
        "a hole is as old as what came behind it"
    );
    b.expire(62);
    assert_eq!(b.delivered(), [5]);
    assert_eq!(b.insert(70, A, 4), Inserted::Late);
    assert_eq!(b.insert(71, A, 4), Inserted::Duplicate(4));
    assert_eq!(b.insert(71, A, 5), Inserted::Duplicate(5));
    assert_eq!(b.delivered(), [4]);
}

#[test]
fn only_up_to_the_next_hole_that_is_still_young() {
    let mut b = ResequencerBench::new();
    b.insert(0, A, 0);
    b.insert(0, A, 2);
    b.insert(20, A, 4);
    assert_eq!(b.insert(20, A, 4), Inserted::Duplicate(4));
    b.expire(50);
    assert_eq!((b.delivered(), b.inner.next_deadline()), (vec![0, 2], Some(ms(70))));
    b.insert(71, A, 5);
    assert_eq!(b.delivered(), [4, 5], "an arrival finds the deadline passed without a timer");
}

#[test]
fn flows_do_not_wait_for_each_other() {
    let mut b = ResequencerBench::new();
    b.insert(0, FlowId(1), 0);
    b.insert(0, FlowId(1), 2);
    for seq in 100..110 {
        assert_eq!(b.insert(1, FlowId(2), seq), Inserted::Delivered);
    }
    assert_eq!(b.inner.held(), 1);
}

#[test]
fn a_new_flow_starts_where_it_starts_with_a_short_grace() {
    let mut b = ResequencerBench::new();
    assert_eq!(b.insert(0, A, 500), Inserted::Delivered);
    assert_eq!(b.insert(0, A, 436), Inserted::Late);
    assert_eq!(b.insert(0, A, 435), Inserted::Duplicate(435));
    assert_eq!(b.insert(0, A, 436), Inserted::Duplicate(436));
}

#[test]
fn the_resequencer_does_not_wait_for_skipped_units() {
    let mut b = ResequencerBench::new();
    b.insert(0, A, 0);
    b.insert(1, A, 3);
    b.skip(2, A, 1, 2);
    assert_eq!(b.delivered(), [0, 3]);
    b.skip(3, A, 4, 2);
    assert_eq!(b.insert(4, A, 6), Inserted::Delivered, "skipped before anything came from behind");
    b.skip(5, A, 8, 1);
    b.insert(6, A, 9);
    assert_eq!(b.insert(7, A, 7), Inserted::Delivered);
    assert_eq!(b.delivered(), [6, 7, 9]);
    assert_eq!(b.insert(8, A, 8), Inserted::Late, "given up, but it came all the same");
    b.skip(9, A, 9, u32::MAX);
    b.skip(9, FlowId(99), 0, 5);
    assert_eq!(b.inner.held(), 0);
}

#[test]
fn the_sequence_wraps() {
    let mut b = ResequencerBench::new();
    for seq in [0x00ff_fffe, 0, 0x00ff_ffff, 2, 1] {
        b.insert(0, A, seq);
    }
    assert_eq!(b.delivered(), [0x00ff_fffe, 0x00ff_ffff, 0, 1, 2]);
}

#[test]
fn limits_make_a_flow_go_on_early() {
    let mut b = ResequencerBench::with(ResequencerLimits { per_flow: 32, total: 64 });
    b.insert(0, A, 0);
    for seq in 2..=32 {
        assert_eq!(b.insert(0, A, seq), Inserted::Held);
    }
    assert_eq!(b.insert(0, A, 33), Inserted::Delivered, "33 numbers from the hole on");
    assert_eq!(b.delivered(), [0].into_iter().chain(2..=33).collect::<Vec<_>>());
    for flow in 1..=4 {
        b.insert(0, FlowId(flow), 0);
        b.insert(0, FlowId(flow), 2);
    }
    assert_eq!(b.inner.held(), 4);
    b.insert(0, FlowId(5), 0);
    assert_eq!(b.insert(0, FlowId(5), 2), Inserted::Delivered, "no room left to wait");
    assert_eq!(b.insert(0, FlowId(1), 8_000_000), Inserted::Delivered, "a jump releases what was held");
    assert_eq!(b.inner.held(), 3);
}

#[test]
fn idle_state_goes_and_reset_forgets() {
    let mut b = ResequencerBench::new();
    for flow in 0..100 {
        b.insert(0, FlowId(flow), 0);
    }
    for flow in 100..200 {
        b.insert(60_000, FlowId(flow), 0);
    }
    assert!(b.inner.flows() < 150, "{} states", b.inner.flows());
    b.insert(60_000, FlowId(150), 2);
    let mut dropped = Vec::new();
    b.inner.reset(&mut |item| dropped.push(item));
    assert_eq!((dropped, b.inner.held(), b.inner.flows(), b.inner.next_deadline()), (vec![2], 0, 0, None));
    assert_eq!(b.insert(60_001, FlowId(150), 0), Inserted::Delivered);
}

#[test]
fn no_hold_means_no_wait() {
    let mut b = ResequencerBench::new();
    b.inner.set_hold(Duration::ZERO);
    b.insert(0, A, 0);
    assert_eq!(b.insert(0, A, 5), Inserted::Delivered);
    assert_eq!((b.delivered(), b.inner.held()), (vec![0, 5], 0));
}

#[test]
fn state_of_a_flow_is_small() {
    let bytes = Flows::<FlowOrder<[u64; 2]>>::bytes_per_flow();
    assert!(bytes <= 192, "{bytes} bytes per flow");
}

/// A simple model of the rules of [`Resequencer`], for comparison with it.
#[derive(Default)]
struct NaiveResequencer {
    first: Option<i64>,
    next: i64,
    top: i64,
    held: BTreeSet<i64>,
    missing_since: BTreeMap<i64, u64>,
    skipped: BTreeSet<i64>,
    delivered: BTreeSet<i64>,
}

impl NaiveResequencer {
    fn insert(&mut self, at: u64, seq: i64, out: &mut Vec<i64>) {
        if self.first.is_none() {
            (self.first, self.next) = (Some(seq), seq);
        }
        if self.delivered.contains(&seq) || self.held.contains(&seq) {
            return;
        }
        if seq < self.next {
            if self.first.is_some_and(|first| seq >= first - 64) && seq >= self.next - 1_024 {
                self.deliver(seq, out);
            }
            return;
        }
        self.note(at, seq);
        self.held.insert(seq);
        self.run(at, out);
    }

    /// Records that the unit of number `seq`, which the flow has not passed, arrived or was given up at time `at`.
    fn note(&mut self, at: u64, seq: i64) {
        for missing in self.top.max(self.next)..seq {
            self.missing_since.insert(missing, at);
        }
        self.top = self.top.max(seq + 1);
        self.missing_since.remove(&seq);
    }

    fn skip(&mut self, at: u64, seq: i64, count: i64, out: &mut Vec<i64>) {
        if self.first.is_none() {
            return;
        }
        for seq in seq.max(self.next)..seq + count {
            self.note(at, seq);
            self.skipped.insert(seq);
        }
        self.run(at, out);
    }

    fn run(&mut self, at: u64, out: &mut Vec<i64>) {
        while self.next < self.top {
            if self.held.remove(&self.next) {
                self.deliver(self.next, out);
            } else if !self.skipped.contains(&self.next) && self.missing_since[&self.next] + 50 > at {
                return;
            }
            self.next += 1;
        }
    }

    fn deliver(&mut self, seq: i64, out: &mut Vec<i64>) {
        self.delivered.insert(seq);
        out.push(seq);
    }
}

/// Generates arrivals (time, flow, sequence number): up to two copies of each unit, each with its own delay.
///
/// Some units never arrive.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u16, u32)>> {
    let copies = prop::collection::vec(prop_oneof![4 => 0..5u64, 2 => 0..60u64, 1 => 0..200u64], 0..3);
    let flow = prop::collection::vec(copies, 0..150);
    prop::collection::vec(flow, 1..4).prop_map(|flows| {
        let mut arrivals = Vec::new();
        for (flow, units) in flows.iter().enumerate() {
            for (seq, copies) in units.iter().enumerate() {
                arrivals.extend(copies.iter().map(|late| (seq as u64 + late, flow as u16, seq as u32)));
            }
        }
        arrivals.sort_by_key(|&(at, flow, seq)| (at, flow, seq.wrapping_mul(0x9e37_79b9)));
        arrivals
    })
}

/// An event of a flow: its time, the flow, the first sequence number, and the number of units given up.
///
/// The last number is zero if the event is the arrival of the unit with that sequence number.
type Happening = (u64, u16, u32, u32);

/// Generates arrivals, and short and long ranges of sequence numbers that the sender gives up.
fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let count = prop_oneof![4 => 1..4u32, 2 => 1..40u32, 1 => 1..3_000u32];
    let skips = prop::collection::vec((0..350u64, 0..3u16, 0..250u32, count), 0..30);
    (arrivals(), skips).prop_map(|(arrivals, skips)| {
        let mut all: Vec<Happening> = arrivals.into_iter().map(|(at, flow, seq)| (at, flow, seq, 0)).collect();
        all.extend(skips);
        all.sort_by_key(|happening| happening.0);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Giving up a range of units has the same effect as in the naive model, which gives them up one by one.
    ///
    /// The ranges lie before, among and after the arriving units.
    #[test]
    fn skips_ranges_as_the_naive_model_does(all in happenings(), start in prop_oneof![Just(0u32), Just(0x00ff_ffc0)]) {
        let mut bench = ResequencerBench::new();
        let mut naive: BTreeMap<u16, (NaiveResequencer, Vec<i64>)> = BTreeMap::new();
        let mut clock = 0;
        for (at, flow, n, count) in all {
            while clock < at {
                clock += 1;
                bench.expire(clock);
                naive.values_mut().for_each(|(model, out)| model.run(clock, out));
            }
            let (model, out) = naive.entry(flow).or_default();
            if count > 0 {
                bench.skip(at, FlowId(flow), start.wrapping_add(n), count);
                model.skip(at, i64::from(n), i64::from(count), out);
            } else {
                bench.insert(at, FlowId(flow), start.wrapping_add(n));
                model.insert(at, i64::from(n), out);
            }
            let held: usize = naive.values().map(|(model, _)| model.held.len()).sum();
            prop_assert_eq!(bench.inner.held(), held);
        }
        bench.expire(1_000);
        for (flow, (mut model, mut expected)) in naive {
            model.run(1_000, &mut expected);
            let of_flow = bench.out.iter().filter(|(f, _)| *f == flow);
            let got: Vec<i64> = of_flow.map(|(_, seq)| i64::from(seq.wrapping_sub(start) as i32)).collect();
            prop_assert_eq!(got, expected);
        }
    }

    /// Even with low limits, giving up a range of units has the same effect as giving them up one by one.
    #[test]
    fn limits_treat_a_range_as_its_numbers(all in happenings(), per_flow in prop_oneof![Just(16), Just(32), Just(64)]) {
        let limits = ResequencerLimits { per_flow, total: 1 << 20 };
        let mut benches = [ResequencerBench::with(limits), ResequencerBench::with(limits)];
        for (at, flow, n, count) in all {
            benches.iter_mut().for_each(|bench| bench.expire(at));
            if count > 0 {
                benches[0].skip(at, FlowId(flow), n, count);
                (n..n + count.min(per_flow)).for_each(|n| benches[1].skip(at, FlowId(flow), n, 1));
            } else {
                let [range, number] = benches.each_mut().map(|bench| bench.insert(at, FlowId(flow), n));
                prop_assert_eq!(range, number);
            }
            let [ranges, numbers] = &benches;
            prop_assert_eq!(&ranges.out, &numbers.out);
            prop_assert_eq!(ranges.inner.held(), numbers.inner.held());
        }
        let [ranges, numbers] = benches.map(|bench| bench.inner.next_deadline());
        prop_assert_eq!(ranges.is_some(), numbers.is_some());
    }

    /// Each flow delivers the same units as a naive model that serves only this flow.
    ///
    /// So no flow waits for another, no unit is delivered twice, and units leave out of order only after the hold time.
    #[test]
    fn does_what_the_naive_model_does(arrivals in arrivals(), start in prop_oneof![Just(0u32), Just(0x00ff_ffc0)]) {
        let mut bench = ResequencerBench::new();
        let mut naive: BTreeMap<u16, (NaiveResequencer, Vec<i64>)> = BTreeMap::new();
        let mut clock = 0;
        for (at, flow, n) in arrivals {
            while clock < at {
                clock += 1;
                bench.expire(clock);
                naive.values_mut().for_each(|(model, out)| model.run(clock, out));
            }
            bench.insert(at, FlowId(flow), start.wrapping_add(n));
            let (model, out) = naive.entry(flow).or_default();
            model.insert(at, i64::from(n), out);
            let held: usize = naive.values().map(|(model, _)| model.held.len()).sum();
            prop_assert_eq!(bench.inner.held(), held);
        }
        bench.expire(1_000);
        for (flow, (model, mut expected)) in naive {
            let mut model = model;
            model.run(1_000, &mut expected);
            let got: Vec<i64> =
                bench.out.iter().filter(|(f, _)| *f == flow).map(|(_, seq)| i64::from(seq.wrapping_sub(start) as i32)).collect();
            prop_assert_eq!(got, expected);
        }
    }

    /// Even with low limits, every unit is delivered exactly once, and the limits are not exceeded.
    #[test]
    fn limits_cost_order_and_nothing_else(arrivals in arrivals()) {
        let mut bench = ResequencerBench::with(ResequencerLimits { per_flow: 16, total: 32 });
        let mut sent = BTreeSet::new();
        for (at, flow, seq) in arrivals {
            bench.expire(at);
            bench.insert(at, FlowId(flow), seq);
            prop_assert!(bench.inner.held() <= 32);
            sent.insert((flow, seq));
        }
        bench.expire(1_000);
        prop_assert_eq!((bench.inner.held(), bench.inner.next_deadline()), (0, None));
        let delivered: BTreeSet<_> = bench.out.iter().copied().collect();
        prop_assert_eq!(delivered.len(), bench.out.len(), "nothing twice");
        let mut missing = sent.difference(&delivered);
        prop_assert!(missing.all(|(flow, seq)| {
            let first = bench.out.iter().find(|(f, _)| f == flow).map_or(0, |(_, seq)| *seq);
            seq + 64 < first
        }), "only what is older than the grace may be missing");
    }
}
