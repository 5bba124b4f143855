//! Models one direction of an impaired link in virtual time.
//!
//! A [`Channel`] takes packets at its entry and returns the arrived ones at its far end. It passes each packet through
//! outage, policer, queue, transmitter, loss and delay line. It never reads a clock.

use super::delay::Delay;
use super::fates::FateSequence;
use super::policer::Policer;
use super::serializer::{LinkCapacity, Serializer};
use super::spec::Impaired;
use super::timeline::ImpairmentTimeline;
use std::collections::VecDeque;
use weft_core::queue::{Arrival, FlowQueue, QueueConfig, QueueKind};
use weft_units::{Duration, FlowId, Instant, Rng};

/// The queue in front of the transmitter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum QueueSpec {
    /// A first-in, first-out queue that drops an arriving packet that would exceed one of the limits.
    ///
    /// The limits include the packet in transmission. An idle link accepts any packet.
    DropTail {
        /// Maximum number of packets in the queue and the transmitter.
        limit_packets: usize,
        /// Maximum number of IP bytes in the queue and the transmitter.
        limit_bytes: u64,
    },
    /// A queue with active queue management.
    Managed {
        /// The queue discipline.
        kind: QueueKind,
        /// Limits and time constants of the discipline.
        config: QueueConfig,
        /// True if the queue marks ECN-capable packets instead of dropping them.
        ecn: bool,
    },
}

/// The properties of a direction of a link that every link has, impaired or not.
///
/// Events can change them during a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plain {
    /// Capacity of the direction, before impairments change it.
    pub capacity: LinkCapacity,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Maximum of the wandering delay, which is added to `delay`.
    pub jitter: Duration,
    /// Probability that a packet is lost, independent of other packets, from 0 to 1.
    pub loss: f64,
    /// The queue in front of the transmitter. Events do not change it.
    pub queue: QueueSpec,
}

/// The properties of a packet that a channel uses. It uses nothing else of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Size of the packet in IP bytes.
    pub bytes: u32,
    /// Flow of the packet, for queues that separate flows.
    pub flow: FlowId,
    /// True if the packet is UDP.
    pub is_udp: bool,
    /// True if the packet is ECN-capable, so that a queue may mark it instead of dropping it.
    pub ecn_capable: bool,
}

/// The reason why a packet was dropped or lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossCause {
    /// The policer dropped it.
    Policer,
    /// The queue dropped it.
    Queue,
    /// An outage or a cut dropped it.
    Outage,
    /// Random loss after the transmission.
    Loss,
}

/// The data about a packet that left the transmitter, for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// Size of the packet in IP bytes.
    pub bytes: u32,
    /// Time from the packet's arrival at the queue until its last byte left the transmitter.
    pub waited: Duration,
    /// Number of packets that waited or were transmitted when this packet left, including this one.
    pub in_queue: usize,
    /// True if the queue marked the packet as having met congestion (ECN).
    pub marked: bool,
}

/// An event in a channel, which the channel reports to its caller.
#[derive(Debug)]
pub enum ChannelEvent<T> {
    /// A packet left the transmitter.
    Transmitted(Transmission),
    /// A packet was dropped or lost, for the given cause.
    Gone(T, LossCause),
}

/// A packet that has arrived at the far end.
#[derive(Debug)]
pub struct DeliveredPacket<T> {
    /// The packet that arrived.
    pub packet: T,
    /// Size of the packet in IP bytes.
    pub bytes: u32,
    /// Time at which the packet arrives at the far end.
    pub due: Instant,
    /// True if the queue marked the packet as having met congestion (ECN).
    pub marked: bool,
}

struct QueuedPacket<T> {
    packet: T,
    came: Instant,
    bytes: u32,
}

/// The packet that the transmitter is sending.
struct Served<T> {
    waiting: QueuedPacket<T>,
    marked: bool,
    since: Instant,
    done: Instant,
}

/// One direction of an impaired link, which carries packets of type `T`.
pub struct Channel<T> {
    plain: Plain,
    impaired: Impaired,
    /// Time at which the run began. It is in the far future while the channel waits for [`Channel::restart`].
    start: Instant,
    timeline: ImpairmentTimeline,
    policer: Option<Policer>,
    queue: FlowQueue<QueuedPacket<T>>,
    serializer: Serializer,
    served: Option<Served<T>>,
    fates: FateSequence,
    delay: Delay,
    /// Packets that have left the transmitter and have not arrived, in order of arrival.
    line: VecDeque<DeliveredPacket<T>>,
    last_due: Instant,
}

impl<T: Clone> Channel<T> {
    /// Creates an empty channel at `now`.
    ///
    /// The same packets at the same times get the same losses and delays if `rng` and the seed `impaired.schedule` of
    /// outages, swings and handovers are the same.
    pub fn new(plain: Plain, impaired: Impaired, rng: &Rng, now: Instant) -> Channel<T> {
        let start = if impaired.waits { Instant::FAR_FUTURE } else { now };
        let impairments = &impaired.impairments;
        let timeline = ImpairmentTimeline::new(impairments, impaired.schedule, start);
        let queue = match plain.queue {
            QueueSpec::Managed { kind, config, .. } => FlowQueue::with_rng(kind, config, rng.split(3)),
            QueueSpec::DropTail { .. } => {
                let config = QueueConfig { limit_bytes: u64::MAX, limit_units: usize::MAX, ..QueueConfig::default() };
                FlowQueue::new(QueueKind::DropTail, config)
            }
        };
        Channel {
            policer: impairments.policer.map(|spec| Policer::new(spec, start)),
            queue,
            serializer: Serializer::new(&plain.capacity, timeline.clone(), now, now),
            served: None,
            fates: FateSequence::new(impairments, rng),
            delay: Delay::new(plain.jitter, impairments.jitter, rng, now),
            line: VecDeque::new(),
            last_due: now,
            start,
            timeline,
            plain,
            impaired,
        }
    }

    /// Starts the run at `now`: outages, swings, handovers, policer and trace begin again.
    ///
    /// Packets in the channel stay in it.
    pub fn restart(&mut self, now: Instant, happened: &mut impl FnMut(ChannelEvent<T>)) {
        self.advance(now, happened);
        let left = self.bytes_left(now);
        self.start = now;
        self.timeline = ImpairmentTimeline::new(&self.impaired.impairments, self.impaired.schedule, now);
        self.policer = self.impaired.impairments.policer.map(|spec| Policer::new(spec, now));
        self.serializer = Serializer::new(&self.plain.capacity, self.timeline.clone(), now, now);
        self.serve_again(now, left);
    }

    /// Changes the capacity, delay, wandering delay and independent loss.
    ///
    /// Queued packets are transmitted with the new properties. Packets on the delay line keep their arrival times.
    pub fn set(&mut self, now: Instant, plain: Plain, happened: &mut impl FnMut(ChannelEvent<T>)) {
        self.advance(now, happened);
        self.delay.set_wander(plain.jitter, now);
        let left = self.bytes_left(now);
        let has_new_capacity = plain.capacity != self.plain.capacity;
        self.plain = plain;
        if has_new_capacity {
            let mut timeline = self.timeline.clone();
            timeline.at(now);
            self.serializer = Serializer::new(&self.plain.capacity, timeline, now, now);
            self.serve_again(now, left);
        }
    }

    /// Drops every packet in the channel, as a cut does.
    pub fn clear(&mut self, now: Instant, happened: &mut impl FnMut(ChannelEvent<T>)) {
        self.advance(now, happened);
        let mut gone = |packet| happened(ChannelEvent::Gone(packet, LossCause::Outage));
        self.served.take().into_iter().for_each(|served| gone(served.waiting.packet));
        while let Some(waiting) = self.queue.dequeue(now, &mut |waiting| gone(waiting.packet)) {
            gone(waiting.item.packet);
        }
        self.line.drain(..).for_each(|arrived| gone(arrived.packet));
    }

    /// Returns the number of bytes of the packet in transmission that have not been sent by `now`.
    ///
    /// With a trace it returns the size of the packet.
    fn bytes_left(&mut self, now: Instant) -> u64 {
        let Some(served) = &self.served else { return 0 };
        let (whole, since) = (u64::from(served.waiting.bytes), served.since);
        match self.plain.capacity {
            LinkCapacity::Trace(_) => whole,
            LinkCapacity::Rate(_) => {
                let sent = self.pristine().bytes_between(since, now, true);
                whole.saturating_sub(sent).max(1)
            }
        }
    }

    fn serve_again(&mut self, now: Instant, left: u64) {
        if let Some(served) = &mut self.served {
            served.done = self.serializer.transmit(now, left);
        }
    }

    /// Returns a transmitter that has sent nothing, in the state at the start of the run.
    fn pristine(&self) -> Serializer {
        let timeline = ImpairmentTimeline::new(&self.impaired.impairments, self.impaired.schedule, self.start);
        let start = if self.start == Instant::FAR_FUTURE { Instant::ZERO } else { self.start };
        Serializer::new(&self.plain.capacity, timeline, start, start)
    }

    /// Returns the number of bytes that the direction could have transmitted between `from` and `to`.
    ///
    /// Outages during which the link drops packets contribute nothing.
    pub fn capacity_bytes(&self, from: Instant, to: Instant) -> u64 {
        self.pristine().bytes_between(from, to, false)
    }

    /// Returns the packets and bytes in the queue, including the packet in transmission.
    pub fn backlog(&self) -> (usize, u64) {
        let (packets, bytes) = self.served.as_ref().map_or((0, 0), |served| (1, u64::from(served.waiting.bytes)));
        (self.queue.len() + packets, self.queue.backlog_bytes() + bytes)
    }

    /// Takes a packet from the sending node at `now`, and drops it or puts it into the queue.
    ///
    /// `now` which must not be earlier than in the previous call.
    pub fn offer(&mut self, now: Instant, packet: T, about: About, happened: &mut impl FnMut(ChannelEvent<T>)) {
        self.advance(now, happened);
        let bytes = u64::from(about.bytes);
        if self.timeline.at(now).silent {
            return happened(ChannelEvent::Gone(packet, LossCause::Outage));
        }
        if self.policer.as_mut().is_some_and(|policer| !policer.takes(now, bytes, about.is_udp)) {
            return happened(ChannelEvent::Gone(packet, LossCause::Policer));
        }
        if let QueueSpec::DropTail { limit_packets, limit_bytes } = self.plain.queue {
            let (packets, waits) = self.backlog();
            if packets > 0 && (packets >= limit_packets || waits + bytes > limit_bytes) {
                return happened(ChannelEvent::Gone(packet, LossCause::Queue));
            }
        }
        let marks = matches!(self.plain.queue, QueueSpec::Managed { ecn: true, .. });
        let arrival = Arrival { flow: about.flow, bytes: about.bytes, ecn_capable: marks && about.ecn_capable };
        let waiting = QueuedPacket { packet, came: now, bytes: about.bytes };
        let mut dropped = |waiting: QueuedPacket<T>| happened(ChannelEvent::Gone(waiting.packet, LossCause::Queue));
        self.queue.enqueue(now, arrival, waiting, &mut dropped);
        if self.served.is_none() {
            self.serve(now, happened);
        }
    }

    /// Starts the transmission of the next packet in the queue, if there is one.
    fn serve(&mut self, now: Instant, happened: &mut impl FnMut(ChannelEvent<T>)) {
        let mut dropped = |waiting: QueuedPacket<T>| happened(ChannelEvent::Gone(waiting.packet, LossCause::Queue));
        let Some(next) = self.queue.dequeue(now, &mut dropped) else { return };
        let done = self.serializer.transmit(now, next.bytes.into());
        self.served = Some(Served { waiting: next.item, marked: next.mark_ce, since: now, done });
    }

    /// Completes the transmissions that end by `now`, and begins those of the next packets.
    ///
    /// Calls `happened` with each event.
    pub fn advance(&mut self, now: Instant, happened: &mut impl FnMut(ChannelEvent<T>)) {
        while let Some(served) = self.served.take_if(|served| served.done <= now) {
            let Served { waiting, marked, done, .. } = served;
            let QueuedPacket { packet, came, bytes } = waiting;
            let in_queue = self.queue.len() + 1;
            happened(ChannelEvent::Transmitted(Transmission { bytes, waited: done - came, in_queue, marked }));
            self.depart(done, DeliveredPacket { packet, bytes, due: done, marked }, happened);
            self.serve(done, happened);
        }
    }

    /// Decides whether a packet that left the transmitter at `at` is lost, or when it arrives.
    fn depart(&mut self, at: Instant, mut packet: DeliveredPacket<T>, happened: &mut impl FnMut(ChannelEvent<T>)) {
        let conditions = self.serializer.conditions(at);
        let fate = self.fates.next(at, packet.bytes.into(), self.plain.loss);
        let jitter = self.delay.at(at);
        if conditions.silent || fate.lost {
            let cause = if conditions.silent { LossCause::Outage } else { LossCause::Loss };
            return happened(ChannelEvent::Gone(packet.packet, cause));
        }
        let mut due = at + self.plain.delay + conditions.extra + jitter;
        if self.delay.keeps_order() {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        packet.due = due + fate.late;
        if fate.twice {
            self.travel(DeliveredPacket { packet: packet.packet.clone(), ..packet });
        }
        self.travel(packet);
    }

    fn travel(&mut self, packet: DeliveredPacket<T>) {
        let before = self.line.iter().rposition(|other| other.due <= packet.due);
        self.line.insert(before.map_or(0, |before| before + 1), packet);
    }

    /// Returns the next packet that has arrived at the far end by `now`.
    ///
    /// It returns one packet for each call, and `None` if no other has arrived. It considers only packets that left the
    /// transmitter by the last call of [`Channel::advance`].
    pub fn arrive(&mut self, now: Instant) -> Option<DeliveredPacket<T>> {
        self.line.pop_front_if(|first| first.due <= now)
    }

    /// Returns the time at which the next of the packets that have left the transmitter arrives.
    ///
    /// It is the far future if there is no such packet.
    pub fn next_arrival(&self) -> Instant {
        self.line.front().map_or(Instant::FAR_FUTURE, |first| first.due)
    }

    /// Returns the time at which the packet in transmission will have left.
    ///
    /// It is the far future if no packet is in transmission.
    pub fn next_departure(&self) -> Instant {
        self.served.as_ref().map_or(Instant::FAR_FUTURE, |served| served.done)
    }

    /// Returns a time before which no packet arrives, counting those on the line and the one in transmission.
    pub fn earliest_arrival(&self) -> Instant {
        self.next_arrival().min(self.next_departure() + self.plain.delay)
    }
}
