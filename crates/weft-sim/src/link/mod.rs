//! Simulates one direction of a link: queue → transmitter → random loss → delay line.
//!
//! A drop-tail queue needs no events for departures, because the departure time is known when a packet is accepted. The
//! only event of a packet on such a link is its arrival. Other disciplines decide at departure which packet leaves, so
//! they have a second event.

mod grants;
mod histogram;
mod impaired;
mod managed;
mod stats;
mod transmitter;

pub use histogram::Histogram;
pub use stats::LinkStats;
pub use weft_scenario::channel::{LinkCapacity, QueueSpec};

use crate::{NodeId, Packet};
use impaired::ImpairedLink;
use managed::Managed;
use std::collections::VecDeque;
use std::sync::Arc;
use transmitter::Transmitter;
use weft_core::control_loop::explicit_rate::LoopLink;
use weft_scenario::channel::{Impaired, Plain};
use weft_scenario::jitter::Wander;
use weft_scenario::measure::{Lengths, PacketSizes};
use weft_scenario::schedule::ChangeableLink;
use weft_scenario::{Link, Traces};
use weft_units::{Duration, Instant, Rate, Rng};

/// The properties of one direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSpec {
    /// Rate of the transmitter, which is constant or follows a trace.
    pub capacity: LinkCapacity,
    /// One-way propagation delay, from the end of the transmission until the arrival.
    pub delay: Duration,
    /// Maximum additional delay of a packet. It varies, but no packet overtakes another one.
    pub jitter: Duration,
    /// Probability that a packet is lost, independent of other packets.
    pub loss: f64,
    /// The queue in front of the transmitter.
    pub queue: QueueSpec,
    /// Maximum size of an IP packet in bytes. The link drops longer ones.
    pub mtu: u32,
    /// True if the link drops every packet, without a signal to the nodes.
    pub cut: bool,
    /// Further impairments of the direction, which do not change during the simulation. `None`: no such impairments.
    pub impaired: Option<Arc<Impaired>>,
}

impl LinkSpec {
    /// Returns both directions of a scenario's link, the up direction first, for a run with this seed.
    ///
    /// With `waits`, impairments that depend on the time begin when `Simulator::restart_link` is called.
    ///
    /// # Errors
    /// Returns an error if a direction's trace is not in `traces`.
    pub fn both(link: &Link, traces: &Traces, seed: u64, waits: bool) -> Result<[LinkSpec; 2], String> {
        let [up, down] = link.directions().map(|direction| {
            let Plain { capacity, delay, jitter, loss, queue } = direction.plain(link.base_rtt(), traces)?;
            let impaired = direction.impaired(seed, &link.name, waits);
            Ok::<_, String>(LinkSpec { capacity, delay, jitter, loss, queue, mtu: u32::MAX, cut: false, impaired })
        });
        Ok([up?, down?])
    }

    /// Returns a link of constant rate without delay and loss, with a queue of 1000 packets.
    pub fn with_rate(rate: Rate) -> LinkSpec {
        LinkSpec {
            capacity: LinkCapacity::Rate(rate),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            queue: QueueSpec::DropTail { limit_packets: 1_000, limit_bytes: u64::MAX },
            mtu: u32::MAX,
            cut: false,
            impaired: None,
        }
    }
}

impl ChangeableLink for LinkSpec {
    fn set_cut(&mut self, is_cut: bool) {
        self.cut = is_cut;
    }

    fn set_rate(&mut self, rate: Rate) {
        self.capacity = LinkCapacity::Rate(rate);
    }

    fn set_loss(&mut self, loss: f64) {
        self.loss = loss;
    }

    fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }
}

/// A packet that was accepted by a drop-tail queue or has left the transmitter, and that has not arrived.
struct Travelling {
    due: Instant,
    /// The packet. `None` if it will be lost.
    packet: Option<Box<Packet>>,
}

/// Number of packets by which a drop-tail queue may grow before its departures are processed.
///
/// They are also processed when the queue could be full or when its state is queried. Processing many departures
/// together takes little more time than processing one.
const SERVED_LATE_PACKETS: usize = 64;

/// Data about a packet in a drop-tail queue, from which its departure is processed.
struct DropTailEntry {
    came: Instant,
    departs: Instant,
    bytes: u32,
    lost: bool,
}

/// The state of one direction of a link.
///
/// The fields that every packet uses come first and the others are in a separate allocation, so that many links fit a
/// processor's cache.
#[repr(C, align(64))]
pub struct LinkDirectionState {
    /// The packets that have not arrived, in the order in which they depart and arrive.
    line: VecDeque<Travelling>,
    from: NodeId,
    to: NodeId,
    mtu: u32,
    kind: LinkProcessing,
    is_managed: bool,
    /// True if [`Rest::impaired`] carries all packets of the link.
    is_impaired: bool,
    /// True if the link grants rates to the loops of VPNs.
    grants: bool,
    last_due: Instant,
    /// Data of the last packets of `line`: those that had not departed when departures were last processed.
    waiting: VecDeque<DropTailEntry>,
    waiting_bytes: u64,
    /// Length of the queue in packets at which departures are processed next.
    serve_at_packets: usize,
    limit_packets: usize,
    limit_bytes: u64,
    delay_nanos: u64,
    transmitter: Transmitter,
    stats: LinkStats,
    rest: Box<Rest>,
}

/// The processing that a packet needs when it is sent on the link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkProcessing {
    /// A drop-tail queue, without loss and additional delays.
    Plain,
    /// A drop-tail queue, with loss or additional delays.
    Impaired,
    Managed,
    Cut,
}

/// The fields of a link that not every packet needs, in an allocation of their own.
struct Rest {
    spec: LinkSpec,
    managed: Option<Managed>,
    /// The channel of an impaired link, which carries all of its packets. `None` for other links.
    impaired: Option<ImpairedLink>,
    loss: Rng,
    jitter: Wander,
    grants: Option<LoopLink>,
}

impl LinkDirectionState {
    pub(crate) fn new(from: NodeId, to: NodeId, spec: LinkSpec, rng: &Rng, now: Instant) -> LinkDirectionState {
        let impaired = spec.impaired.as_deref().map(|impaired| ImpairedLink::new(&spec, impaired, rng, now));
        let managed = if impaired.is_some() { None } else { Managed::for_spec(&spec.queue, rng.split(3)) };
        let rest = Rest {
            managed,
            impaired,
            loss: rng.split(1),
            jitter: Wander::new(rng.split(2), spec.jitter, now),
            grants: None,
            spec: spec.clone(),
        };
        let mut link = LinkDirectionState {
            transmitter: Transmitter::new(&spec.capacity, now),
            line: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last_due: now,
            delay_nanos: 0,
            serve_at_packets: SERVED_LATE_PACKETS,
            limit_packets: 0,
            limit_bytes: 0,
            from,
            to,
            mtu: 0,
            kind: LinkProcessing::Plain,
            is_managed: rest.managed.is_some() || rest.impaired.is_some(),
            is_impaired: rest.impaired.is_some(),
            grants: false,
            stats: LinkStats::default(),
            rest: Box::new(rest),
        };
        link.take_over(spec);
        link
    }

    fn take_over(&mut self, spec: LinkSpec) {
        self.delay_nanos = spec.delay.as_nanos() as u64;
        self.mtu = spec.mtu;
        (self.limit_packets, self.limit_bytes) = match spec.queue {
            QueueSpec::DropTail { limit_packets, limit_bytes } => (limit_packets, limit_bytes),
            QueueSpec::Managed { .. } => (0, 0),
        };
        self.kind = match self.rest.managed {
            _ if spec.cut => LinkProcessing::Cut,
            Some(_) => LinkProcessing::Managed,
            None if spec.loss > 0.0 || !spec.jitter.is_zero() => LinkProcessing::Impaired,
            None => LinkProcessing::Plain,
        };
        self.rest.spec = spec;
    }

    /// Returns the node at which the link begins.
    pub fn from(&self) -> NodeId {
        self.from
    }

    /// Returns the node at which the link ends.
    pub fn to(&self) -> NodeId {
        self.to
    }

    /// Returns the properties of the link.
    pub fn spec(&self) -> &LinkSpec {
        &self.rest.spec
    }

    /// Returns the statistics of the link, up to date at `now`.
    pub fn stats(&mut self, now: Instant) -> &LinkStats {
        self.serve(now);
        &self.stats
    }

    /// Sets all statistics to zero at `now`.
    pub fn clear_stats(&mut self, now: Instant) {
        self.serve(now);
        let queue_packets = self.stats.queue_packets.take().map(|_| Lengths::default());
        let packet_sizes = self.stats.packet_sizes.take().map(|_| PacketSizes::default());
        self.stats = LinkStats { queue_packets, packet_sizes, ..LinkStats::default() };
    }

    /// Starts to record the queue length at each departure of a packet.
    pub fn watch_lengths(&mut self) {
        self.stats.queue_packets.get_or_insert_default();
    }

    /// Starts to count the packets that finish transmission, for each length above a minimum.
    pub fn watch_sizes(&mut self) {
        self.stats.packet_sizes.get_or_insert_default();
    }

    /// Returns the packets and bytes in the queue at `now`, including the packet in transmission.
    pub fn backlog(&mut self, now: Instant) -> (usize, u64) {
        self.serve(now);
        match (&self.rest.managed, &self.rest.impaired) {
            (Some(managed), _) => managed.backlog(),
            (None, Some(impaired)) => impaired.backlog(),
            (None, None) => (self.waiting.len(), self.waiting_bytes),
        }
    }

    /// Returns the time that a packet arriving now would wait for earlier packets.
    ///
    /// It is zero for a managed queue, whose departures are not known in advance.
    pub fn wait(&self, now: Instant) -> Duration {
        self.waiting.back().map_or(Duration::ZERO, |last| last.departs - now)
    }

    /// Returns the number of bytes that the link could have carried between two moments.
    pub fn capacity_bytes(&self, from: Instant, to: Instant) -> u64 {
        match &self.rest.impaired {
            Some(impaired) => impaired.capacity_bytes(from, to),
            None => self.transmitter.bytes_between(from, to),
        }
    }

    /// Starts the run on an impaired link: its timed impairments begin again at `now`.
    pub(crate) fn restart(&mut self, now: Instant) {
        if let Some(impaired) = &mut self.rest.impaired {
            impaired.restart(now, &mut self.stats);
        }
    }

    /// Takes a packet at the link's entry at `now`, and drops it or puts it into the queue.
    #[inline]
    pub(crate) fn offer(&mut self, now: Instant, mut packet: Box<Packet>) {
        if self.grants {
            self.grant(now, &mut packet);
        }
        if self.kind == LinkProcessing::Cut || packet.bytes > self.mtu {
            self.stats.cut_packets += 1;
        } else if let Some(impaired) = self.rest.impaired.as_mut().filter(|_| self.is_impaired) {
            impaired.offer(now, packet, &mut self.stats);
        } else if self.kind == LinkProcessing::Managed {
            self.offer_managed(now, packet);
        } else {
            self.offer_drop_tail(now, packet);
        }
    }

    fn offer_managed(&mut self, now: Instant, packet: Box<Packet>) {
        let Some(managed) = &mut self.rest.managed else { return };
        managed.enqueue(now, packet, &mut self.stats);
        if managed.is_idle() {
            managed.start(now, &mut self.transmitter, &mut self.stats);
        }
    }

    #[inline]
    fn offer_drop_tail(&mut self, now: Instant, packet: Box<Packet>) {
        if self.waiting.len() >= self.serve_at_packets || self.is_full(packet.bytes) {
            self.serve(now);
        }
        if self.is_full(packet.bytes) {
            self.stats.dropped_packets += 1;
            return;
        }
        let departs = self.transmitter.transmit(now, packet.bytes);
        self.waiting_bytes += u64::from(packet.bytes);
        let bytes = packet.bytes;
        let lost = self.depart(departs, packet);
        self.waiting.push_back(DropTailEntry { came: now, departs, bytes, lost });
    }

    /// Returns true if the queue has no space for `bytes`, as far as departures have been processed.
    ///
    /// An empty queue accepts any packet.
    #[inline]
    fn is_full(&self, bytes: u32) -> bool {
        !self.waiting.is_empty()
            && (self.waiting.len() >= self.limit_packets || self.waiting_bytes + u64::from(bytes) > self.limit_bytes)
    }

    /// Puts a packet that leaves the transmitter at `departs` on the delay line.
    ///
    /// It returns true if the packet is lost.
    #[inline]
    fn depart(&mut self, departs: Instant, packet: Box<Packet>) -> bool {
        let lost = self.kind != LinkProcessing::Plain && self.is_lost();
        let due = self.due(departs);
        self.line.push_back(Travelling { due, packet: if lost { None } else { Some(packet) } });
        lost
    }

    fn is_lost(&mut self) -> bool {
        let Rest { spec, loss, .. } = &mut *self.rest;
        spec.loss > 0.0 && loss.chance(spec.loss)
    }

    #[inline]
    fn due(&mut self, departs: Instant) -> Instant {
        let mut due = Instant::from_nanos(departs.as_nanos() + self.delay_nanos);
        if self.kind != LinkProcessing::Plain && !self.rest.spec.jitter.is_zero() {
            due += self.rest.jitter.at(departs);
        }
        self.last_due = due.max(self.last_due);
        self.last_due
    }

    /// Processes the departures up to `now`: removes the packets from the queue and counts them in the statistics.
    fn serve(&mut self, now: Instant) {
        if let Some(impaired) = self.rest.impaired.as_mut().filter(|_| self.is_impaired) {
            return impaired.advance(now, &mut self.stats);
        }
        let waits = self.waiting.iter().position(|waiting| waiting.departs > now).unwrap_or(self.waiting.len());
        if let Some(lengths) = &mut self.stats.queue_packets {
            count_lengths(&self.waiting, waits, lengths);
        }
        let mut sent_bytes = 0;
        for gone in self.waiting.drain(..waits) {
            sent_bytes += u64::from(gone.bytes);
            self.stats.sent(gone.bytes, gone.lost);
            self.stats.queue_delay.record(gone.departs.as_nanos() - gone.came.as_nanos());
        }
        self.waiting_bytes -= sent_bytes;
        self.serve_at_packets = self.waiting.len() + SERVED_LATE_PACKETS;
    }

    /// Returns the time at which [`LinkDirectionState::arrive`] must be called next.
    #[inline]
    pub(crate) fn next_arrival(&self) -> Instant {
        if self.is_impaired {
            return self.rest.impaired.as_ref().map_or(Instant::FAR_FUTURE, ImpairedLink::next_arrival);
        }
        self.line.front().map_or(Instant::FAR_FUTURE, |first| first.due)
    }

    /// Returns true if packets leave the link's queue through [`LinkDirectionState::depart_managed`].
    ///
    /// The result never changes.
    #[inline]
    pub(crate) fn is_managed(&self) -> bool {
        self.is_managed
    }

    /// Returns the time at which [`LinkDirectionState::depart_managed`] must be called next.
    pub(crate) fn next_departure(&self) -> Instant {
        match &self.rest.impaired {
            Some(impaired) => impaired.next_departure(),
            None => self.rest.managed.as_ref().map_or(Instant::FAR_FUTURE, Managed::departs),
        }
    }

    /// Returns the packet that arrives at the link's end at `now`. It returns at most one for each call.
    #[inline]
    pub(crate) fn arrive(&mut self, now: Instant) -> Option<Box<Packet>> {
        if self.is_impaired {
            return self.rest.impaired.as_mut()?.arrive(now);
        }
        self.line.pop_front_if(|first| first.due <= now)?.packet
    }

    /// Ends the transmission of a packet from a managed queue, and puts the packet on the delay line.
    pub(crate) fn depart_managed(&mut self, now: Instant) {
        if let Some(impaired) = &mut self.rest.impaired {
            return impaired.advance(now, &mut self.stats);
        }
        if let Some(managed) = self.rest.managed.as_mut().filter(|m| m.departs() <= now)
            && let Some(packet) = managed.finish()
        {
            if let Some(lengths) = &mut self.stats.queue_packets {
                lengths.record(managed.backlog().0 + 1);
            }
            managed.start(now, &mut self.transmitter, &mut self.stats);
            let bytes = packet.bytes;
            let lost = self.depart(now, packet);
            self.stats.sent(bytes, lost);
        }
    }

    /// Changes the properties of the link at `now`, except the discipline of its queue.
    ///
    /// Queued packets are transmitted with the new properties. Packets on the delay line keep their arrival times.
    pub(crate) fn set(&mut self, now: Instant, spec: LinkSpec) {
        self.serve(now);
        if let Some(impaired) = &mut self.rest.impaired {
            impaired.set(now, &spec, &mut self.stats);
            return self.take_over(spec);
        }
        if spec.cut {
            let waiting = self.rest.managed.as_mut().map_or(0, |managed| managed.clear(now));
            self.stats.cut_packets += (self.line.len() + waiting) as u64;
            self.line.clear();
            self.waiting.clear();
            self.waiting_bytes = 0;
        }
        self.rest.jitter.set_limit(spec.jitter, now);
        let has_new_capacity = spec.capacity != self.rest.spec.capacity;
        let has_new_delay = spec.delay != self.rest.spec.delay;
        let head_left = self.waiting.front().map_or(0, |first| self.transmitter.bytes_left(first.departs, now));
        self.take_over(spec);
        if has_new_capacity {
            self.transmitter = Transmitter::new(&self.rest.spec.capacity, now);
            self.replan(now, head_left.min(u64::from(u32::MAX)) as u32);
        }
        if has_new_capacity || has_new_delay {
            self.replan_arrivals();
        }
    }

    /// Computes the departure times of the packets in the queue anew, after a change of the capacity.
    ///
    /// `head_left` is the number of bytes of the first packet that have not been sent.
    fn replan(&mut self, now: Instant, head_left: u32) {
        for (n, waiting) in self.waiting.iter_mut().enumerate() {
            let bytes = if n == 0 { head_left } else { waiting.bytes };
            waiting.departs = self.transmitter.transmit(now, bytes);
        }
    }

    fn replan_arrivals(&mut self) {
        let head = self.line.len() - self.waiting.len();
        self.last_due = head.checked_sub(1).and_then(|n| self.line.get(n)).map_or(Instant::ZERO, |before| before.due);
        for n in 0..self.waiting.len() {
            self.line[head + n].due = self.due(self.waiting[n].departs);
        }
    }
}

/// Records the queue length at the departure of each of the first `gone` packets in `waiting`.
///
/// The queue length is the number of packets that had arrived by then, less the number that had left.
fn count_lengths(waiting: &VecDeque<DropTailEntry>, gone: usize, lengths: &mut Lengths) {
    let mut came = 0;
    for (before, leaving) in waiting.iter().take(gone).enumerate() {
        came += waiting.iter().skip(came).take_while(|other| other.came < leaving.departs).count();
        lengths.record(came - before);
    }
}

#[cfg(test)]
mod tests;
