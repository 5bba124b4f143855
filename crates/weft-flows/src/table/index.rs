//! The index from hashes to record numbers: buckets of one cache line, each with ten tags of 16 bits.
//!
//! A hash has a home bucket. If that is full, the entry goes to the next bucket with space. Each full bucket on the way
//! counts the entries that passed it, so that a search knows where to stop and a removal leaves no marker behind.

use alloc::vec::Vec;

/// Entries of a bucket. Derived: ten tags, ten record numbers and a count fill 64 bytes.
const WAYS: usize = 10;
/// Mean number of entries in a bucket of a full index. Tuned: at 6 of 10, 4 % of the buckets overflow (Poisson).
const MEAN_ENTRIES: usize = 6;
/// Record number that stands for no record.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// Tags of the entries, or zero for no entry.
    tags: [u16; WAYS],
    /// Number of entries that went to another bucket because this one was full.
    passed: u32,
    records: [u32; WAYS],
}

const EMPTY: Bucket = Bucket { tags: [0; WAYS], passed: 0, records: [NONE; WAYS] };

impl Bucket {
    /// Returns a set of bits: bit n is set if entry n of the bucket has this tag.
    #[inline]
    fn matches(&self, tag: u16) -> u32 {
        let mut mask = 0;
        for (way, other) in self.tags.iter().enumerate() {
            mask |= u32::from(*other == tag) << way;
        }
        mask
    }
}

/// Index of records by hash. It never grows.
#[derive(Debug)]
pub struct TagIndex {
    buckets: Vec<Bucket>,
}

impl TagIndex {
    /// Returns an index for `entries` entries.
    pub fn new(entries: usize) -> TagIndex {
        TagIndex { buckets: alloc::vec![EMPTY; entries.div_ceil(MEAN_ENTRIES) + 1] }
    }

    /// Returns the first record of the home bucket with the tag of `hash`, or a number that no record has.
    #[inline]
    pub fn candidate(&self, hash: u64) -> u32 {
        let bucket = &self.buckets[self.home(hash)];
        let matches = bucket.matches(tag(hash));
        bucket.records.get(matches.trailing_zeros() as usize).copied().unwrap_or(NONE)
    }

    /// Returns the record with this hash for which `is_it` is true, or `None`.
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(tag(hash));
            while matches != 0 {
                let record = bucket.records[matches.trailing_zeros() as usize];
                if is_it(record) {
                    return Some(record);
                }
                matches &= matches - 1;
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Adds a record that is not in the index. The caller adds no more entries than the index was made for.
    pub fn insert(&mut self, hash: u64, record: u32) {
        let mut at = self.home(hash);
        loop {
            let bucket = &mut self.buckets[at];
            let free = bucket.matches(0).trailing_zeros() as usize;
            if free < WAYS {
                (bucket.tags[free], bucket.records[free]) = (tag(hash), record);
                return;
            }
            bucket.passed += 1;
            at = self.after(at);
        }
    }

    /// Removes a record that was inserted with this hash.
    pub fn remove(&mut self, hash: u64, record: u32) {
        let home = self.home(hash);
        let Some(place) = self.place(home, record) else { return };
        let mut at = home;
        while at != place {
            self.buckets[at].passed -= 1;
            at = self.after(at);
        }
        let bucket = &mut self.buckets[place];
        for (tag, other) in bucket.tags.iter_mut().zip(&mut bucket.records) {
            if *other == record {
                (*tag, *other) = (0, NONE);
            }
        }
    }

    /// Returns the bucket that holds a record whose search begins at `home`, or `None` if the record is not stored.
    fn place(&self, home: usize, record: u32) -> Option<usize> {
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            if bucket.records.contains(&record) {
                return Some(at);
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Returns the home bucket, from the upper half of the hash (Lemire's reduction).
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 < self.buckets.len() { at + 1 } else { 0 }
    }
}

/// Returns the tag of a hash: its low 16 bits, but never zero.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use weft_units::Rng;

    #[test]
    fn a_bucket_is_a_cache_line() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
    }

    /// Hashes are drawn from few values, so that homes overflow and tags collide far more often than by chance.
    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let mut rng = Rng::new(3);
        for round in 0..200 {
            let capacity = 1 + rng.below(120) as usize;
            let (mut index, mut model) = (TagIndex::new(capacity), BTreeMap::new());
            let spread = 1 + rng.below(6);
            let hash = |rng: &mut Rng| (rng.below(spread) * (u64::MAX / spread)) & !0xffff | rng.below(3);
            for record in 0..400u32 {
                if model.len() < capacity {
                    let hash = hash(&mut rng);
                    index.insert(hash, record);
                    model.insert(record, hash);
                }
                let (other, chosen) = (hash(&mut rng), rng.below(400) as u32);
                if rng.chance(0.5)
                    && let Some(hash) = model.remove(&chosen)
                {
                    index.remove(hash, chosen);
                }
                let found = index.find(other, |record| model.get(&record) == Some(&other));
                assert_eq!(found.is_some(), model.values().any(|hash| *hash == other), "round {round}");
                assert!(model.iter().all(|(record, hash)| index.find(*hash, |found| found == *record).is_some()));
            }
            model.iter().for_each(|(record, hash)| index.remove(*hash, *record));
            assert!(index.buckets.iter().all(|bucket| bucket.passed == 0 && bucket.records == [NONE; WAYS]));
        }
    }
}
