//! Seals and opens packets. This code runs for every packet.
//!
//! It takes no lock and makes one table look-up per packet. It allocates only for the first packet of a path.

use super::Sessions;
use crate::error::{OpenError, SealError};
use crate::index::IndexTarget;
use crate::keys::{RELAYED, SessionKey};
use crate::numbers::{ReceiveWindows, number_near_base};
use core::ops::Range;
use weft_units::planted::{self, Fault};
use weft_units::{PathId, PeerId, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, HopHeader, PacketType, TAG_LEN};
use weft_wire::relay::{LABEL_LEN, Way};

/// A sealed packet that was authentic, and whose plaintext has replaced its ciphertext.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenedPacket {
    /// The peer that sent the packet.
    pub peer: PeerId,
    /// The number of the path that the packet took, by which the sender names it.
    pub path: PathId,
    /// Full number of the packet among the packets that the peer sent on this path.
    pub packet_number: u64,
    /// Type of the packet: data, control, loop data or a data part.
    pub packet_type: PacketType,
    /// The VPN for which the packet was sealed. The caller must check that the peer is a member.
    pub vpn: VpnId,
    /// The session key that opened the packet, identified by this node's receiver index. It is the same for all VPNs.
    pub key: u32,
    /// Position of the plaintext in the datagram, in bytes.
    pub plaintext: Range<usize>,
    /// True for the first packet opened with its key. The responder seals with the key from this packet on.
    pub first_with_this_key: bool,
    /// True if the peer's process is new: it restarted, or this is its first session with this node.
    ///
    /// Packet numbers and replay windows restart with this packet.
    pub fresh: bool,
}

/// A relayed datagram that was authentic, with the labels of its route decrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// The peer that sent the relayed datagram to this node.
    pub peer: PeerId,
    /// The route of the datagram: the labels that the next nodes follow, and those that lead back.
    pub way: Way,
    /// Position of the inner datagram in the relayed datagram, in bytes.
    pub within: Range<usize>,
    /// True for the first datagram opened with its key, as [`OpenedPacket::first_with_this_key`].
    pub first_with_this_key: bool,
    /// True if the peer's process is new to this node, as [`OpenedPacket::fresh`].
    pub fresh: bool,
}

impl Sessions {
    /// Seals a packet of the default VPN in place. Returns its number, which is never used again on this path.
    ///
    /// `datagram` holds [`HOP_HEADER_LEN`] bytes that are overwritten, the plaintext, and [`TAG_LEN`] bytes for the
    /// tag.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal(
        &mut self,
        peer: PeerId,
        path: PathId,
        packet_type: PacketType,
        datagram: &mut [u8],
    ) -> Result<u64, SealError> {
        self.seal_in(peer, VpnId::DEFAULT, path, packet_type, datagram)
    }

    /// Seals a packet of `vpn` in place, as [`Sessions::seal`] does. Control packets belong to the default VPN.
    ///
    /// # Errors
    /// [`SealError`]; [`SealError::VpnClosed`] if [`Sessions::vpn_standing`] is
    /// [`VpnStanding::Closed`](super::VpnStanding::Closed).
    #[inline]
    pub fn seal_in(
        &mut self,
        to: PeerId,
        vpn: VpnId,
        path: PathId,
        packet_type: PacketType,
        datagram: &mut [u8],
    ) -> Result<u64, SealError> {
        let now = self.now;
        let peer = self.peers.get_mut(usize::from(to.0)).and_then(Option::as_mut).ok_or(SealError::UnknownPeer)?;
        let newest = peer.keys.sending_slot(now, VpnId::DEFAULT).ok_or(SealError::NotEstablished)?;
        let slot = match vpn {
            VpnId::DEFAULT => newest,
            _ => peer.keys.sending_slot(now, vpn).ok_or(SealError::VpnClosed)?,
        };
        let key = peer.keys.get_mut(slot).ok_or(SealError::NotEstablished)?;
        let is_sealed = packet_type.is_sealed() && (vpn == VpnId::DEFAULT || packet_type != PacketType::Control);
        if !is_sealed || datagram.len() < HOP_HEADER_LEN + TAG_LEN {
            return Err(SealError::Malformed);
        }
        let receiver = key.receiver(vpn).ok_or(SealError::VpnClosed)?;
        let mut number = peer.send.take(path).ok_or(SealError::Exhausted)?;
        if planted::is(Fault::PacketNumberAgain) && number % 256 == 255 {
            number -= 1;
        }
        let header = HopHeader { packet_type, path, receiver, packet_number_low: number as u32 };
        header.emit(datagram).map_err(|_| SealError::Malformed)?;
        key.seal(vpn, path, number, datagram).map_err(|_| SealError::Malformed)?;
        key.sealed += 1;
        if key.rekey_for_packets() {
            self.timeouts.set(usize::from(to.0), self.now);
        }
        Ok(number)
    }

    /// Seals a datagram in place that the relay `relay` forwards along the route `way`.
    ///
    /// `datagram` holds [`HOP_HEADER_LEN`] bytes that are overwritten, the inner datagram, and space for the labels of
    /// `way` and the tag.
    ///
    /// # Errors
    /// [`SealError`].
    pub fn seal_relayed(&mut self, relay: PeerId, way: &Way, datagram: &mut [u8]) -> Result<(), SealError> {
        let now = self.now;
        let peer = self.peers.get_mut(usize::from(relay.0)).and_then(Option::as_mut).ok_or(SealError::UnknownPeer)?;
        let slot = peer.keys.sending_slot(now, VpnId::DEFAULT).ok_or(SealError::NotEstablished)?;
        let key = peer.keys.get_mut(slot).ok_or(SealError::NotEstablished)?;
        let labels_len = way.labels().len() * LABEL_LEN;
        let at = datagram.len().checked_sub(labels_len + TAG_LEN).ok_or(SealError::Malformed)?;
        let number = peer.send.take(RELAYED).ok_or(SealError::Exhausted)?;
        let header = HopHeader {
            packet_type: PacketType::Relayed,
            path: PathId(way.code()),
            receiver: key.remote_index,
            packet_number_low: number as u32,
        };
        header.emit(datagram).map_err(|_| SealError::Malformed)?;
        way.emit(datagram.get_mut(at..).ok_or(SealError::Malformed)?).map_err(|_| SealError::Malformed)?;
        key.seal_relayed(number, datagram, labels_len).map_err(|_| SealError::Malformed)?;
        key.sealed += 1;
        if key.rekey_for_packets() {
            self.timeouts.set(usize::from(relay.0), self.now);
        }
        Ok(())
    }

    /// Returns the peer from which a sealed or relayed datagram claims to come. This is not authenticated.
    pub fn claimed_by(&self, datagram: &[u8]) -> Option<PeerId> {
        match self.indices.get(HopHeader::parse(datagram).ok()?.receiver)? {
            IndexTarget::Key(id, _) | IndexTarget::Vpn(id, _, _) => Some(id),
            IndexTarget::Handshake(_) => None,
        }
    }

    /// Checks a relayed datagram from a peer and decrypts its labels in place.
    ///
    /// # Errors
    /// [`OpenError`]. The datagram's labels are then undefined, and no other state has changed.
    pub fn open_relayed(&mut self, datagram: &mut [u8]) -> Result<Relayed, OpenError> {
        let header = HopHeader::parse(datagram).map_err(|_| OpenError::Malformed)?;
        let Some(IndexTarget::Key(id, slot)) = self.indices.get(header.receiver) else {
            return Err(OpenError::UnknownSession);
        };
        let labels_len = Way::labels_len(header.path.0).map_err(|_| OpenError::Malformed)?;
        let end = datagram.len() - TAG_LEN;
        let within = HOP_HEADER_LEN..end.checked_sub(labels_len).ok_or(OpenError::Malformed)?;
        let (key, number) = self.key_and_number(id, slot.into(), RELAYED, header.packet_number_low)?;
        key.open_relayed(number, datagram, labels_len).map_err(|_| OpenError::BadCrypto)?;
        let (first_with_this_key, fresh) = self.opened(id, slot.into(), RELAYED, number);
        let way = Way::parse(header.path.0, datagram.get(..end).unwrap_or_default());
        Ok(Relayed { peer: id, way: way.map_err(|_| OpenError::Malformed)?, within, first_with_this_key, fresh })
    }

    /// Opens a sealed datagram in place.
    ///
    /// # Errors
    /// [`OpenError`]. The datagram's content is then undefined, and no other state has changed.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<OpenedPacket, OpenError> {
        let header = HopHeader::parse(datagram).map_err(|_| OpenError::Malformed)?;
        if !header.packet_type.is_sealed() {
            return Err(OpenError::Malformed);
        }
        let (id, slot, vpn) = match self.indices.get(header.receiver) {
            Some(IndexTarget::Key(id, slot)) => (id, usize::from(slot), VpnId::DEFAULT),
            Some(IndexTarget::Vpn(id, slot, vpn)) if header.packet_type != PacketType::Control => {
                (id, slot.into(), vpn)
            }
            _ => return Err(OpenError::UnknownSession),
        };
        let (key, packet_number) = self.key_and_number(id, slot, header.path, header.packet_number_low)?;
        key.open(vpn, header.path, packet_number, datagram).map_err(|_| OpenError::BadCrypto)?;
        let index = key.local_index;
        let (first_with_this_key, fresh) = self.opened(id, slot, header.path, packet_number);
        Ok(OpenedPacket {
            peer: id,
            path: header.path,
            packet_number,
            packet_type: header.packet_type,
            vpn,
            key: index,
            plaintext: HOP_HEADER_LEN..datagram.len() - TAG_LEN,
            first_with_this_key,
            fresh,
        })
    }

    /// Returns the session key in a slot, and the full number of a packet that claims to be sealed with this key.
    ///
    /// `low` are the low 32 bits of the number.
    #[inline]
    fn key_and_number(
        &mut self,
        id: PeerId,
        slot: usize,
        path: PathId,
        low: u32,
    ) -> Result<(&mut SessionKey, u64), OpenError> {
        let peer = self.peers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(OpenError::UnknownSession)?;
        let key = peer.keys.get_mut(slot).ok_or(OpenError::UnknownSession)?;
        let number = if peer.peer_association == Some(key.association) {
            peer.receive.find_new(path, low).ok_or(OpenError::Replayed)?
        } else {
            number_near_base(key.peer_base, low)
        };
        Ok((key, number))
    }

    /// Records that an authentic packet has arrived under the session key in a slot.
    ///
    /// Returns whether it is the first packet under its key, and whether the peer's process is new.
    #[inline]
    fn opened(&mut self, id: PeerId, slot: usize, path: PathId, number: u64) -> (bool, bool) {
        let key = self.peers.get_mut(usize::from(id.0)).and_then(Option::as_mut).and_then(|p| p.keys.get_mut(slot));
        let first_with_this_key = key.is_some_and(|key| !core::mem::replace(&mut key.opened, true));
        let fresh = first_with_this_key && self.confirm(id, slot);
        if let Some(receive) = self.receive_windows(id)
            && !(path == RELAYED && planted::is(Fault::RelayedNotMarked))
        {
            receive.mark(path, number);
        }
        (first_with_this_key, fresh)
    }

    fn receive_windows(&mut self, id: PeerId) -> Option<&mut ReceiveWindows> {
        self.peer_mut(id).map(|peer| &mut peer.receive)
    }

    /// Processes the first packet under a session key, which confirms that the peer has the key.
    ///
    /// The key seals from now on. Returns true if the peer's process is new.
    #[cold]
    fn confirm(&mut self, id: PeerId, slot: usize) -> bool {
        let Sessions { peers, indices, now, .. } = self;
        let Some(peer) = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut) else { return false };
        let Some(key) = peer.keys.get_mut(slot) else { return false };
        let (association, base, answered) = (key.association, key.peer_base, !key.confirmed);
        let fresh = peer.meet(*now, (association, base), |key| indices.free_key(key));
        if answered {
            peer.keys.confirm(slot);
            peer.attempt = None;
            if let Some(pending) = peer.pending.take() {
                indices.free(pending.index);
            }
            if fresh || peer.established.is_none() {
                peer.established = Some(*now);
            }
        }
        self.refresh_timeout(id);
        fresh
    }
}
