//! Storage for those sequence numbers of one flow that the flow has not advanced past.
//!
//! One bit per number states whether the number is settled (called *known* here): its unit arrived, or the sender gave
//! it up. Units lie in pages, which exist only where units wait. For each range of missing numbers, one record states
//! when the range was found missing. An operation on a range thus costs one step per 64 numbers and one per unit in it,
//! never one per number.

use super::history::word_of;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use weft_units::{FlowSeq, Instant};

/// Number of sequence numbers in a page, and in the smallest ring.
pub const PAGE: u32 = 16;

/// Maximum number of missing ranges for which a new ring has memory.
///
/// *Tuned*: a flow on a path that loses every tenth packet has fewer missing ranges at once. For more ranges the ring
/// allocates memory later.
const RANGES: u32 = 256;

/// Units at [`PAGE`] consecutive positions of a ring.
#[derive(Debug)]
pub struct RingPage<T> {
    units: [Option<T>; PAGE as usize],
    count: u32,
}

/// Empty pages that belong to no ring at present, for reuse.
#[derive(Debug)]
pub struct Pages<T> {
    // The pages are boxed, so that a page moves from this list to a ring and back without a copy.
    spare: Vec<Box<RingPage<T>>>,
}

impl<T> Pages<T> {
    pub const fn new() -> Pages<T> {
        Pages { spare: Vec::new() }
    }

    fn take(&mut self) -> Box<RingPage<T>> {
        self.spare.pop().unwrap_or_else(|| Box::new(RingPage { units: [const { None }; PAGE as usize], count: 0 }))
    }
}

/// Ring buffer for `capacity` consecutive sequence numbers. `capacity` is a power of two.
///
/// The position of a number in the ring is the number modulo `capacity`.
#[derive(Debug)]
pub struct Ring<T> {
    capacity: u32,
    /// One bit for each position. It is set if the number there is known: its unit arrived or was given up.
    known: Vec<u64>,
    /// The pages with the units, in order of position. Empty until the first unit is inserted.
    pages: Vec<Option<Box<RingPage<T>>>>,
    units: u32,
    /// Ranges of numbers that were unknown when a later number arrived, oldest first.
    ///
    /// Each entry holds the number after the range, and the time of that arrival.
    opened: VecDeque<(FlowSeq, Instant)>,
}

impl<T> Ring<T> {
    /// Returns a ring for `capacity` numbers, a power of two and at least [`PAGE`].
    pub fn with_capacity(capacity: u32) -> Ring<T> {
        let known = vec![0; capacity.div_ceil(64) as usize];
        // A range needs at least two numbers: one that is missing, and a later one that arrived.
        let ranges = RANGES.min(capacity / 2) as usize;
        Ring { capacity, known, pages: Vec::new(), units: 0, opened: VecDeque::with_capacity(ranges) }
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Number of units that wait in the ring.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Stores the unit of a sequence number. Returns the unit as the error if one with this number is stored already.
    pub fn insert(&mut self, pages: &mut Pages<T>, seq: FlowSeq, unit: T) -> Result<(), T> {
        let (page, at) = self.place(seq);
        if self.pages.is_empty() {
            self.pages.resize_with((self.capacity / PAGE) as usize, || None);
        }
        let Some(page) = self.pages.get_mut(page) else { return Err(unit) };
        let page = page.get_or_insert_with(|| pages.take());
        match &mut page.units[at] {
            Some(_) => return Err(unit),
            free => *free = Some(unit),
        }
        page.count += 1;
        self.units += 1;
        self.mark(seq, 1, true);
        Ok(())
    }

    /// Removes and returns the unit of a sequence number, if it has arrived.
    pub fn take(&mut self, pages: &mut Pages<T>, seq: FlowSeq) -> Option<T> {
        let (at_page, at) = self.place(seq);
        let place = self.pages.get_mut(at_page)?;
        let page = place.as_mut()?;
        let unit = page.units[at].take()?;
        page.count -= 1;
        self.units -= 1;
        if page.count == 0 {
            pages.spare.extend(place.take());
        }
        Some(unit)
    }

    /// Returns how many sequence numbers from `seq` on, at most `most`, lie where the ring has no page.
    ///
    /// None of them has a unit, so the caller can step over them.
    pub fn without_page(&self, seq: FlowSeq, most: u32) -> u32 {
        let mut count = 0;
        while count < most {
            let (page, at) = self.place(seq.plus(count as i32));
            if self.pages.get(page).is_some_and(Option::is_some) {
                break;
            }
            count += PAGE - at as u32;
        }
        count.min(most)
    }

    /// Marks `count` numbers from `seq` on as known (their units arrived or were given up) or as unknown.
    ///
    /// `count` is at most the capacity.
    pub fn mark(&mut self, seq: FlowSeq, count: u32, is_known: bool) {
        let at = self.at(seq);
        let straight = count.min(self.capacity - at);
        mark_bits(&mut self.known, at, straight, is_known);
        mark_bits(&mut self.known, 0, count - straight, is_known);
    }

    /// Returns how many consecutive numbers from `seq` on, at most `most`, are known or unknown as `is_known` states.
    ///
    /// A known number is one whose unit arrived or was given up.
    pub fn run(&self, seq: FlowSeq, most: u32, is_known: bool) -> u32 {
        let (at, most) = (self.at(seq), most.min(self.capacity));
        let straight = most.min(self.capacity - at);
        match run_of_bits(&self.known, at, straight, is_known) {
            run if run == straight => run + run_of_bits(&self.known, 0, most - straight, is_known),
            run => run,
        }
    }

    /// Records that the numbers before `end` whose units neither arrived nor were given up are missing since `now`.
    ///
    /// Numbers before the end of an earlier record keep the time of that record.
    pub fn open(&mut self, end: FlowSeq, now: Instant) {
        match self.opened.back_mut().filter(|(_, since)| *since == now) {
            Some(last) => last.0 = end,
            None => self.opened.push_back((end, now)),
        }
    }

    /// Returns the time at which the oldest recorded range was found missing, or `None` without a recorded range.
    pub fn missing_since(&self) -> Option<Instant> {
        self.opened.front().map(|(_, since)| *since)
    }

    /// Deletes the records of those missing ranges that end at or before `next`, the next expected number.
    pub fn pass(&mut self, next: FlowSeq) {
        while self.opened.pop_front_if(|(end, _)| end.distance_from(next) <= 0).is_some() {}
    }

    /// Moves the content of a smaller ring into this empty one: `count` sequence numbers from `from` on.
    ///
    /// It takes which numbers are known, their units, and the records of missing ranges.
    pub fn take_over(&mut self, pages: &mut Pages<T>, old: &mut Ring<T>, from: FlowSeq, count: u32) {
        let mut done = 0;
        while done < count {
            let unknown = old.run(from.plus(done as i32), count - done, false);
            let known_from = done + unknown;
            let known = old.run(from.plus(known_from as i32), count - known_from, true);
            self.mark(from.plus(known_from as i32), known, true);
            done = known_from + known;
            let mut at = known_from;
            while at < done {
                let seq = from.plus(at as i32);
                if let Some(unit) = old.take(pages, seq) {
                    // This position is free, because this ring was empty when the move began.
                    let _ = self.insert(pages, seq, unit);
                }
                at += 1 + old.without_page(seq.plus(1), done - at - 1);
            }
        }
        old.mark(from, count, false);
        self.opened.append(&mut old.opened);
    }

    fn at(&self, seq: FlowSeq) -> u32 {
        seq.get() & (self.capacity - 1)
    }

    fn place(&self, seq: FlowSeq) -> (usize, usize) {
        let at = self.at(seq);
        ((at / PAGE) as usize, (at % PAGE) as usize)
    }
}

/// Sets or clears `count` bits from bit `at` on.
fn mark_bits(words: &mut [u64], at: u32, count: u32, value: bool) {
    let mut set = |(word, mask, taken): (usize, u64, u32)| {
        if let Some(bits) = words.get_mut(word) {
            *bits = if value { *bits | mask } else { *bits & !mask };
        }
        taken
    };
    if count == 0 {
        return;
    }
    let first = set(word_of(at, count));
    let (from, end) = (at + first, at + count);
    if end > from && end % 64 > 0 {
        set(word_of(end - end % 64, end % 64));
    }
    if let Some(whole) = words.get_mut((from / 64) as usize..(end / 64) as usize).filter(|_| end > from) {
        whole.fill(if value { u64::MAX } else { 0 });
    }
}

/// Returns how many bits from bit `at` on, at most `count`, have the value `value` in succession.
fn run_of_bits(words: &[u64], at: u32, count: u32, value: bool) -> u32 {
    let flip = if value { u64::MAX } else { 0 };
    let words = words.get((at / 64) as usize..(at + count).div_ceil(64) as usize).unwrap_or_default();
    let Some((first, rest)) = words.split_first() else { return 0 };
    let others = (first ^ flip) >> (at % 64);
    if others != 0 {
        return others.trailing_zeros().min(count);
    }
    let whole = rest.iter().position(|word| word ^ flip != 0);
    let beyond = whole.and_then(|at| rest.get(at)).map_or(0, |word| (word ^ flip).trailing_zeros());
    (64 - at % 64 + whole.unwrap_or(rest.len()) as u32 * 64 + beyond).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_entries_when_it_grows() {
        let from = FlowSeq::new(0x00ff_fffa);
        let mut pages = Pages::new();
        let mut short = Ring::with_capacity(16);
        for n in 2..16 {
            short.insert(&mut pages, from.plus(n), n).unwrap();
        }
        assert_eq!(short.insert(&mut pages, from.plus(2), 99), Err(99));
        short.open(from.plus(2), Instant::from_millis(7));
        let mut ring = Ring::with_capacity(64);
        ring.take_over(&mut pages, &mut short, from, 16);
        assert_eq!((short.capacity(), ring.capacity()), (16, 64));
        assert_eq!((ring.run(from, 64, false), ring.run(from.plus(2), 64, true)), (2, 14));
        assert_eq!(ring.missing_since(), Some(Instant::from_millis(7)));
        assert!((2..16).all(|n| ring.take(&mut pages, from.plus(n)) == Some(n)));
        assert_eq!((short.run(from, 16, false), short.missing_since()), (16, None));
        assert!(short.pages.iter().chain(&ring.pages).all(Option::is_none), "pages exist only where units are");
    }

    #[test]
    fn ranges_are_what_their_numbers_are() {
        for capacity in [16, 64, 256] {
            for (from, count) in [(0, 1), (5, 11), (9, 16), (60, 16), (250, 16)] {
                let mut ring = Ring::<()>::with_capacity(capacity);
                let from = FlowSeq::new(from);
                ring.mark(from, count, true);
                let known = (0..capacity).filter(|n| ring.run(from.plus(*n as i32), 1, true) == 1);
                assert!(known.eq(0..count), "{count} of {capacity}");
                assert_eq!(ring.run(from, capacity, true), count);
                assert_eq!(ring.run(from.plus(count as i32), capacity - count, false), capacity - count);
                ring.mark(from, count, false);
                assert_eq!(ring.run(from, capacity, false), capacity);
            }
        }
    }
}
