//! One direction of an impaired link, in virtual time.

use super::delay::Delay;
use super::fates::Fates;
use super::policer::Policer;
use super::serializer::{Capacity, Serializer};
use super::spec::Impaired;
use super::timeline::Timeline;
use std::collections::VecDeque;
use weft_core::queue::{Arrival, FlowQueue, QueueConfig, QueueKind};
use weft_units::{Duration, FlowId, Instant, Rng};

/// What waits before the transmitter, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ChannelQueue {
    /// First in, first out. What exceeds a limit is dropped at the tail. The packet in transmission counts; an idle link takes any packet.
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
    },
}

/// The properties that every link has, impaired or not. Events change them during a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plain {
    /// What it carries.
    pub capacity: Capacity,
    /// One-way propagation delay.
    pub delay: Duration,
    /// How far the delay wanders.
    pub jitter: Duration,
    /// Probability of independent loss.
    pub loss: f64,
    /// What waits before it. It never changes.
    pub queue: ChannelQueue,
}

/// What a channel has to know of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct About {
    /// Its IP bytes.
    pub bytes: u32,
    /// Its flow, for queues that tell flows apart.
    pub flow: FlowId,
    /// Whether it is UDP.
    pub is_udp: bool,
    /// Whether a queue may mark it instead of dropping it.
    pub ecn_capable: bool,
}

/// Why a packet is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The policer dropped it.
    Policer,
    /// The queue dropped it.
    Queue,
    /// It met an outage or a cut.
    Outage,
    /// It was lost at random, after transmission.
    Loss,
}

/// A packet that left the transmitter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// Its IP bytes.
    pub bytes: u32,
    /// From its arrival at the queue until its last byte had left.
    pub waited: Duration,
    /// Packets that were in the queue, itself included.
    pub in_queue: usize,
    /// Whether a queue marked it.
    pub marked: bool,
}

/// What happened on a channel.
#[derive(Debug)]
pub enum Happened<T> {
    /// A packet left the transmitter.
    Transmitted(Transmission),
    /// A packet is gone.
    Gone(T, Cause),
}

/// A packet that arrived at the far end.
#[derive(Debug)]
pub struct Arrived<T> {
    /// The packet.
    pub packet: T,
    /// Its IP bytes.
    pub bytes: u32,
    /// When it arrived.
    pub due: Instant,
    /// Whether a queue marked it.
    pub marked: bool,
}

struct Waiting<T> {
    packet: T,
    came: Instant,
    bytes: u32,
}

/// The packet in transmission.
struct Served<T> {
    waiting: Waiting<T>,
    marked: bool,
    since: Instant,
    done: Instant,
}

/// One direction of an impaired link, which carries packets of type `T`.
pub struct Channel<T> {
    plain: Plain,
    impaired: Impaired,
    /// When the run began, or the far future while the channel waits for [`Channel::restart`].
    start: Instant,
    timeline: Timeline,
    policer: Option<Policer>,
    queue: FlowQueue<Waiting<T>>,
    serializer: Serializer,
    served: Option<Served<T>>,
    fates: Fates,
    delay: Delay,
    /// In order of arrival.
    line: VecDeque<Arrived<T>>,
    last_due: Instant,
}

impl<T: Clone> Channel<T> {
    /// An empty channel at `now`. Its fates depend on `rng` and the schedule's seed alone.
    pub fn new(plain: Plain, impaired: Impaired, rng: &Rng, now: Instant) -> Channel<T> {
        let start = if impaired.waits { Instant::FAR_FUTURE } else { now };
        let impairments = &impaired.impairments;
        let timeline = Timeline::new(impairments, impaired.schedule, start);
        let queue = match plain.queue {
            ChannelQueue::Managed { kind, config } => FlowQueue::with_rng(kind, config, rng.split(3)),
            ChannelQueue::DropTail { .. } => {
                let config = QueueConfig { limit_bytes: u64::MAX, limit_units: usize::MAX, ..QueueConfig::default() };
                FlowQueue::new(QueueKind::DropTail, config)
            }
        };
        Channel {
            policer: impairments.policer.map(|spec| Policer::new(spec, start)),
            queue,
            serializer: Serializer::new(&plain.capacity, timeline.clone(), now, now),
            served: None,
            fates: Fates::new(impairments, rng),
            delay: Delay::new(plain.jitter, impairments.jitter, rng, now),
            line: VecDeque::new(),
            last_due: now,
            start,
            timeline,
            plain,
            impaired,
        }
    }

    /// The run begins at `now`: outages, swings, handovers, policer and trace start anew.
    pub fn restart(&mut self, now: Instant, happened: &mut impl FnMut(Happened<T>)) {
        self.advance(now, happened);
        let left = self.bytes_left(now);
        self.start = now;
        self.timeline = Timeline::new(&self.impaired.impairments, self.impaired.schedule, now);
        self.policer = self.impaired.impairments.policer.map(|spec| Policer::new(spec, now));
        self.serializer = Serializer::new(&self.plain.capacity, self.timeline.clone(), now, now);
        self.serve_again(now, left);
    }

    /// Changes the plain properties. What waits is transmitted the new way; what travels arrives as it would have.
    pub fn set(&mut self, now: Instant, plain: Plain, happened: &mut impl FnMut(Happened<T>)) {
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

    /// Empties the channel: a cut.
    pub fn clear(&mut self, now: Instant, happened: &mut impl FnMut(Happened<T>)) {
        self.advance(now, happened);
        let mut gone = |packet| happened(Happened::Gone(packet, Cause::Outage));
        self.served.take().into_iter().for_each(|served| gone(served.waiting.packet));
        while let Some(waiting) = self.queue.dequeue(now, &mut |waiting| gone(waiting.packet)) {
            gone(waiting.item.packet);
        }
        self.line.drain(..).for_each(|arrived| gone(arrived.packet));
    }

    /// Bytes of the packet in transmission that are still to be sent.
    fn bytes_left(&mut self, now: Instant) -> u64 {
        let Some(served) = &self.served else { return 0 };
        let (whole, since) = (u64::from(served.waiting.bytes), served.since);
        match self.plain.capacity {
            Capacity::Trace(_) => whole,
            Capacity::Rate(_) => {
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

    /// Builds the transmitter as it was at the start of the run.
    fn pristine(&self) -> Serializer {
        let timeline = Timeline::new(&self.impaired.impairments, self.impaired.schedule, self.start);
        let start = if self.start == Instant::FAR_FUTURE { Instant::ZERO } else { self.start };
        Serializer::new(&self.plain.capacity, timeline, start, start)
    }

    /// Bytes that could be transmitted between two moments, outages left out.
    pub fn capacity_bytes(&self, from: Instant, to: Instant) -> u64 {
        self.pristine().bytes_between(from, to, false)
    }

    /// Packets and bytes that wait, the one in transmission included.
    pub fn backlog(&self) -> (usize, u64) {
        let (packets, bytes) = self.served.as_ref().map_or((0, 0), |served| (1, u64::from(served.waiting.bytes)));
        (self.queue.len() + packets, self.queue.backlog_bytes() + bytes)
    }

    /// A packet comes from the sending node at `now`, which never goes back.
    pub fn offer(&mut self, now: Instant, packet: T, about: About, happened: &mut impl FnMut(Happened<T>)) {
        self.advance(now, happened);
        let bytes = u64::from(about.bytes);
        if self.timeline.at(now).silent {
            return happened(Happened::Gone(packet, Cause::Outage));
        }
        if self.policer.as_mut().is_some_and(|policer| !policer.takes(now, bytes, about.is_udp)) {
            return happened(Happened::Gone(packet, Cause::Policer));
        }
        if let ChannelQueue::DropTail { limit_packets, limit_bytes } = self.plain.queue {
            let (packets, waits) = self.backlog();
            if packets > 0 && (packets >= limit_packets || waits + bytes > limit_bytes) {
                return happened(Happened::Gone(packet, Cause::Queue));
            }
        }
        let arrival = Arrival { flow: about.flow, bytes: about.bytes, ecn_capable: about.ecn_capable };
        let waiting = Waiting { packet, came: now, bytes: about.bytes };
        let mut dropped = |waiting: Waiting<T>| happened(Happened::Gone(waiting.packet, Cause::Queue));
        self.queue.enqueue(now, arrival, waiting, &mut dropped);
        if self.served.is_none() {
            self.serve(now, happened);
        }
    }

    /// Begins to transmit what the queue gives next.
    fn serve(&mut self, now: Instant, happened: &mut impl FnMut(Happened<T>)) {
        let mut dropped = |waiting: Waiting<T>| happened(Happened::Gone(waiting.packet, Cause::Queue));
        let Some(next) = self.queue.dequeue(now, &mut dropped) else { return };
        let done = self.serializer.transmit(now, next.bytes.into());
        self.served = Some(Served { waiting: next.item, marked: next.mark_ce, since: now, done });
    }

    /// Transmits what is transmitted by `now`.
    pub fn advance(&mut self, now: Instant, happened: &mut impl FnMut(Happened<T>)) {
        while let Some(served) = self.served.take_if(|served| served.done <= now) {
            let Served { waiting, marked, done, .. } = served;
            let Waiting { packet, came, bytes } = waiting;
            let in_queue = self.queue.len() + 1;
            happened(Happened::Transmitted(Transmission { bytes, waited: done - came, in_queue, marked }));
            self.depart(done, Arrived { packet, bytes, due: done, marked }, happened);
            self.serve(done, happened);
        }
    }

    /// Decides the fate of a packet that left the transmitter at `at`: lost, or delivered later.
    fn depart(&mut self, at: Instant, mut packet: Arrived<T>, happened: &mut impl FnMut(Happened<T>)) {
        let conditions = self.serializer.conditions(at);
        let fate = self.fates.next(at, packet.bytes.into(), self.plain.loss);
        let jitter = self.delay.at(at);
        if conditions.silent || fate.lost {
            let cause = if conditions.silent { Cause::Outage } else { Cause::Loss };
            return happened(Happened::Gone(packet.packet, cause));
        }
        let mut due = at + self.plain.delay + conditions.extra + jitter;
        if self.delay.keeps_order() {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        packet.due = due + fate.late;
        if fate.twice {
            self.travel(Arrived { packet: packet.packet.clone(), ..packet });
        }
        self.travel(packet);
    }

    fn travel(&mut self, packet: Arrived<T>) {
        let before = self.line.iter().rposition(|other| other.due <= packet.due);
        self.line.insert(before.map_or(0, |before| before + 1), packet);
    }

    /// What has arrived at the far end by `now`, of what was transmitted at the last [`Channel::advance`]: one packet a call.
    pub fn arrive(&mut self, now: Instant) -> Option<Arrived<T>> {
        self.line.pop_front_if(|first| first.due <= now)
    }

    /// When the next packet of those transmitted so far arrives.
    pub fn next_arrival(&self) -> Instant {
        self.line.front().map_or(Instant::FAR_FUTURE, |first| first.due)
    }

    /// When the packet in transmission has left.
    pub fn next_departure(&self) -> Instant {
        self.served.as_ref().map_or(Instant::FAR_FUTURE, |served| served.done)
    }

    /// The earliest time at which a packet can arrive, the one in transmission included.
    pub fn earliest_arrival(&self) -> Instant {
        self.next_arrival().min(self.next_departure() + self.plain.delay)
    }
}
