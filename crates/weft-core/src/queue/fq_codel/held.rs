//! Rules for units that cannot leave because the path scheduler holds them back.
//!
//! Sparse flows become new again after some time, and units that are too old are dropped. The rules use time and not
//! rounds of the deficit round robin, because no round ends while units are held back.

use super::{FqCodel, List, NIL};
use crate::queue::Expiry;
use weft_units::tuned::{Constant, Tuned};
use weft_units::{Duration, Instant};

/// Time without a departure of an old flow after which the rounds of the deficit round robin count as stalled.
///
/// Rules then use time instead of rounds. *Tuned*: usually a scheduler holds bulk back for 5 ms, or for a packet's time
/// at 1 Mbit/s. A sparse flow can bear a delay of 20 ms.
const STALLED_AFTER: Tuned<Duration> = Tuned::new(Constant::StalledAfter, Duration::from_millis(20));
/// Time after which a flow that became new may become new again, while the rounds are stalled ([`STALLED_AFTER`]).
///
/// Derived: one quantum (RFC 8290) each 100 ms is 121 kbit/s. A G.711 call needs 87 kbit/s with headers. A flow that
/// needs more is not sparse.
const NEW_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Time between two searches for flows that may become new again, while the rounds are stalled.
const RENEW_EVERY: Duration = Duration::from_millis(5);

impl<T> FqCodel<T> {
    /// Records that the selected unit cannot leave now. Returns true if another unit can be selected.
    ///
    /// The caller calls this when it could send a unit of a sparse flow. If the selected flow is new, it becomes old,
    /// so that other flows do not wait behind it. If old flows have been held back for [`STALLED_AFTER`], thin flows
    /// become new again. A flow is thin if its backlog is at most one quantum and it last became new at least 100 ms
    /// ago. Otherwise thin flows would have to wait for the end of a round.
    pub fn on_hold(&mut self, now: Instant) -> bool {
        match self.selected {
            Some((id, List::New)) => {
                self.selected = None;
                self.queues[id as usize].is_within_quantum = false;
                self.enter(id, List::Old);
                true
            }
            Some((_, List::Old)) => self.renew_thin(now),
            _ => false,
        }
    }

    fn renew_thin(&mut self, now: Instant) -> bool {
        if now - self.old_left_at < STALLED_AFTER.get() || now < self.renew_at {
            return false;
        }
        self.renew_at = now + RENEW_EVERY;
        let (mut id, mut is_any) = (self.old.first, false);
        while let Some(queue) = self.queues.get(id as usize) {
            let (next, is_thin) = (queue.next, queue.bytes <= u64::from(self.config.quantum_bytes));
            if queue.head != NIL && is_thin && now - queue.new_since >= NEW_AGAIN_AFTER {
                self.renew(now, id);
                is_any = true;
            }
            id = next;
        }
        if is_any {
            self.selected = None;
        }
        is_any
    }

    /// Drops each unit whose [`Expiry`] has passed, and passes it to `dropped`.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        for first in [self.new.first, self.old.first] {
            let mut id = first;
            while let Some(queue) = self.queues.get(id as usize) {
                let next = queue.next;
                self.expire_flow(now, id, expiry, dropped);
                id = next;
            }
        }
    }

    /// Drops a flow's expired units, beginning at the head of its queue.
    ///
    /// The units wait in order of age, so the head expires first.
    fn expire_flow(&mut self, now: Instant, id: u32, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        loop {
            let queue = &self.queues[id as usize];
            let Some(unit) = self.units.get(queue.head as usize) else { return };
            let Some(item) = &unit.item else { return };
            if !expiry(item).has_passed(now, queue.head == queue.tail) {
                return;
            }
            if self.selected.is_some_and(|(selected, _)| selected == id) {
                self.selected = None;
            }
            self.counters.dropped_stale += 1;
            self.drop_head(id, dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Arrival, QueueConfig};
    use weft_units::FlowId;

    /// A voice call's units leave while bulk is held for one second.
    ///
    /// The test holds bulk as the scheduler does while a path is full of retransmissions.
    #[test]
    fn a_thin_flow_leaves_while_bulk_is_held() {
        let mut q = FqCodel::new(QueueConfig::default());
        let arrival = |flow, bytes| Arrival { flow: FlowId(flow), bytes, ecn_capable: false };
        (0..50).for_each(|n| q.enqueue(Instant::ZERO, arrival(0, 1_500), n, &mut |_| ()));
        let _ = (q.dequeue(Instant::ZERO, &mut |_| ()), q.dequeue(Instant::ZERO, &mut |_| ()));
        let (mut left, mut sent_at) = (0, alloc::collections::VecDeque::new());
        for ms in 0..1_000 {
            let now = Instant::from_millis(ms);
            if ms % 20 == 0 {
                q.enqueue(now, arrival(1, 200), 100, &mut |_| ());
                sent_at.push_back(now);
            }
            while let Some(head) = q.head(now, &mut |_| ()) {
                if head.sparse {
                    q.pop(now);
                    left += 1;
                    let waited = sent_at.pop_front().map(|at| now - at);
                    assert!(waited <= Some(STALLED_AFTER.get() + RENEW_EVERY), "{waited:?}");
                } else if !q.on_hold(now) {
                    break;
                }
            }
        }
        assert_eq!(left, 50);
    }

    /// A new flow that is held becomes old, so that other flows do not wait behind it.
    #[test]
    fn a_new_flow_that_is_held_lets_others_go_first() {
        let mut q = FqCodel::new(QueueConfig::default());
        for (flow, bytes) in [(0, 1_500), (1, 200)] {
            let arrival = Arrival { flow: FlowId(flow), bytes, ecn_capable: false };
            q.enqueue(Instant::ZERO, arrival, flow, &mut |_| ());
        }
        assert_eq!(q.head(Instant::ZERO, &mut |_| ()).map(|head| (head.flow, head.sparse)), Some((FlowId(0), true)));
        assert!(q.on_hold(Instant::ZERO));
        assert_eq!(q.head(Instant::ZERO, &mut |_| ()).map(|head| (head.flow, head.sparse)), Some((FlowId(1), true)));
        assert_eq!(q.pop(Instant::ZERO).map(|unit| unit.item), Some(1));
        assert_eq!(q.head(Instant::ZERO, &mut |_| ()).map(|head| (head.flow, head.sparse)), Some((FlowId(0), false)));
        assert!(!q.on_hold(Instant::ZERO), "no other waits");
    }
}
