//! Session keys: derives AEAD keys from the secret of a handshake and stores the active keys.
//!
//! To *seal* is to encrypt and authenticate, to *open* is the reverse. [`SessionKey`] seals and opens packets of one
//! handshake and its VPNs. [`KeyRing`] holds the few keys that are active with a peer, and chooses the key that seals.
//! Keys are wiped from memory when they end.

use crate::timers::{KEY_LIFETIME, REKEY_AFTER_PACKETS};
use crate::vpn_keys::VpnKeys;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use weft_units::{Duration, Instant, PathId, VpnId};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};

use zeroize::Zeroize;

/// Path id under which all relayed datagrams to a peer get their packet numbers, whatever path they take.
pub(crate) const RELAYED: PathId = PathId(u8::MAX);

/// The AEAD that seals packets.
///
/// Each node announces its preference. Two nodes use AES-256-GCM if both prefer it, ChaCha20-Poly1305 otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cipher {
    /// ChaCha20-Poly1305 (RFC 8439), which is fast on every processor.
    ChaCha20Poly1305,
    /// AES-256-GCM (NIST SP 800-38D), which is several times faster on processors with AES instructions.
    Aes256Gcm,
}

impl Cipher {
    fn algorithm(self) -> &'static Algorithm {
        match self {
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::Aes256Gcm => &AES_256_GCM,
        }
    }
}

/// Direction of the packets that a key protects, relative to the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyDirection {
    InitiatorToResponder,
    ResponderToInitiator,
}

impl KeyDirection {
    fn reverse(self) -> KeyDirection {
        match self {
            KeyDirection::InitiatorToResponder => KeyDirection::ResponderToInitiator,
            KeyDirection::ResponderToInitiator => KeyDirection::InitiatorToResponder,
        }
    }
}

/// The secret that two peers share after a handshake. Every key of the session is derived from it.
///
/// The derivation is HKDF-SHA-256 (RFC 5869). The input key material is both halves of Noise's `Split()` (revision 34,
/// §5.2), and the salt is the handshake hash. The info is a label of fixed length, followed by fields of fixed width.
pub(crate) struct SessionSecret(Prk);

impl SessionSecret {
    pub(crate) fn new(mut split: ([u8; 32], [u8; 32]), handshake_hash: &[u8]) -> SessionSecret {
        #[cfg(test)]
        [split.0, split.1].iter().for_each(|half| crate::traces::note(half));
        let mut material = [0; 64];
        material[..32].copy_from_slice(&split.0);
        material[32..].copy_from_slice(&split.1);
        let secret = Salt::new(HKDF_SHA256, handshake_hash).extract(&material);
        material.zeroize();
        split.0.zeroize();
        split.1.zeroize();
        SessionSecret(secret)
    }

    /// Derives the key of all packets in one direction except those of VPNs other than the default one.
    ///
    /// Info: "weft hop" ‖ direction (0 from the initiator, 1 toward it).
    pub(crate) fn hop_key(&self, direction: KeyDirection, cipher: Cipher) -> Result<LessSafeKey, Unspecified> {
        self.key(&[b"weft hop", &[direction as u8]], cipher)
    }

    /// Derives the key of the packets in one direction of a VPN other than the default one.
    ///
    /// Info: "weft vpn" ‖ direction as in [`SessionSecret::hop_key`] ‖ VPN id (32 bits).
    fn vpn_key(&self, direction: KeyDirection, vpn: VpnId, cipher: Cipher) -> Result<LessSafeKey, Unspecified> {
        self.key(&[b"weft vpn", &[direction as u8], &vpn.0.to_be_bytes()], cipher)
    }

    fn key(&self, info: &[&[u8]], cipher: Cipher) -> Result<LessSafeKey, Unspecified> {
        let key = self.0.expand(info, cipher.algorithm())?;
        #[cfg(test)]
        crate::traces::note_key(&self.0, info, cipher.algorithm());
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    }
}

/// Returns the nonce of a packet: path id (32 bits) ‖ packet number (64 bits).
///
/// A nonce never repeats under a key, because no number is used twice on a path.
fn nonce(path: PathId, number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[3] = path.0;
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The keys that one handshake made: for the default VPN and for other VPNs, in both directions.
pub(crate) struct SessionKey {
    /// Receiver index that the peer writes into datagrams for this node.
    pub(crate) local_index: u32,
    /// Receiver index that this node writes into datagrams for the peer.
    pub(crate) remote_index: u32,
    /// Time at which the handshake completed.
    pub(crate) created: Instant,
    /// True if this node initiated the handshake. The initiator also starts the next handshake.
    pub(crate) initiator: bool,
    /// True if the peer is known to have the key: it responded to the handshake or sent a packet under the key.
    pub(crate) confirmed: bool,
    /// True if at least one packet from the peer was opened with the key.
    pub(crate) opened: bool,
    /// Association of the peer: the number that identifies the run of its program that made the handshake.
    pub(crate) association: u64,
    /// Base that the peer announced for its packet numbers (see [`crate::numbers`]).
    pub(crate) peer_base: u16,
    /// Protocol version that the two nodes agreed on.
    pub(crate) version: u8,
    /// Number of packets sealed with the key, including those of all VPNs.
    pub(crate) sealed: u64,
    /// Keys and receiver indices of the VPNs under this session key.
    pub(crate) vpns: VpnKeys,
    secret: SessionSecret,
    cipher: Cipher,
    /// Key that seals the packets that this node sends, except those of VPNs other than the default one.
    sealing: LessSafeKey,
    /// Key that opens the packets that this node receives, except those of VPNs other than the default one.
    opening: LessSafeKey,
}

/// The values that two nodes agreed on in a handshake, from which one of them makes its [`SessionKey`].
pub(crate) struct Agreement {
    pub(crate) secret: SessionSecret,
    pub(crate) cipher: Cipher,
    pub(crate) initiator: bool,
    pub(crate) local_index: u32,
    pub(crate) remote_index: u32,
    pub(crate) association: u64,
    pub(crate) peer_base: u16,
    pub(crate) version: u8,
}

impl SessionKey {
    pub(crate) fn new(now: Instant, agreed: Agreement) -> Result<SessionKey, Unspecified> {
        let from_initiator = agreed.secret.hop_key(KeyDirection::InitiatorToResponder, agreed.cipher)?;
        let from_responder = agreed.secret.hop_key(KeyDirection::ResponderToInitiator, agreed.cipher)?;
        let (sealing, opening) =
            if agreed.initiator { (from_initiator, from_responder) } else { (from_responder, from_initiator) };
        Ok(SessionKey {
            local_index: agreed.local_index,
            remote_index: agreed.remote_index,
            created: now,
            initiator: agreed.initiator,
            confirmed: agreed.initiator,
            opened: false,
            association: agreed.association,
            peer_base: agreed.peer_base,
            version: agreed.version,
            sealed: 0,
            vpns: VpnKeys::default(),
            secret: agreed.secret,
            cipher: agreed.cipher,
            sealing,
            opening,
        })
    }

    /// True if the number of packets sealed with the key requires a new handshake.
    pub(crate) fn rekey_for_packets(&self) -> bool {
        self.sealed >= REKEY_AFTER_PACKETS
    }

    /// Returns the receiver index that this node writes into packets of `vpn`.
    ///
    /// Returns `None` if the peer announced none.
    #[inline]
    pub(crate) fn receiver(&self, vpn: VpnId) -> Option<u32> {
        if vpn == VpnId::DEFAULT { Some(self.remote_index) } else { self.vpns.get(vpn)?.remote_index }
    }

    /// Returns the direction of the packets that this node seals.
    fn outward(&self) -> KeyDirection {
        if self.initiator { KeyDirection::InitiatorToResponder } else { KeyDirection::ResponderToInitiator }
    }

    fn sealing_in(&mut self, vpn: VpnId) -> Result<&LessSafeKey, Unspecified> {
        if vpn == VpnId::DEFAULT {
            return Ok(&self.sealing);
        }
        let outward = self.outward();
        let key = &mut self.vpns.get_mut(vpn).ok_or(Unspecified)?.sealing;
        match key {
            Some(key) => Ok(key),
            None => Ok(key.insert(self.secret.vpn_key(outward, vpn, self.cipher)?)),
        }
    }

    fn opening_in(&mut self, vpn: VpnId) -> Result<&LessSafeKey, Unspecified> {
        if vpn == VpnId::DEFAULT {
            return Ok(&self.opening);
        }
        let inward = self.outward().reverse();
        let key = &mut self.vpns.get_mut(vpn).ok_or(Unspecified)?.opening;
        match key {
            Some(key) => Ok(key),
            None => Ok(key.insert(self.secret.vpn_key(inward, vpn, self.cipher)?)),
        }
    }

    /// Seals a datagram in place: encrypts it and writes the tag into its last 16 bytes.
    ///
    /// The header is not encrypted, but it is authenticated as associated data.
    pub(crate) fn seal(
        &mut self,
        vpn: VpnId,
        path: PathId,
        number: u64,
        datagram: &mut [u8],
    ) -> Result<(), Unspecified> {
        let (header, rest) = datagram.split_first_chunk_mut::<HOP_HEADER_LEN>().ok_or(Unspecified)?;
        let (text, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(Unspecified)?;
        let made = self.sealing_in(vpn)?.seal_in_place_separate_tag(nonce(path, number), Aad::from(&*header), text)?;
        tag.copy_from_slice(made.as_ref());
        Ok(())
    }

    /// Opens a datagram in place: the plaintext replaces the ciphertext.
    pub(crate) fn open(
        &mut self,
        vpn: VpnId,
        path: PathId,
        number: u64,
        datagram: &mut [u8],
    ) -> Result<(), Unspecified> {
        let (header, sealed) = datagram.split_first_chunk_mut::<HOP_HEADER_LEN>().ok_or(Unspecified)?;
        self.opening_in(vpn)?.open_in_place(nonce(path, number), Aad::from(&*header), sealed).map(|_| ())
    }

    /// Seals the route labels of a relayed datagram in place: the `way_len` bytes before the tag.
    ///
    /// All bytes before the labels are associated data. Authenticating only the header and the tag of the inner
    /// datagram would be cheaper, and the receiver would still detect every change. But an attacker that eavesdrops and
    /// injects could then change a copy and deliver it first. The relay would accept the copy and reject the original
    /// as a replay. Therefore the whole datagram is authenticated between adjacent nodes, and only nodes on the route
    /// can suppress it.
    pub(crate) fn seal_relayed(&mut self, number: u64, datagram: &mut [u8], way_len: usize) -> Result<(), Unspecified> {
        let (rest, tag) = datagram.split_last_chunk_mut::<TAG_LEN>().ok_or(Unspecified)?;
        let at = rest.len().checked_sub(way_len).ok_or(Unspecified)?;
        let (within, way) = rest.split_at_mut(at);
        let made = self.sealing.seal_in_place_separate_tag(nonce(RELAYED, number), Aad::from(&*within), way)?;
        tag.copy_from_slice(made.as_ref());
        Ok(())
    }

    /// Decrypts and checks a relayed datagram in place. `way_len` is the length of its route labels in bytes.
    pub(crate) fn open_relayed(&mut self, number: u64, datagram: &mut [u8], way_len: usize) -> Result<(), Unspecified> {
        let at = datagram.len().checked_sub(way_len + TAG_LEN).ok_or(Unspecified)?;
        let (within, sealed) = datagram.split_at_mut(at);
        self.opening.open_in_place(nonce(RELAYED, number), Aad::from(&*within), sealed).map(|_| ())
    }
}

/// Number of session keys that this node may store for one peer at a time.
const SLOTS: usize = 4;
/// Time by which a session key may end earlier at the peer than at this node.
///
/// The peer may have created the key earlier, because it answered the handshake.
const ENDS_EARLIER: Duration = Duration::from_secs(10);

/// The active keys of one peer, oldest first.
///
/// All of them open packets. Only the newest one that the peer is known to have seals packets.
#[derive(Default)]
pub(crate) struct KeyRing {
    /// The session keys by slot.
    ///
    /// Each key is in a box: when a key ends, its box is freed, and the allocator wipes freed memory.
    keys: [Option<Box<SessionKey>>; SLOTS],
    /// Slot of the key that seals packets. `None` if no key does.
    sending: Option<usize>,
    /// Serial number of each slot's key. Keys are numbered from 1, in the order in which they were inserted.
    order: [u64; SLOTS],
    /// Number of keys inserted so far, which is the serial number of the latest.
    count: u64,
    /// Serial number of the newest key that the peer may have dropped. It may have dropped the older ones too.
    doubtful: u64,
}

impl KeyRing {
    /// Returns the session key that seals packets. Returns `None` if there is none.
    pub(crate) fn sending(&self) -> Option<&SessionKey> {
        self.get(self.sending?)
    }

    /// Returns the slot of the key that seals a VPN's packets. Returns `None` if no key can.
    ///
    /// It is the newest key for which the peer has sent its receiver index for the VPN, unless that key is about to end
    /// or the peer may no longer have it. The default VPN needs no such index.
    #[inline]
    pub(crate) fn sending_slot(&self, now: Instant, vpn: VpnId) -> Option<usize> {
        let sending = self.sending?;
        let is_open = |slot: &usize| self.keys.get(*slot)?.as_ref()?.receiver(vpn);
        if vpn == VpnId::DEFAULT || is_open(&sending).is_some() {
            return Some(sending);
        }
        let lives = |key: &SessionKey| now.since(key.created) < KEY_LIFETIME.saturating_sub(ENDS_EARLIER);
        let is_known = |slot: &usize| self.order[*slot] > self.doubtful && is_open(slot).is_some();
        let is_good = |slot: &usize| is_known(slot) && self.keys[*slot].as_deref().is_some_and(lives);
        (0..SLOTS).filter(is_good).max_by_key(|slot| self.order[*slot])
    }

    /// Records that the peer may have dropped all present keys, because another node used this node's static key.
    ///
    /// The keys still open late packets. They no longer seal packets of a VPN. Such packets wait until the peer has
    /// sent its receiver index for the VPN under the next key.
    pub(crate) fn doubt_all(&mut self) {
        self.doubtful = self.count;
    }

    /// Returns the key in a slot. Returns `None` if the slot is empty.
    pub(crate) fn get(&self, slot: usize) -> Option<&SessionKey> {
        self.keys.get(slot)?.as_deref()
    }

    /// Returns the key in a slot, for a change.
    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut SessionKey> {
        self.keys.get_mut(slot)?.as_deref_mut()
    }

    /// Returns all session keys, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SessionKey> {
        self.keys.iter().flatten().map(Box::as_ref)
    }

    /// Inserts a key. Returns its slot, and the key that was in this slot before.
    pub(crate) fn insert(&mut self, key: SessionKey) -> (usize, Option<Box<SessionKey>>) {
        let slot = self.slot_for_new();
        let confirmed = key.confirmed;
        let gone = self.keys[slot].replace(Box::new(key));
        self.count += 1;
        self.order[slot] = self.count;
        if confirmed {
            self.sending = Some(slot);
        }
        (slot, gone)
    }

    /// Returns a free slot, or the slot of the oldest key that does not seal.
    fn slot_for_new(&self) -> usize {
        let age = |slot: &usize| if self.keys[*slot].is_none() { 0 } else { self.order[*slot] };
        (0..SLOTS).filter(|slot| Some(*slot) != self.sending).min_by_key(age).unwrap_or(0)
    }

    /// Records that the peer has the key in `slot`. The key seals from now on, unless a newer key seals.
    pub(crate) fn confirm(&mut self, slot: usize) {
        if let Some(key) = self.get_mut(slot) {
            key.confirmed = true;
            if self.sending.is_none_or(|sending| self.order[sending] < self.order[slot]) {
                self.sending = Some(slot);
            }
        }
    }

    /// Removes the keys for which `keep` returns false, and passes each to `dropped`.
    pub(crate) fn retain(&mut self, keep: impl Fn(&SessionKey) -> bool, mut dropped: impl FnMut(&SessionKey)) {
        for slot in &mut self.keys {
            if let Some(key) = slot.take_if(|key| !keep(key)) {
                dropped(&key);
            }
        }
        if self.sending().is_none() {
            self.sending = None;
        }
    }

    /// Returns the time at which the oldest key ends.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.iter().map(|key| key.created + KEY_LIFETIME).min()
    }
}
