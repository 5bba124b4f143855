//! Keys of the VPNs under one session key. They are derived on first use and end with the session key.

use aws_lc_rs::aead::LessSafeKey;
use hashbrown::HashTable;
use weft_units::VpnId;

/// Keys and receiver indices of one VPN under one session key.
pub(crate) struct VpnKey {
    vpn: VpnId,
    /// The receiver index that this node announced to the peer. `None` if it announced none.
    pub(crate) local_index: Option<u32>,
    /// The receiver index that the peer announced to this node. `None` if it announced none.
    pub(crate) remote_index: Option<u32>,
    pub(crate) sealing: Option<LessSafeKey>,
    pub(crate) opening: Option<LessSafeKey>,
}

/// The keys and receiver indices of all VPNs in use under one session key.
#[derive(Default)]
pub(crate) struct VpnKeys {
    // Each entry is in a box, because it is longer than half a kilobyte and a hash table has free slots.
    table: HashTable<Box<VpnKey>>,
}

/// Hashes a VPN id. The table holds only VPNs that this node is configured for, so an attacker cannot cause collisions.
fn hash(vpn: VpnId) -> u64 {
    u64::from(vpn.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl VpnKeys {
    pub(crate) fn get(&self, vpn: VpnId) -> Option<&VpnKey> {
        self.table.find(hash(vpn), |key| key.vpn == vpn).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, vpn: VpnId) -> Option<&mut VpnKey> {
        self.table.find_mut(hash(vpn), |key| key.vpn == vpn).map(Box::as_mut)
    }

    /// Returns the entry of a VPN, and creates it without keys and indices if there is none.
    pub(crate) fn get_or_insert(&mut self, vpn: VpnId) -> &mut VpnKey {
        let new = || Box::new(VpnKey { vpn, local_index: None, remote_index: None, sealing: None, opening: None });
        self.table.entry(hash(vpn), |key| key.vpn == vpn, |key| hash(key.vpn)).or_insert_with(new).into_mut()
    }

    /// Returns the receiver indices of all VPNs that this node announced to the peer.
    pub(crate) fn local_indices(&self) -> impl Iterator<Item = u32> {
        self.table.iter().filter_map(|key| key.local_index)
    }
}
