use crate::keys::SessionKey;
use crate::random::SecretRng;
use hashbrown::HashTable;
use weft_units::{PeerId, VpnId};

/// What a receiver index stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A handshake this node initiated with a peer.
    Handshake(PeerId),
    /// A slot of a peer's key ring.
    Key(PeerId, u8),
    /// A VPN under the key in that slot.
    Vpn(PeerId, u8, VpnId),
}

/// Receiver indices this node gave out: random and unique, and never zero.
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
            if index != 0 && self.get(index).is_none() {
                self.entries.insert_unique(hash(index), (index, target), |entry| hash(entry.0));
                return index;
            }
        }
    }

    /// What `index` stands for.
    pub(crate) fn get(&self, index: u32) -> Option<Target> {
        self.entries.find(hash(index), |entry| entry.0 == index).map(|entry| entry.1)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
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

    /// Forgets a key's index and those of its VPNs.
    pub(crate) fn free_key(&mut self, key: &SessionKey) {
        self.free(key.local_index);
        key.vpns.local_indices().for_each(|index| self.free(index));
    }
}
