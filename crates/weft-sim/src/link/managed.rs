//! Implements queues in which the discipline decides at departure which packet leaves: RED, FRED, CoDel and FQ-CoDel.

use super::transmitter::Transmitter;
use super::{LinkStats, QueueSpec};
use crate::{Packet, PacketEcn};
use weft_core::queue::{Arrival, FlowQueue};
use weft_units::{Instant, Rng};

/// A managed queue of a link, and the packet that the link is transmitting.
pub(super) struct Managed {
    queue: FlowQueue<Box<Packet>>,
    ecn: bool,
    in_transmission: Option<(Instant, Box<Packet>)>,
}

impl Managed {
    /// Creates the queue that `spec` describes. Returns `None` if it describes a drop-tail queue.
    pub(super) fn for_spec(spec: &QueueSpec, rng: Rng) -> Option<Managed> {
        match spec {
            QueueSpec::DropTail { .. } => None,
            QueueSpec::Managed { kind, config, ecn } => {
                let queue = FlowQueue::with_rng(*kind, *config, rng);
                Some(Managed { queue, ecn: *ecn, in_transmission: None })
            }
        }
    }

    pub(super) fn enqueue(&mut self, now: Instant, packet: Box<Packet>, stats: &mut LinkStats) {
        let flow = packet.flow.queue_key();
        let arrival = Arrival { flow, bytes: packet.bytes, ecn_capable: self.ecn && packet.ecn != PacketEcn::NotEct };
        self.queue.enqueue(now, arrival, packet, &mut |_| stats.dropped_packets += 1);
    }

    /// Returns true if the link is transmitting no packet.
    pub(super) fn is_idle(&self) -> bool {
        self.in_transmission.is_none()
    }

    /// Starts the transmission of the next packet in the queue, if there is one.
    pub(super) fn start(&mut self, now: Instant, transmitter: &mut Transmitter, stats: &mut LinkStats) {
        let Some(next) = self.queue.dequeue(now, &mut |_| stats.dropped_packets += 1) else { return };
        let mut packet = next.item;
        if next.mark_ce {
            packet.ecn = PacketEcn::Ce;
            stats.marked_packets += 1;
        }
        let departs = transmitter.transmit(now, packet.bytes);
        let waited = (departs - now) + next.sojourn;
        stats.queue_delay.record(waited.as_nanos() as u64);
        self.in_transmission = Some((departs, packet));
    }

    /// Returns the time at which the packet in transmission will have left. It is the far future if there is none.
    pub(super) fn departs(&self) -> Instant {
        self.in_transmission.as_ref().map_or(Instant::FAR_FUTURE, |(departs, _)| *departs)
    }

    /// Removes and returns the packet in transmission, because its transmission has ended.
    pub(super) fn finish(&mut self) -> Option<Box<Packet>> {
        self.in_transmission.take().map(|(_, packet)| packet)
    }

    /// Returns the packets and bytes in the queue, including the packet in transmission.
    pub(super) fn backlog(&self) -> (usize, u64) {
        let (packets, bytes) = self.in_transmission.as_ref().map_or((0, 0), |(_, p)| (1, u64::from(p.bytes)));
        (self.queue.len() + packets, self.queue.backlog_bytes() + bytes)
    }

    /// Drops all packets, including the one in transmission. Returns their number.
    pub(super) fn clear(&mut self, now: Instant) -> usize {
        let (packets, _) = self.backlog();
        self.in_transmission = None;
        while self.queue.dequeue(now, &mut |_| ()).is_some() {}
        packets
    }
}
