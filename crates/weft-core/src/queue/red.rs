//! RED, Random Early Detection (Floyd and Jacobson 1993).
//!
//! One FIFO drops or marks arrivals at random. The probability grows with the recent average queue length.

use super::early_drop::{EarlyDrop, RedConfig, Zone};
use super::fifo::Fifo;
use super::{Arrival, Dequeued, Expiry, HeadView, QueueConfig, QueueCounters};
use weft_units::{Instant, Rng};

/// One FIFO for all flows, controlled by RED.
///
/// Once the average is so high that every arrival is dropped, RED drops ECN-capable units too (RFC 7567 §4.2.1).
///
/// The reason is that the marks have then failed to make the senders slower.
#[derive(Debug)]
pub struct Red<T> {
    fifo: Fifo<T>,
    law: EarlyDrop,
    config: RedConfig,
    counters: QueueCounters,
}

impl<T> Red<T> {
    /// Returns an empty queue. `rng` decides which arrivals are dropped or marked.
    pub fn new(config: QueueConfig, rng: Rng) -> Red<T> {
        Red {
            fifo: Fifo::new(config.limit_bytes, config.limit_units),
            law: EarlyDrop::new(rng),
            config: config.red,
            counters: QueueCounters::default(),
        }
    }

    /// Changes limits and parameters. Units that already wait stay, even if the queue is now above its limit.
    pub fn configure(&mut self, config: QueueConfig) {
        self.fifo.set_limits(config.limit_bytes, config.limit_units);
        self.config = config.red;
    }

    /// Appends the unit `item` to the queue, perhaps with a CE mark, or drops it and passes it to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let queued = self.config.amount(self.fifo.len(), self.fifo.backlog_bytes());
        let (hit, full) = match self.law.arrival(now, queued, &self.config) {
            Zone::Calm => (false, false),
            Zone::Early(p_b) => (self.law.hits(p_b, arrival.bytes, &self.config), false),
            Zone::Full => (true, true),
        };
        let room = self.fifo.fits(arrival.bytes);
        if hit || !room {
            self.law.acted();
        }
        let mark = hit && !full && arrival.ecn_capable;
        match (room, hit && !mark) {
            (true, false) => {
                self.counters.marked += u64::from(mark);
                self.fifo.push(now, arrival, mark, item);
            }
            (_, true) => {
                self.counters.dropped_aqm += 1;
                dropped(item);
            }
            (false, false) => {
                self.counters.dropped_full += 1;
                dropped(item);
            }
        }
    }

    /// Returns the size and flow of the unit at the head of the queue, or `None` if the queue is empty.
    pub fn head(&self) -> Option<HeadView> {
        self.fifo.head()
    }

    /// Returns the item of the unit at the head of the queue, or `None` if the queue is empty.
    pub fn head_item(&self) -> Option<&T> {
        self.fifo.head_item()
    }

    /// Removes and returns the unit at the head of the queue.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let unit = self.fifo.pop(now)?;
        if self.fifo.len() == 0 {
            self.law.idle(now);
        }
        Some(unit)
    }

    /// Drops each unit whose [`Expiry`] has passed, and passes it to `dropped`.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        self.counters.dropped_stale += self.fifo.expire(now, expiry, &mut |_, _, item| dropped(item));
        if self.fifo.len() == 0 {
            self.law.idle(now);
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

    /// Returns the moving average of the queue's length, which determines the probability of a drop or mark.
    ///
    /// It is in units or in bytes, as [`Measure`](crate::queue::Measure) of the configuration selects.
    pub fn average(&self) -> f64 {
        self.law.average()
    }

    /// Returns the counts of units dropped and marked so far.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Measure;
    use alloc::vec::Vec;
    use weft_units::{Duration, FlowId};

    const RED: RedConfig = RedConfig {
        measure: Measure::Units,
        min_threshold: 10.0,
        max_threshold: 30.0,
        max_p: 0.1,
        weight: 0.002,
        gentle: false,
        mean_unit_bytes: 1_000,
        mean_transmission: Duration::from_millis(1),
    };

    fn config(red: RedConfig) -> QueueConfig {
        QueueConfig { limit_units: 100, red, ..QueueConfig::default() }
    }

    fn unit(ecn_capable: bool) -> Arrival {
        Arrival { flow: FlowId(0), bytes: 1_000, ecn_capable }
    }

    /// Offers `arrivals` units to a queue that is kept at `level` units.
    ///
    /// Returns the numbers dropped and marked, and the queue.
    fn at_level(level: usize, ecn_capable: bool, config: QueueConfig, arrivals: u32) -> (u32, u32, Red<u32>) {
        let mut q = Red::new(config, Rng::new(3));
        let (mut dropped, mut marked) = (0, 0);
        for n in 0..arrivals {
            q.enqueue(Instant::ZERO, unit(ecn_capable), n, &mut |_| dropped += 1);
            while q.len() > level {
                marked += u32::from(q.pop(Instant::ZERO).unwrap().mark_ce);
            }
        }
        (dropped, marked, q)
    }

    #[test]
    fn a_standing_queue_is_dropped_from_at_the_papers_rate() {
        // At an average of 20 units the drop probability p_b of the RED paper (Floyd and Jacobson 1993) is 0.05. The
        // mean number of arrivals from one drop to the next is then 1/(2 p_b) = 10. The first few thousand arrivals
        // only raise the average to 20.
        let (dropped, _, q) = at_level(20, false, config(RED), 100_000);
        assert!((q.average() - 20.0).abs() < 0.2, "{}", q.average());
        assert!((9_300..10_300).contains(&dropped), "{dropped}");
        assert_eq!(q.counters(), QueueCounters { dropped_aqm: dropped.into(), ..QueueCounters::default() });
        assert_eq!(at_level(9, false, config(RED), 100_000).0, 0);
    }

    #[test]
    fn ecn_capable_units_are_marked_instead_of_dropped() {
        let (dropped, marked, q) = at_level(20, true, config(RED), 100_000);
        assert_eq!(dropped, 0);
        assert!((9_300..10_300).contains(&marked), "{marked}");
        assert!(q.counters().marked >= marked.into() && q.counters().marked <= u64::from(marked) + 20);
    }

    #[test]
    fn above_the_upper_threshold_everything_goes_marks_or_not() {
        for ecn_capable in [false, true] {
            let (_, _, mut q) = at_level(40, ecn_capable, config(RED), 10_000);
            assert!(q.average() >= 30.0, "{}", q.average());
            let before = q.len();
            q.enqueue(Instant::ZERO, unit(ecn_capable), 0, &mut |_| ());
            assert_eq!(q.len(), before);
        }
    }

    #[test]
    fn gentle_lets_some_through_up_to_twice_the_threshold() {
        let (_, _, mut q) = at_level(40, true, config(RedConfig { gentle: true, ..RED }), 10_000);
        assert!(q.average() > 35.0, "{}", q.average());
        let mut through = 0;
        for n in 0..100 {
            let before = q.counters().marked;
            q.enqueue(Instant::ZERO, unit(true), n, &mut |_| ());
            through += u32::from(q.counters().marked == before);
            q.pop(Instant::ZERO);
        }
        assert!((5..95).contains(&through), "{through} of 100 neither dropped nor marked");
        assert_eq!(q.counters().dropped_aqm, 0);
    }

    #[test]
    fn a_burst_into_an_empty_queue_passes_and_the_limits_hold() {
        let mut q = Red::new(config(RED), Rng::new(1));
        let mut lost = Vec::new();
        (0..101).for_each(|n| q.enqueue(Instant::ZERO, unit(true), n, &mut |n| lost.push(n)));
        assert_eq!((lost.as_slice(), q.len()), (&[100][..], 100));
        assert_eq!(q.counters(), QueueCounters { dropped_full: 1, ..QueueCounters::default() });
        let mut q = Red::new(QueueConfig { limit_bytes: 2_500, ..config(RED) }, Rng::new(1));
        (0..3).for_each(|n| q.enqueue(Instant::ZERO, unit(true), n, &mut |_| ()));
        assert_eq!((q.len(), q.backlog_bytes(), q.counters().dropped_full), (2, 2_000, 1));
    }

    #[test]
    fn the_average_falls_while_the_queue_is_empty() {
        let (_, _, mut q) = at_level(25, false, config(RED), 20_000);
        let end = Instant::from_millis(500);
        while q.pop(end).is_some() {}
        let before = q.average();
        q.enqueue(end + Duration::from_millis(300), unit(false), 0, &mut |_| ());
        assert!((q.average() - before * 0.998_f64.powi(300)).abs() < 1e-6, "{before} {}", q.average());
    }
}
