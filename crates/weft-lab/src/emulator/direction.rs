//! One direction of a link in virtual time, without a device or a clock.
//!
//! A packet passes a drop-tail queue, a serialiser or trace, random loss and a delay line. The serialiser works in
//! virtual time. At each call it processes all packets until the time of the call. A packet's departure time is thus
//! exact even if the call is late. Only deliveries need a wake-up.

use super::impaired::{Classified, DirectionCounts, ImpairedPipe};
use super::spec::EmulatedDirection;
use super::stats::{DirectionStats, TimeHistogram};
use std::collections::VecDeque;
use weft_scenario::channel::LinkCapacity;
use weft_scenario::jitter::Wander;
use weft_scenario::measure::{Lengths, PacketSizes};
use weft_scenario::trace::{OPPORTUNITY_BYTES, RunningTrace};
use weft_units::{Instant, Rate, Rng};

struct QueuedFrame<T> {
    packet: T,
    bytes: u64,
    offered: Instant,
}

struct TravellingFrame<T> {
    packet: T,
    bytes: u64,
    due: Instant,
}

enum EmulatedTransmission {
    Unlimited,
    Rate(Rate),
    Trace(RunningTrace),
}

/// One direction of a link that carries packets of type `T`.
pub(super) struct DirectionPipe<T> {
    spec: EmulatedDirection,
    /// The whole direction if it is impaired. The other fields then carry no packets.
    impaired: Option<ImpairedPipe<T>>,
    transmission: EmulatedTransmission,
    loss: Rng,
    jitter: Wander,
    queue: VecDeque<QueuedFrame<T>>,
    queued_bytes: u64,
    /// Bytes of the first queued packet that are already transmitted.
    head_sent: u64,
    /// Time until which packet transmissions have been computed.
    served_until: Instant,
    line: VecDeque<TravellingFrame<T>>,
    /// Time at which the previous packet leaves the delay line.
    last_due: Instant,
    spent: Vec<T>,
    stats: DirectionStats,
    queue_delay: TimeHistogram,
    queue_packets: Lengths,
    packet_sizes: PacketSizes,
    /// Time until which `capacity_bytes` has been computed.
    counted_until: Instant,
}

/// Borrows the counters of an impaired direction separately from the direction itself.
macro_rules! counts {
    ($pipe:ident) => {
        &mut DirectionCounts {
            stats: &mut $pipe.stats,
            queue_delay: &mut $pipe.queue_delay,
            queue_packets: &mut $pipe.queue_packets,
            packet_sizes: &mut $pipe.packet_sizes,
            spent: &mut $pipe.spent,
        }
    };
}

impl<T: Classified> DirectionPipe<T> {
    /// Returns an empty direction at time `now`. Losses and jitter depend on `rng` only.
    pub(super) fn new(spec: EmulatedDirection, rng: &Rng, now: Instant) -> DirectionPipe<T> {
        let mut pipe = DirectionPipe {
            impaired: spec.impaired.as_deref().map(|impaired| ImpairedPipe::new(&spec, impaired, rng, now)),
            transmission: EmulatedTransmission::Unlimited,
            jitter: Wander::new(rng.split(2), spec.jitter, now),
            spec,
            loss: rng.split(1),
            queue: VecDeque::new(),
            queued_bytes: 0,
            head_sent: 0,
            served_until: now,
            line: VecDeque::new(),
            last_due: now,
            spent: Vec::new(),
            stats: DirectionStats::default(),
            queue_delay: TimeHistogram::new(),
            queue_packets: Lengths::default(),
            packet_sizes: PacketSizes::default(),
            counted_until: now,
        };
        pipe.start_transmission(now);
        pipe.mark(now);
        pipe
    }

    fn start_transmission(&mut self, now: Instant) {
        self.transmission = match &self.spec.capacity {
            None => EmulatedTransmission::Unlimited,
            Some(LinkCapacity::Rate(rate)) => EmulatedTransmission::Rate(*rate),
            Some(LinkCapacity::Trace(trace)) => EmulatedTransmission::Trace(RunningTrace::new(trace.clone(), now)),
        };
    }

    /// Changes the direction's properties.
    ///
    /// Queued packets are transmitted with the new properties. Packets in the delay line arrive as before the
    /// change.
    pub(super) fn set(&mut self, now: Instant, spec: EmulatedDirection) {
        self.serve(now);
        self.count_capacity(now);
        if let (Some(pipe), Some(impaired)) = (&mut self.impaired, self.spec.impaired.clone()) {
            pipe.set(now, &spec, counts!(self));
            self.spec = EmulatedDirection { impaired: Some(impaired), ..spec };
            return;
        }
        if let (EmulatedTransmission::Rate(rate), Some(head)) = (&self.transmission, self.queue.front()) {
            let sent = self.head_sent + rate.bytes_in(now - self.served_until);
            self.head_sent = sent.min(head.bytes.saturating_sub(1));
        }
        self.served_until = now;
        let unchanged = matches!((&self.transmission, &spec.capacity),
            (EmulatedTransmission::Trace(running), Some(LinkCapacity::Trace(new))) if running.trace() == new);
        self.jitter.set_limit(spec.jitter, now);
        self.spec = spec;
        if !unchanged {
            self.start_transmission(now);
        }
        self.note_limits();
        if self.spec.cut {
            self.clear();
        }
    }

    /// Begins a run: restarts the trace, or the outages, rate changes, handovers and policers of an impaired link.
    pub(super) fn restart(&mut self, now: Instant) {
        self.count_capacity(now);
        if let Some(pipe) = &mut self.impaired {
            return pipe.restart(now, counts!(self));
        }
        self.serve(now);
        if matches!(self.transmission, EmulatedTransmission::Trace(_)) {
            self.served_until = now;
            self.start_transmission(now);
        }
    }

    /// Cuts the direction, or ends the cut. No other property changes.
    pub(super) fn cut(&mut self, now: Instant, cut: bool) {
        let spec = EmulatedDirection { cut, ..self.spec.clone() };
        self.set(now, spec);
    }

    fn clear(&mut self) {
        self.stats.cut_packets += (self.queue.len() + self.line.len()) as u64;
        self.spent.extend(self.queue.drain(..).map(|w| w.packet));
        self.spent.extend(self.line.drain(..).map(|t| t.packet));
        (self.queued_bytes, self.head_sent) = (0, 0);
    }

    /// Takes a packet of `bytes` bytes from the sending node.
    ///
    /// It is queued, or dropped if the queue is full or the direction is cut.
    pub(super) fn offer(&mut self, now: Instant, packet: T, bytes: u64) {
        self.stats.offered_packets += 1;
        self.stats.offered_bytes += bytes;
        self.serve(now);
        if self.spec.cut {
            self.stats.cut_packets += 1;
            return self.spent.push(packet);
        }
        if let Some(pipe) = &mut self.impaired {
            return pipe.offer(now, packet, bytes, counts!(self));
        }
        if self.queue.is_empty() {
            self.served_until = now;
            if let EmulatedTransmission::Trace(trace) = &mut self.transmission {
                trace.skip_to(now);
            }
        } else if self.queued_bytes + bytes > self.spec.queue_bytes {
            self.stats.dropped_packets += 1;
            return self.spent.push(packet);
        }
        self.queued_bytes += bytes;
        self.queue.push_back(QueuedFrame { packet, bytes, offered: now });
    }

    /// Transmits the packets that the direction can transmit until `now`.
    fn serve(&mut self, now: Instant) {
        if let Some(pipe) = &mut self.impaired {
            return pipe.advance(now, counts!(self));
        }
        while let Some(head) = self.queue.front() {
            let left = head.bytes - self.head_sent;
            match &mut self.transmission {
                EmulatedTransmission::Unlimited => {
                    let at = self.served_until.max(head.offered);
                    self.depart(at);
                }
                EmulatedTransmission::Rate(rate) => {
                    let done = self.served_until + rate.time_for(left);
                    if done > now {
                        return;
                    }
                    self.served_until = done;
                    self.depart(done);
                }
                EmulatedTransmission::Trace(trace) => {
                    let at = trace.time_after(0);
                    if at > now {
                        return;
                    }
                    trace.use_next();
                    self.use_opportunity(at);
                }
            }
        }
    }

    /// Uses one transmission opportunity of a trace for packets from the head of the queue.
    fn use_opportunity(&mut self, at: Instant) {
        let mut room = OPPORTUNITY_BYTES;
        while let Some(head) = self.queue.front().filter(|_| room > 0) {
            let left = head.bytes - self.head_sent;
            if left > room {
                self.head_sent += room;
                return;
            }
            room -= left;
            self.depart(at);
        }
    }

    /// Moves the first packet of the queue to the delay line, unless it is lost at random.
    ///
    /// The packet left the transmitter at `at`.
    fn depart(&mut self, at: Instant) {
        self.queue_packets.record(self.queue.len());
        let Some(QueuedFrame { packet, bytes, offered }) = self.queue.pop_front() else { return };
        self.queued_bytes -= bytes;
        self.head_sent = 0;
        self.stats.transmitted_bytes += bytes;
        self.packet_sizes.record(bytes as u32);
        self.queue_delay.record(at - offered);
        let lost = self.loss.chance(self.spec.loss);
        let jitter = if self.spec.reorder { self.jitter.independent() } else { self.jitter.at(at) };
        if lost {
            self.stats.lost_packets += 1;
            return self.spent.push(packet);
        }
        let mut due = at + self.spec.delay + jitter;
        if !self.spec.reorder {
            due = due.max(self.last_due);
        }
        self.last_due = due;
        let place = self.line.iter().rposition(|other| other.due <= due).map_or(0, |before| before + 1);
        self.line.insert(place, TravellingFrame { packet, bytes, due });
    }

    /// Passes every packet that is due by `now` to `receive`, with the time at which it was due.
    ///
    /// `receive` returns false if the node refused it.
    pub(super) fn deliver(&mut self, now: Instant, mut receive: impl FnMut(&T, Instant) -> bool) {
        self.serve(now);
        while let Some(arrived) = self.arrive(now) {
            if receive(&arrived.packet, arrived.due) {
                self.stats.sent_packets += 1;
                self.stats.sent_bytes += arrived.bytes;
            } else {
                self.stats.refused_packets += 1;
            }
            self.spent.push(arrived.packet);
        }
    }

    fn arrive(&mut self, now: Instant) -> Option<TravellingFrame<T>> {
        match &mut self.impaired {
            None => pop_due(&mut self.line, now),
            Some(pipe) => pipe.arrive(now).map(|arrived| TravellingFrame {
                packet: arrived.packet,
                bytes: arrived.bytes.into(),
                due: arrived.due,
            }),
        }
    }

    /// Returns the time of the next call of [`DirectionPipe::deliver`], or `None` if no packet is in the direction.
    ///
    /// The call may deliver nothing yet, because jitter or loss can delay or remove a packet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if let Some(pipe) = &self.impaired {
            return pipe.next_due();
        }
        let arrival = self.line.front().map(|first| first.due);
        let departure = self.queue.front().map(|head| self.head_done(head) + self.spec.delay);
        arrival.into_iter().chain(departure).min()
    }

    fn head_done(&self, head: &QueuedFrame<T>) -> Instant {
        let left = head.bytes - self.head_sent;
        match &self.transmission {
            EmulatedTransmission::Unlimited => head.offered,
            EmulatedTransmission::Rate(rate) => self.served_until + rate.time_for(left),
            EmulatedTransmission::Trace(trace) => trace.time_after(left.div_ceil(OPPORTUNITY_BYTES).saturating_sub(1)),
        }
    }

    /// Returns all packets that were delivered, lost or dropped, for reuse of their buffers.
    pub(super) fn spent(&mut self) -> std::vec::Drain<'_, T> {
        self.spent.drain(..)
    }

    /// Restarts all statistics of the direction.
    pub(super) fn mark(&mut self, now: Instant) {
        self.serve(now);
        self.stats = DirectionStats { capacity_bytes: Some(0), ..DirectionStats::default() };
        self.note_limits();
        self.queue_delay.clear();
        self.queue_packets.clear();
        self.packet_sizes.clear();
        self.counted_until = now;
    }

    /// Returns the statistics since the last call of [`Self::mark`].
    pub(super) fn stats(&mut self, now: Instant) -> DirectionStats {
        self.serve(now);
        self.count_capacity(now);
        let (queue_delay, queue_packets) = (self.queue_delay.quantiles(), self.queue_packets.summary());
        DirectionStats { queue_delay, queue_packets, packet_sizes: self.packet_sizes.most_frequent(), ..self.stats }
    }

    fn note_limits(&mut self) {
        if matches!(self.transmission, EmulatedTransmission::Unlimited) && !self.spec.cut {
            self.stats.capacity_bytes = None;
        }
    }

    fn count_capacity(&mut self, now: Instant) {
        let from = std::mem::replace(&mut self.counted_until, now);
        let offered = match &self.transmission {
            _ if self.spec.cut => 0,
            EmulatedTransmission::Rate(_) | EmulatedTransmission::Trace(_) if self.impaired.is_some() => {
                self.impaired.as_ref().map_or(0, |pipe| pipe.capacity_bytes(from, now))
            }
            EmulatedTransmission::Unlimited => 0,
            EmulatedTransmission::Rate(rate) => rate.bytes_in(now - from),
            EmulatedTransmission::Trace(trace) => trace.bytes_between(from, now),
        };
        self.stats.capacity_bytes = self.stats.capacity_bytes.map(|bytes| bytes + offered);
    }
}

fn pop_due<T>(line: &mut VecDeque<TravellingFrame<T>>, now: Instant) -> Option<TravellingFrame<T>> {
    line.pop_front_if(|first| first.due <= now)
}

#[cfg(test)]
mod parity;
#[cfg(test)]
mod tests;
