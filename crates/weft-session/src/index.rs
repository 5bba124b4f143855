use crate::keys::SessionKey;
use crate::random::SecretRng;
use hashbrown::HashTable;
use weft_units::{PeerId, VpnId};

/// The object that a receiver index identifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IndexTarget {
    /// A handshake that this node initiated with a peer.
    Handshake(PeerId),
    /// The session key of a peer in a slot of its key ring, which holds the peer's active keys.
    Key(PeerId, u8),
    /// A VPN under the session key of a peer in a slot of its key ring, which holds the peer's active keys.
    Vpn(PeerId, u8, VpnId),
}

/// The receiver indices that this node has assigned: random, unique and never zero.
#[derive(Default)]
pub(crate) struct IndexTable {
    entries: HashTable<(u32, IndexTarget)>,
}

/// Hashes an index. This node draws the indices at random, so an attacker cannot cause collisions.
fn hash(index: u32) -> u64 {
    u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl IndexTable {
    /// Assigns a new index to `target`.
    pub(crate) fn allocate(&mut self, rng: &mut SecretRng, target: IndexTarget) -> u32 {
        loop {
            let index = rng.next_u32();
            if index != 0 && self.get(index).is_none() {
                self.entries.insert_unique(hash(index), (index, target), |entry| hash(entry.0));
                return index;
            }
        }
    }

    /// Returns the target of `index`.
    pub(crate) fn get(&self, index: u32) -> Option<IndexTarget> {
        self.entries.find(hash(index), |entry| entry.0 == index).map(|entry| entry.1)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Makes an assigned index identify another target. Does nothing if the index is not assigned.
    pub(crate) fn point(&mut self, index: u32, target: IndexTarget) {
        if let Some(entry) = self.entries.find_mut(hash(index), |entry| entry.0 == index) {
            entry.1 = target;
        }
    }

    /// Removes an index.
    pub(crate) fn free(&mut self, index: u32) {
        if let Ok(entry) = self.entries.find_entry(hash(index), |entry| entry.0 == index) {
            entry.remove();
        }
    }

    /// Removes the index of a key and the indices of its VPNs.
    pub(crate) fn free_key(&mut self, key: &SessionKey) {
        self.free(key.local_index);
        key.vpns.local_indices().for_each(|index| self.free(index));
    }
}
