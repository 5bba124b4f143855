//! Sealing and opening: the part every packet passes. No allocation but a path's first packet, no lock, one table look-up.

use super::Sessions;
use crate::error::{OpenError, SealError};
use crate::index::Target;
use crate::numbers::{ReceiveWindows, number_near_base};
use core::ops::Range;
use weft_units::planted::{self, Fault};
use weft_units::{PathId, PeerId, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, HopHeader, PacketType, TAG_LEN};

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
        peer: PeerId,
        vpn: VpnId,
        path: PathId,
        packet_type: PacketType,
        datagram: &mut [u8],
    ) -> Result<u64, SealError> {
        let now = self.now;
        let peer = self.peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut).ok_or(SealError::UnknownPeer)?;
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
            self.next_timeout = Some(self.now);
        }
        Ok(number)
    }

    /// Opens a sealed datagram in place.
    ///
    /// # Errors
    /// [`OpenError`]; the datagram's content is undefined then, and nothing has changed.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, OpenError> {
        let header = HopHeader::parse(datagram).map_err(|_| OpenError::Malformed)?;
        let (id, slot, vpn) = match self.indices.get(header.receiver) {
            Some(Target::Key(id, slot)) => (id, usize::from(slot), VpnId::DEFAULT),
            Some(Target::Vpn(id, slot, vpn)) if header.packet_type != PacketType::Control => (id, slot.into(), vpn),
            _ => return Err(OpenError::UnknownSession),
        };
        let peer = self.peers.get_mut(usize::from(id.0)).and_then(Option::as_mut).ok_or(OpenError::UnknownSession)?;
        let key = peer.keys.get_mut(slot).ok_or(OpenError::UnknownSession)?;
        let number = if peer.peer_association == Some(key.association) {
            peer.receive.find_new(header.path, header.packet_number_low).ok_or(OpenError::Replayed)?
        } else {
            number_near_base(key.peer_base, header.packet_number_low)
        };
        key.open(vpn, header.path, number, datagram).map_err(|_| OpenError::BadCrypto)?;
        let index = key.local_index;
        let first_with_this_key = !core::mem::replace(&mut key.opened, true);
        let fresh = first_with_this_key && self.confirm(id, slot);
        if let Some(receive) = self.receive_windows(id) {
            receive.mark(header.path, number);
        }
        Ok(Opened {
            peer: id,
            path: header.path,
            packet_number: number,
            packet_type: header.packet_type,
            vpn,
            key: index,
            plaintext: HOP_HEADER_LEN..datagram.len() - TAG_LEN,
            first_with_this_key,
            fresh,
        })
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
        let fresh = peer.meet(association, base, |key| indices.free_key(key));
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
        self.refresh_timeout();
        fresh
    }
}
