//! At most one time for each flow, with the earliest at hand.

use super::list::NIL;
use alloc::vec::Vec;
use weft_units::Instant;

/// A binary heap of flows by time, which knows the place of each flow.
///
/// A change costs the logarithm of the number of flows in the heap.
#[derive(Debug, Default)]
pub(super) struct DeadlineHeap {
    heap: Vec<(Instant, u32)>,
    /// Place of each flow in the heap, or [`NIL`].
    places: Vec<u32>,
}

impl DeadlineHeap {
    /// Makes place for flows with numbers below `flows`, so that [`DeadlineHeap::set`] allocates no memory.
    pub(super) fn reserve(&mut self, flows: usize) {
        if self.places.len() < flows {
            self.places.resize(flows, NIL);
        }
        self.heap.reserve(flows.saturating_sub(self.heap.len()));
    }

    /// Returns the earliest time and its flow.
    pub(super) fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// Sets the time of a flow.
    pub(super) fn set(&mut self, flow: u32, at: Instant) {
        self.reserve(flow as usize + 1);
        let place = match self.places[flow as usize] {
            NIL => {
                self.heap.push((at, flow));
                self.heap.len() - 1
            }
            place => {
                self.heap[place as usize].0 = at;
                place as usize
            }
        };
        let place = self.rise(place);
        self.sink(place);
    }

    /// Removes a flow if it is in the heap.
    pub(super) fn remove(&mut self, flow: u32) {
        let Some(place) = self.places.get(flow as usize).copied().filter(|place| *place != NIL) else { return };
        self.places[flow as usize] = NIL;
        let Some(last) = self.heap.pop() else { return };
        if last.1 != flow {
            self.put(place as usize, last);
            let place = self.rise(place as usize);
            self.sink(place);
        }
    }

    fn put(&mut self, place: usize, entry: (Instant, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 && entry < self.heap[(place - 1) / 2] {
            let parent = (place - 1) / 2;
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = place * 2 + 1;
            let Some(mut child) = self.heap.get(left).copied() else { break };
            let mut at = left;
            if let Some(right) = self.heap.get(left + 1).filter(|right| **right < child) {
                (child, at) = (*right, left + 1);
            }
            if entry <= child {
                break;
            }
            self.put(place, child);
            place = at;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use weft_units::Rng;

    #[test]
    fn agrees_with_a_sorted_map_under_random_changes() {
        let (mut rng, mut heap, mut model) = (Rng::new(3), DeadlineHeap::default(), BTreeMap::new());
        for _ in 0..200_000 {
            let flow = rng.below(60) as u32;
            if rng.chance(0.6) {
                let at = Instant::from_nanos(rng.below(500));
                heap.set(flow, at);
                model.insert(flow, at);
            } else {
                heap.remove(flow);
                model.remove(&flow);
            }
            assert_eq!(heap.first(), model.iter().map(|(flow, at)| (*at, *flow)).min());
        }
    }
}
