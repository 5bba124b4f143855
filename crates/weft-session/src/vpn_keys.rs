//! The keys of the VPNs of one session: derived on first use, gone with the session's own.

use aws_lc_rs::aead::LessSafeKey;
use hashbrown::HashTable;
use weft_units::VpnId;

/// What two peers have for one VPN under one session key.
pub(crate) struct VpnKey {
    vpn: VpnId,
    /// This node's receiver index, if it was told to the peer.
    pub(crate) local_index: Option<u32>,
    /// The peer's, if it told.
    pub(crate) remote_index: Option<u32>,
    pub(crate) sealing: Option<LessSafeKey>,
    pub(crate) opening: Option<LessSafeKey>,
}

/// The VPNs in use under one session key.
#[derive(Default)]
pub(crate) struct VpnKeys {
    // Boxed: a key is more than half a kilobyte, and a table keeps places free.
    table: HashTable<Box<VpnKey>>,
}

/// Spreads a number over the hash. Only VPNs that this node is configured for are in the table.
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

    /// The VPN's place, a new one if it has none.
    pub(crate) fn get_or_insert(&mut self, vpn: VpnId) -> &mut VpnKey {
        let new = || Box::new(VpnKey { vpn, local_index: None, remote_index: None, sealing: None, opening: None });
        self.table.entry(hash(vpn), |key| key.vpn == vpn, |key| hash(key.vpn)).or_insert_with(new).into_mut()
    }

    /// The receiver indices told to the peer.
    pub(crate) fn local_indices(&self) -> impl Iterator<Item = u32> {
        self.table.iter().filter_map(|key| key.local_index)
    }
}
