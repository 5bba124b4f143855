//! Trust by certificate: nodes with an unrevoked certificate of the root key become peers.
//!
//! A configured peer needs no certificate. In a conflict, the configuration overrides certificates. A revocation
//! applies to configured peers and to certified peers.

pub mod certified;
pub mod revocations;

pub use revocations::Revocations;

use crate::api::{Outside, Policy, RevokeError, TrustConfig};
use alloc::collections::BTreeMap;
use certified::{Certified, Refusals};
use weft_session::{Certificate, PublicKey, Revocation, Sessions};
use weft_units::{Instant, PeerId};

/// A node's trust configuration, and the peers that joined by certificate.
#[derive(Default)]
pub struct Trust {
    pub config: Option<TrustConfig>,
    /// A point in time, and the wall clock at that time in seconds since 1970.
    pub clock: (Instant, u64),
    pub certified: BTreeMap<PeerId, Certified>,
    pub outside: Outside,
    pub revocations: Revocations,
    pub refusals: Refusals,
    /// Highest handshake stamps accepted from former peers, by key.
    ///
    /// A replay of their initiations is therefore rejected.
    pub stamps: BTreeMap<PublicKey, u64>,
    pub next_look: Option<Instant>,
}

impl Trust {
    pub fn new(stamps: &[(PublicKey, u64)]) -> Trust {
        Trust { stamps: stamps.iter().copied().collect(), ..Trust::default() }
    }

    /// Returns the wall clock in seconds since 1970.
    pub fn unix_s(&self, now: Instant) -> u64 {
        let (at, unix_s) = self.clock;
        unix_s.saturating_add((now - at).as_secs())
    }

    /// Stores a revocation from a peer. Returns false if it was stored already.
    ///
    /// [`crate::Engine`] acts on it later.
    ///
    /// # Errors
    /// Fails with [`RevokeError`].
    pub fn take_revocation(&mut self, revocation: &Revocation) -> Result<bool, RevokeError> {
        let root = self.config.as_ref().ok_or(RevokeError::NoRoot)?.root;
        self.revocations.take(&root, revocation)
    }

    /// True if a peer joined by certificate.
    pub fn is_certified(&self, peer: PeerId) -> bool {
        self.certified.contains_key(&peer)
    }

    /// Returns the certificate by which a peer joined, or `None` for a configured peer.
    pub fn certificate_of(&self, peer: PeerId) -> Option<&Certificate> {
        self.certified.get(&peer).map(|certified| &certified.certificate)
    }

    /// True if a peer may forward datagrams of others.
    ///
    /// A configured peer may. A certified peer may if its certificate allows relaying.
    pub fn may_relay(&self, peer: PeerId) -> bool {
        self.certified.get(&peer).is_none_or(|certified| certified.certificate.claims().may_relay)
    }

    /// True if this node has a certificate to send in handshakes.
    pub fn shows_certificate(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.certificate.is_some())
    }

    /// Returns this node's own certificate, or `None` if it has none.
    pub fn own_certificate(&self) -> Option<&Certificate> {
        self.config.as_ref()?.certificate.as_ref()
    }

    /// Returns the policy for certified peers, or `None` if this node has no certificate itself.
    pub fn policy_of_certified(&self) -> Option<Policy> {
        self.config.as_ref().filter(|config| config.certificate.is_some()).map(|config| config.policy.clone())
    }

    /// Forgets the highest accepted handshake stamp of a former peer's key.
    pub fn forget_stamp(&mut self, key: &PublicKey) {
        self.stamps.remove(key);
    }

    /// Restores the highest handshake stamp that was accepted from a former peer.
    ///
    /// A replay of its initiations is therefore rejected.
    pub fn restore_stamp(&self, sessions: &mut Sessions, peer: PeerId, key: &PublicKey) {
        if let Some(stamp) = self.stamps.get(key) {
            sessions.restore_accepted_stamp(peer, *stamp);
        }
    }

    /// Returns the time of the next check of certified peers, or `None` if there are none.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_look.filter(|_| !self.certified.is_empty())
    }
}
