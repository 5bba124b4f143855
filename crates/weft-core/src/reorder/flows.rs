use alloc::boxed::Box;
use alloc::vec::Vec;
use weft_units::{Duration, FlowId, Instant};

/// Time for which no unit of a flow arrives until the memory of the flow's state may be used for another flow.
const IDLE: Duration = Duration::from_secs(60);

/// Number of states examined for idleness whenever a new flow gets a state.
///
/// It is above one, so that idle states are found faster than new flows arrive.
const SWEEP: usize = 4;

/// Value in the index for a flow that has no slot.
const NIL: u32 = u32::MAX;
/// Number of flow numbers in one page of the index from flow numbers to slots.
const NUMBERS: usize = 256;
/// Number of slots that are allocated together.
///
/// *Derived*: a table in one piece would move up to 65,536 states when it grows for one new flow.
const CHUNK: usize = 32;

#[derive(Debug)]
struct Slot<S> {
    state: S,
    last_used: Instant,
    flow: FlowId,
    taken: bool,
}

/// One state per flow, indexed by flow number. States of idle flows are reused.
///
/// Index and states grow in pieces, so that the cost of a new flow does not depend on the number of flows.
#[derive(Debug)]
pub struct Flows<S> {
    /// Slot of each flow, by flow number. A page exists once one of its flows had a state.
    index: Vec<Option<Box<[u32; NUMBERS]>>>,
    /// The slots, in chunks of [`CHUNK`] slots. All chunks but the last are full.
    chunks: Vec<Vec<Slot<S>>>,
    slots: u32,
    free: Vec<u32>,
    sweep_at: u32,
}

impl<S> Flows<S> {
    /// Memory of one flow's state in bytes, including the flow's entry in the index.
    #[cfg(test)]
    pub const fn bytes_per_flow() -> usize {
        size_of::<Slot<S>>() + size_of::<u32>()
    }

    pub fn new() -> Flows<S> {
        Flows { index: Vec::new(), chunks: Vec::new(), slots: 0, free: Vec::new(), sweep_at: 0 }
    }

    /// Returns the slot of the flow's state, if the flow has one, and marks the state as used `now`.
    pub fn find(&mut self, now: Instant, flow: FlowId) -> Option<u32> {
        let (page, at) = place_in_index(flow);
        let place = self.index.get(page)?.as_ref()?[at];
        self.slot(place)?.last_used = now;
        Some(place)
    }

    /// Creates the state of `flow`, which must have none.
    ///
    /// Returns the slot of the new state. It first deletes those idle states, among the next [`SWEEP`] ones, for which
    /// `may_go` returns true.
    pub fn insert(&mut self, now: Instant, flow: FlowId, state: S, may_go: impl Fn(&S) -> bool) -> u32 {
        self.sweep(now, may_go);
        let slot = Slot { state, last_used: now, flow, taken: true };
        let place = match self.free.pop() {
            Some(place) => {
                self.chunks[place as usize / CHUNK][place as usize % CHUNK] = slot;
                place
            }
            None => self.push(slot),
        };
        let (page, at) = place_in_index(flow);
        if self.index.len() <= page {
            self.index.resize_with(page + 1, || None);
        }
        self.index[page].get_or_insert_with(|| Box::new([NIL; NUMBERS]))[at] = place;
        place
    }

    fn push(&mut self, slot: Slot<S>) -> u32 {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(slot),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(slot);
                self.chunks.push(chunk);
            }
        }
        self.slots += 1;
        self.slots - 1
    }

    fn slot(&mut self, place: u32) -> Option<&mut Slot<S>> {
        self.chunks.get_mut(place as usize / CHUNK)?.get_mut(place as usize % CHUNK)
    }

    pub fn state(&mut self, place: u32) -> &mut S {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK].state
    }

    pub fn flow(&self, place: u32) -> FlowId {
        self.chunks[place as usize / CHUNK][place as usize % CHUNK].flow
    }

    /// Number of flows that have a state in this table.
    pub fn len(&self) -> usize {
        self.slots as usize - self.free.len()
    }

    pub fn clear(&mut self) {
        *self = Flows::new();
    }

    fn sweep(&mut self, now: Instant, may_go: impl Fn(&S) -> bool) {
        for _ in 0..SWEEP.min(self.slots as usize) {
            self.sweep_at = (self.sweep_at + 1) % self.slots;
            let place = self.sweep_at;
            let Some(slot) = self.slot(place) else { return };
            if slot.taken && now.since(slot.last_used) >= IDLE && may_go(&slot.state) {
                slot.taken = false;
                let (page, at) = place_in_index(slot.flow);
                if let Some(page) = self.index.get_mut(page).and_then(Option::as_mut) {
                    page[at] = NIL;
                }
                self.free.push(place);
            }
        }
    }
}

/// Returns the page of the index that has a flow's entry, and the position of the entry in that page.
fn place_in_index(flow: FlowId) -> (usize, usize) {
    (usize::from(flow.0) / NUMBERS, usize::from(flow.0) % NUMBERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_flows_make_room_for_new_ones() {
        let mut flows = Flows::new();
        let at = |s: u64| Instant::from_millis(s * 1_000);
        for n in 0..100u16 {
            flows.insert(at(0), FlowId(n), n, |_| true);
        }
        for n in 0..50 {
            assert!(flows.find(at(59), FlowId(n)).is_some());
        }
        for n in 100..150 {
            flows.insert(at(61), FlowId(n), n, |&state| state != 99);
        }
        assert!(flows.len() <= 101 + 12, "{} states", flows.len());
        let place = flows.find(at(61), FlowId(7)).unwrap();
        assert_eq!((*flows.state(place), flows.flow(place)), (7, FlowId(7)));
        assert_eq!(flows.find(at(61), FlowId(60)), None);
        assert!(flows.find(at(61), FlowId(99)).is_some(), "not allowed to go");
    }
}
