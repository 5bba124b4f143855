use alloc::vec::Vec;
use weft_units::{Duration, FlowId, Instant};

/// Time without units after which a flow's state may be reused.
const IDLE: Duration = Duration::from_secs(60);

/// Number of states examined per new flow to find idle ones.
///
/// It is above one, so that idle states are found faster than flows arrive.
const SWEEP: usize = 4;

/// Index that stands for no slot.
const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Slot<S> {
    state: S,
    last_used: Instant,
    flow: FlowId,
    taken: bool,
}

/// One state per flow, indexed by flow number. States of idle flows are reused.
#[derive(Debug)]
pub struct Flows<S> {
    index: Vec<u32>,
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
    sweep_at: usize,
}

impl<S> Flows<S> {
    /// Memory per flow in bytes, including its place in the index.
    #[cfg(test)]
    pub const fn bytes_per_flow() -> usize {
        size_of::<Slot<S>>() + size_of::<u32>()
    }

    pub fn new() -> Flows<S> {
        Flows { index: Vec::new(), slots: Vec::new(), free: Vec::new(), sweep_at: 0 }
    }

    /// Returns the place of the flow's state, if it has one, and marks it as used `now`.
    pub fn find(&mut self, now: Instant, flow: FlowId) -> Option<u32> {
        let place = *self.index.get(usize::from(flow.0))?;
        self.slots.get_mut(place as usize)?.last_used = now;
        Some(place)
    }

    /// Creates the state of `flow`, which must have none.
    ///
    /// Deletes idle states for which `may_go` returns true.
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

    /// Number of flows that have a state in this table.
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
