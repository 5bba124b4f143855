//! FQ-CoDel (RFC 8290): one queue per flow, and CoDel (RFC 8289) in each queue.
//!
//! Deficit round robin serves the queues, new flows first. The flow number is the index of the queue. Nothing is
//! hashed, so two flows never share a queue. Units of all flows live in one slab. In steady state the queue allocates
//! no memory.

mod held;
mod replace;

use super::codel::{Codel, CodelParams};
use super::{Arrival, Dequeued, HeadView, QueueConfig, QueueCounters};
use alloc::vec::Vec;
use weft_units::{FlowId, Instant};

/// Index that stands for no unit and for no queue.
const NIL: u32 = u32::MAX;

/// Number of backlogged flows per unit that is dropped when the total limit is reached.
///
/// Derived: the search for the longest queue takes time proportional to the flows, so the cost per dropped unit stays
/// constant. The batch is at most [`MAX_DROP_BATCH`] units.
const FLOWS_PER_DROP: u32 = 16;
/// Maximum number of units dropped at once when the total limit is reached.
///
/// Standard: RFC 8290 §4.1.
pub(super) const MAX_DROP_BATCH: u32 = 64;

/// Least quantum in bytes. It bounds the number of rounds until a large unit may leave.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    None,
    New,
    Old,
}

#[derive(Clone, Copy, Debug)]
struct FlowList {
    head: u32,
    tail: u32,
    bytes: u64,
    deficit: i64,
    list: List,
    /// True while the flow has not used up the quantum that it received when it last became new.
    is_within_quantum: bool,
    /// Time when the flow last became new.
    new_since: Instant,
    next: u32,
    before: u32,
    codel: Codel,
}

/// A queue without units, in no list.
const EMPTY: FlowList = FlowList {
    head: NIL,
    tail: NIL,
    bytes: 0,
    deficit: 0,
    list: List::None,
    is_within_quantum: false,
    new_since: Instant::ZERO,
    next: NIL,
    before: NIL,
    codel: Codel::NEW,
};

/// A doubly linked list of queues, linked through [`FlowList::next`] and [`FlowList::before`].
#[derive(Clone, Copy, Debug)]
struct QueueList {
    first: u32,
    last: u32,
}

impl QueueList {
    const EMPTY: QueueList = QueueList { first: NIL, last: NIL };

    fn push(&mut self, queues: &mut [FlowList], id: u32) {
        (queues[id as usize].before, queues[id as usize].next) = (self.last, NIL);
        match queues.get_mut(self.last as usize) {
            Some(last) => last.next = id,
            None => self.first = id,
        }
        self.last = id;
    }

    fn remove(&mut self, queues: &mut [FlowList], id: u32) {
        let FlowList { before, next, .. } = queues[id as usize];
        match queues.get_mut(before as usize) {
            Some(queue) => queue.next = next,
            None => self.first = next,
        }
        match queues.get_mut(next as usize) {
            Some(queue) => queue.before = before,
            None => self.last = before,
        }
    }
}

/// An FQ-CoDel queue.
///
/// [`FqCodel::enqueue`] adds units, [`FqCodel::head`] selects the next one, [`FqCodel::pop`] removes it.
#[derive(Debug)]
pub struct FqCodel<T> {
    config: QueueConfig,
    queues: Vec<FlowList>,
    units: Vec<ListedUnit<T>>,
    free: u32,
    new: QueueList,
    old: QueueList,
    selected: Option<(u32, List)>,
    /// Time when a unit of an old flow last left.
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

    /// Changes sizes and times while units wait. A smaller limit takes effect at the next arrival.
    pub fn configure(&mut self, config: QueueConfig) {
        self.config = config;
    }

    /// Appends `item` to its flow's queue, and drops the oldest units while a limit is exceeded.
    ///
    /// Over the flow's limit the queue drops units of that flow. Over the total limit it drops units of the flow with
    /// the most bytes. It passes dropped units to `dropped`.
    pub fn enqueue(&mut self, now: Instant, arrival: Arrival, item: T, dropped: &mut impl FnMut(T)) {
        let id = u32::from(arrival.flow.0);
        if self.queues.len() <= id as usize {
            self.queues.resize(id as usize + 1, EMPTY);
        }
        self.append(id, now, arrival, item);
        self.activate(now, id);
        while self.over_flow_limit(id) {
            self.drop_for_room(id, dropped);
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

    /// Moves the flow of the selected unit behind all other flows.
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
    /// If that flow holds fewer units, the rest comes from the next flows in the list that hold as many bytes.
    pub fn shed(&mut self, units: u32, dropped: &mut impl FnMut(T)) {
        let (mut id, mut left) = (self.fattest(), units);
        let most = self.queues.get(id as usize).map_or(0, |queue| queue.bytes);
        while left > 0
            && let Some(queue) = self.queues.get(id as usize)
        {
            let (is_as_fat, next) = (queue.bytes >= most, queue.next);
            while is_as_fat && left > 0 && self.queues[id as usize].head != NIL {
                self.drop_for_room(id, dropped);
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

    /// Deficit round robin: returns the first queue with a positive deficit, new flows before old ones.
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
    /// It searches only the two lists. A queue outside them has no backlog.
    fn fattest(&self) -> u32 {
        let (mut fattest, mut most) = (self.new.first.min(self.old.first), (false, 0));
        for first in [self.new.first, self.old.first] {
            let mut id = first;
            while let Some(queue) = self.queues.get(id as usize) {
                // Prefers a queue of zero-byte units over an empty one, so that there is always a unit to drop.
                let holds = (queue.head != NIL, queue.bytes);
                if holds > most {
                    (fattest, most) = (id, holds);
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

    /// Removes the head of a queue and frees its place in the slab.
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
    /// It does so if the queue was in no list, or if its flow has not used up the quantum of its last renewal.
    /// Without the second rule, a flow that sends little but more than once a round would sometimes wait behind all
    /// old flows.
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
    /// Otherwise it would be new again at once.
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, VecDeque};
    use alloc::vec;
    use proptest::prelude::*;
    use weft_units::Duration;

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn unit(flow: u16, bytes: u32) -> Arrival {
        Arrival { flow: FlowId(flow), bytes, ecn_capable: false }
    }

    /// Returns a queue with `count` units of `bytes` for each flow.
    ///
    /// Each item is the flow's number × 1,000 + its position.
    fn filled(config: QueueConfig, flows: &[(u16, u32, u32)]) -> FqCodel<u32> {
        let mut q = FqCodel::new(config);
        for &(flow, bytes, count) in flows {
            for n in 0..count {
                q.enqueue(ms(0), unit(flow, bytes), u32::from(flow) * 1_000 + n, &mut |_| ());
            }
        }
        q
    }

    fn next(q: &mut FqCodel<u32>, at: u64) -> Option<Dequeued<u32>> {
        q.dequeue(ms(at), &mut |_| ())
    }

    #[test]
    fn who_is_passed_over_keeps_the_others_from_nothing_and_loses_nothing() {
        let mut q = filled(QueueConfig::default(), &[(1, 1_000, 50), (2, 1_000, 50), (3, 1_000, 50)]);
        let mut served = [0u32; 4];
        for turn in 0..90 {
            // Flow 1 cannot send during the first turns.
            while q.head(ms(1), &mut |_| ()).is_some_and(|head| head.flow == FlowId(1) && turn < 30) {
                assert!(q.pass_over());
            }
            served[usize::from(q.pop(ms(1)).unwrap().flow.0)] += 1;
        }
        assert!(served[1].abs_diff(20) <= 2 && served[2].abs_diff(35) <= 2, "{served:?}");
        let mut alone = filled(QueueConfig::default(), &[(1, 1_000, 2)]);
        assert!(!alone.pass_over(), "nothing is selected");
        alone.head(ms(1), &mut |_| ());
        assert!(!alone.pass_over(), "there is no other");
    }

    #[test]
    fn where_all_flows_are_as_fat_a_batch_takes_from_many_and_spares_the_thin() {
        let config = QueueConfig { limit_units: 1_000, ..QueueConfig::default() };
        let mut flows: Vec<(u16, u32, u32)> = (0..999).map(|flow| (flow, 900, 1)).collect();
        flows[500].1 = 100;
        let mut q = filled(config, &flows);
        q.enqueue(ms(0), unit(2_000, 900), 0, &mut |_| ());
        let mut dropped = Vec::new();
        q.enqueue(ms(0), unit(2_001, 900), 0, &mut |item| dropped.push(item));
        assert_eq!((dropped.len(), q.len()), (62, 939), "one of sixteen of 1,001");
        assert!(q.flow_bytes(FlowId(500)) == 100 && q.flow_bytes(FlowId(2_001)) == 900);
    }

    #[test]
    fn flows_share_bytes_not_packets() {
        let mut q = filled(QueueConfig::default(), &[(1, 1_500, 100), (2, 300, 500), (3, 700, 200)]);
        let mut served = [0u32; 4];
        for _ in 0..240 {
            let d = next(&mut q, 1).unwrap();
            served[usize::from(d.flow.0)] += d.bytes;
        }
        let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
        assert!(most - least <= 2 * 1_514 + 1_500, "{served:?}");
    }

    #[test]
    fn a_sparse_flow_goes_first_and_stays_sparse() {
        let mut q = filled(QueueConfig::default(), &[(1, 1_500, 50)]);
        for _ in 0..5 {
            next(&mut q, 1);
        }
        for n in 0..5 {
            q.enqueue(ms(2), unit(9, 100), n, &mut |_| ());
            let d = next(&mut q, 2).unwrap();
            assert_eq!((d.item, d.sparse), (n, true));
            let bulk = next(&mut q, 2).unwrap();
            assert_eq!((bulk.flow, bulk.sparse), (FlowId(1), false));
            next(&mut q, 2);
        }
    }

    #[test]
    fn a_flow_within_its_quantum_goes_first_however_long_the_others_wait() {
        let mut q = filled(QueueConfig::default(), &[(1, 1_500, 50)]);
        next(&mut q, 1);
        next(&mut q, 1);
        let mut first = 0;
        for n in 0..40 {
            // The round does not advance: the test looks at the bulk unit and does not remove it.
            assert!(q.head(ms(2), &mut |_| ()).is_some_and(|head| head.flow == FlowId(1)));
            q.enqueue(ms(2), unit(9, 100), n, &mut |_| ());
            let Some(head) = q.head(ms(2), &mut |_| ()) else { panic!("two flows wait") };
            if head.flow == FlowId(9) {
                assert!(head.sparse);
                q.pop(ms(2));
                first += 1;
            }
        }
        assert_eq!(first, 16, "a quantum of 1514 bytes, the last of it overdrawn");
    }

    #[test]
    fn a_flow_that_never_pauses_is_not_sparse() {
        let mut q = filled(QueueConfig::default(), &[(1, 1_500, 50)]);
        next(&mut q, 1);
        next(&mut q, 1);
        let mut sparse = 0;
        for n in 0..100 {
            q.enqueue(ms(2), unit(9, 1_000), n, &mut |_| ());
            q.enqueue(ms(2), unit(9, 1_000), n, &mut |_| ());
            sparse += u32::from(next(&mut q, 2).unwrap().sparse);
        }
        assert!(sparse <= 2, "{sparse}");
    }

    #[test]
    fn over_the_limit_the_fattest_flow_loses_its_oldest() {
        let config = QueueConfig { limit_bytes: 10_000, ..QueueConfig::default() };
        let mut q = filled(config, &[(1, 1_000, 7), (2, 1_000, 3)]);
        let mut lost = vec![];
        q.enqueue(ms(1), unit(3, 1_000), 3_000, &mut |item| lost.push(item));
        q.enqueue(ms(1), unit(3, 1_000), 3_001, &mut |item| lost.push(item));
        assert_eq!((lost, q.backlog_bytes()), (vec![1_000, 1_001], 10_000));
        assert_eq!((q.flow_bytes(FlowId(1)), q.counters().dropped_full), (5_000, 2));
    }

    #[test]
    fn over_its_own_limit_a_flow_loses_its_oldest_but_never_its_only_unit() {
        let config = QueueConfig { flow_limit_bytes: 2_500, ..QueueConfig::default() };
        let mut q = filled(config, &[(1, 1_000, 4), (2, 5_000, 1)]);
        assert_eq!((q.flow_bytes(FlowId(1)), q.flow_bytes(FlowId(2))), (2_000, 5_000));
        assert_eq!(next(&mut q, 0).map(|d| d.item), Some(1_002));
    }

    #[test]
    fn the_selected_unit_stays_unless_it_is_dropped() {
        let config = QueueConfig { limit_bytes: 3_000, ..QueueConfig::default() };
        let mut q = filled(config, &[(1, 1_000, 3)]);
        assert_eq!(q.pop(ms(0)), None, "nothing selected");
        assert_eq!(q.head(ms(1), &mut |_| ()).map(|h| h.bytes), Some(1_000));
        assert_eq!(q.head(ms(2), &mut |_| ()), q.head(ms(2), &mut |_| ()));
        assert_eq!(q.head_item(), Some(&1_000));
        q.enqueue(ms(3), unit(1, 1_000), 1_003, &mut |_| ());
        assert_eq!(q.head_item(), None, "the selected unit made room");
        assert_eq!(q.pop(ms(3)), None);
        assert_eq!(next(&mut q, 3).map(|d| d.item), Some(1_001));
    }

    #[test]
    fn a_standing_queue_is_dropped_from_or_marked() {
        for ecn_capable in [false, true] {
            let mut q = FqCodel::new(QueueConfig::default());
            let (mut lost, mut marks) = (0, 0);
            for at in 0..1_000 {
                if at % 2 == 0 || at < 100 {
                    q.enqueue(ms(at), Arrival { ecn_capable, ..unit(1, 1_500) }, at, &mut |_| ());
                }
                if at % 2 == 0 {
                    let d = q.dequeue(ms(at), &mut |_| lost += 1);
                    marks += u64::from(d.is_some_and(|d| d.mark_ce));
                }
            }
            let counted = q.counters();
            assert_eq!((counted.dropped_aqm, counted.marked), (lost, marks));
            assert_eq!((lost > 5, marks > 5), (!ecn_capable, ecn_capable), "{lost} lost, {marks} marked");
        }
    }

    #[test]
    fn state_of_a_flow_is_small() {
        let bytes = size_of::<FlowList>();
        assert!(bytes <= 96, "{bytes} bytes per flow");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Every unit leaves exactly once, by `pop` or by a drop, in its flow's order.
        ///
        /// The backlog counters match after each step.
        #[test]
        fn nothing_is_lost_or_made_up(steps in prop::collection::vec((0..6u16, 40..9_000u32, 0..3u8, 0..20u64), 1..400)) {
            let config = QueueConfig { limit_bytes: 60_000, flow_limit_bytes: 30_000, ..QueueConfig::default() };
            let mut q = FqCodel::new(config);
            let mut waiting: BTreeMap<u16, VecDeque<(usize, u32)>> = BTreeMap::new();
            let mut clock = 0;
            for (n, (flow, bytes, action, later)) in steps.into_iter().enumerate() {
                clock += later;
                let mut gone = vec![];
                if action > 0 {
                    waiting.entry(flow).or_default().push_back((n, bytes));
                    q.enqueue(ms(clock), unit(flow, bytes), (flow, n), &mut |item| gone.push(item));
                } else if let Some(d) = q.dequeue(ms(clock), &mut |item| gone.push(item)) {
                    gone.push(d.item);
                }
                for (flow, n) in gone {
                    prop_assert_eq!(waiting.get_mut(&flow).and_then(VecDeque::pop_front).map(|(n, _)| n), Some(n));
                }
                let units = waiting.values().map(VecDeque::len).sum::<usize>();
                let bytes = waiting.values().flatten().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
                prop_assert_eq!((q.len(), q.backlog_bytes()), (units, bytes));
                prop_assert!(bytes <= config.limit_bytes);
            }
        }
    }

    #[test]
    fn a_thousand_times_the_interval_overflows_nothing() {
        let slow =
            QueueConfig { interval: Duration::from_secs(u64::MAX), target: Duration::ZERO, ..QueueConfig::default() };
        let mut q = filled(slow, &[(1, 1_500, 10)]);
        assert!((0..10).all(|_| next(&mut q, 1_000_000).is_some()));
    }
}
