//! Flow queues, in which units wait for a path.
//!
//! [`FlowQueue`] gives all disciplines one interface. A caller enqueues units, asks for the head, and removes it once
//! a path takes it. Every unit leaves either by `pop` or through the `dropped` callback. Queues never send and never
//! read a clock.

pub mod codel;
pub mod codel_fifo;
pub mod drop_tail;
mod early_drop;
mod expiry;
mod fifo;
pub mod fq_codel;
pub mod fred;
pub mod red;

pub use early_drop::{Measure, RedConfig};
pub use expiry::Expiry;
pub use fred::FredConfig;

use codel_fifo::CodelFifo;
use drop_tail::DropTail;
use fq_codel::FqCodel;
use fred::Fred;
use red::Red;
use weft_units::{Duration, FlowId, Instant, Rng};

/// Properties of a unit that is added to a queue.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Flow of the unit.
    pub flow: FlowId,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// True if a router may mark congestion on it instead of dropping it (RFC 3168).
    pub ecn_capable: bool,
}

/// Properties of the unit that a queue has selected to leave next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadView {
    /// Flow of the unit.
    pub flow: FlowId,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// True if its flow is sparse: FQ-CoDel serves it from the list of new flows (RFC 8290 §4.2).
    pub sparse: bool,
}

/// A unit that left its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dequeued<T> {
    /// The queued item.
    pub item: T,
    /// Flow of the unit.
    pub flow: FlowId,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// True if its flow is sparse: FQ-CoDel serves it from the list of new flows (RFC 8290 §4.2).
    pub sparse: bool,
    /// True if the caller must set a CE mark on the unit, because the AQM marks it.
    pub mark_ce: bool,
    /// Time that the unit waited in the queue.
    pub sojourn: Duration,
}

/// Limits and times of a flow queue. Each discipline uses only some of the fields.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueConfig {
    /// Bytes that a flow may send per round (RFC 8290 §5.2.4).
    ///
    /// CoDel never drops or marks while a queue holds no more bytes than this.
    pub quantum_bytes: u32,
    /// Acceptable standing queueing delay (RFC 8289 §4.3).
    pub target: Duration,
    /// Time for which the delay must stay above the target before CoDel acts (RFC 8289 §4.3).
    pub interval: Duration,
    /// Maximum backlog of one flow under FQ-CoDel, in bytes.
    pub flow_limit_bytes: u32,
    /// Maximum backlog of all flows, in bytes.
    pub limit_bytes: u64,
    /// Maximum backlog of all flows, in units.
    pub limit_units: usize,
    /// RED's parameters, for RED and FRED.
    pub red: RedConfig,
    /// FRED's additional parameters.
    pub fred: FredConfig,
}

impl Default for QueueConfig {
    /// Returns RFC 8290's values and RED's parameters as Floyd recommended them.
    ///
    /// The limit in packets is that of RFC 8290 §5.2.3. The limit in bytes is 15 MB, or 10,000 full packets.
    fn default() -> QueueConfig {
        QueueConfig {
            quantum_bytes: 1_514,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            flow_limit_bytes: 15_000_000,
            limit_bytes: 15_000_000,
            limit_units: 10_240,
            red: RedConfig::default(),
            fred: FredConfig::default(),
        }
    }
}

/// Counters of a queue since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// Number of units dropped because a limit was reached.
    pub dropped_full: u64,
    /// Number of units dropped by the AQM.
    pub dropped_aqm: u64,
    /// Number of units marked by the AQM.
    pub marked: u64,
    /// Number of units that [`FlowQueue::expire`] dropped because they had waited too long.
    pub dropped_stale: u64,
    /// Number of units that [`FlowQueue::replace_last`] replaced with newer ones.
    pub replaced: u64,
}

/// The queue disciplines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// One queue per flow, deficit round robin, CoDel in each queue.
    FqCodel,
    /// One drop-tail FIFO for all flows.
    DropTail,
    /// One FIFO for all flows, controlled by CoDel.
    Codel,
    /// One FIFO for all flows, controlled by RED.
    Red,
    /// One FIFO for all flows, controlled by FRED.
    Fred,
}

/// A queue of the configured discipline.
#[derive(Debug)]
pub enum FlowQueue<T> {
    /// See [`FqCodel`].
    FqCodel(FqCodel<T>),
    /// See [`DropTail`].
    DropTail(DropTail<T>),
    /// See [`CodelFifo`].
    Codel(CodelFifo<T>),
    /// See [`Red`].
    Red(Red<T>),
    /// See [`Fred`].
    Fred(Fred<T>),
}

macro_rules! each {
    ($queue:expr, $inner:ident => $call:expr) => {
        match $queue {
            FlowQueue::FqCodel($inner) => $call,
            FlowQueue::DropTail($inner) => $call,
            FlowQueue::Codel($inner) => $call,
            FlowQueue::Red($inner) => $call,
            FlowQueue::Fred($inner) => $call,
        }
    };
}

impl<T> FlowQueue<T> {
    /// Returns an empty queue of the given kind.
    ///
    /// All RED and FRED queues that this function makes drop by the same random numbers. If there are several such
    /// queues, make them with [`FlowQueue::with_rng`], so that each has random numbers of its own.
    pub fn new(kind: QueueKind, config: QueueConfig) -> FlowQueue<T> {
        FlowQueue::with_rng(kind, config, Rng::new(0))
    }

    /// Returns an empty queue of the given kind. Its random drops, if any, depend only on `rng`.
    pub fn with_rng(kind: QueueKind, config: QueueConfig, rng: Rng) -> FlowQueue<T> {
        match kind {
            QueueKind::FqCodel => FlowQueue::FqCodel(FqCodel::new(config)),
            QueueKind::DropTail => FlowQueue::DropTail(DropTail::new(config.limit_bytes, config.limit_units)),
            QueueKind::Codel => FlowQueue::Codel(CodelFifo::new(config)),
            QueueKind::Red => FlowQueue::Red(Red::new(config, rng)),
            QueueKind::Fred => FlowQueue::Fred(Fred::new(config, rng)),
        }
    }

    /// Changes the limits and times of the queue, also while units wait in it.
    pub fn configure(&mut self, config: QueueConfig) {
        match self {
            FlowQueue::FqCodel(q) => q.configure(config),
            FlowQueue::DropTail(q) => q.set_limits(config.limit_bytes, config.limit_units),
            FlowQueue::Codel(q) => q.configure(config),
            FlowQueue::Red(q) => q.configure(config),
            FlowQueue::Fred(q) => q.configure(config),
        }
    }

    /// Appends `item`. Passes every item that must be dropped, perhaps this one, to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        each!(self, q => q.enqueue(now, arrival, item, dropped));
    }

    /// Replaces the last unit of the arrival's flow with `item`, see [`FqCodel::replace_last`].
    ///
    /// Only disciplines with one queue per flow can do this.
    ///
    /// # Errors
    ///
    /// Returns `item` itself if it replaced nothing.
    pub fn replace_last(
        &mut self,
        now: Instant,
        arrival: Arrival,
        item: T,
        is_superfluous: impl FnOnce(&T) -> bool,
    ) -> Result<T, T> {
        if let FlowQueue::FqCodel(q) = self { q.replace_last(now, arrival, item, is_superfluous) } else { Err(item) }
    }

    /// Selects the unit that leaves next, and drops the units before it that the AQM rejects.
    ///
    /// The selection stays valid until [`FlowQueue::pop`].
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<HeadView> {
        match self {
            FlowQueue::FqCodel(q) => q.head(now, dropped),
            FlowQueue::DropTail(q) => q.head(),
            FlowQueue::Codel(q) => q.head(now, dropped),
            FlowQueue::Red(q) => q.head(),
            FlowQueue::Fred(q) => q.head(),
        }
    }

    /// Returns the item that the last [`FlowQueue::head`] selected.
    pub fn head_item(&self) -> Option<&T> {
        each!(self, q => q.head_item())
    }

    /// Removes and returns the unit that the last [`FlowQueue::head`] selected.
    ///
    /// Returns `None` if no unit is selected or the selected one was dropped since.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        each!(self, q => q.pop(now))
    }

    /// Drops some units to free memory for another queue.
    ///
    /// A discipline with one queue per flow drops from the flow with the most bytes. The others drop the oldest
    /// units.
    pub fn shed(&mut self, now: Instant, dropped: &mut impl FnMut(T)) {
        if let FlowQueue::FqCodel(q) = self {
            return q.shed(fq_codel::MAX_DROP_BATCH, dropped);
        }
        for _ in 0..fq_codel::MAX_DROP_BATCH {
            let Some(unit) = self.pop(now) else { return };
            dropped(unit.item);
        }
    }

    /// Drops the units that have become too old ([`Expiry`]). A queue does this only when this function is called.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        each!(self, q => q.expire(now, expiry, dropped));
    }

    /// Moves the flow of the selected unit behind all other flows, see [`FqCodel::pass_over`].
    ///
    /// Only [`FqCodel`] can do this. All other disciplines return false.
    pub fn pass_over(&mut self) -> bool {
        if let FlowQueue::FqCodel(q) = self { q.pass_over() } else { false }
    }

    /// Records that the selected unit cannot leave now, see [`FqCodel::on_hold`].
    ///
    /// Only [`FqCodel`] can do this. All other disciplines return false.
    pub fn on_hold(&mut self, now: Instant) -> bool {
        if let FlowQueue::FqCodel(q) = self { q.on_hold(now) } else { false }
    }

    /// Selects the unit that leaves next, and removes it from the queue.
    pub fn dequeue(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<Dequeued<T>> {
        self.head(now, dropped)?;
        self.pop(now)
    }

    /// Number of units in the queue.
    pub fn len(&self) -> usize {
        each!(self, q => q.len())
    }

    /// True if the queue holds no unit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Backlog of the queue in bytes.
    pub fn backlog_bytes(&self) -> u64 {
        each!(self, q => q.backlog_bytes())
    }

    /// Returns the counts of units dropped, marked and replaced so far.
    pub fn counters(&self) -> QueueCounters {
        each!(self, q => q.counters())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_disciplines_answer_the_same_calls_and_keep_both_limits() {
        let kinds = [QueueKind::FqCodel, QueueKind::DropTail, QueueKind::Codel, QueueKind::Red, QueueKind::Fred];
        let limits = [(3_000, usize::MAX), (u64::MAX, 2)];
        for (kind, (limit_bytes, limit_units)) in kinds.into_iter().flat_map(|kind| limits.map(|l| (kind, l))) {
            let mut q = FlowQueue::new(kind, QueueConfig::default());
            q.configure(QueueConfig { limit_bytes, limit_units, ..QueueConfig::default() });
            let mut lost = 0;
            for n in 0..3 {
                let arrival = Arrival { flow: FlowId(n), bytes: 1_500, ecn_capable: false };
                q.enqueue(Instant::ZERO, arrival, n, &mut |_| lost += 1);
            }
            assert_eq!((q.len(), q.backlog_bytes(), lost, q.counters().dropped_full), (2, 3_000, 1, 1));
            let seen = q.head(Instant::ZERO, &mut |_| ()).unwrap();
            let peeked = q.head_item().copied();
            let taken = q.pop(Instant::ZERO).unwrap();
            assert_eq!((seen.flow, peeked), (taken.flow, Some(taken.item)));
            assert!(q.dequeue(Instant::ZERO, &mut |_| ()).is_some() && q.is_empty());
        }
    }

    #[test]
    fn all_disciplines_drop_what_is_too_old_and_keep_the_newest_of_each_flow_for_longer() {
        let kinds = [QueueKind::FqCodel, QueueKind::DropTail, QueueKind::Codel, QueueKind::Red, QueueKind::Fred];
        for kind in kinds {
            let mut q = FlowQueue::new(kind, QueueConfig::default());
            for n in 0..12_u64 {
                let arrival = Arrival { flow: FlowId((n % 3) as u16), bytes: 1_500, ecn_capable: false };
                q.enqueue(Instant::from_millis(n * 10), arrival, n, &mut |_| ());
            }
            q.head(Instant::from_millis(111), &mut |_| ());
            let expiry = |n: &u64| {
                let born = Instant::from_millis(n * 10);
                Expiry { superseded_at: born + Duration::from_millis(50), useless_at: born + Duration::from_secs(1) }
            };
            let mut gone = alloc::vec::Vec::new();
            q.expire(Instant::from_millis(115), &expiry, &mut |n| gone.push(n));
            gone.sort_unstable();
            assert_eq!(gone, [0, 1, 2, 3, 4, 5, 6], "{kind:?}");
            gone.clear();
            q.expire(Instant::from_millis(900), &expiry, &mut |n| gone.push(n));
            assert_eq!((gone.len(), q.len(), q.backlog_bytes()), (2, 3, 4_500), "{kind:?}");
            q.expire(Instant::from_millis(1_100), &expiry, &mut |_| ());
            assert_eq!((q.len(), q.counters().dropped_stale), (1, 11), "{kind:?}");
            let last = q.dequeue(Instant::from_millis(1_100), &mut |_| ());
            assert_eq!((last.map(|unit| unit.item), q.is_empty()), (Some(11), true), "{kind:?}");
        }
    }
}
