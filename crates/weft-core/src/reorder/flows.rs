use alloc::vec::Vec;
use weft_units::{Duration, FlowId, Instant};

/// A flow that was silent for this long gives its state back.
const IDLE: Duration = Duration::from_secs(60);

/// States looked at per new flow, to find idle ones: more than one, so that they are found faster than flows come.
const SWEEP: usize = 4;

const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<S> {
    state: S,
    last_used: Instant,
    flow: FlowId,
    taken: bool,
}

/// One state per flow, found by number; states of idle flows are used again.
#[derive(Debug)]
pub struct Flows<S> {
    index: Vec<u32>,
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
    sweep_at: usize,
}

impl<S> Flows<S> {
    /// What a flow costs, its place in the index included.
    #[cfg(test)]
    pub const fn bytes_per_flow() -> usize {
        size_of::<Slot<S>>() + size_of::<u32>()
    }

    pub fn new() -> Flows<S> {
        Flows { index: Vec::new(), slots: Vec::new(), free: Vec::new(), sweep_at: 0 }
    }

    /// The place of the flow's state, if it has one, marked as used `now`.
    pub fn find(&mut self, now: Instant, flow: FlowId) -> Option<u32> {
        let place = *self.index.get(usize::from(flow.0))?;
        self.slots.get_mut(place as usize)?.last_used = now;
        Some(place)
    }

    /// Gives `flow`, which has none, a state. Idle flows for which `may_go` holds lose theirs.
    pub fn insert(&mut self, now: Instant, flow: FlowId, state: S, may_go: impl Fn(&S) -> bool) -> u32 {
        self.sweep(now, may_go);
        let slot = Slot { state, last_used: now, flow, taken: true };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        let id = usize::from(flow.0);
        if self.index.len() <= id {
            self.index.resize(id + 1, NIL);
        }
        self.index[id] = place;
        place
    }

    pub fn state(&mut self, place: u32) -> &mut S {
        &mut self.slots[place as usize].state
    }

    pub fn flow(&self, place: u32) -> FlowId {
        self.slots[place as usize].flow
    }

    /// How many flows have a state.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn clear(&mut self) {
        *self = Flows::new();
    }

    fn sweep(&mut self, now: Instant, may_go: impl Fn(&S) -> bool) {
        for _ in 0..SWEEP.min(self.slots.len()) {
            self.sweep_at = (self.sweep_at + 1) % self.slots.len();
            let slot = &mut self.slots[self.sweep_at];
            if slot.taken && now.since(slot.last_used) >= IDLE && may_go(&slot.state) {
                slot.taken = false;
                self.index[usize::from(slot.flow.0)] = NIL;
                self.free.push(self.sweep_at as u32);
            }
        }
    }
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
