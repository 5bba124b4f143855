//! Number of packets and bytes in all queues of an ingress.
//!
//! The ingress counts them with each change, so that their sum needs no visit to each VPN.

use crate::queue::FlowQueue;

/// Packets and bytes in all queues.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Backlog {
    packets: usize,
    bytes: u64,
}

impl Backlog {
    pub fn packets(&self) -> usize {
        self.packets
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Applies `work` to a queue, and adds what it changed in the queue's length.
    pub fn follow<T, R>(&mut self, queue: &mut FlowQueue<T>, work: impl FnOnce(&mut FlowQueue<T>) -> R) -> R {
        let before = (queue.len(), queue.backlog_bytes());
        let result = work(queue);
        self.packets = self.packets + queue.len() - before.0;
        self.bytes = self.bytes + queue.backlog_bytes() - before.1;
        result
    }
}
