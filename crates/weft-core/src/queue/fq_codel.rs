//! FQ-CoDel (RFC 8290): a queue per flow, served by deficit round robin with new flows first, CoDel (RFC 8289) in each.
//!
//! Flows are known by number, so nothing is hashed and no two share a queue. Units of all flows live in one slab; in steady
//! state nothing is allocated.

use super::codel::{Codel, CodelParams};
use super::{Arrival, Dequeued, HeadView, QueueConfig, QueueCounters};
use alloc::vec::Vec;
use weft_units::{FlowId, Instant};

const NIL: u32 = u32::MAX;

/// At the limit one unit is dropped per this many flows with a backlog (at most [`MAX_DROP_BATCH`]), so that the search for
/// the fattest queue costs the same per unit however many there are (RFC 8290 §4.1 drops 64 at once).
const FLOWS_PER_DROP: u32 = 16;
const MAX_DROP_BATCH: u32 = 64;

/// Keeps the number of rounds until a large unit may leave small.
const MIN_QUANTUM: u32 = 256;

#[derive(Debug)]
struct Unit<T> {
    item: Option<T>,
    since: Instant,
    bytes: u32,
    next: u32,
    ecn_capable: bool,
    marked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    None,
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    head: u32,
    tail: u32,
    bytes: u64,
    deficit: i64,
    list: List,
    next: u32,
    codel: Codel,
}

const EMPTY: Queue = Queue {
    head: NIL,
    tail: NIL,
    bytes: 0,
    deficit: 0,
    list: List::None,
    next: NIL,
    codel: Codel::NEW,
};

/// A FIFO of queues, linked through [`Queue::next`].
#[derive(Clone, Copy, Debug)]
struct Round {
    first: u32,
    last: u32,
}

impl Round {
    const EMPTY: Round = Round { first: NIL, last: NIL };

    fn push(&mut self, queues: &mut [Queue], id: u32) {
        queues[id as usize].next = NIL;
        match queues.get_mut(self.last as usize) {
            Some(last) => last.next = id,
            None => self.first = id,
        }
        self.last = id;
    }

    fn pop(&mut self, queues: &[Queue]) {
        self.first = queues[self.first as usize].next;
        if self.first == NIL {
            self.last = NIL;
        }
    }
}

/// See the module. Units go in by [`FqCodel::enqueue`]; [`FqCodel::head`] selects, [`FqCodel::pop`] takes.
#[derive(Debug)]
pub struct FqCodel<T> {
    config: QueueConfig,
    queues: Vec<Queue>,
    units: Vec<Unit<T>>,
    free: u32,
    new: Round,
    old: Round,
    selected: Option<(u32, List)>,
    backlog_bytes: u64,
    len: usize,
    backlogged: u32,
    counters: QueueCounters,
}

impl<T> FqCodel<T> {
    /// An empty queue.
    pub fn new(config: QueueConfig) -> FqCodel<T> {
        FqCodel {
            config,
            queues: Vec::new(),
            units: Vec::new(),
            free: NIL,
            new: Round::EMPTY,
            old: Round::EMPTY,
            selected: None,
            backlog_bytes: 0,
            len: 0,
            backlogged: 0,
            counters: QueueCounters::default(),
        }
    }

    /// Changes sizes and times while units wait; a smaller limit acts on the next arrival.
    pub fn configure(&mut self, config: QueueConfig) {
        self.config = config;
    }

    /// Takes `item` in. Over a limit the oldest units go to `dropped`: over the flow's limit its own, over the limit of all
    /// those of the flow with the most bytes.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let id = u32::from(arrival.flow.0);
        if self.queues.len() <= id as usize {
            self.queues.resize(id as usize + 1, EMPTY);
        }
        self.append(id, now, arrival, item);
        self.activate(id);
        while self.over_flow_limit(id) {
            self.drop_for_room(id, dropped);
        }
        while self.backlog_bytes > self.config.limit_bytes {
            self.drop_from_fattest(dropped);
        }
    }

    /// Selects the unit that leaves next, dropping what CoDel condemns before it. It stays until [`FqCodel::pop`].
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

    /// The item that the last [`FqCodel::head`] selected.
    pub fn head_item(&self) -> Option<&T> {
        let (id, _) = self.selected?;
        self.units.get(self.queues[id as usize].head as usize)?.item.as_ref()
    }

    /// Takes the unit that the last [`FqCodel::head`] selected; `None` if there is none or it was dropped since.
    pub fn pop(&mut self, now: Instant) -> Option<Dequeued<T>> {
        let (id, list) = self.selected.take()?;
        let unit = self.remove_head(id)?;
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

    /// Selects and takes the next unit.
    pub fn dequeue(&mut self, now: Instant, dropped: &mut impl FnMut(T)) -> Option<Dequeued<T>> {
        self.head(now, dropped)?;
        self.pop(now)
    }

    /// Units that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that wait.
    pub fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Bytes of one flow that wait.
    pub fn flow_bytes(&self, flow: FlowId) -> u64 {
        self.queues.get(usize::from(flow.0)).map_or(0, |q| q.bytes)
    }

    /// What was dropped and marked so far.
    pub fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// Deficit round robin: the first queue of the new flows, then of the old ones, that may still send in this round.
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
            self.move_to_old(id, list);
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

    fn drop_from_fattest(&mut self, dropped: &mut impl FnMut(T)) {
        let fattest = self.fattest();
        for _ in 0..(self.backlogged / FLOWS_PER_DROP).clamp(1, MAX_DROP_BATCH) {
            if self.queues[fattest as usize].head == NIL {
                return;
            }
            self.drop_for_room(fattest, dropped);
        }
    }

    /// The queue with the most bytes. Only queues with a backlog, or that just lost theirs, are in a list.
    fn fattest(&self) -> u32 {
        let (mut fattest, mut most) = (self.new.first.min(self.old.first), 0);
        for first in [self.new.first, self.old.first] {
            let mut id = first;
            while let Some(queue) = self.queues.get(id as usize) {
                if queue.bytes > most {
                    (fattest, most) = (id, queue.bytes);
                }
                id = queue.next;
            }
        }
        fattest
    }

    fn drop_for_room(&mut self, id: u32, dropped: &mut impl FnMut(T)) {
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
        let unit = Unit {
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

    fn store(&mut self, unit: Unit<T>) -> u32 {
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

    /// Takes the head out of its queue and frees its place in the slab.
    fn remove_head(&mut self, id: u32) -> Option<Unit<T>> {
        let queue = &mut self.queues[id as usize];
        let at = queue.head;
        let place = self.units.get_mut(at as usize)?;
        let unit = Unit { item: place.item.take(), ..*place };
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

    /// A queue that was in no list enters that of the new flows.
    fn activate(&mut self, id: u32) {
        let queue = &mut self.queues[id as usize];
        if queue.list == List::None {
            queue.list = List::New;
            queue.deficit = i64::from(self.config.quantum_bytes);
            self.new.push(&mut self.queues, id);
        }
    }

    /// A new flow that ran empty is old for a round, so that it cannot be new again at once (RFC 8290 §4.2).
    fn leave_empty(&mut self, id: u32, list: List) {
        if list == List::New && self.old.first != NIL {
            return self.move_to_old(id, list);
        }
        self.remove_first(list);
        self.queues[id as usize].list = List::None;
    }

    fn move_to_old(&mut self, id: u32, from: List) {
        self.remove_first(from);
        self.queues[id as usize].list = List::Old;
        self.old.push(&mut self.queues, id);
    }

    fn remove_first(&mut self, list: List) {
        match list {
            List::New => self.new.pop(&self.queues),
            List::Old => self.old.pop(&self.queues),
            List::None => {}
        }
    }
}
