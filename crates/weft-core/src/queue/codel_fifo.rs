//! CoDel (RFC 8289) as the only queue of a link.
//!
//! All flows share one FIFO. CoDel decides at its head which units to drop or mark.

use super::codel::{Codel, CodelParams};
use super::fifo::Fifo;
use super::{Arrival, Dequeued, Expiry, HeadView, QueueConfig, QueueCounters};
use weft_units::Instant;

/// One FIFO for all flows, from whose head CoDel drops or marks units.
#[derive(Debug)]
pub struct CodelFifo<T> {
    fifo: Fifo<T>,
    codel: Codel,
    params: CodelParams,
    counters: QueueCounters,
}

impl<T> CodelFifo<T> {
    /// Returns an empty queue.
    pub fn new(config: QueueConfig) -> CodelFifo<T> {
        CodelFifo {
            fifo: Fifo::new(config.limit_bytes, config.limit_units),
            codel: Codel::NEW,
            params: params(&config),
            counters: QueueCounters::default(),
        }
    }

    /// Changes limits and times. Units that already wait stay, even above a smaller limit.
    pub fn configure(&mut self, config: QueueConfig) {
        self.fifo.set_limits(config.limit_bytes, config.limit_units);
        self.params = params(&config);
    }

    /// Appends `item`, or passes it to `dropped` if a limit is reached.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        if !self.fifo.fits(arrival.bytes) {
            self.counters.dropped_full += 1;
            return dropped(item);
        }
        self.fifo.push(now, arrival, false, item);
    }

    /// Selects the unit that leaves next.
    ///
    /// Passes the units that CoDel drops before it to `dropped` (RFC 8289 §5.5).
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<HeadView> {
        loop {
            let backlog_bytes = self.fifo.backlog_bytes();
            let Some(unit) = self.fifo.front_mut() else {
                self.codel.idle();
                return None;
            };
            if unit.marked || !self.codel.condemns(now, now.since(unit.since), backlog_bytes, &self.params) {
                break;
            }
            if unit.ecn_capable {
                unit.marked = true;
                self.counters.marked += 1;
                break;
            }
            self.counters.dropped_aqm += 1;
            if let Some(unit) = self.fifo.pop(now) {
                dropped(unit.item);
            }
        }
        self.fifo.head()
    }

    /// Returns the item that the last [`CodelFifo::head`] selected.
    pub fn head_item(&self) -> Option<&T> {
        self.fifo.head_item()
    }

    /// Removes and returns the unit that the last [`CodelFifo::head`] selected.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        self.fifo.pop(now)
    }

    /// Drops each unit whose [`Expiry`] has passed, and passes it to `dropped`.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        self.counters.dropped_stale += self.fifo.expire(now, expiry, &mut |_, _, item| dropped(item));
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

    /// Returns the counts of units dropped and marked so far.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }
}

fn params(config: &QueueConfig) -> CodelParams {
    CodelParams { target: config.target, interval: config.interval, mtu_bytes: config.quantum_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_units::FlowId;

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    /// Returns the time in milliseconds of each drop or mark until `until_ms`, in a queue that never becomes empty.
    ///
    /// The queue starts with 1000 units. Each millisecond one unit arrives and one leaves.
    fn acted_at(ecn_capable: bool, until_ms: u64) -> (Vec<u64>, QueueCounters) {
        let mut q = CodelFifo::new(QueueConfig::default());
        let arrival = Arrival { flow: FlowId(0), bytes: 1_500, ecn_capable };
        (0..1_000).for_each(|_| q.enqueue(ms(0), arrival, (), &mut |()| ()));
        let mut at = Vec::new();
        for now in 0..until_ms {
            let mut lost = 0;
            let marked = q.head(ms(now), &mut |()| lost += 1).is_some() && q.pop(ms(now)).is_some_and(|d| d.mark_ce);
            q.enqueue(ms(now), arrival, (), &mut |()| ());
            at.extend((0..lost + usize::from(marked)).map(|_| now));
        }
        (at, q.counters())
    }

    #[test]
    fn acts_after_an_interval_above_the_target_then_at_the_square_root_spacing() {
        // The queueing delay first reaches the target of 5 ms at the time 5 ms. At 105 ms it has stayed above the
        // target for one interval.
        let expected = [105, 205, 276, 334, 384];
        let (dropped, counters) = acted_at(false, 400);
        assert_eq!((dropped.as_slice(), counters.dropped_aqm, counters.marked), (&expected[..], 5, 0));
        let (marked, counters) = acted_at(true, 400);
        assert_eq!((marked.as_slice(), counters.dropped_aqm, counters.marked), (&expected[..], 0, 5));
    }

    #[test]
    fn a_mark_stays_with_its_unit_however_often_the_head_is_asked_for() {
        let mut q = CodelFifo::new(QueueConfig::default());
        let arrival = Arrival { flow: FlowId(0), bytes: 1_500, ecn_capable: true };
        (0..9).for_each(|n| q.enqueue(ms(0), arrival, n, &mut |_| ()));
        q.head(ms(10), &mut |_| ());
        for now in 110..140 {
            assert!(q.head(ms(now), &mut |_| ()).is_some());
        }
        let first = q.pop(ms(140)).unwrap();
        assert_eq!((first.item, first.mark_ce, q.counters().marked), (0, true, 1));
    }

    #[test]
    fn an_empty_queue_forgets_that_the_delay_was_long() {
        let mut q = CodelFifo::new(QueueConfig::default());
        let arrival = Arrival { flow: FlowId(0), bytes: 9_000, ecn_capable: false };
        for start in [0, 90, 180, 270] {
            (0..2).for_each(|n| q.enqueue(ms(start), arrival, n, &mut |_| ()));
            while q.head(ms(start + 80), &mut |_| ()).is_some() {
                q.pop(ms(start + 80));
            }
        }
        assert_eq!(q.counters(), QueueCounters::default());
    }

    #[test]
    fn both_limits_hold_at_the_tail() {
        let mut q = CodelFifo::new(QueueConfig { limit_bytes: 4_000, limit_units: 3, ..QueueConfig::default() });
        let mut dropped = Vec::new();
        for (n, bytes) in [1_500, 1_500, 1_500, 500, 100].into_iter().enumerate() {
            let arrival = Arrival { flow: FlowId(0), bytes, ecn_capable: true };
            q.enqueue(ms(0), arrival, n, &mut |n| dropped.push(n));
        }
        assert_eq!((dropped.as_slice(), q.counters().dropped_full), (&[2, 4][..], 2));
    }
}
