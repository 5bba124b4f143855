//! Implements the ends of flows without TCP: sources and sinks of datagrams, and echoes.

use super::{FlowNodes, PacketSink};
use crate::link::Histogram;
use crate::source::Pattern;
use crate::{Body, Packet, PacketEcn};
use weft_units::{Duration, Instant, Rng};

/// Sends datagrams with the intervals of a pattern.
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

/// Counts the datagrams that arrive.
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
    /// Creates a sink that also records the time and the one-way delay of every arrival.
    pub fn logging() -> DatagramSink {
        DatagramSink { log: Some(Vec::new()), ..DatagramSink::default() }
    }

    /// Resets all statistics except the recorded arrivals.
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

    /// Returns the number of datagrams that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the IP bytes that arrived.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Returns the one-way delays.
    pub fn one_way(&self) -> &Histogram {
        &self.one_way
    }

    /// Returns the longest time between two arrivals.
    pub fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// Returns the recorded times and one-way delays of arrivals.
    pub fn log(&self) -> &[(Instant, Duration)] {
        self.log.as_deref().unwrap_or(&[])
    }
}

/// Sends echo requests and measures the round-trip times of the answers.
#[derive(Clone, Debug)]
pub struct Echo {
    requests: DatagramSource,
    rtt: Histogram,
    log: Vec<(Instant, Duration)>,
}

impl Echo {
    /// Creates a source of echo requests with the sizes and times of `requests`.
    pub fn new(requests: DatagramSource) -> Echo {
        Echo { requests, rtt: Histogram::default(), log: Vec::new() }
    }

    /// Returns the round-trip times.
    pub fn rtt(&self) -> &Histogram {
        &self.rtt
    }

    /// Returns the times of the answers and the round-trip times that they show.
    pub fn log(&self) -> &[(Instant, Duration)] {
        &self.log
    }

    /// Resets the round-trip times.
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

/// Returns every datagram to its sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoAnswer;

impl EchoAnswer {
    pub(super) fn receive(self, ends: FlowNodes, packet: &Packet, out: &mut impl PacketSink) {
        out.send(ends.packet(packet.bytes, packet.ecn, packet.body.clone()));
    }
}
