//! Flow queues: where units wait for a path.

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

/// A unit on its way into a queue.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The flow it belongs to.
    pub flow: FlowId,
    /// Its IP bytes.
    pub bytes: u32,
    /// Whether congestion may be marked on it instead of dropping it (RFC 3168).
    pub ecn_capable: bool,
}

/// The unit that leaves next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadView {
    /// The flow it belongs to.
    pub flow: FlowId,
    /// Its IP bytes.
    pub bytes: u32,
    /// Whether its flow is sparse: served from the list of new flows (RFC 8290 §4.2).
    pub sparse: bool,
}

/// A unit that left its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dequeued<T> {
    /// What was queued.
    pub item: T,
    /// The flow it belongs to.
    pub flow: FlowId,
    /// Its IP bytes.
    pub bytes: u32,
    /// Whether its flow is sparse: served from the list of new flows (RFC 8290 §4.2).
    pub sparse: bool,
    /// Whether the AQM wants CE set on it.
    pub mark_ce: bool,
    /// How long it waited.
    pub sojourn: Duration,
}

/// The sizes and times of a flow queue. Each discipline takes what concerns it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueueConfig {
    /// Bytes a flow may send per round (RFC 8290 §5.2.4); a queue that holds no more is never too long for CoDel.
    pub quantum_bytes: u32,
    /// Acceptable standing delay (RFC 8289 §4.3).
    pub target: Duration,
    /// How long the delay must stand above the target before CoDel acts (RFC 8289 §4.3).
    pub interval: Duration,
    /// Bytes one flow may hold under FQ-CoDel.
    pub flow_limit_bytes: u32,
    /// Bytes all flows may hold.
    pub limit_bytes: u64,
    /// Units all flows may hold.
    pub limit_units: usize,
    /// RED's thresholds and probability, for RED and FRED.
    pub red: RedConfig,
    /// What FRED has besides.
    pub fred: FredConfig,
}

impl Default for QueueConfig {
    /// RFC 8290's values, with its limit of packets (§5.2.3) and 15 MB in all, which is 10,000 full ones. RED as Floyd advised.
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

/// What a queue did since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounters {
    /// Units dropped because a limit was reached.
    pub dropped_full: u64,
    /// Units dropped by the AQM.
    pub dropped_aqm: u64,
    /// Units marked by the AQM.
    pub marked: u64,
    /// Counts units that [`FlowQueue::expire`] dropped, because they had waited too long.
    pub dropped_stale: u64,
    /// Units that [`FlowQueue::replace_last`] replaced by newer ones.
    pub replaced: u64,
}

/// The disciplines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// A queue per flow, deficit round robin, CoDel in each.
    FqCodel,
    /// One FIFO for all.
    DropTail,
    /// One FIFO for all under CoDel.
    Codel,
    /// One FIFO for all under RED.
    Red,
    /// One FIFO for all under FRED.
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
    /// An empty queue of that kind. RED and FRED then all draw the same numbers: where there are several, give each an
    /// [`Rng`] of its own with [`FlowQueue::with_rng`].
    pub fn new(kind: QueueKind, config: QueueConfig) -> FlowQueue<T> {
        FlowQueue::with_rng(kind, config, Rng::new(0))
    }

    /// An empty queue of that kind; what it drops by chance, if it does, depends on `rng`.
    pub fn with_rng(kind: QueueKind, config: QueueConfig, rng: Rng) -> FlowQueue<T> {
        match kind {
            QueueKind::FqCodel => FlowQueue::FqCodel(FqCodel::new(config)),
            QueueKind::DropTail => FlowQueue::DropTail(DropTail::new(config.limit_bytes, config.limit_units)),
            QueueKind::Codel => FlowQueue::Codel(CodelFifo::new(config)),
            QueueKind::Red => FlowQueue::Red(Red::new(config, rng)),
            QueueKind::Fred => FlowQueue::Fred(Fred::new(config, rng)),
        }
    }

    /// Changes sizes and times while units wait.
    pub fn configure(&mut self, config: QueueConfig) {
        match self {
            FlowQueue::FqCodel(q) => q.configure(config),
            FlowQueue::DropTail(q) => q.set_limits(config.limit_bytes, config.limit_units),
            FlowQueue::Codel(q) => q.configure(config),
            FlowQueue::Red(q) => q.configure(config),
            FlowQueue::Fred(q) => q.configure(config),
        }
    }

    /// Takes `item` in. Every item that must go, perhaps this one, is handed to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        each!(self, q => q.enqueue(now, arrival, item, dropped));
    }

    /// Where flows have queues of their own: `item` takes the place of the last unit of its flow, see [`FqCodel::replace_last`].
    ///
    /// # Errors
    /// `item` itself, if it replaced nothing.
    pub fn replace_last(
        &mut self,
        now: Instant,
        arrival: Arrival,
        item: T,
        is_superfluous: impl FnOnce(&T) -> bool,
    ) -> Result<T, T> {
        if let FlowQueue::FqCodel(q) = self { q.replace_last(now, arrival, item, is_superfluous) } else { Err(item) }
    }

    /// Selects the unit that leaves next, dropping what the AQM condemns before it. It stays until [`FlowQueue::pop`].
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<HeadView> {
        match self {
            FlowQueue::FqCodel(q) => q.head(now, dropped),
            FlowQueue::DropTail(q) => q.head(),
            FlowQueue::Codel(q) => q.head(now, dropped),
            FlowQueue::Red(q) => q.head(),
            FlowQueue::Fred(q) => q.head(),
        }
    }

    /// The item that the last [`FlowQueue::head`] selected.
    pub fn head_item(&self) -> Option<&T> {
        each!(self, q => q.head_item())
    }

    /// Takes the unit that the last [`FlowQueue::head`] selected; `None` if there is none or it was dropped since.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        each!(self, q => q.pop(now))
    }

    /// Drops a batch because somebody else is short of room: of the fattest flow, or where flows are not told apart, the oldest.
    pub fn shed(&mut self, now: Instant, dropped: &mut impl FnMut(T)) {
        if let FlowQueue::FqCodel(q) = self {
            return q.shed(fq_codel::MAX_DROP_BATCH, dropped);
        }
        for _ in 0..fq_codel::MAX_DROP_BATCH {
            let Some(unit) = self.pop(now) else { return };
            dropped(unit.item);
        }
    }

    /// Drops the units that have become too old, see [`Expiry`]. No discipline does so by itself.
    pub fn expire(&mut self, now: Instant, expiry: &impl Fn(&T) -> Expiry, dropped: &mut impl FnMut(T)) {
        each!(self, q => q.expire(now, expiry, dropped));
    }

    /// Where flows have queues of their own: that of the selected unit lets the others go first, see [`FqCodel::pass_over`].
    pub fn pass_over(&mut self) -> bool {
        if let FlowQueue::FqCodel(q) = self { q.pass_over() } else { false }
    }

    /// Where flows have queues of their own: the selected unit cannot leave now, see [`FqCodel::on_hold`].
    pub fn on_hold(&mut self, now: Instant) -> bool {
        if let FlowQueue::FqCodel(q) = self { q.on_hold(now) } else { false }
    }

    /// Selects and takes the next unit.
    pub fn dequeue(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<Dequeued<T>> {
        self.head(now, dropped)?;
        self.pop(now)
    }

    /// Units that wait.
    pub fn len(&self) -> usize {
        each!(self, q => q.len())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that wait.
    pub fn backlog_bytes(&self) -> u64 {
        each!(self, q => q.backlog_bytes())
    }

    /// What was dropped and marked so far.
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
