//! VPNs of a session: which receiver index names which, and whether packets of one can be sealed.
//!
//! A receiver gives a VPN an index of its own for each session key, and says so in a control datagram sealed with that key. All of
//! it lives and ends with the session key; a VPN not used any more costs nothing after that.

use super::Sessions;
use crate::index::Target;
use weft_units::{PeerId, VpnId};

/// Whether packets of a VPN can be sealed for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VpnStanding {
    /// The peer has told no index for it yet, or only under keys that have ended.
    Closed,
    /// Under an older key than the one in use: the peer should be asked for its index under the new one.
    Aging,
    /// Under the key in use.
    Open,
}

impl Sessions {
    /// Whether packets of `vpn` can be sealed for `peer` now. The default VPN is open as long as there is a key.
    pub fn vpn_standing(&self, peer: PeerId, vpn: VpnId) -> VpnStanding {
        let Some(keys) = self.peer(peer).map(|peer| &peer.keys) else { return VpnStanding::Closed };
        match keys.sending_slot(self.now, vpn) {
            None => VpnStanding::Closed,
            slot if slot == keys.sending_slot(self.now, VpnId::DEFAULT) => VpnStanding::Open,
            Some(_) => VpnStanding::Aging,
        }
    }

    /// The key that seals packets of `vpn` for `peer` now, by this node's receiver index of it. `None` while nothing can be sealed.
    #[inline]
    pub fn sealing_key(&self, peer: PeerId, vpn: VpnId) -> Option<u32> {
        let keys = &self.peer(peer)?.keys;
        keys.get(keys.sending_slot(self.now, vpn)?).map(|key| key.local_index)
    }

    /// This node's receiver index for `vpn` under the key that seals toward `peer` now, a new one the first time: to be told to the
    /// peer in the very next control datagram sealed. `None` without a session, and for the default VPN, which needs none.
    ///
    /// Whether the peer is a member is for the caller to know, who must ask that again for each packet that comes in.
    pub fn vpn_index(&mut self, peer: PeerId, vpn: VpnId) -> Option<u32> {
        if vpn == VpnId::DEFAULT {
            return None;
        }
        let Sessions { peers, indices, rng, now, .. } = self;
        let keys = &mut peers.get_mut(usize::from(peer.0))?.as_mut()?.keys;
        let slot = keys.sending_slot(*now, VpnId::DEFAULT)?;
        let entry = keys.get_mut(slot)?.vpns.get_or_insert(vpn);
        let new = || indices.allocate(rng, Target::Vpn(peer, slot as u8, vpn));
        Some(*entry.local_index.get_or_insert_with(new))
    }

    /// The peer told its receiver index for `vpn`, in a datagram opened under `key` ([`super::Opened::key`]).
    pub fn set_vpn_index(&mut self, peer: PeerId, key: u32, vpn: VpnId, index: u32) {
        let Some(Target::Key(of, slot)) = self.indices.get(key) else { return };
        if of != peer || vpn == VpnId::DEFAULT || index == 0 {
            return;
        }
        if let Some(key) = self.peer_mut(peer).and_then(|peer| peer.keys.get_mut(slot.into())) {
            key.vpns.get_or_insert(vpn).remote_index = Some(index);
        }
    }
}
