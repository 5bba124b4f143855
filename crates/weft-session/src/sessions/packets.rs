//! Sealing and opening: the part every packet passes. No allocation but a path's first packet, no lock, one table look-up.

use super::Sessions;
use crate::error::{OpenError, SealError};
use crate::index::Target;
use crate::keys::{RELAYED, SessionKey};
use crate::numbers::{ReceiveWindows, number_near_base};
use core::ops::Range;
use weft_units::planted::{self, Fault};
use weft_units::{PathId, PeerId, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, HopHeader, PacketType, TAG_LEN};
use weft_wire::relay::{LABEL_LEN, Way};

/// An authentic packet, decrypted in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Who sent it.
    pub peer: PeerId,
    /// The path it took, as the sender numbers it.
    pub path: PathId,
    /// Its full number on that path.
    pub packet_number: u64,
    /// Data, control or a data part.
    pub packet_type: PacketType,
    /// The VPN it was sealed for. Whether the peer is a member is for the caller to know.
    pub vpn: VpnId,
    /// This node's receiver index of the session key it came under, whichever VPN it is of.
    pub key: u32,
    /// Where in the datagram the plaintext is.
    pub plaintext: Range<usize>,
    /// Whether it is the first packet opened with its key; on the responder's side the key is in use from now on.
    pub first_with_this_key: bool,
    /// Whether the peer is a new one (it restarted, or was never met): its packet numbers and windows start anew with this packet.
    pub fresh: bool,
}

/// An authentic relayed datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// Who passed it on.
    pub peer: PeerId,
    /// Its way.
    pub way: Way,
    /// Where the datagram within is.
    pub within: Range<usize>,
    /// As of [`Opened`].
    pub first_with_this_key: bool,
    /// As of [`Opened`].
    pub fresh: bool,
}

impl Sessions {
    /// Seals a datagram in place: `datagram` is [`HOP_HEADER_LEN`] bytes to be filled, the plaintext, and [`TAG_LEN`] bytes
    /// of room for the tag. Gives the packet number, which is never given again on this path.
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

    /// The same for a packet of `vpn`, under its key; control is of the default VPN.
    ///
    /// # Errors
    /// [`SealError`]; [`SealError::VpnClosed`] where [`Sessions::vpn_standing`] says so.
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

    /// Seals a datagram for a relay in place: `datagram` is [`HOP_HEADER_LEN`] bytes to be filled, the datagram within, and room for the
    /// labels of `way` and the tag.
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

    /// Whose a sealed or relayed datagram claims to be. Nothing has proved it.
    pub fn claimed_by(&self, datagram: &[u8]) -> Option<PeerId> {
        match self.indices.get(HopHeader::parse(datagram).ok()?.receiver)? {
            Target::Key(id, _) | Target::Vpn(id, _, _) => Some(id),
            Target::Handshake(_) => None,
        }
    }

    /// Opens a relayed datagram in place.
    ///
    /// # Errors
    /// [`OpenError`]; the datagram's labels are undefined then, and nothing has changed.
    pub fn open_relayed(&mut self, datagram: &mut [u8]) -> Result<Relayed, OpenError> {
        let header = HopHeader::parse(datagram).map_err(|_| OpenError::Malformed)?;
        let Some(Target::Key(id, slot)) = self.indices.get(header.receiver) else {
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
    /// [`OpenError`]; the datagram's content is undefined then, and nothing has changed.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        let header = HopHeader::parse(datagram).map_err(|_| OpenError::Malformed)?;
        if !header.packet_type.is_sealed() {
            return Err(OpenError::Malformed);
        }
        let (id, slot, vpn) = match self.indices.get(header.receiver) {
            Some(Target::Key(id, slot)) => (id, usize::from(slot), VpnId::DEFAULT),
            Some(Target::Vpn(id, slot, vpn)) if header.packet_type != PacketType::Control => (id, slot.into(), vpn),
            _ => return Err(OpenError::UnknownSession),
        };
        let (key, packet_number) = self.key_and_number(id, slot, header.path, header.packet_number_low)?;
        key.open(vpn, header.path, packet_number, datagram).map_err(|_| OpenError::BadCrypto)?;
        let index = key.local_index;
        let (first_with_this_key, fresh) = self.opened(id, slot, header.path, packet_number);
        Ok(Opened {
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

    /// The key in a slot, and the full number of a packet that claims to be under it and is not known yet.
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

    /// Remembers an authentic packet: whether it is the first under its key, and whether the peer is a new one.
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

    /// The first packet under a key: the peer has it (key confirmation), so it seals from now on. Whether the peer is new.
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
