use alloc::collections::BinaryHeap;
use core::cmp::Reverse;
use weft_units::{Instant, NodeId};

/// When which neighbour has something to do. An entry counts only while the neighbour says that it waits for that time.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Instant, NodeId)>>,
}

impl Timers {
    /// Wakes for `id` at `at`.
    pub fn set(&mut self, at: Instant, id: NodeId) {
        self.heap.push(Reverse((at, id)));
    }

    /// A neighbour whose time has come; those for whom `counts` is false are dropped.
    pub fn pop(&mut self, now: Instant, counts: impl Fn(Instant, NodeId) -> bool) -> Option<NodeId> {
        let next = self.next(counts)?;
        if next > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, id))| id)
    }

    /// The next time that counts.
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
