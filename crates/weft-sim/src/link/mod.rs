//! One direction of a link: queue → transmitter → random loss → delay line.
//!
//! A drop-tail queue needs no event of its own: when a packet is taken in, its departure is already known, so the only event
//! of a packet on a link is its arrival. Other disciplines decide when a packet leaves, so they have a second one.

mod histogram;
mod managed;
mod stats;
mod transmitter;

pub use histogram::Histogram;
pub use stats::LinkStats;
pub use transmitter::Capacity;

use crate::{NodeId, Packet};
use managed::Managed;
use std::collections::VecDeque;
use transmitter::Transmitter;
use weft_core::queue::{QueueConfig, QueueKind};
use weft_scenario::jitter::Wander;
use weft_units::{Duration, Instant, Rate, Rng};

/// What waits before the transmitter, and how.
#[derive(Clone, PartialEq, Debug)]
pub enum QueueSpec {
    /// First in, first out; what exceeds a limit is dropped at the tail. The packet in transmission counts.
    DropTail {
        /// Packets.
        limit_packets: usize,
        /// IP bytes.
        limit_bytes: u64,
    },
    /// A discipline that manages its queue.
    Managed {
        /// Which one.
        kind: QueueKind,
        /// Its sizes and times.
        config: QueueConfig,
        /// Whether ECN-capable packets are marked instead of dropped.
        ecn: bool,
    },
}

/// The properties of one direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSpec {
    /// What it can carry.
    pub capacity: Capacity,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Each packet is delayed by up to this much more, never overtaking.
    pub jitter: Duration,
    /// Probability that a packet is lost, independent of the others.
    pub loss: f64,
    /// What waits before it.
    pub queue: QueueSpec,
    /// IP packets longer than this vanish.
    pub mtu: u32,
    /// Everything vanishes, without a sign.
    pub cut: bool,
}

impl LinkSpec {
    /// A link of constant rate: no delay, no loss, a queue of 1000 packets.
    pub fn with_rate(rate: Rate) -> LinkSpec {
        LinkSpec {
            capacity: Capacity::Rate(rate),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue: QueueSpec::DropTail { limit_packets: 1_000, limit_bytes: u64::MAX },
            mtu: u32::MAX,
            cut: false,
        }
    }
}

/// A packet that has been taken in by a drop-tail queue, or travels.
struct Travelling {
    departs: Instant,
    due: Instant,
    lost: bool,
    packet: Packet,
}

/// One direction of a link.
pub struct Link {
    from: NodeId,
    to: NodeId,
    spec: LinkSpec,
    transmitter: Transmitter,
    managed: Option<Box<Managed>>,
    /// In order of departure and of arrival.
    line: VecDeque<Travelling>,
    /// How many at the end of the line have not departed yet.
    waiting: usize,
    waiting_bytes: u64,
    last_due: Instant,
    delay_nanos: u64,
    loss: Rng,
    jitter: Wander,
    stats: LinkStats,
}

impl Link {
    pub(crate) fn new(from: NodeId, to: NodeId, spec: LinkSpec, rng: &Rng, now: Instant) -> Link {
        Link {
            from,
            to,
            transmitter: Transmitter::new(&spec.capacity, now),
            managed: Managed::for_spec(&spec.queue, rng.split(3)),
            line: VecDeque::new(),
            waiting: 0,
            waiting_bytes: 0,
            last_due: now,
            delay_nanos: spec.delay.as_nanos() as u64,
            loss: rng.split(1),
            jitter: Wander::new(rng.split(2), spec.jitter, now),
            spec,
            stats: LinkStats::default(),
        }
    }

    /// The node that sends on it.
    pub fn from(&self) -> NodeId {
        self.from
    }

    /// The node that receives from it.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// Its properties.
    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// What it did so far.
    pub fn stats(&mut self, now: Instant) -> &LinkStats {
        self.serve(now);
        &self.stats
    }

    /// Starts all statistics anew.
    pub fn clear_stats(&mut self, now: Instant) {
        self.serve(now);
        self.stats = LinkStats::default();
    }

    /// Packets and bytes that wait, the one in transmission included.
    pub fn backlog(&mut self, now: Instant) -> (usize, u64) {
        self.serve(now);
        match &self.managed {
            Some(managed) => managed.backlog(),
            None => (self.waiting, self.waiting_bytes),
        }
    }

    /// Bytes the link could have carried between two moments.
    pub fn capacity_bytes(&self, from: Instant, to: Instant) -> u64 {
        self.transmitter.bytes_between(from, to)
    }

    /// Takes a packet in, or drops it.
    pub(crate) fn offer(&mut self, now: Instant, packet: Packet) {
        self.stats.offered_packets += 1;
        self.stats.offered_bytes += u64::from(packet.bytes);
        if self.spec.cut || packet.bytes > self.spec.mtu {
            self.stats.cut_packets += 1;
            return;
        }
        if let Some(managed) = &mut self.managed {
            managed.enqueue(now, packet, &mut self.stats);
            if managed.is_idle() {
                self.transmitter.idle_until(now);
                managed.start(now, &mut self.transmitter, &mut self.stats);
            }
            return;
        }
        self.serve(now);
        if self.waiting == 0 {
            self.transmitter.idle_until(now);
        } else if self.is_full(packet.bytes) {
            self.stats.dropped_packets += 1;
            return;
        }
        let departs = self.transmitter.transmit(packet.bytes);
        self.stats.queue_delay.record(departs - now);
        self.waiting += 1;
        self.waiting_bytes += u64::from(packet.bytes);
        self.depart(departs, packet);
    }

    fn is_full(&self, bytes: u32) -> bool {
        match self.spec.queue {
            QueueSpec::DropTail { limit_packets, limit_bytes } => {
                self.waiting >= limit_packets || self.waiting_bytes + u64::from(bytes) > limit_bytes
            }
            QueueSpec::Managed { .. } => false,
        }
    }

    /// A packet enters the line, to leave the transmitter at `departs`.
    fn depart(&mut self, departs: Instant, packet: Packet) {
        let lost = self.spec.loss > 0.0 && self.loss.chance(self.spec.loss);
        let due = self.due(departs);
        self.line.push_back(Travelling { departs, due, lost, packet });
    }

    fn due(&mut self, departs: Instant) -> Instant {
        let mut due = Instant::from_nanos(departs.as_nanos() + self.delay_nanos);
        if !self.spec.jitter.is_zero() {
            due += self.jitter.at(departs);
        }
        self.last_due = due.max(self.last_due);
        self.last_due
    }

    /// Counts what has left a drop-tail queue by `now`.
    fn serve(&mut self, now: Instant) {
        while self.waiting > 0 {
            let first = &self.line[self.line.len() - self.waiting];
            if first.departs > now {
                return;
            }
            self.waiting -= 1;
            self.waiting_bytes -= u64::from(first.packet.bytes);
            self.stats.sent(first.packet.bytes, first.lost);
        }
    }

    /// When [`Link::arrive`] must be called next.
    pub(crate) fn next(&self) -> Instant {
        let arrival = self.line.front().map_or(Instant::FAR_FUTURE, |first| first.due);
        match &self.managed {
            Some(managed) => arrival.min(managed.departs()),
            None => arrival,
        }
    }

    /// What arrives at the far end at `now`: at most one packet a call.
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<Packet> {
        if let Some(managed) = self.managed.as_mut().filter(|m| m.departs() <= now)
            && let Some(packet) = managed.finish()
        {
            managed.start(now, &mut self.transmitter, &mut self.stats);
            let bytes = packet.bytes;
            self.depart(now, packet);
            let lost = self.line.back().is_some_and(|last| last.lost);
            self.stats.sent(bytes, lost);
        }
        self.serve(now);
        let first = self.line.pop_front_if(|first| first.due <= now)?;
        (!first.lost).then_some(first.packet)
    }

    /// Changes the properties. What waits is transmitted the new way; what travels arrives as it would have. The queue keeps its
    /// discipline.
    pub(crate) fn set(&mut self, now: Instant, spec: LinkSpec) {
        self.serve(now);
        if spec.cut {
            let waiting = self.managed.as_mut().map_or(0, |managed| managed.clear());
            self.stats.cut_packets += (self.line.len() + waiting) as u64;
            self.line.clear();
            (self.waiting, self.waiting_bytes) = (0, 0);
        }
        self.jitter.set_limit(spec.jitter, now);
        self.delay_nanos = spec.delay.as_nanos() as u64;
        let head = self.line.len() - self.waiting;
        let head_left = self.line.get(head).map_or(0, |first| self.transmitter.bytes_left(first.departs, now));
        if spec.capacity != self.spec.capacity {
            self.transmitter = Transmitter::new(&spec.capacity, now);
            self.replan(head, head_left.min(u64::from(u32::MAX)) as u32);
        } else if spec.delay != self.spec.delay {
            self.replan_arrivals(head);
        }
        self.spec = spec;
    }

    /// New departures for what waits, the first of which has `head_left` bytes to go.
    fn replan(&mut self, head: usize, head_left: u32) {
        for n in head..self.line.len() {
            let bytes = if n == head { head_left } else { self.line[n].packet.bytes };
            self.line[n].departs = self.transmitter.transmit(bytes);
        }
        self.replan_arrivals(head);
    }

    fn replan_arrivals(&mut self, head: usize) {
        self.last_due = head.checked_sub(1).and_then(|n| self.line.get(n)).map_or(Instant::ZERO, |before| before.due);
        for n in head..self.line.len() {
            let due = self.due(self.line[n].departs);
            self.line[n].due = due;
        }
    }
}

#[cfg(test)]
mod tests;
