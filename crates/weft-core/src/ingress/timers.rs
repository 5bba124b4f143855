//! Timers, at most one for each of many slots (numbers from 0). The earliest timer is found in constant time.

use alloc::vec::Vec;
use weft_units::Instant;

/// Index in the heap that stands for a slot without a timer.
const NOWHERE: u32 = u32::MAX;

/// A binary heap of timers that also stores the heap position of each slot.
///
/// The time of a change grows with the logarithm of the number of timers.
#[derive(Debug, Default)]
pub struct SlotTimers {
    heap: Vec<(Instant, u32)>,
    /// Index of each slot's timer in `heap`, or [`NOWHERE`] without a timer.
    places: Vec<u32>,
}

impl SlotTimers {
    /// Allocates memory for slots below `slots`, so that [`SlotTimers::set`] allocates none for these slots.
    pub fn reserve(&mut self, slots: usize) {
        if self.places.len() < slots {
            self.places.resize(slots, NOWHERE);
        }
        self.heap.reserve(slots.saturating_sub(self.heap.len()));
    }

    /// Returns the earliest timer and its slot.
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// Sets the timer of a slot to `at`, in place of an earlier setting.
    pub fn set(&mut self, slot: u32, at: Instant) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, NOWHERE);
        }
        let place = match self.places[slot as usize] {
            NOWHERE => {
                self.heap.push((at, slot));
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

    /// Sets the timer of a slot to `at`, unless the slot has an earlier timer.
    pub fn pull(&mut self, slot: u32, at: Instant) {
        let set = self.places.get(slot as usize).and_then(|place| self.heap.get(*place as usize));
        if set.is_none_or(|(set, _)| at < *set) {
            self.set(slot, at);
        }
    }

    /// Removes the timer of a slot.
    pub fn clear(&mut self, slot: u32) {
        let Some(place) = self.places.get(slot as usize).copied().filter(|place| *place != NOWHERE) else { return };
        self.places[slot as usize] = NOWHERE;
        let Some(last) = self.heap.pop() else { return };
        if last.1 != slot {
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
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let child = if right < self.heap.len() && self.heap[right] < self.heap[left] { right } else { left };
            if child >= self.heap.len() || entry <= self.heap[child] {
                return self.put(place, entry);
            }
            self.put(place, self.heap[child]);
            place = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use weft_units::Rng;

    #[test]
    fn the_earliest_is_first_whatever_changes() {
        let (mut timers, mut model, mut rng) = (SlotTimers::default(), BTreeMap::new(), Rng::new(4));
        for _ in 0..20_000 {
            let (slot, at) = (rng.below(40) as u32, Instant::from_nanos(rng.below(60)));
            match rng.below(3) {
                0 => {
                    timers.set(slot, at);
                    model.insert(slot, at);
                }
                1 => {
                    timers.pull(slot, at);
                    model.entry(slot).and_modify(|set| *set = at.min(*set)).or_insert(at);
                }
                _ => {
                    timers.clear(slot);
                    model.remove(&slot);
                }
            }
            let least = model.iter().map(|(slot, at)| (*at, *slot)).min();
            assert_eq!(timers.first(), least);
        }
    }
}
