//! Drop-tail FIFO: drops an arriving unit if a limit is reached.

use super::fifo::Fifo;
use super::{Arrival, Dequeued, Expiry, HeadView, QueueCounters};
use weft_units::Instant;

/// One FIFO for all flows, limited in bytes and units.
#[derive(Debug)]
pub struct DropTail<T> {
    fifo: Fifo<T>,
    dropped: u64,
    stale: u64,
}

impl<T> DropTail<T> {
    /// Returns an empty queue that holds at most `limit_bytes` and `limit_units`.
    pub fn new(limit_bytes: u64, limit_units: usize) -> DropTail<T> {
        DropTail { fifo: Fifo::new(limit_bytes, limit_units), dropped: 0, stale: 0 }
    }

    /// Changes the limits. Units that already wait stay, even above a smaller limit.
    pub fn set_limits(&mut self, limit_bytes: u64, limit_units: usize) {
        self.fifo.set_limits(limit_bytes, limit_units);
    }

    /// Appends `item`, or passes it to `dropped` if a limit is reached.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        if !self.fifo.fits(arrival.bytes) {
            self.dropped += 1;
            return dropped(item);
        }
        self.fifo.push(now, arrival, false, item);
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
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        self.fifo.pop(now)
    }

    /// Drops each unit whose [`Expiry`] has passed, and passes it to `dropped`.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        self.stale += self.fifo.expire(now, expiry, &mut |_, _, item| dropped(item));
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

    /// Returns the counts of units dropped so far.
    pub fn counters(&self) -> QueueCounters {
        QueueCounters { dropped_full: self.dropped, dropped_stale: self.stale, ..QueueCounters::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{Duration, FlowId};

    #[test]
    fn keeps_order_and_both_limits() {
        let mut q = DropTail::new(4_000, 3);
        let mut dropped = alloc::vec::Vec::new();
        for (n, bytes) in [1_500, 1_500, 1_500, 500, 100].into_iter().enumerate() {
            let arrival = Arrival { flow: FlowId(0), bytes, ecn_capable: true };
            q.enqueue(Instant::from_millis(n as u64), arrival, n, &mut |n| dropped.push(n));
        }
        assert_eq!(dropped, [2, 4], "one over the bytes, one over the units");
        let first = q.pop(Instant::from_millis(9)).unwrap();
        assert_eq!((first.item, first.sojourn, q.backlog_bytes()), (0, Duration::from_millis(9), 2_000));
        assert_eq!(q.head_item(), Some(&1));
    }
}
