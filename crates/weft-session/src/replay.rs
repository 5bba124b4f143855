//! The replay window of one path (RFC 6479).
//!
//! The window advances by whole words, so that it clears words and never shifts bits.

use weft_units::planted::{self, Fault};

/// Number of packet numbers, counted down from the highest received one, that are still accepted.
pub(crate) const WINDOW: u64 = 8192;

/// Number of packet numbers that one word of the bitmap stands for.
const WORD_BITS: u64 = u64::BITS as u64;
/// Number of words in the bitmap. Derived: one more than the window, because the newest word is only partly used.
const WORDS: u64 = WINDOW / WORD_BITS + 1;

/// A bitmap of which of the last [`WINDOW`] packet numbers were received.
pub(crate) struct ReplayWindow {
    /// The highest packet number received so far plus one, or the number with which the window began.
    next: u64,
    /// Bitmap of the received packet numbers. The words are a ring, in which new numbers overwrite the oldest.
    words: [u64; WORDS as usize],
}

impl ReplayWindow {
    /// Creates a window that expects `next` and rejects every number that lies [`WINDOW`] or more below it.
    pub(crate) fn starting_at(next: u64) -> ReplayWindow {
        ReplayWindow { next, words: [0; WORDS as usize] }
    }

    /// Returns the highest packet number received so far plus one, or the number with which the window began.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn slot(number: u64) -> (usize, u64) {
        (((number / WORD_BITS) % WORDS) as usize, 1 << (number % WORD_BITS))
    }

    fn too_old(&self, number: u64) -> bool {
        number.saturating_add(WINDOW) < self.next
    }

    /// True if `number` was not received before and is not too old.
    ///
    /// It changes nothing, so the packet need not be authenticated yet.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        let (word, bit) = ReplayWindow::slot(number);
        let newest = self.next.saturating_sub(u64::from(planted::is(Fault::ReplayWindowEdge)));
        number >= newest || (!self.too_old(number) && self.words[word] & bit == 0)
    }

    /// Records `number` as received. The caller must have authenticated the packet.
    pub(crate) fn mark(&mut self, number: u64) {
        if number >= self.next {
            self.advance(number);
        } else if self.too_old(number) {
            return;
        }
        let (word, bit) = ReplayWindow::slot(number);
        self.words[word] |= bit;
    }

    fn advance(&mut self, number: u64) {
        let newest_word = self.next.saturating_sub(1) / WORD_BITS;
        let fresh_words = (number / WORD_BITS).saturating_sub(newest_word).min(WORDS);
        for word in 1..=fresh_words {
            self.words[((newest_word + word) % WORDS) as usize] = 0;
        }
        self.next = number.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A simple replay window, which the tests compare with the bitmap.
    #[derive(Default)]
    struct Naive {
        seen: BTreeSet<u64>,
    }

    impl Naive {
        fn is_new(&self, number: u64) -> bool {
            let in_window = self.seen.last().is_none_or(|highest| number + WINDOW > *highest);
            in_window && !self.seen.contains(&number)
        }
    }

    fn steps() -> impl Strategy<Value = Vec<(u8, u64)>> {
        prop::collection::vec((0u8..8, 0u64..3 * WINDOW), 1..400)
    }

    proptest! {
        #[test]
        fn the_bitmap_agrees_with_a_set(start in 0u64..1 << 40, steps in steps()) {
            let (mut window, mut naive) = (ReplayWindow::starting_at(0), Naive::default());
            let mut at = start;
            for (kind, by) in steps {
                at = match kind {
                    0 => at + by,
                    1 => at.saturating_sub(by),
                    2 => at,
                    3 => at + by % 70,
                    4 => at.saturating_sub(by % 70),
                    _ => at + 1,
                };
                prop_assert_eq!(window.is_new(at), naive.is_new(at), "number {}", at);
                if window.is_new(at) {
                    window.mark(at);
                    naive.seen.insert(at);
                }
            }
        }
    }

    #[test]
    fn the_window_is_exactly_8192_wide() {
        let mut window = ReplayWindow::starting_at(0);
        window.mark(WINDOW);
        assert!(!window.is_new(0) && window.is_new(1) && !window.is_new(WINDOW));
        window.mark(u64::MAX - 1);
        assert!(!window.is_new(1) && window.is_new(u64::MAX - 2));
    }
}
