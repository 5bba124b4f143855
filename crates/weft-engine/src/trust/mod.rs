//! Trust by certificate: nodes with an unrevoked certificate of the root key become peers.
//!
//! A configured peer needs no certificate. In a conflict, the configuration overrides certificates. A revocation
//! applies to both kinds of peers.

mod certified;
mod outside;
mod revocations;

pub use outside::{Clash, Outside};
pub(crate) use revocations::Revocations;
pub use revocations::RevokeError;

use crate::config::{Policy, Prefix};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use certified::{Certified, Refusals};
use core::fmt;
use core::net::IpAddr;
use weft_session::{Certificate, CertificateError, PublicKey, Revocation, RootPublicKey, Sessions};
use weft_units::{Instant, PeerId};

/// Configuration of trust in certificates.
#[derive(Clone, Debug)]
pub struct TrustConfig {
    /// The network's root key.
    pub root: RootPublicKey,
    /// This node's own certificate, which it shows in handshakes.
    pub certificate: Option<Certificate>,
    /// Addresses of this node in the default VPN. No certificate may claim them.
    pub own: Vec<IpAddr>,
    /// Policy for peers that join by certificate.
    pub policy: Policy,
    /// Revocations that the program stored on disk. Those not signed by the root are ignored.
    pub revocations: Vec<Revocation>,
}

/// The reason for which a certificate does not make its owner a peer. Nothing has changed in that case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The certificate is not valid.
    Certificate(CertificateError),
    /// Another peer has the same name.
    Name,
    /// A prefix equals or overlaps with a prefix of another peer.
    Overlap {
        /// The prefix.
        prefix: Prefix,
        /// Name of that peer. `None`: the prefix contains an address of this node.
        with: Option<String>,
    },
    /// A prefix conflicts with this machine's networks or with an outer address.
    Outside {
        /// The prefix.
        prefix: Prefix,
        /// The conflict.
        clash: Clash,
    },
    /// The limit on certified peers is reached.
    TooMany,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Certificate(why) => write!(f, "its certificate is {why}"),
            Rejection::Name => f.write_str("another peer has this name"),
            Rejection::Overlap { prefix, with } => {
                let with = with.as_deref().unwrap_or("this node");
                write!(f, "its prefix {}/{} overlaps with one of {with}", prefix.address, prefix.length)
            }
            Rejection::Outside { prefix, clash } => {
                write!(f, "its prefix {}/{} is rejected: {clash}", prefix.address, prefix.length)
            }
            Rejection::TooMany => f.write_str("too many peers have joined by certificate"),
        }
    }
}

/// A peer that joined by certificate, for status output.
#[derive(Clone, Copy, Debug)]
pub struct CertifiedPeer<'a> {
    /// The peer's number.
    pub peer: PeerId,
    /// The certificate that the peer showed.
    pub certificate: &'a Certificate,
}

/// A node's trust configuration, and the peers that joined by certificate.
#[derive(Default)]
pub(crate) struct Trust {
    config: Option<TrustConfig>,
    /// A point in time, and the wall clock at that time in seconds since 1970.
    clock: (Instant, u64),
    certified: BTreeMap<PeerId, Certified>,
    outside: Outside,
    pub(crate) revocations: Revocations,
    refusals: Refusals,
    /// Highest handshake stamps accepted from former peers.
    ///
    /// A replay of their initiations is therefore rejected.
    stamps: BTreeMap<PublicKey, u64>,
    next_look: Option<Instant>,
}

impl Trust {
    pub(crate) fn new(stamps: &[(PublicKey, u64)]) -> Trust {
        Trust { stamps: stamps.iter().copied().collect(), ..Trust::default() }
    }

    /// Returns the wall clock in seconds since 1970.
    pub(crate) fn unix_s(&self, now: Instant) -> u64 {
        let (at, unix_s) = self.clock;
        unix_s.saturating_add((now - at).as_secs())
    }

    /// Stores a revocation from a peer. [`crate::Engine`] acts on it later.
    ///
    /// # Errors
    /// Fails with [`RevokeError`].
    pub(crate) fn take_revocation(&mut self, revocation: &Revocation) -> Result<bool, RevokeError> {
        let root = self.config.as_ref().ok_or(RevokeError::NoRoot)?.root;
        self.revocations.take(&root, revocation)
    }

    /// True if a peer joined by certificate.
    pub(crate) fn is_certified(&self, peer: PeerId) -> bool {
        self.certified.contains_key(&peer)
    }

    /// Returns the certificate by which a peer joined, or `None` for a configured peer.
    pub(crate) fn certificate_of(&self, peer: PeerId) -> Option<&Certificate> {
        self.certified.get(&peer).map(|certified| &certified.certificate)
    }

    /// True if a peer may forward datagrams of others.
    ///
    /// A configured peer may. A certified peer may if its certificate allows relaying.
    pub(crate) fn may_relay(&self, peer: PeerId) -> bool {
        self.certified.get(&peer).is_none_or(|certified| certified.certificate.claims().may_relay)
    }

    /// True if this node has a certificate to show.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.certificate.is_some())
    }

    /// Returns this node's own certificate.
    pub(crate) fn own_certificate(&self) -> Option<&Certificate> {
        self.config.as_ref()?.certificate.as_ref()
    }

    /// Returns the policy for certified peers, or `None` if this node has no certificate itself.
    pub(crate) fn policy_of_certified(&self) -> Option<Policy> {
        self.config.as_ref().filter(|config| config.certificate.is_some()).map(|config| config.policy.clone())
    }

    /// Forgets the accepted stamp of a key.
    pub(crate) fn forget_stamp(&mut self, key: &PublicKey) {
        self.stamps.remove(key);
    }

    /// Restores the highest accepted stamp of a former peer.
    ///
    /// A replay of its initiations is therefore rejected.
    pub(crate) fn restore_stamp(&self, sessions: &mut Sessions, peer: PeerId, key: &PublicKey) {
        if let Some(stamp) = self.stamps.get(key) {
            sessions.restore_accepted_stamp(peer, *stamp);
        }
    }

    /// Returns the time of the next check of certified peers.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.next_look.filter(|_| !self.certified.is_empty())
    }
}
