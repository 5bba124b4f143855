//! Resequencing: delivers the units of each flow in the order of their sequence numbers.
//!
//! It waits for missing units (a *hole* in the sequence) at most for the time that the sender announced in a HOLD
//! frame. Flows do not wait for each other. The age of a hole starts when the first unit behind it arrives. After the
//! hold time the flow continues to its next hole. A missing unit that arrives after that is delivered at once. No unit
//! is delivered twice.

use super::Inserted;
use super::flows::Flows;
use super::history::DeliveryHistory;
use super::ring::{PAGE, Pages, Ring};
use alloc::boxed::Box;
use alloc::vec::Vec;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, FlowId, FlowSeq, Instant};

/// Number of sequence numbers in the smallest ring. A ring stores the waiting units of one flow.
const LEAST_RING: u32 = PAGE;
/// Number of different capacities that a ring can have: 16, 32 … 2³¹ sequence numbers.
const RING_SIZES: usize = 28;
/// Value of [`FlowOrder::waiting_at`] for a flow that is not in the heap of waiting flows.
const NIL: u32 = u32::MAX;

/// Limits on the sequence numbers that wait for delivery, including those whose units are missing.
///
/// At a limit the resequencer stops waiting for the oldest missing units before the hold time has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResequencerLimits {
    /// Limit for one flow: numbers from its first missing unit to its last arrived unit.
    pub per_flow: u32,
    /// Limit for all flows together. The amount of each flow is rounded up to a power of two.
    pub total: u32,
}

impl Default for ResequencerLimits {
    /// Returns 16,384 for one flow (190 ms of full packets at 1 Gbit/s) and 262,144 for all flows together.
    fn default() -> ResequencerLimits {
        ResequencerLimits { per_flow: 16_384, total: 262_144 }
    }
}

#[derive(Debug)]
struct FlowOrder<T> {
    history: DeliveryHistory,
    /// Number of sequence numbers from the next expected one to the last that arrived or was given up.
    ///
    /// Unless the span is zero, the unit of its first number is missing.
    span: u32,
    /// Index of the flow's entry in [`Resequencer::waiting`], or [`NIL`] if it has none.
    waiting_at: u32,
    /// Ring with the flow's waiting units. It exists only while the flow has a hole.
    ring: Option<Box<Ring<T>>>,
}

impl<T> FlowOrder<T> {
    /// Returns how far `seq` is ahead of the next expected number. It is negative if the flow has passed `seq`.
    fn ahead(&self, seq: FlowSeq) -> i32 {
        seq.distance_from(self.history.next())
    }

    /// Number of sequence numbers that the flow's ring can hold, or zero without a ring.
    fn capacity(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| ring.capacity())
    }

    /// Number of consecutive missing units from the next expected sequence number on.
    fn missing(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| ring.run(self.history.next(), self.span, false))
    }

    /// Returns the time at which the flow's first hole was found, or `None` if the flow has no hole.
    fn hole_since(&self) -> Option<Instant> {
        let ring = self.ring.as_ref()?;
        let is_hole = self.span > 0 && ring.run(self.history.next(), 1, false) == 1;
        if is_hole { ring.missing_since() } else { None }
    }

    /// Moves the next expected number past `count` numbers whose units are not delivered.
    fn pass(&mut self, count: u32) {
        self.history.pass(count, false);
        self.note_passed(count);
    }

    /// Moves the next expected number past one number, whose unit is delivered.
    fn pass_delivered(&mut self) {
        self.history.pass_one(true);
        self.note_passed(1);
    }

    fn note_passed(&mut self, count: u32) {
        self.span = self.span.saturating_sub(count);
        if let Some(ring) = &mut self.ring {
            ring.pass(self.history.next());
        }
    }
}

/// Puts the units of each flow in order. `T` stands for a unit; it is a buffer id rather than the unit's bytes.
#[derive(Debug)]
pub struct Resequencer<T> {
    limits: ResequencerLimits,
    hold: Duration,
    flows: Flows<FlowOrder<T>>,
    /// Heap of the flows that wait for a missing unit, by the time since which it is missing.
    ///
    /// An entry is that time and the index of the flow's state in `flows`.
    waiting: Vec<(Instant, u32)>,
    /// Unused rings, listed by capacity.
    ///
    /// Rings are reused, so that none is allocated in steady state and a flow with a short hole does not occupy a long
    /// ring.
    // The rings are boxed, so that a ring moves from this list to a flow and back without a copy.
    #[expect(clippy::vec_box)]
    spare: Vec<Vec<Box<Ring<T>>>>,
    pages: Pages<T>,
    /// Total capacity of all rings, including unused ones, in sequence numbers.
    ring_entries: u32,
    held: usize,
}

impl<T> Resequencer<T> {
    /// Returns a resequencer without flows. It waits at most `hold` for a missing unit.
    pub fn new(hold: Duration, limits: ResequencerLimits) -> Resequencer<T> {
        Resequencer {
            limits,
            hold,
            flows: Flows::new(),
            waiting: Vec::new(),
            spare: (0..RING_SIZES).map(|_| Vec::new()).collect(),
            pages: Pages::new(),
            ring_entries: 0,
            held: 0,
        }
    }

    /// Changes the hold time, also for holes that exist already.
    pub fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Inserts the unit `item`. Passes the units that can now be delivered to `out` in order, perhaps with `item`.
    pub fn insert(
        &mut self,
        now: Instant,
        flow: FlowId,
        seq: FlowSeq,
        item: T,
        out: &mut impl FnMut(FlowId, FlowSeq, T),
    ) -> Inserted<T> {
        let place = match self.flows.find(now, flow) {
            Some(place) => place,
            None => self.start(now, flow, seq),
        };
        let state = self.flows.state(place);
        match state.ahead(seq) {
            0 if state.span == 0 => {
                state.history.pass_one(true);
                out(flow, seq, item);
                Inserted::Delivered
            }
            ..0 if !state.history.deliver_late(seq) => Inserted::Duplicate(item),
            ..0 => {
                out(flow, seq, item);
                Inserted::Late
            }
            _ => self.insert_around_hole(now, place, seq, item, out),
        }
    }

    /// True if [`Resequencer::insert`] would hold this unit.
    ///
    /// The caller may then first copy the unit out of a buffer that other units share.
    pub fn would_hold(&mut self, now: Instant, flow: FlowId, seq: FlowSeq) -> bool {
        self.flows.find(now, flow).is_some_and(|place| self.flows.state(place).ahead(seq) > 0)
    }

    /// Records that the sender gave up `count` units of `flow` from `seq` on.
    ///
    /// No later unit then waits for these units. Units that can now be delivered are passed to `out`.
    pub fn skip(
        &mut self,
        now: Instant,
        flow: FlowId,
        seq: FlowSeq,
        count: u32,
        out: &mut impl FnMut(FlowId, FlowSeq, T),
    ) {
        let Some(place) = self.flows.find(now, flow) else { return };
        if planted::is(Fault::SkipForgotten) {
            return;
        }
        self.skip_range(now, place, seq, count.min(self.limits.per_flow), out);
        self.settle(place);
        self.release_due(now, place, out);
    }

    /// Gives up the holes that are as old as the hold time, and passes the units that waited behind them to `out`.
    pub fn expire(&mut self, now: Instant, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        while let Some(&(since, place)) = self.waiting.first()
            && since + self.hold <= now
        {
            self.give_up_hole(place, out);
        }
    }

    /// Stops waiting for the oldest holes until `count` held units are delivered to `out`, or no unit is held.
    pub fn give_up(&mut self, count: usize, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        let enough = self.held.saturating_sub(count);
        while self.held > enough
            && let Some(&(_, place)) = self.waiting.first()
        {
            self.give_up_hole(place, out);
        }
    }

    /// Returns the time at which the oldest hole reaches the hold time, or `None` if there is no hole.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.first().map(|(since, _)| *since + self.hold)
    }

    /// Deletes all state, and passes the held units to `dropped`. To be called when the peer has restarted.
    pub fn reset(&mut self, dropped: &mut impl FnMut(T)) {
        while let Some(&(_, place)) = self.waiting.last() {
            self.give_up_hole(place, &mut |_, _, item| dropped(item));
        }
        self.flows.clear();
    }

    /// Number of units that the resequencer holds.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Number of flows whose order is tracked.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    fn start(&mut self, now: Instant, flow: FlowId, seq: FlowSeq) -> u32 {
        let state = FlowOrder { history: DeliveryHistory::starting_at(seq), span: 0, waiting_at: NIL, ring: None };
        self.flows.insert(now, flow, state, |state| state.span == 0)
    }

    fn insert_around_hole(
        &mut self,
        now: Instant,
        place: u32,
        seq: FlowSeq,
        item: T,
        out: &mut impl FnMut(FlowId, FlowSeq, T),
    ) -> Inserted<T> {
        self.grow_to(place, seq, out);
        let flow = self.flows.flow(place);
        let state = self.flows.state(place);
        if state.ahead(seq) == 0 {
            state.pass_delivered();
            out(flow, seq, item);
            self.release_run(place, out);
        } else {
            open_holes(state, now, seq, 1);
            let Some(ring) = &mut state.ring else { return Inserted::Duplicate(item) };
            if let Err(item) = ring.insert(&mut self.pages, seq, item) {
                return Inserted::Duplicate(item);
            }
            self.held += 1;
        }
        self.settle(place);
        self.release_due(now, place, out);
        let passed = self.flows.state(place).ahead(seq) < 0;
        if passed { Inserted::Delivered } else { Inserted::Held }
    }

    /// Records that the sender gave up `count` units from `seq` on. `count` is at most the per-flow limit.
    fn skip_range(
        &mut self,
        now: Instant,
        place: u32,
        mut seq: FlowSeq,
        mut count: u32,
        out: &mut impl FnMut(FlowId, FlowSeq, T),
    ) {
        loop {
            let state = self.flows.state(place);
            let reach = state.ahead(seq) + count as i32;
            if reach <= self.limits.per_flow as i32 {
                break;
            }
            // The numbers reach beyond the per-flow limit, so the flow first gives up its oldest holes.
            if state.span == 0 {
                return state.pass(reach as u32);
            }
            self.give_up_hole(place, out);
        }
        while count > 0 {
            let done = self.skip_some(now, place, seq, count, out);
            (seq, count) = (seq.plus(done as i32), count - done);
        }
    }

    /// Records that the sender gave up some of the `count` units from `seq` on: as many as one step can cover.
    ///
    /// Returns how many these are.
    fn skip_some(
        &mut self,
        now: Instant,
        place: u32,
        seq: FlowSeq,
        count: u32,
        out: &mut impl FnMut(FlowId, FlowSeq, T),
    ) -> u32 {
        let ahead = self.flows.state(place).ahead(seq);
        if ahead < 0 {
            return count.min(ahead.unsigned_abs());
        }
        self.grow_to(place, seq, out);
        let state = self.flows.state(place);
        let ahead = state.ahead(seq) as u32;
        if ahead == 0 {
            let passed = if state.span == 0 { count } else { count.min(state.missing().max(1)) };
            state.pass(passed);
            self.release_run(place, out);
            return passed;
        }
        let fits = count.min(state.capacity().saturating_sub(ahead).max(1));
        open_holes(state, now, seq, fits);
        if let Some(ring) = &mut state.ring {
            ring.mark(seq, fits, true);
        }
        fits
    }

    /// Gives the flow a larger ring if its ring does not reach the sequence number `seq`, which is not passed yet.
    ///
    /// If a limit prevents this, the flow gives up holes before the hold time has passed.
    fn grow_to(&mut self, place: u32, seq: FlowSeq, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        loop {
            let state = self.flows.state(place);
            let ahead = state.ahead(seq) as u32;
            if ahead < state.capacity() || ahead == 0 || self.grow_ring(place, ahead + 1) {
                return;
            }
            let state = self.flows.state(place);
            if state.span == 0 {
                return state.pass(ahead);
            }
            self.give_up_hole(place, out);
        }
    }

    fn grow_ring(&mut self, place: u32, needed: u32) -> bool {
        if needed > self.limits.per_flow {
            return false;
        }
        let capacity = needed.next_power_of_two().max(LEAST_RING);
        let Some(mut ring) = self.spare_ring(capacity).or_else(|| self.new_ring(capacity)) else { return false };
        let state = self.flows.state(place);
        if let Some(mut old) = state.ring.take() {
            ring.take_over(&mut self.pages, &mut old, state.history.next(), state.span);
            self.put_by(old);
        }
        self.flows.state(place).ring = Some(ring);
        true
    }

    fn spare_ring(&mut self, capacity: u32) -> Option<Box<Ring<T>>> {
        self.spare.get_mut(size_class(capacity))?.pop()
    }

    /// Returns a new ring, or `None` if the limit on the total capacity of all rings prevents it.
    ///
    /// Unused rings are freed first, the longest before the shorter ones.
    fn new_ring(&mut self, capacity: u32) -> Option<Box<Ring<T>>> {
        while capacity > self.limits.total.saturating_sub(self.ring_entries) {
            let spare = self.spare.iter_mut().rev().find_map(Vec::pop)?;
            self.ring_entries -= spare.capacity();
        }
        self.ring_entries += capacity;
        Some(Box::new(Ring::with_capacity(capacity)))
    }

    fn put_by(&mut self, ring: Box<Ring<T>>) {
        if let Some(spare) = self.spare.get_mut(size_class(ring.capacity())) {
            spare.push(ring);
        }
    }

    fn release_due(&mut self, now: Instant, place: u32, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        while self.flows.state(place).hole_since().is_some_and(|since| since + self.hold <= now) {
            self.give_up_hole(place, out);
        }
    }

    /// Stops waiting for the units of a flow's first hole, and delivers the units between it and the next hole.
    fn give_up_hole(&mut self, place: u32, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        let state = self.flows.state(place);
        state.pass(state.missing());
        self.release_run(place, out);
        self.settle(place);
    }

    /// Delivers a flow's units from the next expected one up to the first hole.
    fn release_run(&mut self, place: u32, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        let flow = self.flows.flow(place);
        let state = self.flows.state(place);
        let Some(ring) = &mut state.ring else { return };
        let from = state.history.next();
        let count = ring.run(from, state.span, true);
        ring.mark(from, count, false);
        let end = from.plus(count as i32);
        while ring.units() > 0 && state.history.next() != end {
            let next = state.history.next();
            state.history.pass(ring.without_page(next, end.distance_from(next) as u32), false);
            let seq = state.history.next();
            if seq == end {
                break;
            }
            let unit = ring.take(&mut self.pages, seq);
            state.history.pass_one(unit.is_some());
            if let Some(item) = unit {
                self.held -= 1;
                out(flow, seq, item);
            }
        }
        let skipped = end.distance_from(state.history.next());
        state.history.pass(skipped as u32, false);
        state.note_passed(count);
    }

    /// Updates a flow's entry in the heap of waiting flows after its first hole may have changed.
    ///
    /// A flow without a hole has no entry, and its ring moves to the unused rings.
    fn settle(&mut self, place: u32) {
        let state = self.flows.state(place);
        let at = state.waiting_at as usize;
        match state.hole_since() {
            Some(since) if state.waiting_at == NIL => {
                self.waiting.push((since, place));
                self.place_waiting(self.waiting.len() - 1);
            }
            Some(since) => {
                if let Some(waits) = self.waiting.get_mut(at) {
                    waits.0 = since;
                    self.place_waiting(at);
                }
            }
            None => {
                state.waiting_at = NIL;
                if let Some(ring) = state.ring.take() {
                    self.put_by(ring);
                }
                if at < self.waiting.len() {
                    self.waiting.swap_remove(at);
                    self.place_waiting(at);
                }
            }
        }
    }

    /// Restores the order of [`Resequencer::waiting`], a heap, after the entry at index `at` was changed or added.
    fn place_waiting(&mut self, mut at: usize) {
        let Some(&this) = self.waiting.get(at) else { return };
        while at > 0 && this < self.waiting[(at - 1) / 2] {
            self.put_waiting(at, self.waiting[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        loop {
            let children = (2 * at + 1..2 * at + 3).filter(|child| *child < self.waiting.len());
            let Some(child) = children.min_by_key(|child| self.waiting[*child]) else { break };
            if this <= self.waiting[child] {
                break;
            }
            self.put_waiting(at, self.waiting[child]);
            at = child;
        }
        self.put_waiting(at, this);
    }

    fn put_waiting(&mut self, at: usize, waits: (Instant, u32)) {
        self.waiting[at] = waits;
        self.flows.state(waits.1).waiting_at = at as u32;
    }
}

fn size_class(capacity: u32) -> usize {
    (capacity / LEAST_RING).ilog2() as usize
}

/// Records that the numbers before `seq` that neither arrived nor were given up are missing since `now`.
///
/// It raises the flow's span to include `count` numbers from `seq` on. The caller then marks these numbers.
fn open_holes<T>(state: &mut FlowOrder<T>, now: Instant, seq: FlowSeq, count: u32) {
    let ahead = state.ahead(seq) as u32;
    if ahead > state.span
        && let Some(ring) = &mut state.ring
    {
        ring.open(seq, now);
    }
    state.span = state.span.max(ahead + count);
}

#[cfg(test)]
#[path = "resequencer_tests.rs"]
mod tests;
