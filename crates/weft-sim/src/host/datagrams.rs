//! Implements the ends of flows without TCP: sources of datagrams, sinks, and both ends of a ping.

use super::{FlowNodes, PacketSink};
use crate::link::Histogram;
use crate::source::Pattern;
use crate::{Body, Packet, PacketEcn};
use weft_units::{Duration, Instant, Rng};

/// The sending end of a flow: sends datagrams of one size at the times of a pattern.
#[derive(Clone, Debug)]
pub struct DatagramSource {
    pattern: Pattern,
    bytes: u32,
    rng: Rng,
    next: Instant,
    stop: Instant,
    sent: u64,
}

impl DatagramSource {
    /// Creates a source of datagrams of `bytes` IP bytes from `start` until `stop`.
    pub fn new(pattern: Pattern, bytes: u32, start: Instant, stop: Instant, rng: Rng) -> DatagramSource {
        DatagramSource { pattern, bytes, rng, next: start, stop, sent: 0 }
    }

    /// Returns the number of datagrams sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn wake(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        while self.next <= now && self.next < self.stop {
            let body = Body::Udp { number: self.sent, sent_at: now };
            out.send(ends.packet(self.bytes, PacketEcn::NotEct, body));
            self.sent += 1;
            self.next += self.pattern.next(&mut self.rng).max(Duration::from_nanos(1));
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.next < self.stop).then_some(self.next)
    }
}

/// The receiving end of a flow of datagrams: counts them and measures their delays.
#[derive(Clone, Debug, Default)]
pub struct DatagramSink {
    received: u64,
    received_bytes: u64,
    one_way: Histogram,
    last: Option<Instant>,
    longest_gap: Duration,
    log: Option<Vec<(Instant, Duration)>>,
}

impl DatagramSink {
    /// Creates a sink that also keeps the time and the one-way delay of every arrival.
    pub fn logging() -> DatagramSink {
        DatagramSink { log: Some(Vec::new()), ..DatagramSink::default() }
    }

    /// Resets all statistics. The times and delays that [`DatagramSink::logging`] keeps stay.
    pub fn clear(&mut self) {
        *self = DatagramSink { last: self.last, log: self.log.take(), ..DatagramSink::default() };
    }

    pub(super) fn receive(&mut self, now: Instant, packet: &Packet) {
        let Body::Udp { sent_at, .. } = packet.body else { return };
        self.received += 1;
        self.received_bytes += u64::from(packet.bytes);
        self.one_way.record(now.as_nanos() - sent_at.as_nanos());
        if let Some(last) = self.last.replace(now) {
            self.longest_gap = self.longest_gap.max(now - last);
        }
        if let Some(log) = &mut self.log {
            log.push((now, now - sent_at));
        }
    }

    /// Returns the number of datagrams that have arrived since the last [`DatagramSink::clear`].
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the IP bytes that have arrived since the last [`DatagramSink::clear`].
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Returns the one-way delays of the datagrams that arrived.
    pub fn one_way(&self) -> &Histogram {
        &self.one_way
    }

    /// Returns the longest time between two successive arrivals.
    pub fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// Returns the time and the one-way delay of each arrival.
    ///
    /// Empty unless [`DatagramSink::logging`] created the sink.
    pub fn log(&self) -> &[(Instant, Duration)] {
        self.log.as_deref().unwrap_or(&[])
    }
}

/// The sending end of a ping: sends echo requests and measures their round-trip times.
#[derive(Clone, Debug)]
pub struct Echo {
    requests: DatagramSource,
    rtt: Histogram,
    log: Vec<(Instant, Duration)>,
}

impl Echo {
    /// Creates the sending end of a ping, whose requests have the sizes and times of `requests`.
    pub fn new(requests: DatagramSource) -> Echo {
        Echo { requests, rtt: Histogram::default(), log: Vec::new() }
    }

    /// Returns the round-trip times of all requests that were answered.
    pub fn rtt(&self) -> &Histogram {
        &self.rtt
    }

    /// Returns the time of each answer and the round-trip time that it shows.
    pub fn log(&self) -> &[(Instant, Duration)] {
        &self.log
    }

    /// Resets the histogram of round-trip times.
    pub fn clear(&mut self) {
        self.rtt = Histogram::default();
    }

    pub(super) fn receive(&mut self, now: Instant, packet: &Packet) {
        if let Body::Udp { sent_at, .. } = packet.body {
            self.rtt.record(now.as_nanos() - sent_at.as_nanos());
            self.log.push((now, now - sent_at));
        }
    }

    pub(super) fn wake(&mut self, now: Instant, ends: FlowNodes, out: &mut impl PacketSink) {
        self.requests.wake(now, ends, out);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.requests.deadline()
    }
}

/// The answering end of a ping: sends every datagram back to its sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoAnswer;

impl EchoAnswer {
    pub(super) fn receive(self, ends: FlowNodes, packet: &Packet, out: &mut impl PacketSink) {
        out.send(ends.packet(packet.bytes, packet.ecn, packet.body.clone()));
    }
}
