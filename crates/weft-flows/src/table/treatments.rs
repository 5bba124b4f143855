//! The treatments that flows were granted, each stored once.
//!
//! A flow names its treatment by 16 bits. Most flows share the treatment of a class. The set is bounded, and forgets a
//! treatment with its last flow.

use super::meter::PoliceLimit;
use crate::treatment::Treatment;
use alloc::vec::Vec;
use hashbrown::HashTable;
use weft_core::flow::hash::SeededState;

#[derive(Clone, Copy, Debug)]
struct TreatmentEntry {
    treatment: Treatment,
    /// Rate and burst that the policer allows a flow with this treatment.
    limit: PoliceLimit,
    /// Number of flows that have this treatment now.
    flows: u32,
}

/// A bounded set of treatments with numbers.
#[derive(Debug)]
pub struct Treatments {
    state: SeededState,
    index: HashTable<u16>,
    entries: Vec<TreatmentEntry>,
    free: Vec<u16>,
    most: usize,
    /// Number of the treatment that was taken last. Most new flows take it again.
    last: u16,
}

impl Treatments {
    /// Returns an empty set for at most `most` treatments.
    pub fn new(most: u16, seed: u64) -> Treatments {
        let most = usize::from(most.max(1));
        Treatments {
            state: SeededState::new(seed),
            // A hash table that is at most half full clears removed entries in place and never allocates.
            index: HashTable::with_capacity(2 * most),
            entries: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
            last: 0,
        }
    }

    /// Returns the number of `treatment` for one more flow, or `None` if the set is full.
    pub fn take(&mut self, treatment: &Treatment) -> Option<u16> {
        let same = |entry: &&TreatmentEntry| entry.flows > 0 && entry.treatment == *treatment;
        if self.entries.get(usize::from(self.last)).filter(same).is_none() {
            let (hash, entries) = (self.state.hash64(treatment), &self.entries);
            let found = self.index.find(hash, |at| entries[usize::from(*at)].treatment == *treatment).copied();
            self.last = found.or_else(|| self.add(hash, treatment))?;
        }
        self.entries[usize::from(self.last)].flows += 1;
        Some(self.last)
    }

    /// Releases one flow's reference to a treatment.
    pub fn give_back(&mut self, at: u16) {
        let entry = &mut self.entries[usize::from(at)];
        entry.flows -= 1;
        if entry.flows > 0 {
            return;
        }
        let hash = self.state.hash64(&entry.treatment);
        if let Ok(found) = self.index.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.free.push(at);
    }

    /// Returns the treatment with the number `at`.
    pub fn get(&self, at: u16) -> Treatment {
        self.entries.get(usize::from(at)).map_or(Treatment::default(), |entry| entry.treatment)
    }

    /// Returns the rate and burst that the policer allows a flow with the treatment number `at`.
    pub fn limit(&self, at: u16) -> PoliceLimit {
        self.entries.get(usize::from(at)).map_or(PoliceLimit::default(), |entry| entry.limit)
    }

    fn add(&mut self, hash: u64, treatment: &Treatment) -> Option<u16> {
        let entry = TreatmentEntry { treatment: *treatment, limit: PoliceLimit::of(treatment), flows: 0 };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[usize::from(at)] = entry;
                at
            }
            None if self.entries.len() < self.most => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u16
            }
            None => return None,
        };
        let (state, entries) = (&self.state, &self.entries);
        self.index.insert_unique(hash, at, |other| state.hash64(&entries[usize::from(*other)].treatment));
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use weft_units::Rng;

    #[test]
    fn equal_treatments_share_a_number_until_their_last_flow_ends() {
        let mut rng = Rng::new(5);
        let (mut set, mut held) = (Treatments::new(8, 1), Vec::new());
        for _ in 0..20_000 {
            let treatment = Treatment { precedence: rng.below(12) as u8, ..Treatment::default() };
            let distinct: BTreeMap<u8, u16> =
                held.iter().map(|(t, at): &(Treatment, u16)| (t.precedence, *at)).collect();
            match set.take(&treatment) {
                Some(at) => {
                    assert!(distinct.get(&treatment.precedence).is_none_or(|other| *other == at));
                    held.push((treatment, at));
                }
                None => assert!(distinct.len() == 8 && !distinct.contains_key(&treatment.precedence)),
            }
            while !held.is_empty() && rng.chance(0.5) {
                let (treatment, at) = held.swap_remove(rng.below(held.len() as u64) as usize);
                assert_eq!(set.get(at), treatment);
                set.give_back(at);
            }
        }
    }
}
