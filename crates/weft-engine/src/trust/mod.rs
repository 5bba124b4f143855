//! Whom a node trusts beside the peers it was told of: those with a certificate from the network's root key, unless it was revoked.
//!
//! A configured peer needs no certificate, and where both speak of the same the configuration wins. A revocation holds for both.

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

/// What a node needs to know to trust certificates.
#[derive(Clone, Debug)]
pub struct TrustConfig {
    /// The network's root key.
    pub root: RootPublicKey,
    /// What this node shows of itself.
    pub certificate: Option<Certificate>,
    /// Addresses of this node in the default VPN, which nobody else may claim.
    pub own: Vec<IpAddr>,
    /// How to send to peers that come by certificate.
    pub policy: Policy,
    /// What was revoked before, as persisted; what the root has not signed counts for nothing.
    pub revocations: Vec<Revocation>,
}

/// Why a certificate does not make its owner a peer here. Nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// It does not hold.
    Certificate(CertificateError),
    /// Another peer has its name.
    Name,
    /// This prefix of it is, or overlaps with, one of that peer.
    Overlap {
        /// The prefix.
        prefix: Prefix,
        /// Whose it is; none: this node's own address lies in it.
        with: Option<String>,
    },
    /// This prefix of it takes something away from the machine.
    Outside {
        /// The prefix.
        prefix: Prefix,
        /// What it takes.
        clash: Clash,
    },
    /// There are as many such peers as there may be.
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
                write!(f, "its prefix {}/{} is not taken: {clash}", prefix.address, prefix.length)
            }
            Rejection::TooMany => f.write_str("too many peers have come by certificate"),
        }
    }
}

/// A peer that came by certificate, as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub struct CertifiedPeer<'a> {
    /// Its number.
    pub peer: PeerId,
    /// What it showed.
    pub certificate: &'a Certificate,
}

/// What a node trusts, and whom it has taken in for it.
#[derive(Default)]
pub(crate) struct Trust {
    config: Option<TrustConfig>,
    /// A moment, and the wall clock then in seconds since 1970.
    clock: (Instant, u64),
    certified: BTreeMap<PeerId, Certified>,
    outside: Outside,
    pub(crate) revocations: Revocations,
    refusals: Refusals,
    /// The highest handshake stamps accepted from those who are no peers now: their old initiations are of no use.
    stamps: BTreeMap<PublicKey, u64>,
    next_look: Option<Instant>,
}

impl Trust {
    pub(crate) fn new(stamps: &[(PublicKey, u64)]) -> Trust {
        Trust { stamps: stamps.iter().copied().collect(), ..Trust::default() }
    }

    /// Seconds since 1970.
    pub(crate) fn unix_s(&self, now: Instant) -> u64 {
        let (at, unix_s) = self.clock;
        unix_s.saturating_add((now - at).as_secs())
    }

    /// Takes in what a peer says is revoked; it is acted upon by [`crate::Engine`].
    ///
    /// # Errors
    /// [`RevokeError`].
    pub(crate) fn take_revocation(&mut self, revocation: &Revocation) -> Result<bool, RevokeError> {
        let root = self.config.as_ref().ok_or(RevokeError::NoRoot)?.root;
        self.revocations.take(&root, revocation)
    }

    /// Whether a peer came by certificate.
    pub(crate) fn is_certified(&self, peer: PeerId) -> bool {
        self.certified.contains_key(&peer)
    }

    /// The certificate by which a peer came; `None` for a configured one.
    pub(crate) fn certificate_of(&self, peer: PeerId) -> Option<&Certificate> {
        self.certified.get(&peer).map(|certified| &certified.certificate)
    }

    /// Whether a peer may pass datagrams on: a configured one may, another if its certificate says so.
    pub(crate) fn may_relay(&self, peer: PeerId) -> bool {
        self.certified.get(&peer).is_none_or(|certified| certified.certificate.claims().may_relay)
    }

    /// Whether this node has a certificate to show.
    pub(crate) fn shows_certificate(&self) -> bool {
        self.config.as_ref().is_some_and(|config| config.certificate.is_some())
    }

    /// What this node shows of itself.
    pub(crate) fn own_certificate(&self) -> Option<&Certificate> {
        self.config.as_ref()?.certificate.as_ref()
    }

    /// How to send to peers by certificate; none where this node has none itself.
    pub(crate) fn policy_of_certified(&self) -> Option<Policy> {
        self.config.as_ref().filter(|config| config.certificate.is_some()).map(|config| config.policy.clone())
    }

    /// Forgets the stamps of a key.
    pub(crate) fn forget_stamp(&mut self, key: &PublicKey) {
        self.stamps.remove(key);
    }

    /// Old initiations of a peer that was one before stay of no use.
    pub(crate) fn restore_stamp(&self, sessions: &mut Sessions, peer: PeerId, key: &PublicKey) {
        if let Some(stamp) = self.stamps.get(key) {
            sessions.restore_accepted_stamp(peer, *stamp);
        }
    }

    /// When to look after the peers that came by certificate.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.next_look.filter(|_| !self.certified.is_empty())
    }
}
