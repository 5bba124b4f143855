//! The table of all peers.

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
use crate::index::{IndexTable, Target};
use crate::keys::Cipher;
use crate::peer::Peer;
use crate::random::SecretRng;
use crate::stamps::{Refusal, StampClock};
use std::collections::BTreeMap;
use weft_units::planted::{self, Fault};
use weft_units::{Instant, PeerId, Tournament};
use weft_wire::handshake::{MAC_LEN, Response};

pub use exchange::Outcome;
pub use packets::{Opened, Relayed};
pub use timeouts::Action;
pub use vpns::VpnStanding;

/// What a node must know of a peer beforehand.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The peer's static public key.
    pub public_key: PublicKey,
    /// A secret shared with it beside the static keys, if there is one.
    pub preshared_key: Option<PresharedKey>,
}

impl From<PublicKey> for PeerConfig {
    fn from(public_key: PublicKey) -> PeerConfig {
        PeerConfig { public_key, preshared_key: None }
    }
}

/// The secure sessions of a node with all its peers.
///
/// Whoever owns it calls [`Sessions::handle_timeout`] at [`Sessions::next_timeout`]; keys end by that call.
pub struct Sessions {
    identity: Identity,
    mac_keys: MacKeys,
    cipher: Cipher,
    /// What this node shows in its handshakes; empty without a certificate.
    certificate: Vec<u8>,
    rng: SecretRng,
    /// A handshake used randomness since fresh entropy came in.
    wants_entropy: bool,
    cookies: CookieMaker,
    admission: Admission,
    peers: Vec<Option<Peer>>,
    by_key: BTreeMap<PublicKey, PeerId>,
    /// Whose initiation was answered last, by the initiation's MAC1.
    answered: BTreeMap<[u8; MAC_LEN], PeerId>,
    indices: IndexTable,
    stamp_clock: StampClock,
    refusal: Option<Refusal>,
    /// Who sent the initiation taken last, if it was authentic and of no peer.
    stranger: Option<PublicKey>,
    /// The latest time this table was told.
    now: Instant,
    /// When something is due with each peer.
    timeouts: Tournament<Instant>,
}

impl Sessions {
    /// A table with these peers, numbered from 0 in this order.
    ///
    /// `cipher` is the one this node prefers. `seed` must be secret and never used twice: all randomness comes from it.
    ///
    /// # Errors
    /// [`PeerError`] for a peer that cannot be added.
    pub fn new(
        identity: Identity,
        peers: &[PeerConfig],
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
    /// [`PeerError`]; nothing has changed then.
    pub fn add_peer(&mut self, config: PeerConfig) -> Result<PeerId, PeerError> {
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
        let peer = Peer::new(config.public_key, psk, self.rng.next_u64());
        match self.peers.get_mut(slot) {
            Some(free) => *free = Some(peer),
            None => self.peers.push(Some(peer)),
        }
        self.by_key.insert(config.public_key, id);
        Ok(id)
    }

    /// The secret that handshakes with a peer use from now on beside the static keys; `None` for none.
    pub fn set_preshared_key(&mut self, id: PeerId, preshared_key: Option<PresharedKey>) {
        if let Some(peer) = self.peer_mut(id) {
            peer.psk = preshared_key.unwrap_or_else(PresharedKey::none);
        }
    }

    /// Forgets a peer, its keys and its accepted stamp; the others keep their numbers. Whether there was one.
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

    /// Ends all keys with a peer and meets it with silence from now on. Its number stays taken until it is removed.
    pub fn bar_peer(&mut self, id: PeerId) {
        let Some(key) = self.peer(id).map(|peer| peer.public) else { return };
        self.remove_peer(id);
        if let Some(slot) = self.peers.get_mut(usize::from(id.0)) {
            let mut barred = Peer::new(key, PresharedKey::none(), 0);
            barred.is_barred = true;
            *slot = Some(barred);
            self.by_key.insert(key, id);
        }
    }

    /// Mixes fresh entropy in: 32 bytes that are secret and used once. Without it the stream of the seed goes on.
    pub fn reseed(&mut self, entropy: [u8; 32]) {
        self.rng.reseed(entropy);
        self.wants_entropy = false;
    }

    /// Returns whether a handshake used randomness since [`Sessions::reseed`].
    ///
    /// With fresh entropy for each handshake, an attacker that read this table's memory once cannot predict later keys.
    pub fn wants_entropy(&self) -> bool {
        self.wants_entropy
    }

    /// Ends all keys with a peer and the pending handshake at once.
    ///
    /// Nothing can be sealed until the next handshake succeeds. That handshake carries a new association, so the peer starts anew as well.
    /// Stamps accepted before stay refused.
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

    /// Shows this certificate in every initiation from now on, and in answers to those who show one, or none.
    pub fn set_certificate(&mut self, certificate: Option<&Certificate>) {
        self.certificate = certificate.map_or_else(Vec::new, |certificate| certificate.encoded().to_vec());
    }

    /// The certificate a peer showed in the last handshake, encoded and unchecked; empty if it showed none.
    pub fn shown_certificate(&self, peer: PeerId) -> &[u8] {
        self.peer(peer).map_or(&[], |peer| &peer.certificate)
    }

    /// This node's own public key.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public_key()
    }

    /// The number of the peer with this key.
    pub fn peer_by_key(&self, key: &PublicKey) -> Option<PeerId> {
        self.by_key.get(key).copied()
    }

    /// Whether packets to this peer can be sealed now.
    pub fn is_established(&self, peer: PeerId) -> bool {
        self.established_since(peer).is_some()
    }

    /// Since when packets to this peer could be sealed without a break; a peer that restarted begins anew.
    pub fn established_since(&self, peer: PeerId) -> Option<Instant> {
        self.peer(peer)?.established
    }

    /// The highest stamp accepted from each peer, to be stored: without it, old initiations could be replayed after a restart.
    pub fn accepted_stamps(&self) -> impl Iterator<Item = (PublicKey, u64)> {
        self.peers.iter().flatten().filter_map(|peer| Some((peer.public, peer.accepted_stamps.highest?)))
    }

    /// Refuses initiations of this peer up to and including `stamp`. Never lowers what was accepted.
    pub fn restore_accepted_stamp(&mut self, peer: PeerId, stamp: u64) {
        if let Some(peer) = self.peer_mut(peer) {
            let highest = &mut peer.accepted_stamps.highest;
            *highest = (*highest).max(Some(stamp));
        }
    }

    /// Forgets what was accepted from this peer, and what it told of this node's stamps. Recorded initiations may be answered once more.
    pub fn reset_stamps(&mut self, peer: PeerId) {
        if let Some(peer) = self.peer_mut(peer) {
            (peer.accepted_stamps, peer.sent_stamps) = Default::default();
        }
    }

    /// Whether two nodes lately used this peer's key, and whether two used this node's, as the peer says.
    pub fn shared_keys(&self, now: Instant, peer: PeerId) -> (bool, bool) {
        self.peer(peer).map_or((false, false), |peer| (peer.shared.is_peers(now), peer.shared.is_own(now)))
    }

    /// The wall clock in nanoseconds since 1970: stamps far ahead of it are refused.
    pub fn set_unix_time(&mut self, now: Instant, unix_ns: u64) {
        self.stamp_clock.set(now, unix_ns);
    }

    /// The refusal of the initiation that [`Sessions::handle`] took last, if it was authentic and of a peer.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// The key that sent the initiation that [`Sessions::handle`] took last, if it was authentic and of no peer.
    pub fn take_stranger(&mut self) -> Option<PublicKey> {
        self.stranger.take()
    }

    /// The peer whose answer this handshake datagram claims to be: it names an initiation that is under way.
    pub fn answers(&self, datagram: &[u8]) -> Option<PeerId> {
        let response = Response::parse(datagram).ok()?;
        match self.indices.get(response.receiver) {
            Some(Target::Handshake(peer)) => Some(peer),
            _ => None,
        }
    }

    fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(usize::from(id.0))?.as_ref()
    }

    fn peer_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(id.0))?.as_mut()
    }
}
