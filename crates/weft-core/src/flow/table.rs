//! The ingress edge's table of flows: each flow's number, sequence and counters.
//!
//! A packet's key is looked up in the table to find its flow number. The table assigns numbers, and takes the numbers
//! of idle flows back. It never holds more than 65,536 flows.

use super::hash::SeededState;
use alloc::vec::Vec;
use core::hash::Hash;
use hashbrown::HashTable;
use weft_units::{Duration, FlowId, FlowSeq, Instant};

/// Time without packets after which a flow's number may be given to a new flow.
pub const IDLE: Duration = Duration::from_secs(60);

/// Maximum number of flows in a table. Derived: flow numbers have 16 bits.
pub const MAX_FLOWS: usize = 1 << 16;

/// Value of an index into the table that stands for no entry.
const NIL: u32 = u32::MAX;

/// State of one flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowEntry<K> {
    /// Fields that all packets of the flow share.
    pub key: K,
    /// Time of the flow's last packet.
    pub last_used: Instant,
    /// Number of packets of the flow since the flow received its present number.
    pub packets: u64,
    /// Number of IP bytes of the flow since the flow received its present number.
    pub bytes: u64,
    /// Seeded hash of the key, for flow-hash scheduling.
    pub hash: u32,
    next_seq: FlowSeq,
    newer: u32,
    older: u32,
}

/// Assigns numbers to flows.
///
/// After [`IDLE`] without packets, a flow's number may be given to another flow. If all numbers are in use, a new flow
/// gets the number of the least recently used flow. The sequence numbers of units continue when a flow number passes to
/// another flow, so the receiver need not be informed.
#[derive(Debug)]
pub struct FlowTable<K> {
    state: SeededState,
    index: HashTable<u16>,
    entries: Vec<FlowEntry<K>>,
    max_flows: usize,
    newest: u32,
    oldest: u32,
}

impl<K: Hash + Eq + Copy> FlowTable<K> {
    /// Returns an empty table for `max_flows` flows, between 1 and [`MAX_FLOWS`].
    ///
    /// `seed` is the seed of the hash of flow keys.
    pub fn new(seed: u64, max_flows: usize) -> FlowTable<K> {
        FlowTable {
            state: SeededState::new(seed),
            index: HashTable::new(),
            entries: Vec::new(),
            max_flows: max_flows.clamp(1, MAX_FLOWS),
            newest: NIL,
            oldest: NIL,
        }
    }

    /// Returns the number of the flow of `key` and marks the flow as used `now`.
    ///
    /// A new flow gets a number.
    pub fn lookup(&mut self, now: Instant, key: &K) -> FlowId {
        let hash = self.state.hash64(key);
        let entries = &self.entries;
        let found = self.index.find(hash, |&at| entries[usize::from(at)].key == *key).copied();
        let id = match found {
            Some(id) => u32::from(id),
            None => self.insert(now, key, hash),
        };
        self.touch(now, id);
        FlowId(id as u16)
    }

    /// Returns the seeded hash of `key`.
    ///
    /// The same key always has the same hash in this table, even if the flow's number changes.
    pub fn hash(&self, key: &K) -> u32 {
        high_half(self.state.hash64(key))
    }

    /// Returns the sequence number of the flow's next unit, starting at zero.
    ///
    /// Returns zero for an unassigned flow number.
    pub fn next_seq(&mut self, id: FlowId) -> FlowSeq {
        let Some(entry) = self.entries.get_mut(usize::from(id.0)) else {
            return FlowSeq::default();
        };
        let seq = entry.next_seq;
        entry.next_seq = seq.plus(1);
        seq
    }

    /// Adds `packets` and their IP `bytes` to the flow's counters.
    pub fn count(&mut self, id: FlowId, packets: u32, bytes: u32) {
        if let Some(entry) = self.entries.get_mut(usize::from(id.0)) {
            entry.packets += u64::from(packets);
            entry.bytes += u64::from(bytes);
        }
    }

    /// Returns the state of the flow with the number `id`.
    pub fn get(&self, id: FlowId) -> Option<&FlowEntry<K>> {
        self.entries.get(usize::from(id.0))
    }

    /// Iterates over all flows that have a number, the most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (FlowId, &FlowEntry<K>)> {
        let mut at = self.newest;
        core::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            let id = FlowId(at as u16);
            at = entry.older;
            Some((id, entry))
        })
    }

    /// Number of flows that have a number.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no flow has a number.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn insert(&mut self, now: Instant, key: &K, hash: u64) -> u32 {
        let oldest_is_idle = self.entries.get(self.oldest as usize).is_some_and(|e| now.since(e.last_used) >= IDLE);
        let id = if oldest_is_idle || self.entries.len() >= self.max_flows {
            self.take_over_oldest(key, hash)
        } else {
            self.append(now, key, hash)
        };
        let (entries, state) = (&self.entries, &self.state);
        self.index.insert_unique(hash, id as u16, |&at| state.hash64(&entries[usize::from(at)].key));
        id
    }

    fn append(&mut self, now: Instant, key: &K, hash: u64) -> u32 {
        let id = self.entries.len() as u32;
        self.entries.push(FlowEntry {
            key: *key,
            last_used: now,
            packets: 0,
            bytes: 0,
            hash: high_half(hash),
            next_seq: FlowSeq::default(),
            newer: NIL,
            older: NIL,
        });
        self.link_newest(id);
        id
    }

    fn take_over_oldest(&mut self, key: &K, hash: u64) -> u32 {
        let id = self.oldest;
        let old_hash = self.state.hash64(&self.entries[id as usize].key);
        if let Ok(place) = self.index.find_entry(old_hash, |&at| u32::from(at) == id) {
            place.remove();
        }
        let entry = &mut self.entries[id as usize];
        (entry.key, entry.hash, entry.packets, entry.bytes) = (*key, high_half(hash), 0, 0);
        id
    }

    fn touch(&mut self, now: Instant, id: u32) {
        self.entries[id as usize].last_used = now;
        if id != self.newest {
            self.unlink(id);
            self.link_newest(id);
        }
    }

    fn link_newest(&mut self, id: u32) {
        let second = self.newest;
        let entry = &mut self.entries[id as usize];
        (entry.newer, entry.older) = (NIL, second);
        self.newest = id;
        match self.entries.get_mut(second as usize) {
            Some(e) => e.newer = id,
            None => self.oldest = id,
        }
    }

    fn unlink(&mut self, id: u32) {
        let FlowEntry { newer, older, .. } = self.entries[id as usize];
        match self.entries.get_mut(newer as usize) {
            Some(e) => e.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(e) => e.newer = newer,
            None => self.oldest = newer,
        }
    }
}

fn high_half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_flow_keeps_its_number_and_hash() {
        let mut t = FlowTable::new(1, 8);
        let (a, b) = (t.lookup(at(0), &10u64), t.lookup(at(0), &20));
        assert_eq!((a, b), (FlowId(0), FlowId(1)));
        assert_eq!(t.lookup(at(100), &10), a);
        assert_eq!(t.get(a).unwrap().hash, t.hash(&10));
        assert_eq!(FlowTable::new(1, 8).hash(&10u64), t.hash(&10));
    }

    #[test]
    fn sequences_start_at_zero_and_go_on_with_the_next_owner() {
        let mut t = FlowTable::new(1, 8);
        let id = t.lookup(at(0), &10u64);
        assert_eq!([0, 1, 2].map(|_| t.next_seq(id).get()), [0, 1, 2]);
        t.count(id, 3, 4_500);
        assert_eq!((t.get(id).unwrap().packets, t.get(id).unwrap().bytes), (3, 4_500));
        assert_eq!(t.lookup(at(60), &20), id, "idle for a minute: reused though the table has room");
        assert_eq!(t.next_seq(id).get(), 3);
        assert_eq!((t.get(id).unwrap().packets, t.len()), (0, 1));
    }

    #[test]
    fn takes_the_least_recently_used_when_full() {
        let mut t = FlowTable::new(1, 3);
        let ids = [1u64, 2, 3].map(|k| t.lookup(at(k), &k));
        t.lookup(at(4), &1);
        assert_eq!(t.lookup(at(5), &4), ids[1]);
        assert_eq!(t.iter().map(|(_, e)| e.key).collect::<Vec<_>>(), [4, 1, 3]);
        assert_eq!(t.lookup(at(6), &2), ids[2]);
    }

    #[test]
    fn a_full_table_stays_consistent_under_churn() {
        let mut t = FlowTable::new(3, 1 << 16);
        for k in 0..200_000u64 {
            t.lookup(at(0), &k);
        }
        assert_eq!((t.len(), t.iter().count(), t.index.len()), (MAX_FLOWS, MAX_FLOWS, MAX_FLOWS));
        let last = t.lookup(at(1), &199_999);
        assert_eq!(t.iter().next().map(|(id, e)| (id, e.key)), Some((last, 199_999)));
    }

    #[test]
    fn state_of_a_flow_is_small() {
        let bytes = size_of::<FlowEntry<[u8; 40]>>() + size_of::<u16>();
        assert!(bytes <= 96, "{bytes} bytes per flow with a 40-byte key");
    }
}
