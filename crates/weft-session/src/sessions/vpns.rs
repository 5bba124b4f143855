//! VPNs of a session: their receiver indices, and whether packets of a VPN can be sealed.
//!
//! A receiver assigns a VPN its own index under each session key, and announces it in a control datagram sealed with
//! that key. All state of a VPN ends with the session key, so a VPN that is no longer used takes no memory afterwards.

use super::Sessions;
use crate::index::IndexTarget;
use crate::payload::REPORTS_WITH_DATA;
use weft_units::{PeerId, VpnId};

/// Whether packets of a VPN can be sealed for a peer, and under which session key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VpnStanding {
    /// No packet can be sealed, because the peer has announced no receiver index for the VPN under a present key.
    Closed,
    /// Packets can be sealed under an older session key than the one in use.
    ///
    /// The caller should request the peer's receiver index under the newer key.
    Aging,
    /// Packets can be sealed under the session key in use.
    Open,
}

impl Sessions {
    /// Returns whether packets of `vpn` can be sealed for `peer`.
    ///
    /// For the default VPN, they can as long as there is a key.
    pub fn vpn_standing(&self, peer: PeerId, vpn: VpnId) -> VpnStanding {
        let Some(keys) = self.peer(peer).map(|peer| &peer.keys) else { return VpnStanding::Closed };
        match keys.sending_slot(self.now, vpn) {
            None => VpnStanding::Closed,
            slot if slot == keys.sending_slot(self.now, VpnId::DEFAULT) => VpnStanding::Open,
            Some(_) => VpnStanding::Aging,
        }
    }

    /// Returns the session key that seals packets of `vpn` for `peer`, as this node's receiver index of it.
    ///
    /// Returns `None` if no packet can be sealed now.
    #[inline]
    pub fn sealing_key(&self, peer: PeerId, vpn: VpnId) -> Option<u32> {
        let keys = &self.peer(peer)?.keys;
        keys.get(keys.sending_slot(self.now, vpn)?).map(|key| key.local_index)
    }

    /// True if the peer accepts reports in datagrams with data, under the key that seals packets for it now.
    pub fn takes_reports_with_data(&self, peer: PeerId) -> bool {
        let keys = self.peer(peer).map(|peer| &peer.keys);
        let key = keys.and_then(|keys| keys.get(keys.sending_slot(self.now, VpnId::DEFAULT)?));
        key.is_some_and(|key| key.version >= REPORTS_WITH_DATA)
    }

    /// Returns this node's receiver index for `vpn`, and assigns it on first use.
    ///
    /// The index belongs to the session key that seals packets for `peer` now. The caller must announce it in the next
    /// control datagram that it seals. Returns `None` without a session, and for the default VPN, which needs no index.
    ///
    /// The caller must check that the peer is a member of the VPN, before this call and for each received packet.
    pub fn vpn_index(&mut self, peer: PeerId, vpn: VpnId) -> Option<u32> {
        if vpn == VpnId::DEFAULT {
            return None;
        }
        let Sessions { peers, indices, rng, now, .. } = self;
        let keys = &mut peers.get_mut(usize::from(peer.0))?.as_mut()?.keys;
        let slot = keys.sending_slot(*now, VpnId::DEFAULT)?;
        let entry = keys.get_mut(slot)?.vpns.get_or_insert(vpn);
        let new = || indices.allocate(rng, IndexTarget::Vpn(peer, slot as u8, vpn));
        Some(*entry.local_index.get_or_insert_with(new))
    }

    /// Stores the receiver index that the peer announced for `vpn`.
    ///
    /// `key` identifies the session key of the datagram that announced it ([`super::OpenedPacket::key`]).
    pub fn set_vpn_index(&mut self, peer: PeerId, key: u32, vpn: VpnId, index: u32) {
        let Some(IndexTarget::Key(of, slot)) = self.indices.get(key) else { return };
        if of != peer || vpn == VpnId::DEFAULT || index == 0 {
            return;
        }
        if let Some(key) = self.peer_mut(peer).and_then(|peer| peer.keys.get_mut(slot.into())) {
            key.vpns.get_or_insert(vpn).remote_index = Some(index);
        }
    }
}
