//! The load report of a port, by class and in total.
//!
//! The caller ends an interval each 20 ms with [`Port::end_interval`](super::Port::end_interval) and then reads the
//! loads. The algorithms of [`weft_core::explicit_rate`] need the loads to keep the port at its target use.

use crate::ClassId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_core::explicit_rate::pi::LinkState;
use weft_units::{Duration, Instant, Rate};

/// Number of buckets of a delay histogram: four for each power of two up to 12 s, in units of 1,024 ns.
const DELAY_BUCKETS: usize = 90;
/// Share of the packets that wait no longer than [`PortLoad::queue_delay`], in percent.
const DELAY_PERCENT: u64 = 95;

/// Load of a port, or of one of its classes, in the last interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortLoad {
    /// Rate at which packets arrived, with those that were dropped.
    pub arrived: Rate,
    /// Rate at which packets left the queue.
    pub departed: Rate,
    /// Bytes that wait at the end of the interval.
    pub backlog_bytes: u64,
    /// Number of flows with packets that wait at the end of the interval.
    pub backlogged_flows: u32,
    /// Number of flows that sent in the interval.
    pub active_flows: u32,
    /// Queueing delay that 95 % of the packets that left did not exceed, rounded up by at most 25 %.
    pub queue_delay: Duration,
    /// Rate by which the port is below its target use. The same for all classes.
    pub headroom: Rate,
}

impl PortLoad {
    /// Load of a port that nothing crossed, or that is not measured.
    pub const NONE: PortLoad = PortLoad {
        arrived: Rate::ZERO,
        departed: Rate::ZERO,
        backlog_bytes: 0,
        backlogged_flows: 0,
        active_flows: 0,
        queue_delay: Duration::ZERO,
        headroom: Rate::ZERO,
    };

    /// Returns the input of the explicit-rate algorithms for a port of this capacity and mean RTT.
    pub fn link_state(&self, capacity: Rate, round_trip: Duration) -> LinkState {
        LinkState { capacity, arriving: self.arrived, queued_bytes: self.backlog_bytes, round_trip }
    }
}

/// Histogram of delays with relative error below 25 %.
#[derive(Clone, Debug)]
struct DelayHistogram {
    counts: [u32; DELAY_BUCKETS],
    total: u64,
}

impl DelayHistogram {
    const EMPTY: DelayHistogram = DelayHistogram { counts: [0; DELAY_BUCKETS], total: 0 };

    fn add(&mut self, delay: Duration) {
        let units = u64::try_from(delay.as_nanos() >> 10).unwrap_or(u64::MAX);
        self.counts[bucket(units).min(DELAY_BUCKETS - 1)] += 1;
        self.total += 1;
    }

    /// Returns the upper edge of the bucket that holds the percentile.
    fn percentile(&self, percent: u64) -> Duration {
        let rank = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank && rank > 0 {
                return Duration::from_nanos(lower_edge(at + 1) << 10);
            }
        }
        Duration::ZERO
    }
}

/// Returns the index of the bucket of a delay, which is given in units of 1,024 ns.
///
/// The index follows from the highest bit that is set and the two bits below it.
fn bucket(units: u64) -> usize {
    if units < 4 {
        return units as usize;
    }
    let power = 63 - units.leading_zeros();
    (power as usize - 1) * 4 + (units >> (power - 2)) as usize - 4
}

/// Returns the least delay of a bucket, in units of 1,024 ns.
fn lower_edge(bucket: usize) -> u64 {
    if bucket < 4 { bucket as u64 } else { (4 + bucket as u64 % 4) << (bucket / 4 - 1) }
}

/// Counts of one class in the interval in progress, and its load in the last one.
#[derive(Clone, Debug)]
struct ClassMeter {
    id: ClassId,
    arrived_bytes: u64,
    departed_bytes: u64,
    active_flows: u32,
    delays: DelayHistogram,
    load: PortLoad,
}

/// Load measurement of a port.
#[derive(Debug)]
pub(super) struct PortMeter {
    classes: Vec<ClassMeter>,
    numbers: BTreeMap<ClassId, u16>,
    interval: u32,
    began_at: Instant,
    total: PortLoad,
}

impl PortMeter {
    /// Returns a load measurement that has only the default class so far.
    pub(super) fn new() -> PortMeter {
        let (classes, numbers) = (Vec::new(), BTreeMap::new());
        let mut meter = PortMeter { classes, numbers, interval: 1, began_at: Instant::ZERO, total: PortLoad::NONE };
        meter.number(ClassId::default());
        meter
    }

    /// Returns the number of a class. A class that is new gets the next number.
    ///
    /// After 65,535 classes, all others share the number of the default class.
    pub(super) fn number(&mut self, id: ClassId) -> u16 {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let Ok(number) = u16::try_from(self.classes.len()) else { return 0 };
        let (delays, load) = (DelayHistogram::EMPTY, PortLoad::NONE);
        self.classes.push(ClassMeter { id, arrived_bytes: 0, departed_bytes: 0, active_flows: 0, delays, load });
        self.numbers.insert(id, number);
        number
    }

    /// Counts a packet that arrived. `active_in` is the interval in which its flow last sent.
    pub(super) fn on_arrival(&mut self, class: u16, bytes: u32, active_in: &mut u32) {
        let class = &mut self.classes[usize::from(class)];
        class.arrived_bytes += u64::from(bytes);
        if *active_in != self.interval {
            *active_in = self.interval;
            class.active_flows += 1;
        }
    }

    /// Counts a packet that left after it had waited for `sojourn`.
    pub(super) fn on_departure(&mut self, class: u16, bytes: u32, sojourn: Duration) {
        let class = &mut self.classes[usize::from(class)];
        class.departed_bytes += u64::from(bytes);
        class.delays.add(sojourn);
    }

    /// Adds bytes and backlogged flows to the backlog of a class. The numbers are negative if packets leave.
    pub(super) fn on_backlog(&mut self, class: u16, bytes: i64, flows: i32) {
        let load = &mut self.classes[usize::from(class)].load;
        load.backlog_bytes = load.backlog_bytes.saturating_add_signed(bytes);
        load.backlogged_flows = load.backlogged_flows.saturating_add_signed(flows);
    }

    /// Ends the interval. `target` is the rate that the port should carry.
    pub(super) fn end_interval(&mut self, now: Instant, target: Rate) {
        let elapsed = now.since(self.began_at);
        (self.began_at, self.interval) = (now, self.interval.wrapping_add(1));
        let (mut total, mut arrived, mut departed) = (PortLoad::NONE, 0, 0);
        let mut delays = DelayHistogram::EMPTY;
        for class in &mut self.classes {
            arrived += class.arrived_bytes;
            departed += class.departed_bytes;
            total.backlog_bytes += class.load.backlog_bytes;
            total.backlogged_flows += class.load.backlogged_flows;
            total.active_flows += class.active_flows;
            delays.total += class.delays.total;
            delays.counts.iter_mut().zip(&class.delays.counts).for_each(|(sum, count)| *sum += count);
        }
        total.arrived = Rate::from_bytes_over(arrived, elapsed);
        total.departed = Rate::from_bytes_over(departed, elapsed);
        total.queue_delay = delays.percentile(DELAY_PERCENT);
        total.headroom = Rate::from_bps(target.bps().saturating_sub(total.arrived.bps()));
        self.total = total;
        self.classes.iter_mut().for_each(|class| class.end_interval(elapsed, total.headroom));
    }

    /// Returns the load of the port in the last interval.
    pub(super) fn total(&self) -> PortLoad {
        self.total
    }

    /// Returns the load of each class in the last interval.
    pub(super) fn classes(&self) -> impl Iterator<Item = (ClassId, PortLoad)> {
        self.classes.iter().map(|class| (class.id, class.load))
    }
}

impl ClassMeter {
    fn end_interval(&mut self, elapsed: Duration, headroom: Rate) {
        self.load.arrived = Rate::from_bytes_over(self.arrived_bytes, elapsed);
        self.load.departed = Rate::from_bytes_over(self.departed_bytes, elapsed);
        self.load.active_flows = self.active_flows;
        self.load.queue_delay = self.delays.percentile(DELAY_PERCENT);
        self.load.headroom = headroom;
        (self.arrived_bytes, self.departed_bytes, self.active_flows) = (0, 0, 0);
        self.delays = DelayHistogram::EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn buckets_are_in_order_and_at_most_a_quarter_wide() {
        for at in 4..DELAY_BUCKETS {
            let (from, to) = (lower_edge(at), lower_edge(at + 1));
            assert_eq!((bucket(from), bucket(to - 1)), (at, at));
            assert!(to - from <= from / 4 + 1, "{from} to {to}");
        }
    }

    #[test]
    fn the_percentile_is_at_most_a_quarter_above_the_exact_one() {
        let mut rng = Rng::new(2);
        for _ in 0..200 {
            let (mut histogram, most) = (DelayHistogram::EMPTY, 10_000 + rng.below(1_000_000_000));
            let mut delays: alloc::vec::Vec<u64> = (0..1 + rng.below(500)).map(|_| 5_000 + rng.below(most)).collect();
            delays.iter().for_each(|nanos| histogram.add(Duration::from_nanos(*nanos)));
            delays.sort_unstable();
            let exact = delays[(delays.len() * 95).div_ceil(100) - 1];
            let told = histogram.percentile(95).as_nanos() as u64;
            assert!(told >= exact && told <= exact + exact / 4 + 2_048, "{told} for {exact}");
        }
    }
}
