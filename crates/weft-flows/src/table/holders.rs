//! Which user holds which flows, and whose flow is evicted next.
//!
//! Each user has a list of the flows that may be evicted, the oldest first. A heap orders the users by the length of
//! that list. Flows with a guarantee are in a list of their own and are never chosen.

use super::lists::Lists;
use crate::user::UserId;
use alloc::vec::Vec;
use weft_units::{Duration, Instant};

/// Heap index of a user without evictable flows.
const NOWHERE: u32 = u32::MAX;

/// State of one user.
#[derive(Clone, Copy, Debug)]
struct UserFlows {
    /// Number of the user's flows without a guarantee. Only these can be evicted.
    evictable: u32,
    /// Number of the user's flows with a guarantee.
    kept: u32,
    /// Index of the user in the heap, or [`NOWHERE`].
    place: u32,
    /// Time at which all new flows of the user so far would have begun at the highest allowed rate of new flows.
    new_until: Instant,
}

/// The users and the lists of their records.
#[derive(Debug)]
pub struct Holders {
    holders: Vec<UserFlows>,
    /// Users with evictable flows: a binary heap, the user with most flows first.
    heap: Vec<u32>,
    /// One list for each user, then the guaranteed flows, then the vacant records.
    lists: Lists,
}

impl Holders {
    /// Returns the state of `users` users without flows, with memory for `records` records.
    pub fn new(users: u32, records: u32) -> Holders {
        let holder = UserFlows { evictable: 0, kept: 0, place: NOWHERE, new_until: Instant::ZERO };
        Holders {
            holders: alloc::vec![holder; users as usize],
            heap: Vec::with_capacity(users as usize),
            lists: Lists::new(users + 2, records),
        }
    }

    /// Adds the record with the next number. It is vacant.
    pub fn add_record(&mut self, record: u32) {
        self.lists.add_item();
        self.lists.push_back(self.vacant_list(), record);
    }

    /// Returns the record that has been vacant longest, or `None` if no record is vacant.
    pub fn vacant(&self) -> Option<u32> {
        self.lists.front(self.vacant_list())
    }

    /// Gives a record to a user: a vacant one, or one whose guarantee changed.
    pub fn hold(&mut self, user: u32, record: u32, guaranteed: bool) {
        self.lists.unlink(record);
        if guaranteed {
            self.holders[user as usize].kept += 1;
            self.lists.push_back(self.kept_list(), record);
            return;
        }
        self.lists.push_back(user, record);
        self.holders[user as usize].evictable += 1;
        if self.holders[user as usize].place == NOWHERE {
            self.holders[user as usize].place = self.heap.len() as u32;
            self.heap.push(user);
        }
        self.rise(self.holders[user as usize].place as usize);
    }

    /// Takes a record from its user. It becomes vacant.
    pub fn release(&mut self, user: u32, record: u32, guaranteed: bool) {
        self.lists.unlink(record);
        self.lists.push_back(self.vacant_list(), record);
        let holder = &mut self.holders[user as usize];
        if guaranteed {
            holder.kept -= 1;
            return;
        }
        holder.evictable -= 1;
        let place = holder.place as usize;
        if holder.evictable > 0 {
            self.sink(place);
            return;
        }
        holder.place = NOWHERE;
        self.heap.swap_remove(place);
        if let Some(moved) = self.heap.get(place) {
            self.holders[*moved as usize].place = place as u32;
            self.sink(place);
            self.rise(place);
        }
    }

    /// Returns the user with most evictable flows, or `None` if no flow is evictable.
    pub fn largest(&self) -> Option<u32> {
        self.heap.first().copied()
    }

    /// Returns the evictable flow that was longest in this user's list, or `None` if the list is empty.
    pub fn oldest(&self, user: u32) -> Option<u32> {
        self.lists.front(user)
    }

    /// Moves an evictable record to the end of its user's list.
    pub fn requeue(&mut self, user: u32, record: u32) {
        self.lists.unlink(record);
        self.lists.push_back(user, record);
    }

    /// Returns the number of flows of a user, with and without guarantee.
    pub fn flows(&self, user: UserId) -> u32 {
        self.holders.get(user.0 as usize).map_or(0, |holder| holder.evictable + holder.kept)
    }

    /// Charges a new flow to a user, who may begin one flow in each `spacing` of time, with a tolerance of `burst`.
    ///
    /// Returns false if the user begins flows too fast. Then nothing is charged.
    pub fn admit_new(&mut self, user: u32, now: Instant, spacing: Duration, burst: Duration) -> bool {
        let holder = &mut self.holders[user as usize];
        if holder.new_until.since(now) > burst {
            return false;
        }
        holder.new_until = holder.new_until.max(now) + spacing;
        true
    }

    fn kept_list(&self) -> u32 {
        self.holders.len() as u32
    }

    fn vacant_list(&self) -> u32 {
        self.holders.len() as u32 + 1
    }

    fn weight(&self, place: usize) -> u32 {
        self.heap.get(place).map_or(0, |user| self.holders[*user as usize].evictable)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.holders[self.heap[a] as usize].place = a as u32;
        self.holders[self.heap[b] as usize].place = b as u32;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.weight(place) > self.weight((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let child = if self.weight(right) > self.weight(left) { right } else { left };
            if self.weight(child) <= self.weight(place) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Rng;

    #[test]
    fn the_largest_holder_is_always_known() {
        let mut rng = Rng::new(2);
        let (users, records) = (7, 60);
        let mut holders = Holders::new(users, records);
        let mut model: Vec<Option<(u32, bool)>> = alloc::vec![None; records as usize];
        (0..records).for_each(|record| holders.add_record(record));
        for _ in 0..50_000 {
            let record = rng.below(records.into()) as u32;
            match model[record as usize].take() {
                Some((user, kept)) => holders.release(user, record, kept),
                None => {
                    let (user, kept) = (rng.below(users.into()) as u32, rng.chance(0.2));
                    holders.hold(user, record, kept);
                    model[record as usize] = Some((user, kept));
                }
            }
            let evictable = |user| model.iter().filter(|held| **held == Some((user, false))).count();
            let most = (0..users).map(evictable).max().filter(|most| *most > 0);
            assert_eq!(holders.largest().map(evictable), most);
            for user in 0..users {
                let oldest = holders.oldest(user);
                assert_eq!(oldest.is_some(), evictable(user) > 0);
                assert!(oldest.is_none_or(|record| model[record as usize] == Some((user, false))));
                let held = model.iter().flatten().filter(|(other, _)| *other == user).count();
                assert_eq!(holders.flows(UserId(user)) as usize, held);
            }
            assert_eq!(holders.vacant().is_some(), model.iter().any(Option::is_none));
        }
    }
}
