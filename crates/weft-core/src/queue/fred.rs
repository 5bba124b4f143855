//! FRED, Fair Random Early Drop: RED with per-flow accounting.
//!
//! The source is Lin and Morris, "Dynamics of Random Early Detection", SIGCOMM 1997. It has three rules. It never drops
//! units of a flow early while the flow has few units in the queue (a fragile flow). It limits a flow that exceeds its
//! share again and again to that share (a non-adaptive flow). It applies RED to all other flows (robust flows). Only
//! flows with units in the queue have state.

use super::early_drop::{EarlyDrop, RedConfig, Zone};
use super::fifo::Fifo;
use super::{Arrival, Dequeued, Expiry, HeadView, QueueConfig, QueueCounters};
use crate::flow::hash::SeededState;
use hashbrown::HashMap;
use weft_units::{FlowId, Instant, Rng};

/// Maximum number of units of one flow in the queue while the average queue is above the maximum threshold.
///
/// It applies only with [`FredConfig::two_packet_buffers`]. *Standard*: the two-packet mode of Lin and Morris.
const TWO_PACKETS: f64 = 2.0;

/// FRED's parameters beyond RED's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FredConfig {
    /// FRED never drops units of a flow at random while fewer than this number of its units are in the queue.
    ///
    /// Lin and Morris use 2 to 4.
    pub min_queued_units: u32,
    /// If set, each flow may have two units in the queue while the average is above the maximum threshold.
    ///
    /// If not set, every arrival is dropped above that threshold. The setting is for links with many flows.
    pub two_packet_buffers: bool,
}

impl Default for FredConfig {
    /// Returns 2 units, without two-packet buffers.
    fn default() -> FredConfig {
        FredConfig { min_queued_units: 2, two_packet_buffers: false }
    }
}

/// One flow's part of the queue.
#[derive(Clone, Copy, Default, Debug)]
struct FredFlow {
    units: usize,
    bytes: u64,
    /// Number of times that the flow tried to exceed its limit of units in the queue.
    strikes: u32,
}

/// Decision about an arrival that fits into the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FredVerdict {
    Accept,
    /// The random draw selected the unit. Mark it, or drop it if it is not ECN-capable.
    Signal,
    Drop,
}

/// One FIFO for all flows, controlled by FRED.
#[derive(Debug)]
pub struct Fred<T> {
    fifo: Fifo<T>,
    law: EarlyDrop,
    red: RedConfig,
    config: FredConfig,
    flows: HashMap<FlowId, FredFlow, SeededState>,
    counters: QueueCounters,
}

impl<T> Fred<T> {
    /// Returns an empty queue. Its random drops depend only on `rng`.
    pub fn new(config: QueueConfig, rng: Rng) -> Fred<T> {
        Fred {
            fifo: Fifo::new(config.limit_bytes, config.limit_units),
            law: EarlyDrop::new(rng),
            red: RedConfig { gentle: false, ..config.red },
            config: config.fred,
            flows: HashMap::with_hasher(SeededState::new(0)),
            counters: QueueCounters::default(),
        }
    }

    /// Changes limits and parameters. Units that already wait stay, even above a smaller limit.
    pub fn configure(&mut self, config: QueueConfig) {
        self.fifo.set_limits(config.limit_bytes, config.limit_units);
        self.red = RedConfig { gentle: false, ..config.red };
        self.config = config.fred;
    }

    /// Appends `item`, perhaps with a CE mark, or passes it to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let verdict = self.judge(now, &arrival);
        let room = self.fifo.fits(arrival.bytes);
        if verdict != FredVerdict::Accept || !room {
            self.law.acted();
        }
        let mark = verdict == FredVerdict::Signal && arrival.ecn_capable;
        if verdict != FredVerdict::Accept && !mark {
            self.counters.dropped_aqm += 1;
            return dropped(item);
        }
        if !room {
            self.counters.dropped_full += 1;
            return dropped(item);
        }
        let flow = self.flows.entry(arrival.flow).or_default();
        flow.units += 1;
        flow.bytes += u64::from(arrival.bytes);
        self.counters.marked += u64::from(mark);
        self.fifo.push(now, arrival, mark, item);
    }

    fn judge(&mut self, now: Instant, arrival: &Arrival) -> FredVerdict {
        let zone = self.law.arrival(now, self.queued(), &self.red);
        let share = self.share();
        let full = zone == Zone::Full;
        let most = if full { TWO_PACKETS * self.red.usual_unit() } else { self.red.min_threshold };
        let mut held = 0.0;
        if let Some(flow) = self.flows.get_mut(&arrival.flow) {
            held = self.red.amount(flow.units, flow.bytes);
            if held >= most || (full && held > 2.0 * share) || (held >= share && flow.strikes > 1) {
                flow.strikes = flow.strikes.saturating_add(1);
                return FredVerdict::Drop;
            }
        }
        match zone {
            Zone::Calm => FredVerdict::Accept,
            Zone::Early(p_b) => {
                let least = f64::from(self.config.min_queued_units) * self.red.usual_unit();
                let robust = held >= least.max(share);
                if robust && self.law.hits(p_b, arrival.bytes, &self.red) {
                    FredVerdict::Signal
                } else {
                    FredVerdict::Accept
                }
            }
            Zone::Full if self.config.two_packet_buffers => FredVerdict::Accept,
            Zone::Full => FredVerdict::Drop,
        }
    }

    fn queued(&self) -> f64 {
        self.red.amount(self.fifo.len(), self.fifo.backlog_bytes())
    }

    /// Returns each flow's share: the average queue divided by the number of flows in it, at least one unit.
    fn share(&self) -> f64 {
        (self.law.average() / self.flows.len().max(1) as f64).max(self.red.usual_unit())
    }

    /// Returns the size and flow of the unit that leaves next.
    pub fn head(&self) -> Option<HeadView> {
        self.fifo.head()
    }

    /// Returns the item at the head of the queue.
    pub fn head_item(&self) -> Option<&T> {
        self.fifo.head_item()
    }

    /// Removes and returns the unit at the head of the queue.
    ///
    /// A departure updates the average queue, as an arrival does. Otherwise the average would not fall while all
    /// arrivals are dropped.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let unit = self.fifo.pop(now)?;
        forget_unit(&mut self.flows, unit.flow, unit.bytes);
        self.on_departure(now);
        Some(unit)
    }

    fn on_departure(&mut self, now: Instant) {
        if self.fifo.len() == 0 {
            self.law.idle(now);
        } else {
            self.law.sample(self.queued(), &self.red);
        }
    }

    /// Drops each unit whose [`Expiry`] has passed, and passes it to `dropped`.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        let flows = &mut self.flows;
        let expired = self.fifo.expire(now, expiry, &mut |flow, bytes, item| {
            forget_unit(flows, flow, bytes);
            dropped(item);
        });
        if expired > 0 {
            self.counters.dropped_stale += expired;
            self.on_departure(now);
        }
    }

    /// Number of units in the queue.
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// True if the queue holds no unit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Backlog of the queue in bytes.
    pub fn backlog_bytes(&self) -> u64 {
        self.fifo.backlog_bytes()
    }

    /// Returns the average queue that determines the drops, in the configured unit (units or bytes).
    pub fn average(&self) -> f64 {
        self.law.average()
    }

    /// Number of flows with units in the queue.
    pub fn active_flows(&self) -> usize {
        self.flows.len()
    }

    /// Returns the counts of units dropped and marked so far.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }
}

/// Removes a unit that has left from its flow's counters. Deletes the flow's state with its last unit.
fn forget_unit(flows: &mut HashMap<FlowId, FredFlow, SeededState>, id: FlowId, bytes: u32) {
    let Some(flow) = flows.get_mut(&id) else { return };
    flow.units -= 1;
    flow.bytes -= u64::from(bytes);
    if flow.units == 0 {
        flows.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Measure;
    use alloc::vec::Vec;
    use weft_units::Duration;

    const RED: RedConfig = RedConfig {
        measure: Measure::Units,
        min_threshold: 12.0,
        max_threshold: 25.0,
        max_p: 0.02,
        weight: 0.002,
        gentle: false,
        mean_unit_bytes: 1_000,
        mean_transmission: Duration::from_millis(1),
    };

    fn config(red: RedConfig) -> QueueConfig {
        QueueConfig { limit_units: 50, red, ..QueueConfig::default() }
    }

    fn unit(flow: u16) -> Arrival {
        Arrival { flow: FlowId(flow), bytes: 1_000, ecn_capable: false }
    }

    /// Returns the number of units of each flow that left in `millis` milliseconds.
    ///
    /// One unit leaves each millisecond. Flow i sends `rates[i]` units per millisecond.
    fn share_link(q: &mut Fred<u16>, rates: &[f64], millis: u64) -> Vec<u32> {
        let (mut due, mut left) = (alloc::vec![0.0; rates.len()], alloc::vec![0; rates.len()]);
        for ms in 0..millis {
            let now = Instant::from_millis(ms);
            for (flow, rate) in (0u16..).zip(rates) {
                due[usize::from(flow)] += rate;
                while due[usize::from(flow)] >= 1.0 {
                    due[usize::from(flow)] -= 1.0;
                    q.enqueue(now, unit(flow), flow, &mut |_| ());
                }
            }
            if let Some(unit) = q.pop(now) {
                left[usize::from(unit.item)] += 1;
            }
        }
        left
    }

    #[test]
    fn a_fragile_flow_loses_nothing_beside_a_flood() {
        let mut q = Fred::new(config(RED), Rng::new(1));
        let rates = [0.05, 2.0];
        let left = share_link(&mut q, &rates, 20_000);
        assert!((1_000 - left[0]) <= 2, "{left:?}");
        assert!(q.counters().dropped_aqm > 15_000 && q.counters().dropped_full == 0, "{:?}", q.counters());
    }

    #[test]
    fn a_flood_gets_little_more_than_its_share() {
        let mut q = Fred::new(config(RED), Rng::new(1));
        // Four flows together use 80 % of the link. A fifth flow sends three times the rate of the link.
        let left = share_link(&mut q, &[0.2, 0.2, 0.2, 0.2, 3.0], 50_000);
        for polite in &left[..4] {
            assert!(*polite > 9_000, "{left:?}");
        }
        assert!(left[4] < 14_000, "{left:?}");
    }

    #[test]
    fn no_flow_holds_more_than_the_lower_threshold() {
        let mut q = Fred::new(config(RED), Rng::new(1));
        (0..40).for_each(|_| q.enqueue(Instant::ZERO, unit(1), 1, &mut |_| ()));
        assert_eq!((q.len(), q.counters().dropped_aqm), (12, 28));
        // After two attempts to exceed its limit, FRED keeps the flow at the average queue per flow, which is at least
        // one unit.
        while q.len() > 1 {
            q.pop(Instant::ZERO);
        }
        q.enqueue(Instant::ZERO, unit(1), 1, &mut |_| ());
        assert_eq!(q.len(), 1);
        // The flow's state, with its strikes, is deleted when its last unit leaves.
        q.pop(Instant::ZERO);
        assert_eq!(q.active_flows(), 0);
        (0..5).for_each(|_| q.enqueue(Instant::ZERO, unit(1), 1, &mut |_| ()));
        assert_eq!(q.len(), 5);
    }

    #[test]
    fn robust_flows_meet_reds_probability() {
        // Two flows send alternately, with 18 units in total in the queue. Each has its share of 9 units. p_b is 0.02 ·
        // 6/13.
        let mut q = Fred::new(config(RED), Rng::new(5));
        let mut dropped = 0u32;
        for n in 0..200_000u32 {
            q.enqueue(Instant::ZERO, unit((n % 2) as u16), 0, &mut |_| dropped += u32::from(n >= 10_000));
            if q.len() > 18 {
                q.pop(Instant::ZERO);
            }
        }
        let p_b = 0.02 * (q.average() - 12.0) / 13.0;
        let share = f64::from(dropped) / 190_000.0;
        // RED would drop 2 p_b of the arrivals. FRED drops only arrivals of flows that have at least their share in the
        // queue. These are between half of the arrivals and all of them.
        assert!((0.9..2.1).contains(&(share / p_b)), "{share} dropped, p_b {p_b}");
        assert!(q.counters().dropped_full == 0 && q.active_flows() == 2);
    }

    /// Returns a queue in which many flows have one unit each, and whose average is above the maximum threshold.
    fn crowded(two_packet_buffers: bool) -> Fred<u16> {
        let fred = FredConfig { two_packet_buffers, ..FredConfig::default() };
        let mut q = Fred::new(QueueConfig { fred, ..config(RED) }, Rng::new(1));
        for n in 0..10_000u16 {
            q.enqueue(Instant::ZERO, unit(n % 100), n, &mut |_| ());
            if q.len() > 40 {
                q.pop(Instant::ZERO);
            }
        }
        q
    }

    #[test]
    fn above_the_upper_threshold_nothing_comes_in_but_two_units_a_flow_if_asked_for() {
        let mut strict = crowded(false);
        assert!(strict.average() > 30.0, "{}", strict.average());
        let before = strict.len();
        strict.enqueue(Instant::ZERO, unit(200), 0, &mut |_| ());
        assert_eq!(strict.len(), before);

        let mut open = crowded(true);
        assert!(open.average() > 30.0, "{}", open.average());
        let before = open.len();
        (0..5).for_each(|_| open.enqueue(Instant::ZERO, unit(200), 0, &mut |_| ()));
        assert_eq!(open.len(), before + 2);
    }

    #[test]
    fn random_early_drops_mark_ecn_capable_units_and_penalties_drop_them() {
        let mut q = Fred::new(config(RED), Rng::new(5));
        let (mut marked, mut dropped) = (0u64, 0u64);
        for n in 0..100_000u32 {
            let arrival = Arrival { ecn_capable: true, ..unit((n % 2) as u16) };
            q.enqueue(Instant::ZERO, arrival, 0, &mut |_| dropped += 1);
            if q.len() > 18 {
                marked += u64::from(q.pop(Instant::ZERO).unwrap().mark_ce);
            }
        }
        assert!(marked > 500 && dropped == 0 && q.counters().marked >= marked, "{marked} marked, {dropped} dropped");
        (0..40).for_each(|_| {
            q.enqueue(Instant::ZERO, Arrival { ecn_capable: true, ..unit(9) }, 0, &mut |_| dropped += 1);
        });
        assert!(dropped >= 28, "{dropped}");
    }

    #[test]
    fn in_bytes_a_share_is_bytes() {
        let red = RedConfig { measure: Measure::Bytes, min_threshold: 12_000.0, max_threshold: 25_000.0, ..RED };
        let mut q = Fred::new(config(red), Rng::new(1));
        for _ in 0..40 {
            q.enqueue(Instant::ZERO, Arrival { bytes: 500, ..unit(1) }, 1, &mut |_| ());
        }
        assert_eq!((q.len(), q.backlog_bytes()), (24, 12_000));
    }

    #[test]
    fn departures_count_in_the_average() {
        let mut q = Fred::new(config(RED), Rng::new(1));
        (0..10).for_each(|n| q.enqueue(Instant::ZERO, unit(n), n, &mut |_| ()));
        let before = q.average();
        q.pop(Instant::ZERO);
        assert!((q.average() - (before + 0.002 * (9.0 - before))).abs() < 1e-12);
    }
}
