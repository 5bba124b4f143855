//! The table of all peers of a node, with the sessions to them.

mod exchange;
mod packets;
#[cfg(test)]
mod tests;
mod timeouts;
mod vpns;

use crate::admission::Admission;
use crate::certificate::Certificate;
use crate::cookie::{CookieMaker, MacKeys};
use crate::error::PeerError;
use crate::identity::{Identity, PresharedKey, PublicKey};
use crate::index::{IndexTable, IndexTarget};
use crate::keys::Cipher;
use crate::peer::PeerSession;
use crate::random::SecretRng;
use crate::stamps::{StampClock, StampRefusal};
use std::collections::BTreeMap;
use weft_units::planted::{self, Fault};
use weft_units::{Instant, PeerId, Tournament};
use weft_wire::certificate::SIGNATURE_LEN;
use weft_wire::handshake::{HandshakeResponse, MAC_LEN};

pub use exchange::Outcome;
pub use packets::{OpenedPacket, Relayed};
pub use timeouts::TimeoutAction;
pub use vpns::VpnStanding;

/// A peer as the caller adds it to the table: its public key and the shared secret.
#[derive(Clone, Debug)]
pub struct SessionPeerConfig {
    /// Static public key of the peer.
    pub public_key: PublicKey,
    /// Secret that is shared with the peer in addition to the key pairs; `None`: no such secret.
    pub preshared_key: Option<PresharedKey>,
}

impl From<PublicKey> for SessionPeerConfig {
    fn from(public_key: PublicKey) -> SessionPeerConfig {
        SessionPeerConfig { public_key, preshared_key: None }
    }
}

/// The secure sessions of a node with all its peers.
///
/// The owner must call [`Sessions::handle_timeout`] at [`Sessions::next_timeout`]. Session keys end only in this
/// function.
pub struct Sessions {
    identity: Identity,
    mac_keys: MacKeys,
    cipher: Cipher,
    /// The certificate that this node presents in handshakes; empty without one.
    certificate: Vec<u8>,
    rng: SecretRng,
    /// True if a handshake used randomness since the last [`Sessions::reseed`].
    wants_entropy: bool,
    cookies: CookieMaker,
    admission: Admission,
    peers: Vec<Option<PeerSession>>,
    by_key: BTreeMap<PublicKey, PeerId>,
    /// The peer that sent each stored initiation, by MAC1.
    ///
    /// For each peer, the initiation that this node answered last is stored.
    answered: BTreeMap<[u8; MAC_LEN], PeerId>,
    indices: IndexTable,
    stamp_clock: StampClock,
    refusal: Option<StampRefusal>,
    /// Public key of the last initiator, if its initiation was authentic and it is not a peer.
    stranger: Option<PublicKey>,
    /// The latest time that a caller passed to this table.
    now: Instant,
    /// Time at which this node must act next for each peer.
    timeouts: Tournament<Instant>,
}

impl Sessions {
    /// Creates a table with these peers, which get the numbers from 0 in this order.
    ///
    /// `cipher` is the cipher that this node prefers. `seed` must be secret and never used twice, because all random
    /// numbers derive from it.
    ///
    /// # Errors
    /// [`PeerError`] for a peer that cannot be added.
    pub fn new(
        identity: Identity,
        peers: &[SessionPeerConfig],
        cipher: Cipher,
        seed: [u8; 32],
        now: Instant,
    ) -> Result<Sessions, PeerError> {
        let mut rng = SecretRng::new(seed);
        let mut sessions = Sessions {
            mac_keys: MacKeys::of(&identity.public_key()),
            identity,
            cipher,
            certificate: Vec::new(),
            cookies: CookieMaker::new(now, &mut rng),
            admission: Admission::new(now),
            rng,
            wants_entropy: false,
            peers: Vec::with_capacity(peers.len()),
            by_key: BTreeMap::new(),
            answered: BTreeMap::new(),
            indices: IndexTable::default(),
            stamp_clock: StampClock::default(),
            refusal: None,
            stranger: None,
            now,
            timeouts: Tournament::default(),
        };
        peers.iter().try_for_each(|peer| sessions.add_peer(peer.clone()).map(|_| ()))?;
        Ok(sessions)
    }

    /// Adds a peer under the lowest free number.
    ///
    /// # Errors
    /// [`PeerError`]. The table is then unchanged.
    pub fn add_peer(&mut self, config: SessionPeerConfig) -> Result<PeerId, PeerError> {
        if config.public_key == self.identity.public_key() {
            return Err(PeerError::Myself);
        }
        if self.by_key.contains_key(&config.public_key) {
            return Err(PeerError::Duplicate);
        }
        let slot = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        let id = PeerId(u16::try_from(slot).map_err(|_| PeerError::TooMany)?);
        let psk = config.preshared_key.filter(|_| !planted::is(Fault::PresharedKeyIgnored));
        let psk = psk.unwrap_or_else(PresharedKey::none);
        let peer = PeerSession::new(config.public_key, psk, self.rng.next_u64());
        match self.peers.get_mut(slot) {
            Some(free) => *free = Some(peer),
            None => self.peers.push(Some(peer)),
        }
        self.by_key.insert(config.public_key, id);
        Ok(id)
    }

    /// Sets the pre-shared key that later handshakes with a peer use; `None`: none.
    pub fn set_preshared_key(&mut self, id: PeerId, preshared_key: Option<PresharedKey>) {
        if let Some(peer) = self.peer_mut(id) {
            peer.psk = preshared_key.unwrap_or_else(PresharedKey::none);
        }
    }

    /// Removes a peer with its session keys and its accepted stamps. Returns true if the peer existed.
    ///
    /// Other peers keep their numbers.
    pub fn remove_peer(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(usize::from(id.0)).and_then(Option::take) else { return false };
        self.by_key.remove(&peer.public);
        if let Some(answered) = &peer.answered {
            self.answered.remove(&answered.mac1);
        }
        peer.keys.iter().for_each(|key| self.indices.free_key(key));
        if let Some(pending) = &peer.pending {
            self.indices.free(pending.index);
        }
        self.refresh_timeout(id);
        true
    }

    /// Ends all session keys with a peer, and ignores the peer's later handshakes.
    ///
    /// The peer keeps its number until [`Sessions::remove_peer`] removes it.
    pub fn bar_peer(&mut self, id: PeerId) {
        let Some(key) = self.peer(id).map(|peer| peer.public) else { return };
        self.remove_peer(id);
        if let Some(slot) = self.peers.get_mut(usize::from(id.0)) {
            let mut barred = PeerSession::new(key, PresharedKey::none(), 0);
            barred.is_barred = true;
            *slot = Some(barred);
            self.by_key.insert(key, id);
        }
    }

    /// Adds fresh entropy to the state from which random numbers derive: 32 secret bytes that are used only once.
    ///
    /// Without it, all random numbers derive from the seed.
    pub fn reseed(&mut self, entropy: [u8; 32]) {
        self.rng.reseed(entropy);
        self.wants_entropy = false;
    }

    /// True if a handshake used randomness since [`Sessions::reseed`], so that the caller should call it again.
    ///
    /// With fresh entropy for each handshake, an attacker that read this table's memory once cannot predict later keys.
    pub fn wants_entropy(&self) -> bool {
        self.wants_entropy
    }

    /// Ends all session keys with a peer and the handshake in progress at once.
    ///
    /// Nothing can be sealed until the next handshake succeeds. This handshake carries a new association, so the peer
    /// also drops its old keys. Stamps up to the highest accepted stamp stay refused.
    pub fn forget_keys(&mut self, id: PeerId) {
        if planted::is(Fault::KeysKeptAfterSleep) {
            return;
        }
        let Sessions { peers, indices, answered, rng, .. } = self;
        let Some(peer) = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut) else { return };
        peer.association = rng.next_u64();
        peer.keys.retain(|_| false, |key| indices.free_key(key));
        if let Some(pending) = peer.pending.take() {
            indices.free(pending.index);
        }
        if let Some(before) = peer.answered.take() {
            answered.remove(&before.mac1);
        }
        peer.established = None;
        self.refresh_timeout(id);
    }

    /// Sets the certificate that this node presents in handshakes. With `None` it presents no certificate.
    ///
    /// It is part of every later initiation, and of responses to initiators that present a certificate.
    pub fn set_certificate(&mut self, certificate: Option<&Certificate>) {
        self.certificate = certificate.map_or_else(Vec::new, |certificate| certificate.encoded().to_vec());
    }

    /// Returns the certificate that a peer presented last, encoded and unchecked.
    ///
    /// It is empty if the peer presented none.
    pub fn shown_certificate(&self, peer: PeerId) -> &[u8] {
        self.peer(peer).map_or(&[], |peer| &peer.certificate)
    }

    /// Returns this node's own public key.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public_key()
    }

    /// Signs a message with this node's static key ([`Identity::sign`]).
    pub fn sign(&self, label: &[u8], message: &[u8]) -> [u8; SIGNATURE_LEN] {
        self.identity.sign(label, message)
    }

    /// Returns the number of the peer with this public key. Returns `None` if no peer has it.
    pub fn peer_by_key(&self, key: &PublicKey) -> Option<PeerId> {
        self.by_key.get(key).copied()
    }

    /// True if packets to this peer can be sealed now.
    pub fn is_established(&self, peer: PeerId) -> bool {
        self.established_since(peer).is_some()
    }

    /// Returns the time since which packets to this peer could be sealed without interruption.
    ///
    /// Returns `None` if none can be sealed now. A restart of the peer begins a new period.
    pub fn established_since(&self, peer: PeerId) -> Option<Instant> {
        self.peer(peer)?.established
    }

    /// Returns the highest stamp accepted from each peer, for storage.
    ///
    /// Without the stored stamps, an attacker could replay old initiations after a restart of this node.
    pub fn accepted_stamps(&self) -> impl Iterator<Item = (PublicKey, u64)> {
        self.peers.iter().flatten().filter_map(|peer| Some((peer.public, peer.accepted_stamps.highest?)))
    }

    /// Makes this node refuse the peer's initiations with stamps up to and including `stamp`.
    ///
    /// It never lowers the highest accepted stamp.
    pub fn restore_accepted_stamp(&mut self, peer: PeerId, stamp: u64) {
        if let Some(peer) = self.peer_mut(peer) {
            let highest = &mut peer.accepted_stamps.highest;
            *highest = (*highest).max(Some(stamp));
        }
    }

    /// Forgets the stamps that this node accepted from this peer, and those that it sent to this peer.
    ///
    /// This node may then answer a recorded initiation that an attacker replays.
    pub fn reset_stamps(&mut self, peer: PeerId) {
        if let Some(peer) = self.peer_mut(peer) {
            (peer.accepted_stamps, peer.sent_stamps) = Default::default();
        }
    }

    /// Returns whether two nodes recently used this peer's key, and whether two nodes used this node's key.
    ///
    /// This node detects the first itself. The peer reports the second.
    pub fn shared_keys(&self, now: Instant, peer: PeerId) -> (bool, bool) {
        self.peer(peer).map_or((false, false), |peer| (peer.shared.is_peers(now), peer.shared.is_own(now)))
    }

    /// Sets the wall clock: at `now` it shows `unix_ns`, in nanoseconds since 1970.
    ///
    /// Stamps that are too far ahead of this clock are refused.
    pub fn set_unix_time(&mut self, now: Instant, unix_ns: u64) {
        self.stamp_clock.set(now, unix_ns);
    }

    /// Returns the refusal of the last initiation that [`Sessions::handle`] processed, if a peer's stamp was refused.
    pub fn take_refusal(&mut self) -> Option<StampRefusal> {
        self.refusal.take()
    }

    /// Returns the public key of the sender of the last initiation, if it was authentic and the sender is not a peer.
    ///
    /// The last initiation is the last one that [`Sessions::handle`] processed.
    pub fn take_stranger(&mut self) -> Option<PublicKey> {
        self.stranger.take()
    }

    /// Returns the peer from which a response claims to come: the one with the pending initiation that it answers.
    ///
    /// Returns `None` for other datagrams.
    pub fn answers(&self, datagram: &[u8]) -> Option<PeerId> {
        let response = HandshakeResponse::parse(datagram).ok()?;
        match self.indices.get(response.receiver) {
            Some(IndexTarget::Handshake(peer)) => Some(peer),
            _ => None,
        }
    }

    fn peer(&self, id: PeerId) -> Option<&PeerSession> {
        self.peers.get(usize::from(id.0))?.as_ref()
    }

    fn peer_mut(&mut self, id: PeerId) -> Option<&mut PeerSession> {
        self.peers.get_mut(usize::from(id.0))?.as_mut()
    }
}
