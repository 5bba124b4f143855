use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use weft_units::{Instant, NodeId};

/// Timers of the overlay's neighbours, the earliest first.
///
/// An entry is valid only while the neighbour's timer is still set to the entry's time.
#[derive(Clone, Debug, Default)]
pub struct NeighbourTimers {
    heap: BinaryHeap<Reverse<(Instant, NodeId)>>,
}

impl NeighbourTimers {
    /// Sets the timer of the neighbour `id` to the time `at`.
    pub fn set(&mut self, at: Instant, id: NodeId) {
        self.heap.push(Reverse((at, id)));
    }

    /// Removes and returns a neighbour whose timer has expired.
    ///
    /// Drops invalid entries, for which `counts` returns false.
    pub fn pop(&mut self, now: Instant, counts: impl Fn(Instant, NodeId) -> bool) -> Option<NodeId> {
        let next = self.next(counts)?;
        if next > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }

    /// Returns the earliest time of a valid timer. Drops invalid entries, for which `counts` returns false.
    pub fn next(&mut self, counts: impl Fn(Instant, NodeId) -> bool) -> Option<Instant> {
        loop {
            let Reverse((at, id)) = *self.heap.peek()?;
            if counts(at, id) {
                return Some(at);
            }
            self.heap.pop();
        }
    }
}
