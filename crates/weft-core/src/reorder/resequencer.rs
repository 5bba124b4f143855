//! Resequencing: each flow is released in order, and a hole is waited for at most the time the sender announced (HOLD).
//!
//! Flows do not wait for each other. A hole is as old as the first unit that came from behind it. Once it was waited for long
//! enough, the flow goes on up to its next hole; what still comes is delivered at once, and nothing is delivered twice.

use super::Inserted;
use super::flows::Flows;
use super::history::History;
use super::ring::{Entry, Ring};
use alloc::vec::Vec;
use weft_units::planted::{self, Fault};
use weft_units::{Duration, FlowId, FlowSeq, Instant};

const LEAST_RING: u32 = 16;
/// Sizes of rings: 16, 32 … 2³¹ entries.
const RING_SIZES: usize = 28;
const NIL: u32 = u32::MAX;

/// How many numbers may be waited on, holes included. When a limit is reached the flow in question goes on early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResequencerLimits {
    /// From the first hole of one flow to its last unit.
    pub per_flow: u32,
    /// In all flows, counted in powers of two per flow.
    pub total: u32,
}

impl Default for ResequencerLimits {
    /// 16,384 of one flow (190 ms of full packets at 1 Gbit/s), 262,144 in all.
    fn default() -> ResequencerLimits {
        ResequencerLimits { per_flow: 16_384, total: 262_144 }
    }
}

#[derive(Debug)]
struct Flow<T> {
    history: History,
    /// Numbers from the next one on of which something is known. Unless zero, the first is a hole and the last is not.
    span: u32,
    /// Position in the list of waiting flows.
    waiting_at: u32,
    ring: Ring<T>,
}

impl<T> Flow<T> {
    /// How far `seq` is ahead of the next number.
    fn ahead(&self, seq: FlowSeq) -> i32 {
        seq.distance_from(self.history.next())
    }

    fn front(&self) -> Option<&Entry<T>> {
        if self.span == 0 { None } else { self.ring.get(self.history.next()) }
    }

    /// When the hole at the front was found.
    fn hole_since(&self) -> Option<Instant> {
        match self.front() {
            Some(Entry::Hole(since)) => Some(*since),
            _ => None,
        }
    }

    fn pass_front(&mut self, delivered: bool) {
        self.history.pass_one(delivered);
        self.span = self.span.saturating_sub(1);
    }
}

/// Puts the units of each flow in order. `T` is what stands for a unit: a buffer's name, not its bytes.
#[derive(Debug)]
pub struct Resequencer<T> {
    limits: ResequencerLimits,
    hold: Duration,
    flows: Flows<Flow<T>>,
    /// Flows that have a hole.
    waiting: Vec<u32>,
    /// No hole at a front is older.
    oldest_hole: Instant,
    /// Rings not in use, by size, so that in steady state none is allocated and a flow with a short hole takes no long ring.
    spare: Vec<Vec<Ring<T>>>,
    /// Capacity of all rings, the spare ones included.
    ring_entries: u32,
    held: usize,
}

impl<T> Resequencer<T> {
    /// Knows no flow yet; a hole is waited for at most `hold`.
    pub fn new(hold: Duration, limits: ResequencerLimits) -> Resequencer<T> {
        Resequencer {
            limits,
            hold,
            flows: Flows::new(),
            waiting: Vec::new(),
            oldest_hole: Instant::FAR_FUTURE,
            spare: (0..RING_SIZES).map(|_| Vec::new()).collect(),
            ring_entries: 0,
            held: 0,
        }
    }

    /// Changes how long a hole is waited for, those already found included.
    pub fn set_hold(&mut self, hold: Duration) {
        self.hold = hold;
    }

    /// Takes a unit in. It, and what waited for it, goes to `out` in order.
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

    /// Whether [`Resequencer::insert`] would keep this unit for now. The caller may want to move it first.
    pub fn would_hold(&mut self, now: Instant, flow: FlowId, seq: FlowSeq) -> bool {
        self.flows.find(now, flow).is_some_and(|place| self.flows.state(place).ahead(seq) > 0)
    }

    /// The sender gave up `count` units of `flow` from `seq` on: they are not waited for.
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
        for seq in (0..count.min(self.limits.per_flow)).map(|n| seq.plus(n as i32)) {
            self.skip_one(now, place, seq, out);
        }
        self.settle(place);
        self.release_due(now, place, out);
    }

    /// Releases what waited long enough.
    pub fn expire(&mut self, now: Instant, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        if self.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        for at in (0..self.waiting.len()).rev() {
            self.release_due(now, self.waiting[at], out);
        }
        let (flows, waiting) = (&mut self.flows, &self.waiting);
        let since = waiting.iter().filter_map(|&place| flows.state(place).hole_since());
        self.oldest_hole = since.min().unwrap_or(Instant::FAR_FUTURE);
    }

    /// When [`Resequencer::expire`] has something to do, at the earliest.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.waiting.is_empty() { None } else { Some(self.oldest_hole + self.hold) }
    }

    /// Forgets everything: the peer started anew. What was held goes to `dropped`.
    pub fn reset(&mut self, dropped: &mut impl FnMut(T)) {
        while let Some(&place) = self.waiting.last() {
            self.give_up_hole(place, &mut |_, _, item| dropped(item));
        }
        self.flows.clear();
    }

    /// Units that wait.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many flows have state here.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    fn start(&mut self, now: Instant, flow: FlowId, seq: FlowSeq) -> u32 {
        let state = Flow { history: History::starting_at(seq), span: 0, waiting_at: NIL, ring: Ring::NONE };
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
        self.make_room(place, seq, out);
        let flow = self.flows.flow(place);
        let state = self.flows.state(place);
        if state.ahead(seq) == 0 {
            state.pass_front(true);
            out(flow, seq, item);
            self.release_run(place, out);
        } else {
            open_holes(state, now, seq);
            if let Some(Entry::Unit(_)) = state.ring.get(seq) {
                return Inserted::Duplicate(item);
            }
            state.ring.replace(seq, Entry::Unit(item));
            self.held += 1;
        }
        self.settle(place);
        self.release_due(now, place, out);
        let passed = self.flows.state(place).ahead(seq) < 0;
        if passed { Inserted::Delivered } else { Inserted::Held }
    }

    fn skip_one(&mut self, now: Instant, place: u32, seq: FlowSeq, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        if self.flows.state(place).ahead(seq) < 0 {
            return;
        }
        self.make_room(place, seq, out);
        let state = self.flows.state(place);
        if state.ahead(seq) == 0 {
            state.pass_front(false);
            self.release_run(place, out);
            return;
        }
        open_holes(state, now, seq);
        if !matches!(state.ring.get(seq), Some(Entry::Unit(_))) {
            state.ring.replace(seq, Entry::Skipped);
        }
    }

    /// Makes the ring reach to `seq`, which is not passed yet; where it cannot, the flow goes on early.
    fn make_room(&mut self, place: u32, seq: FlowSeq, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        loop {
            let state = self.flows.state(place);
            let ahead = state.ahead(seq) as u32;
            if ahead < state.ring.capacity() || ahead == 0 || self.grow_ring(place, ahead + 1) {
                return;
            }
            let state = self.flows.state(place);
            if state.span == 0 {
                return state.history.pass(ahead, false);
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
        ring.take_over(&mut state.ring, state.history.next(), state.span);
        let old = core::mem::replace(&mut state.ring, ring);
        self.put_by(old);
        true
    }

    fn spare_ring(&mut self, capacity: u32) -> Option<Ring<T>> {
        self.spare.get_mut(size_class(capacity))?.pop()
    }

    /// A ring within the limit of all; the longest spare ones go where there is no room left.
    fn new_ring(&mut self, capacity: u32) -> Option<Ring<T>> {
        while capacity > self.limits.total.saturating_sub(self.ring_entries) {
            let spare = self.spare.iter_mut().rev().find_map(Vec::pop)?;
            self.ring_entries -= spare.capacity();
        }
        self.ring_entries += capacity;
        Some(Ring::with_capacity(capacity))
    }

    fn put_by(&mut self, ring: Ring<T>) {
        if ring.capacity() == 0 {
            return;
        }
        if let Some(spare) = self.spare.get_mut(size_class(ring.capacity())) {
            spare.push(ring);
        }
    }

    fn release_due(&mut self, now: Instant, place: u32, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        while self.flows.state(place).hole_since().is_some_and(|since| since + self.hold <= now) {
            self.give_up_hole(place, out);
        }
    }

    /// Goes on past the hole at the front, up to the next one.
    fn give_up_hole(&mut self, place: u32, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        let state = self.flows.state(place);
        while let Some(Entry::Hole(_)) = state.front() {
            state.pass_front(false);
        }
        self.release_run(place, out);
        self.settle(place);
    }

    /// Delivers from the front up to the first hole.
    fn release_run(&mut self, place: u32, out: &mut impl FnMut(FlowId, FlowSeq, T)) {
        let flow = self.flows.flow(place);
        let state = self.flows.state(place);
        while let Some(Entry::Unit(_) | Entry::Skipped) = state.front() {
            let seq = state.history.next();
            let entry = state.ring.replace(seq, Entry::Skipped);
            state.pass_front(matches!(entry, Some(Entry::Unit(_))));
            if let Some(Entry::Unit(item)) = entry {
                self.held -= 1;
                out(flow, seq, item);
            }
        }
    }

    /// Books whether the flow waits: a flow in order needs no ring.
    fn settle(&mut self, place: u32) {
        let state = self.flows.state(place);
        if let Some(since) = state.hole_since() {
            self.oldest_hole = self.oldest_hole.min(since);
            if state.waiting_at == NIL {
                state.waiting_at = self.waiting.len() as u32;
                self.waiting.push(place);
            }
            return;
        }
        let ring = core::mem::replace(&mut state.ring, Ring::NONE);
        let at = core::mem::replace(&mut state.waiting_at, NIL);
        self.put_by(ring);
        if at != NIL {
            self.waiting.swap_remove(at as usize);
            if let Some(&moved) = self.waiting.get(at as usize) {
                self.flows.state(moved).waiting_at = at;
            }
        }
        if self.waiting.is_empty() {
            self.oldest_hole = Instant::FAR_FUTURE;
        }
    }
}

fn size_class(capacity: u32) -> usize {
    (capacity / LEAST_RING).ilog2() as usize
}

/// Numbers before `seq` of which nothing was known are missing from `now` on; `seq` itself is about to be stored.
fn open_holes<T>(state: &mut Flow<T>, now: Instant, seq: FlowSeq) {
    let ahead = state.ahead(seq) as u32;
    for missing in state.span..=ahead {
        state.ring.replace(state.history.next().plus(missing as i32), Entry::Hole(now));
    }
    state.span = state.span.max(ahead + 1);
}

#[cfg(test)]
#[path = "resequencer_tests.rs"]
mod tests;
