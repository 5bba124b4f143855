//! FQ-CoDel (RFC 8290): one queue per flow, and CoDel (RFC 8289) in each queue.
//!
//! Deficit round robin serves the queues, new flows first. The flow number is the index of the queue. Nothing is
//! hashed, so two flows never share a queue. The units of all flows are stored in one slab (an array with reused
//! entries). In steady state the queue thus allocates no memory.

mod held;
mod lists;
mod replace;
#[cfg(test)]
mod tests;

use super::codel::CodelParams;
use super::{Arrival, Dequeued, HeadView, QueueConfig, QueueCounters};
use alloc::vec::Vec;
use lists::{EMPTY, FlowBacklog, List, QueueList};
use weft_units::{FlowId, Instant};

/// Index that stands for no unit and for no queue.
const NIL: u32 = u32::MAX;

/// Number of flows with a backlog for which one unit is dropped when the total limit is reached.
///
/// With 160 such flows, ten units are dropped at once. *Derived*: the search for the longest queue takes time in
/// proportion to the number of flows, so the time per dropped unit stays constant. At most [`MAX_DROP_BATCH`] units are
/// dropped.
const FLOWS_PER_DROP: u32 = 16;
/// Maximum number of units dropped at once when the total limit is reached.
///
/// Standard: RFC 8290 §4.1.
pub(super) const MAX_DROP_BATCH: u32 = 64;

/// Minimum quantum in bytes. It limits the number of rounds for which a large unit must wait.
const MIN_QUANTUM: u32 = 256;

#[derive(Debug)]
struct ListedUnit<T> {
    item: Option<T>,
    since: Instant,
    bytes: u32,
    next: u32,
    ecn_capable: bool,
    marked: bool,
}

/// An FQ-CoDel queue.
///
/// [`FqCodel::enqueue`] adds units, [`FqCodel::head`] selects the next one, [`FqCodel::pop`] removes it.
#[derive(Debug)]
pub struct FqCodel<T> {
    config: QueueConfig,
    queues: Vec<FlowBacklog>,
    units: Vec<ListedUnit<T>>,
    free: u32,
    new: QueueList,
    old: QueueList,
    selected: Option<(u32, List)>,
    /// Time when a unit of a flow in the list of old flows last left.
    old_left_at: Instant,
    renew_at: Instant,
    backlog_bytes: u64,
    len: usize,
    backlogged: u32,
    counters: QueueCounters,
}

impl<T> FqCodel<T> {
    /// Returns an empty queue.
    pub fn new(config: QueueConfig) -> FqCodel<T> {
        FqCodel {
            config,
            queues: Vec::new(),
            units: Vec::new(),
            free: NIL,
            new: QueueList::EMPTY,
            old: QueueList::EMPTY,
            selected: None,
            old_left_at: Instant::ZERO,
            renew_at: Instant::ZERO,
            backlog_bytes: 0,
            len: 0,
            backlogged: 0,
            counters: QueueCounters::default(),
        }
    }

    /// Changes limits and times while units wait. A smaller limit takes effect at the next arrival.
    pub fn configure(&mut self, config: QueueConfig) {
        self.config = config;
    }

    /// Appends `item` to its flow's queue, and drops the oldest units while a limit is exceeded.
    ///
    /// If the flow's limit is exceeded, the queue drops units of this flow. If the total limit is exceeded, it drops
    /// units of the flow with the most bytes. It passes dropped units to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let id = u32::from(arrival.flow.0);
        if self.queues.len() <= id as usize {
            self.queues.resize(id as usize + 1, EMPTY);
        }
        self.append(id, now, arrival, item);
        self.activate(now, id);
        while self.over_flow_limit(id) {
            self.drop_over_limit(id, dropped);
        }
        while self.backlog_bytes > self.config.limit_bytes || self.len > self.config.limit_units {
            self.shed((self.backlogged / FLOWS_PER_DROP).clamp(1, MAX_DROP_BATCH), dropped);
        }
    }

    /// Selects the unit that leaves next, and drops the units before it that CoDel rejects.
    ///
    /// The selection stays valid until [`FqCodel::pop`].
    pub fn head(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<HeadView> {
        self.selected = None;
        loop {
            let (id, list) = self.next_with_deficit()?;
            self.drop_condemned(now, id, dropped);
            let queue = &self.queues[id as usize];
            if let Some(unit) = self.units.get(queue.head as usize) {
                self.selected = Some((id, list));
                return Some(HeadView { flow: FlowId(id as u16), bytes: unit.bytes, sparse: list == List::New });
            }
            self.leave_empty(id, list);
        }
    }

    /// Returns the item that the last [`FqCodel::head`] selected.
    pub fn head_item(&self) -> Option<&T> {
        let (id, _) = self.selected?;
        self.units.get(self.queues[id as usize].head as usize)?.item.as_ref()
    }

    /// Removes and returns the unit that the last [`FqCodel::head`] selected.
    ///
    /// Returns `None` if no unit is selected or the selected one was dropped since.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let (id, list) = self.selected.take()?;
        let unit = self.remove_head(id)?;
        if list == List::Old {
            self.old_left_at = now;
        }
        self.queues[id as usize].deficit -= i64::from(unit.bytes);
        Some(Dequeued {
            item: unit.item?,
            flow: FlowId(id as u16),
            bytes: unit.bytes,
            sparse: list == List::New,
            mark_ce: unit.marked,
            sojourn: now.since(unit.since),
        })
    }

    /// Moves the flow of the selected unit behind all other flows in the order of service.
    ///
    /// The flow keeps its remaining deficit. Returns false if no unit is selected or no other flow has a backlog.
    pub fn pass_over(&mut self) -> bool {
        let Some((id, _)) = self.selected.take().filter(|_| self.backlogged > 1) else { return false };
        self.enter(id, List::Old);
        true
    }

    /// Selects the unit that leaves next, and removes it from the queue.
    pub fn dequeue(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<Dequeued<T>> {
        self.head(now, dropped)?;
        self.pop(now)
    }

    /// Drops `units` units from the flow with the most bytes.
    ///
    /// If that flow has fewer units, the rest are dropped from flows behind it in its list that have as many bytes.
    pub fn shed(&mut self, units: u32, dropped: &mut impl FnMut(T)) {
        let (mut id, mut left) = (self.fattest(), units);
        let most = self.queues.get(id as usize).map_or(0, |queue| queue.bytes);
        while left > 0
            && let Some(queue) = self.queues.get(id as usize)
        {
            let (is_as_fat, next) = (queue.bytes >= most, queue.next);
            while is_as_fat && left > 0 && self.queues[id as usize].head != NIL {
                self.drop_over_limit(id, dropped);
                left -= 1;
            }
            id = next;
        }
    }

    /// Number of units in the queue.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the queue holds no unit.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Backlog of all flows in bytes.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Backlog of one flow in bytes.
    pub fn flow_bytes(&self, flow: FlowId) -> u64 {
        self.queues.get(usize::from(flow.0)).map_or(0, |q| q.bytes)
    }

    /// Returns the counts of units dropped and marked so far.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// Returns the next queue in deficit round robin: the first with a positive deficit, new flows before old ones.
    fn next_with_deficit(&mut self) -> Option<(u32, List)> {
        loop {
            let (id, list) = match (self.new.first, self.old.first) {
                (NIL, NIL) => return None,
                (NIL, id) => (id, List::Old),
                (id, _) => (id, List::New),
            };
            let queue = &mut self.queues[id as usize];
            if queue.deficit > 0 {
                return Some((id, list));
            }
            queue.deficit += i64::from(self.config.quantum_bytes.max(MIN_QUANTUM));
            queue.is_within_quantum = false;
            self.enter(id, List::Old);
        }
    }

    fn drop_condemned(&mut self, now: Instant, id: u32, dropped: &mut impl FnMut(T)) {
        let params = CodelParams {
            target: self.config.target,
            interval: self.config.interval,
            mtu_bytes: self.config.quantum_bytes,
        };
        loop {
            let queue = &mut self.queues[id as usize];
            let Some(unit) = self.units.get_mut(queue.head as usize) else {
                return queue.codel.idle();
            };
            if unit.marked || !queue.codel.condemns(now, now.since(unit.since), queue.bytes, &params) {
                return;
            }
            if unit.ecn_capable {
                unit.marked = true;
                self.counters.marked += 1;
                return;
            }
            self.counters.dropped_aqm += 1;
            self.drop_head(id, dropped);
        }
    }

    fn over_flow_limit(&self, id: u32) -> bool {
        let queue = &self.queues[id as usize];
        queue.bytes > u64::from(self.config.flow_limit_bytes) && queue.head != queue.tail
    }

    /// Returns the queue with the most bytes.
    ///
    /// It searches only the lists of new and of old flows, because a queue in neither list has no backlog.
    fn fattest(&self) -> u32 {
        let (mut fattest, mut most) = (self.new.first.min(self.old.first), (false, 0));
        for first in [self.new.first, self.old.first] {
            let mut id = first;
            while let Some(queue) = self.queues.get(id as usize) {
                // A queue with units counts for more than an empty one, even if its units have zero bytes. There is
                // thus always a unit to drop.
                let holds = (queue.head != NIL, queue.bytes);
                if holds > most {
                    (fattest, most) = (id, holds);
                }
                id = queue.next;
            }
        }
        fattest
    }

    fn drop_over_limit(&mut self, id: u32, dropped: &mut impl FnMut(T)) {
        if self.selected.is_some_and(|(selected, _)| selected == id) {
            self.selected = None;
        }
        self.counters.dropped_full += 1;
        self.drop_head(id, dropped);
    }

    fn drop_head(&mut self, id: u32, dropped: &mut impl FnMut(T)) {
        if let Some(item) = self.remove_head(id).and_then(|unit| unit.item) {
            dropped(item);
        }
    }

    fn append(&mut self, id: u32, now: Instant, arrival: Arrival, item: T) {
        let unit = ListedUnit {
            item: Some(item),
            since: now,
            bytes: arrival.bytes,
            next: NIL,
            ecn_capable: arrival.ecn_capable,
            marked: false,
        };
        let at = self.store(unit);
        let queue = &mut self.queues[id as usize];
        match self.units.get_mut(queue.tail as usize) {
            Some(tail) => tail.next = at,
            None => {
                queue.head = at;
                self.backlogged += 1;
            }
        }
        queue.tail = at;
        queue.bytes += u64::from(arrival.bytes);
        self.backlog_bytes += u64::from(arrival.bytes);
        self.len += 1;
    }

    fn store(&mut self, unit: ListedUnit<T>) -> u32 {
        let at = self.free;
        match self.units.get_mut(at as usize) {
            Some(place) => {
                self.free = place.next;
                *place = unit;
                at
            }
            None => {
                self.units.push(unit);
                self.units.len() as u32 - 1
            }
        }
    }

    /// Removes and returns the unit at the head of a queue, and frees its entry in the slab.
    fn remove_head(&mut self, id: u32) -> Option<ListedUnit<T>> {
        let queue = &mut self.queues[id as usize];
        let at = queue.head;
        let place = self.units.get_mut(at as usize)?;
        let unit = ListedUnit { item: place.item.take(), ..*place };
        place.next = self.free;
        self.free = at;
        queue.head = unit.next;
        if queue.head == NIL {
            queue.tail = NIL;
            self.backlogged -= 1;
        }
        queue.bytes -= u64::from(unit.bytes);
        self.backlog_bytes -= u64::from(unit.bytes);
        self.len -= 1;
        Some(unit)
    }

    /// Puts a queue that received its first unit into the list of new flows.
    ///
    /// It does so if the queue was in no list, or if its flow has not used up the quantum that it got when it last
    /// became new. Without the second rule, a flow that sends little, but more than once in a round, would sometimes
    /// wait behind all old flows.
    fn activate(&mut self, now: Instant, id: u32) {
        let queue = &mut self.queues[id as usize];
        match queue.list {
            List::None => self.renew(now, id),
            List::Old if queue.head == queue.tail && queue.is_within_quantum && queue.deficit > 0 => {
                self.enter(id, List::New);
            }
            _ => {}
        }
    }

    fn renew(&mut self, now: Instant, id: u32) {
        let queue = &mut self.queues[id as usize];
        (queue.deficit, queue.is_within_quantum) = (i64::from(self.config.quantum_bytes), true);
        queue.new_since = now;
        self.enter(id, List::New);
    }

    /// Moves a new flow that ran empty to the old flows for one round (RFC 8290 §4.2).
    ///
    /// Otherwise its next unit would make it new again, ahead of all old flows.
    fn leave_empty(&mut self, id: u32, list: List) {
        let has_others = self.old.first != NIL;
        self.enter(id, if list == List::New && has_others { List::Old } else { List::None });
    }

    fn enter(&mut self, id: u32, list: List) {
        match self.queues[id as usize].list {
            List::New => self.new.remove(&mut self.queues, id),
            List::Old => self.old.remove(&mut self.queues, id),
            List::None => {}
        }
        match list {
            List::New => self.new.push(&mut self.queues, id),
            List::Old => self.old.push(&mut self.queues, id),
            List::None => {}
        }
        self.queues[id as usize].list = list;
    }
}
