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

    /// Room for `capacity` entries, a power of two.
    pub fn with_capacity(capacity: u32) -> Ring<T> {
        Ring { entries: (0..capacity).map(|_| Entry::Skipped).collect() }
    }

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

    /// Takes the entries `from..from + count` of a ring no larger than this.
    pub fn take_over(&mut self, old: &mut Ring<T>, from: FlowSeq, count: u32) {
        for seq in (0..count).map(|n| from.plus(n as i32)) {
            if let Some(entry) = old.replace(seq, Entry::Skipped) {
                self.replace(seq, entry);
            }
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
        let from = FlowSeq::new(0x00ff_fffa);
        assert!(Ring::<i32>::NONE.get(from).is_none());
        let mut short = Ring::with_capacity(16);
        for n in 0..16 {
            short.replace(from.plus(n), Entry::Unit(n));
        }
        let mut ring = Ring::with_capacity(64);
        ring.take_over(&mut short, from, 16);
        assert_eq!((short.capacity(), ring.capacity()), (16, 64));
        assert!((0..16).all(|n| matches!(ring.get(from.plus(n)), Some(Entry::Unit(m)) if *m == n)));
        assert!((0..16).all(|n| matches!(short.get(from.plus(n)), Some(Entry::Skipped))));
    }
}
