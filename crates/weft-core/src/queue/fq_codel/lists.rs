//! The queues of the flows, and the doubly linked lists of new and old flows in which they wait for service.
//!
//! A queue is in at most one list. Both lists link the queues by their index, so that a move allocates no memory.

use super::NIL;
use crate::queue::codel::Codel;
use weft_units::Instant;

/// The list that holds a flow's queue: none, that of new flows, or that of old flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum List {
    None,
    New,
    Old,
}

/// The queue of one flow: its units, its deficit (the bytes that it may still send), and its place in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowBacklog {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) bytes: u64,
    pub(super) deficit: i64,
    pub(super) list: List,
    /// True while the flow has not used up the quantum that it got when it last became new.
    pub(super) is_within_quantum: bool,
    /// Time when the flow last became new.
    pub(super) new_since: Instant,
    pub(super) next: u32,
    pub(super) before: u32,
    pub(super) codel: Codel,
}

/// A queue without units, in no list.
pub(super) const EMPTY: FlowBacklog = FlowBacklog {
    head: NIL,
    tail: NIL,
    bytes: 0,
    deficit: 0,
    list: List::None,
    is_within_quantum: false,
    new_since: Instant::ZERO,
    next: NIL,
    before: NIL,
    codel: Codel::NEW,
};

/// A doubly linked list of queues, linked through [`FlowBacklog::next`] and [`FlowBacklog::before`].
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueList {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl QueueList {
    pub(super) const EMPTY: QueueList = QueueList { first: NIL, last: NIL };

    pub(super) fn push(&mut self, queues: &mut [FlowBacklog], id: u32) {
        (queues[id as usize].before, queues[id as usize].next) = (self.last, NIL);
        match queues.get_mut(self.last as usize) {
            Some(last) => last.next = id,
            None => self.first = id,
        }
        self.last = id;
    }

    pub(super) fn remove(&mut self, queues: &mut [FlowBacklog], id: u32) {
        let FlowBacklog { before, next, .. } = queues[id as usize];
        match queues.get_mut(before as usize) {
            Some(queue) => queue.next = next,
            None => self.first = next,
        }
        match queues.get_mut(next as usize) {
            Some(queue) => queue.before = before,
            None => self.last = before,
        }
    }
}
