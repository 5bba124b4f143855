use crate::random::SecretRng;
use hashbrown::HashTable;
use weft_units::PeerId;

/// What a receiver index stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A handshake this node initiated with a peer.
    Handshake(PeerId),
    /// A slot of a peer's key ring.
    Key(PeerId, usize),
}

/// Receiver indices this node gave out: random and unique.
#[derive(Default)]
pub(crate) struct IndexTable {
    entries: HashTable<(u32, Target)>,
}

/// Spreads an index over the hash. The indices in the table are ours and random, so no stranger can make them collide.
fn hash(index: u32) -> u64 {
    u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl IndexTable {
    /// A new index for `target`.
    pub(crate) fn allocate(&mut self, rng: &mut SecretRng, target: Target) -> u32 {
        loop {
            let index = rng.next_u32();
            if self.get(index).is_none() {
                self.entries.insert_unique(hash(index), (index, target), |entry| hash(entry.0));
                return index;
            }
        }
    }

    /// What `index` stands for.
    pub(crate) fn get(&self, index: u32) -> Option<Target> {
        self.entries.find(hash(index), |entry| entry.0 == index).map(|entry| entry.1)
    }

    /// Lets an index stand for something else.
    pub(crate) fn point(&mut self, index: u32, target: Target) {
        if let Some(entry) = self.entries.find_mut(hash(index), |entry| entry.0 == index) {
            entry.1 = target;
        }
    }

    /// Forgets an index.
    pub(crate) fn free(&mut self, index: u32) {
        if let Ok(entry) = self.entries.find_entry(hash(index), |entry| entry.0 == index) {
            entry.remove();
        }
    }
}
