use crate::keys::SessionKey;
use crate::random::SecretRng;
use hashbrown::HashTable;
use weft_units::{PeerId, VpnId};

/// The state to which a datagram with a certain receiver index belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IndexTarget {
    /// A handshake that this node has begun with this peer.
    Handshake(PeerId),
    /// The session key of a peer in a slot of its key ring, which holds the peer's active keys.
    Key(PeerId, u8),
    /// A VPN under the session key of a peer in a slot of its key ring, which holds the peer's active keys.
    Vpn(PeerId, u8, VpnId),
}

/// The receiver indices that this node has assigned, each with its target. They are random, unique and never zero.
#[derive(Default)]
pub(crate) struct IndexTable {
    entries: HashTable<(u32, IndexTarget)>,
}

/// Returns the hash of an index. This node draws the indices at random, so an attacker cannot cause collisions.
fn hash(index: u32) -> u64 {
    u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl IndexTable {
    /// Assigns a new random index to `target` and returns it.
    pub(crate) fn allocate(&mut self, rng: &mut SecretRng, target: IndexTarget) -> u32 {
        loop {
            let index = rng.next_u32();
            if index != 0 && self.get(index).is_none() {
                self.entries.insert_unique(hash(index), (index, target), |entry| hash(entry.0));
                return index;
            }
        }
    }

    /// Returns the target of an index. Returns `None` if the index is not assigned.
    pub(crate) fn get(&self, index: u32) -> Option<IndexTarget> {
        self.entries.find(hash(index), |entry| entry.0 == index).map(|entry| entry.1)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Changes the target of an assigned index. Does nothing if the index is not assigned.
    pub(crate) fn point(&mut self, index: u32, target: IndexTarget) {
        if let Some(entry) = self.entries.find_mut(hash(index), |entry| entry.0 == index) {
            entry.1 = target;
        }
    }

    /// Ends the assignment of an index, which may then be assigned again.
    pub(crate) fn free(&mut self, index: u32) {
        if let Ok(entry) = self.entries.find_entry(hash(index), |entry| entry.0 == index) {
            entry.remove();
        }
    }

    /// Ends the assignment of the index of a session key and of the indices of its VPNs.
    pub(crate) fn free_key(&mut self, key: &SessionKey) {
        self.free(key.local_index);
        key.vpns.local_indices().for_each(|index| self.free(index));
    }
}
