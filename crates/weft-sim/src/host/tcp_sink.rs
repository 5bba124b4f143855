//! Implements the receiving end of a TCP flow: acknowledgments and statistics.

use super::tcp_source::acknowledgment_bytes;
use super::{FlowNodes, Lateness, PacketSink};
use crate::signalling::Answerer;
use crate::tcp::{Flags, ReceiverConfig, TcpReceiver, TcpSegment};
use crate::{Body, FlowNo, Packet, PacketEcn};
use weft_units::{Duration, Instant};

/// The data that another flow of the host sends whenever a sink has received a certain number of bytes.
///
/// It stands for the response to a request, or for the next request after a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trigger {
    /// Number of bytes that the sink receives from one such write to the next.
    pub every_bytes: u64,
    /// Flow of this host that sends the data.
    pub flow: FlowNo,
    /// Number of bytes that the flow then sends.
    pub write_bytes: u64,
    /// Pause from the arrival of the bytes until the data is sent.
    pub pause: Duration,
}

/// The receiving end of a TCP flow, which acknowledges data and measures its arrival.
pub struct TcpSink {
    receiver: TcpReceiver,
    header_bytes: u32,
    trigger: Option<Trigger>,
    next_trigger: u64,
    acknowledgments: u64,
    last: Option<Instant>,
    longest_gap: Duration,
    lateness: Lateness,
    /// Number of segments that arrived since the acknowledgment number last advanced.
    duplicates: usize,
    /// Number of bytes in order after which the time is recorded again.
    mark_every_bytes: u64,
    marks: Vec<Instant>,
    answerer: Answerer,
}

impl TcpSink {
    /// Creates a sink whose acknowledgments have `header_bytes` of IP and TCP headers. `trigger`: see [`Trigger`].
    pub fn new(config: ReceiverConfig, header_bytes: u32, trigger: Option<Trigger>) -> TcpSink {
        TcpSink {
            receiver: TcpReceiver::new(config),
            header_bytes,
            next_trigger: trigger.map_or(u64::MAX, |t| t.every_bytes),
            trigger,
            acknowledgments: 0,
            last: None,
            longest_gap: Duration::ZERO,
            lateness: Lateness::default(),
            duplicates: 0,
            mark_every_bytes: u64::MAX,
            marks: Vec::new(),
            answerer: Answerer::default(),
        }
    }

    /// Makes the sink record the time each time that another `bytes` bytes have arrived in order.
    #[must_use]
    pub fn marking(mut self, bytes: u64) -> TcpSink {
        self.mark_every_bytes = bytes.max(1);
        self
    }

    /// Returns the times that [`TcpSink::marking`] records: one for each multiple of its bytes.
    pub fn marks(&self) -> &[Instant] {
        &self.marks
    }

    /// Returns the number of bytes that reached the application in order.
    pub fn delivered_bytes(&self) -> u64 {
        self.receiver.delivered_bytes()
    }

    /// Resets the longest gap and the lateness. The counts of bytes and acknowledgments stay.
    pub fn clear(&mut self) {
        self.longest_gap = Duration::ZERO;
        self.lateness = Lateness::default();
    }

    /// Returns the number of acknowledgments sent so far.
    pub fn acknowledgments(&self) -> u64 {
        self.acknowledgments
    }

    /// Returns the longest time between two deliveries to the application.
    pub fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// Returns the number of segments by the duplicate acknowledgments that each caused.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    pub(super) fn receive(
        &mut self,
        now: Instant,
        ends: FlowNodes,
        packet: &Packet,
        out: &mut impl PacketSink,
    ) -> Option<Trigger> {
        let segment = packet.body.segment()?;
        self.answerer.receive(packet);
        let before = self.receiver.delivered_bytes();
        self.receiver.receive(now, segment, packet.ecn == PacketEcn::Ce);
        self.transmit(now, ends, out);
        let delivered = self.receiver.delivered_bytes();
        self.note_lateness(segment, before, delivered);
        if delivered > before
            && let Some(last) = self.last.replace(now)
        {
            self.longest_gap = self.longest_gap.max(now - last);
        }
        while (self.marks.len() as u64) < delivered / self.mark_every_bytes {
            self.marks.push(now);
        }
        let trigger = self.trigger.filter(|_| delivered >= self.next_trigger)?;
        self.next_trigger += trigger.every_bytes;
        Some(trigger)
    }

    fn note_lateness(&mut self, segment: &TcpSegment, before: u64, delivered: u64) {
        if delivered == before {
            self.duplicates += usize::from(segment.seq > before);
            return;
        }
        let duplicates = std::mem::take(&mut self.duplicates);
        if !segment.flags.has(Flags::RETRANSMIT) {
            self.lateness.note(duplicates);
        }
    }

    /// Reduces the announced receive window by `unread`, the bytes that the application has not read yet.
    pub(super) fn hold(&mut self, now: Instant, ends: FlowNodes, unread: u64, out: &mut impl PacketSink) {
        self.receiver.hold(now, unread);
        self.transmit(now, ends, out);
    }

    pub(super) fn wake(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        self.receiver.wake(now);
        self.transmit(now, ends, out);
    }

    fn transmit(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        while let Some(segment) = self.receiver.transmit(now) {
            self.acknowledgments += 1;
            let bytes = acknowledgment_bytes(self.header_bytes, &segment);
            out.send(match self.answerer.sign(ends, &segment) {
                None => ends.packet(bytes, PacketEcn::NotEct, Body::Tcp(segment)),
                Some(signed) => {
                    ends.packet(bytes + signed.rate_signal.bytes(), PacketEcn::NotEct, Body::Signalled(signed))
                }
            });
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.receiver.deadline()
    }
}
