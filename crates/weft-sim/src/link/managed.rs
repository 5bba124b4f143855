//! A queue whose discipline decides at departure: RED, FRED, CoDel, FQ-CoDel.

use super::transmitter::Transmitter;
use super::{LinkStats, QueueSpec};
use crate::{Ecn, Packet};
use weft_core::queue::{Arrival, FlowQueue};
use weft_units::{FlowId, Instant, Rng};

/// The queue and the packet in transmission.
pub(super) struct Managed {
    queue: FlowQueue<Box<Packet>>,
    ecn: bool,
    in_transmission: Option<(Instant, Box<Packet>)>,
}

impl Managed {
    /// The queue a specification asks for, if it is not a plain one.
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
        let flow = FlowId(packet.flow.0 as u16);
        let arrival = Arrival { flow, bytes: packet.bytes, ecn_capable: self.ecn && packet.ecn != Ecn::NotEct };
        self.queue.enqueue(now, arrival, packet, &mut |_| stats.dropped_packets += 1);
    }

    /// Whether nothing is in transmission.
    pub(super) fn is_idle(&self) -> bool {
        self.in_transmission.is_none()
    }

    /// Begins to transmit what the queue gives next.
    pub(super) fn start(&mut self, now: Instant, transmitter: &mut Transmitter, stats: &mut LinkStats) {
        let Some(next) = self.queue.dequeue(now, &mut |_| stats.dropped_packets += 1) else { return };
        let mut packet = next.item;
        if next.mark_ce {
            packet.ecn = Ecn::Ce;
            stats.marked_packets += 1;
        }
        let departs = transmitter.transmit(now, packet.bytes);
        let waited = (departs - now) + next.sojourn;
        stats.queue_delay.record(waited.as_nanos() as u64);
        self.in_transmission = Some((departs, packet));
    }

    /// When the packet in transmission has left.
    pub(super) fn departs(&self) -> Instant {
        self.in_transmission.as_ref().map_or(Instant::FAR_FUTURE, |(departs, _)| *departs)
    }

    /// The packet that was in transmission.
    pub(super) fn finish(&mut self) -> Option<Box<Packet>> {
        self.in_transmission.take().map(|(_, packet)| packet)
    }

    /// Packets and bytes that wait, the one in transmission included.
    pub(super) fn backlog(&self) -> (usize, u64) {
        let (packets, bytes) = self.in_transmission.as_ref().map_or((0, 0), |(_, p)| (1, u64::from(p.bytes)));
        (self.queue.len() + packets, self.queue.backlog_bytes() + bytes)
    }

    /// Drops everything and says how many packets that were.
    pub(super) fn clear(&mut self, now: Instant) -> usize {
        let (packets, _) = self.backlog();
        self.in_transmission = None;
        while self.queue.dequeue(now, &mut |_| ()).is_some() {}
        packets
    }
}
