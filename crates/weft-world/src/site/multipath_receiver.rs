//! The receiving end of an MPTCP connection.
//!
//! It has a TCP receiver for each subflow, and restores the connection's own order.

use std::collections::BTreeMap;
use weft_sim::tcp::{ReceiverConfig, TcpReceiver, TcpSegment};
use weft_units::Instant;

struct ReceivingSubflow {
    receiver: TcpReceiver,
    /// Segments that arrived before earlier segments of the same subflow, by subflow sequence number.
    ///
    /// Each entry contains the segment's data sequence number and its length in bytes.
    waiting: BTreeMap<u64, (u64, u32)>,
}

/// The receiving end of one MPTCP connection with several subflows.
pub(super) struct MultipathReceiver {
    subflows: Vec<ReceivingSubflow>,
    /// Data sequence number of the next byte of the connection that is expected.
    next_data: u64,
    /// Data that arrived before earlier data of another subflow.
    ///
    /// Keys are data sequence numbers of first bytes. Values are those after the last bytes.
    early: BTreeMap<u64, u64>,
}

impl MultipathReceiver {
    pub(super) fn new(config: ReceiverConfig, subflows: usize) -> MultipathReceiver {
        let subflow = || ReceivingSubflow { receiver: TcpReceiver::new(config), waiting: BTreeMap::new() };
        let subflows = (0..subflows).map(|_| subflow()).collect();
        MultipathReceiver { subflows, next_data: 0, early: BTreeMap::new() }
    }

    /// Returns the number of bytes that reached the application, in order.
    pub(super) fn delivered_bytes(&self) -> u64 {
        self.next_data
    }

    /// Processes a data segment or SYN that arrived on a subflow.
    pub(super) fn receive(&mut self, now: Instant, subflow: usize, segment: &TcpSegment) {
        let Some(own) = self.subflows.get_mut(subflow) else { return };
        if segment.len > 0 && segment.seq + u64::from(segment.len) > own.receiver.delivered_bytes() {
            own.waiting.insert(segment.seq, (segment.ack, segment.len));
        }
        own.receiver.receive(now, &TcpSegment { ack: 0, ..*segment }, false);
        let in_order = own.receiver.delivered_bytes();
        while let Some(first) = own.waiting.first_entry()
            && first.key() + u64::from(first.get().1) <= in_order
        {
            let (data_seq, len) = first.remove();
            let end = self.early.entry(data_seq).or_default();
            *end = (*end).max(data_seq + u64::from(len));
        }
        self.advance();
    }

    fn advance(&mut self) {
        while let Some(first) = self.early.first_entry()
            && *first.key() <= self.next_data
        {
            self.next_data = self.next_data.max(first.remove());
        }
    }

    pub(super) fn wake(&mut self, now: Instant) {
        self.subflows.iter_mut().for_each(|subflow| subflow.receiver.wake(now));
    }

    /// Returns the next acknowledgment and its subflow. The caller must call it until it returns `None`.
    ///
    /// The segment's `seq` holds the data acknowledgment.
    pub(super) fn transmit(&mut self, now: Instant) -> Option<(usize, TcpSegment)> {
        let data_ack = self.next_data;
        let acks = self.subflows.iter_mut().enumerate();
        let mut ready = acks.filter_map(|(n, subflow)| Some((n, subflow.receiver.transmit(now)?)));
        ready.next().map(|(n, ack)| (n, TcpSegment { seq: data_ack, ..ack }))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.subflows.iter().filter_map(|subflow| subflow.receiver.deadline()).min()
    }
}
