use alloc::vec::Vec;
use weft_units::{FlowSeq, Instant};

/// What is known of a number that is not passed yet.
#[derive(Debug)]
pub enum Entry<T> {
    /// Missing, since a later number came at that time.
    Hole(Instant),
    /// It came.
    Unit(T),
    /// The sender gave it up.
    Skipped,
}

/// Entries for consecutive numbers, addressed by number. Room for a power of two of them.
#[derive(Debug)]
pub struct Ring<T> {
    entries: Vec<Entry<T>>,
}

impl<T> Ring<T> {
    /// No room at all; allocates nothing.
    pub const NONE: Ring<T> = Ring { entries: Vec::new() };

    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Stores `entry` for `seq`; what was there comes back.
    pub fn replace(&mut self, seq: FlowSeq, entry: Entry<T>) -> Option<Entry<T>> {
        let at = self.at(seq);
        self.entries.get_mut(at).map(|place| core::mem::replace(place, entry))
    }

    pub fn get(&self, seq: FlowSeq) -> Option<&Entry<T>> {
        self.entries.get(self.at(seq))
    }

    /// Makes room for `capacity` entries, a power of two no smaller than now; `from..from + count` keep their numbers.
    pub fn grow(&mut self, capacity: u32, from: FlowSeq, count: u32) {
        let old_mask = self.entries.len().wrapping_sub(1);
        self.entries.resize_with(capacity as usize, || Entry::Skipped);
        for seq in (0..count).map(|n| from.plus(n as i32)) {
            let (old, new) = (seq.get() as usize & old_mask, self.at(seq));
            self.entries.swap(old, new);
        }
    }

    fn at(&self, seq: FlowSeq) -> usize {
        seq.get() as usize & self.entries.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_entries_when_it_grows() {
        let mut ring = Ring::NONE;
        let from = FlowSeq::new(0x00ff_fffa);
        assert!(ring.get(from).is_none());
        ring.grow(16, from, 0);
        for n in 0..16 {
            ring.replace(from.plus(n), Entry::Unit(n));
        }
        ring.grow(64, from, 16);
        assert_eq!(ring.capacity(), 64);
        assert!((0..16).all(|n| matches!(ring.get(from.plus(n)), Some(Entry::Unit(m)) if *m == n)));
    }
}
