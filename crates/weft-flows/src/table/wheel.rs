//! A hierarchical timer wheel (Varghese and Lauck, 1987), with one timer for each record.
//!
//! Time counts in ticks. The level of a timer is the highest group of six bits in which its due tick differs from the
//! current tick. Therefore a timer moves down at most once a level, and no level wraps. [`TimerWheel::poll`] works in
//! steps of constant cost and stops when its budget is spent, so that a full slot never makes a pause.

use super::lists::Lists;
use alloc::vec::Vec;

/// Bits of a tick that one level resolves.
const BITS: u32 = 6;
/// Slots of a level. Derived: one bit each in a 64-bit word.
const SLOTS: u32 = 1 << BITS;
/// Number of levels. Derived: six groups of six bits cover the 32 bits of a tick.
const LEVELS: u32 = 6;

/// Timers of records, ordered by due tick.
#[derive(Debug)]
pub struct TimerWheel {
    lists: Lists,
    /// Due tick of each timer.
    due: Vec<u32>,
    /// One bit for each slot that holds a timer.
    occupied: [u64; LEVELS as usize],
    tick: u32,
}

impl TimerWheel {
    /// Returns a wheel at tick zero, with memory for the timers of `items` records.
    pub fn new(items: u32) -> TimerWheel {
        TimerWheel {
            lists: Lists::new(LEVELS * SLOTS, items),
            due: Vec::with_capacity(items as usize),
            occupied: [0; LEVELS as usize],
            tick: 0,
        }
    }

    /// Adds the record with the next number. Its timer is stopped.
    pub fn add_item(&mut self) {
        self.lists.add_item();
        self.due.push(0);
    }

    /// Starts the timer of a record, or restarts it.
    ///
    /// A tick in the past is treated as the current tick.
    pub fn schedule(&mut self, item: u32, at: u32) {
        self.cancel(item);
        self.due[item as usize] = at.max(self.tick);
        self.place(item);
    }

    /// Stops the timer of a record. A stopped timer stays stopped.
    pub fn cancel(&mut self, item: u32) {
        if let Some(list) = self.lists.unlink(item) {
            self.occupied[(list / SLOTS) as usize] &= !(1 << (list % SLOTS));
        }
    }

    /// Stops a timer that is due at `now` or before, and returns its record.
    ///
    /// Each step of the search takes one from `budget`. Returns `None` if no timer is due or the budget is spent.
    pub fn poll(&mut self, now: u32, budget: &mut u32) -> Option<u32> {
        while let Some(left) = budget.checked_sub(1) {
            *budget = left;
            if self.cascade_one() {
                continue;
            }
            if let Some(item) = self.lists.front(self.tick % SLOTS) {
                self.cancel(item);
                return Some(item);
            }
            match self.next_occupied() {
                Some(tick) if tick <= now => self.tick = tick,
                _ => {
                    self.tick = self.tick.max(now);
                    return None;
                }
            }
        }
        None
    }

    /// Returns a tick at which [`TimerWheel::poll`] has work, not after the first due tick. `None` without timers.
    pub fn next_work(&self) -> Option<u32> {
        let due_now = self.lists.front(self.tick % SLOTS).is_some() || self.cascade_level().is_some();
        if due_now { Some(self.tick) } else { self.next_occupied() }
    }

    fn place(&mut self, item: u32) {
        let at = self.due[item as usize];
        let level = (at ^ self.tick).checked_ilog2().map_or(0, |bit| bit / BITS);
        let slot = (at >> (level * BITS)) % SLOTS;
        self.lists.push_back(level * SLOTS + slot, item);
        self.occupied[level as usize] |= 1 << slot;
    }

    /// Returns the highest level with timers in the slot that begins at the current tick, or `None`.
    fn cascade_level(&self) -> Option<u32> {
        let highest = (self.tick.trailing_zeros() / BITS).min(LEVELS - 1);
        (1..=highest).rev().find(|level| self.occupied[*level as usize] >> self.slot(*level) & 1 == 1)
    }

    fn slot(&self, level: u32) -> u32 {
        (self.tick >> (level * BITS)) % SLOTS
    }

    /// Moves one timer to its place in a lower level. Returns false if no timer has to move.
    fn cascade_one(&mut self) -> bool {
        let level = self.cascade_level();
        let Some(item) = level.and_then(|level| self.lists.front(level * SLOTS + self.slot(level))) else {
            return false;
        };
        self.cancel(item);
        self.place(item);
        true
    }

    /// Returns the first tick of the next slot after the current tick that holds a timer, or `None`.
    fn next_occupied(&self) -> Option<u32> {
        (0..LEVELS).find_map(|level| {
            let later = self.occupied[level as usize] & ((u64::MAX - 1) << self.slot(level));
            let slot = (later != 0).then(|| later.trailing_zeros())?;
            let block = u64::from(self.tick) >> (level * BITS) & !u64::from(SLOTS - 1);
            Some(((block | u64::from(slot)) << (level * BITS)) as u32)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use proptest::prelude::*;

    const ITEMS: u32 = 24;

    #[derive(Clone, Debug)]
    enum Step {
        Schedule(u32, u32),
        Cancel(u32),
        Advance(u32),
    }

    /// Draws distances of every magnitude, so that each level is used.
    fn distance() -> impl Strategy<Value = u32> {
        (0u32..31, any::<u32>()).prop_map(|(bits, n)| n % (1 << bits))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..ITEMS, distance()).prop_map(|(item, after)| Step::Schedule(item, after)),
            1 => (0..ITEMS).prop_map(Step::Cancel),
            2 => distance().prop_map(Step::Advance),
        ]
    }

    /// The timers as an ordered map: due tick to records.
    #[derive(Default)]
    struct Model {
        due: BTreeMap<u32, u32>,
        now: u32,
    }

    fn advance(wheel: &mut TimerWheel, model: &mut Model, budget: u32) -> Result<(), TestCaseError> {
        let expected: BTreeSet<u32> =
            model.due.iter().filter(|(_, at)| **at <= model.now).map(|(item, _)| *item).collect();
        let (mut popped, mut last) = (BTreeSet::new(), 0);
        while wheel.next_work().is_some_and(|tick| tick <= model.now) {
            let mut left = budget;
            while let Some(item) = wheel.poll(model.now, &mut left) {
                let at = model.due.remove(&item);
                prop_assert!(at.is_some_and(|at| at >= last), "{item} out of order");
                last = at.unwrap_or(last);
                popped.insert(item);
            }
        }
        wheel.poll(model.now, &mut 1);
        prop_assert_eq!(popped, expected);
        Ok(())
    }

    proptest! {
        #[test]
        fn each_timer_fires_at_its_tick_in_order(
            steps in prop::collection::vec(step(), 1..200), budget in 1u32..40,
        ) {
            let (mut wheel, mut model) = (TimerWheel::new(ITEMS), Model::default());
            (0..ITEMS).for_each(|_| wheel.add_item());
            for step in steps {
                match step {
                    Step::Schedule(item, after) => {
                        let at = model.now.saturating_add(after);
                        wheel.schedule(item, at);
                        model.due.insert(item, at);
                    }
                    Step::Cancel(item) => {
                        wheel.cancel(item);
                        model.due.remove(&item);
                    }
                    Step::Advance(by) => {
                        model.now = model.now.saturating_add(by);
                        advance(&mut wheel, &mut model, budget)?;
                    }
                }
                let first = model.due.values().min().copied();
                prop_assert_eq!(wheel.next_work().is_some(), first.is_some());
                prop_assert!(wheel.next_work() <= first, "work comes no later than the first timer");
            }
        }

        #[test]
        fn sleeping_until_the_next_work_reaches_every_timer(at in 1u32..u32::MAX) {
            let mut wheel = TimerWheel::new(1);
            wheel.add_item();
            wheel.schedule(0, at);
            let mut wakes = 0;
            loop {
                let wake = wheel.next_work().unwrap_or(u32::MAX);
                prop_assert!(wake <= at);
                wakes += 1;
                if wheel.poll(wake, &mut 100).is_some() {
                    prop_assert_eq!(wake, at);
                    break;
                }
            }
            prop_assert!(wakes <= LEVELS, "{} wakes", wakes);
        }
    }
}
