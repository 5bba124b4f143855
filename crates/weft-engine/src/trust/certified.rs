//! Peers that joined by certificate, and nodes that were refused.
//!
//! A certificate must be signed by the network's root and not revoked.

use crate::api::{PeerConfig, Prefix, TrustConfig};
use crate::trust::Trust;
use alloc::vec::Vec;
use weft_session::{Certificate, CertificateError, Claims, PublicKey};
use weft_units::planted::{self, Fault};
use weft_units::{Duration, Instant, PeerId};

/// Interval between two reports about one refused node that keeps trying.
const REPORT_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of refused nodes that are remembered, so that not each of their attempts is reported.
const MAX_REFUSALS: usize = 256;

/// A peer that joined by certificate.
pub struct Certified {
    pub certificate: Certificate,
    /// Time since which there is no session; `None` while there is one.
    pub alone_since: Option<Instant>,
}

/// Nodes whose certificates were refused recently, and the time at which each refusal was reported.
#[derive(Default)]
pub struct Refusals(Vec<(PublicKey, Instant)>);

impl Refusals {
    /// Records that this node refused the node with `key`. Returns true if the refusal must be reported.
    ///
    /// It need not be if one was reported in the last [`REPORT_INTERVAL`], or if [`MAX_REFUSALS`] nodes are recorded.
    pub fn are_news(&mut self, now: Instant, key: PublicKey) -> bool {
        self.0.retain(|(_, at)| now - *at < REPORT_INTERVAL);
        let is_new = self.0.len() < MAX_REFUSALS && !self.0.iter().any(|(known, _)| *known == key);
        if is_new {
            self.0.push((key, now));
        }
        is_new
    }
}

pub fn prefixes(claims: &Claims) -> impl Iterator<Item = Prefix> {
    claims.prefixes.iter().map(|&(address, length)| Prefix { address, length })
}

impl Trust {
    pub fn peer_config(&self, claims: &Claims) -> Option<PeerConfig> {
        Some(PeerConfig {
            preshared_key: None,
            name: claims.name.clone(),
            public_key: claims.public_key,
            endpoints: Vec::new(),
            routes: Vec::new(),
            prefixes: prefixes(claims).collect(),
            policy: self.config.as_ref()?.policy.clone(),
        })
    }

    /// Fails if a certificate is not valid now, is not signed by the root, or if its key was revoked.
    pub fn check(&self, now: Instant, config: &TrustConfig, certificate: &Certificate) -> Result<(), CertificateError> {
        config.root.check(certificate, self.unix_s(now))?;
        if self.revocations.has(&certificate.claims().public_key) && !planted::is(Fault::RevokedMayJoin) {
            return Err(CertificateError::Revoked);
        }
        Ok(())
    }

    /// True if an encoded certificate has expired or cannot be decoded, or if its key was revoked.
    ///
    /// The signature is not checked again.
    pub fn has_lapsed(&self, now: Instant, encoded: &[u8]) -> bool {
        let certificate = Certificate::decode(encoded);
        certificate.map_or(true, |certificate| {
            let claims = certificate.claims();
            self.unix_s(now) > claims.not_after_unix_s || self.revocations.has(&claims.public_key)
        })
    }

    /// Returns for how many seconds a certificate stays valid, or `None` if it is not valid now.
    pub fn holds_for_s(&self, now: Instant, certificate: &Certificate) -> Option<u64> {
        self.check(now, self.config.as_ref()?, certificate).ok()?;
        Some(certificate.claims().not_after_unix_s - self.unix_s(now))
    }

    /// Returns the peers to remove, each with the reason: expired certificate, or no session for the time `keep`.
    pub fn leaving(
        &mut self,
        now: Instant,
        has_session: impl Fn(PeerId) -> bool,
        keep: Duration,
    ) -> Vec<(PeerId, &'static str)> {
        let unix_s = self.unix_s(now);
        let leaves = |(id, certified): (&PeerId, &mut Certified)| {
            let has_session = has_session(*id);
            let alone_since = certified.alone_since.filter(|_| !has_session);
            certified.alone_since = if has_session { None } else { Some(alone_since.unwrap_or(now)) };
            if unix_s > certified.certificate.claims().not_after_unix_s && !planted::is(Fault::ExpiryNotSeen) {
                Some((*id, "its certificate has expired"))
            } else if alone_since.is_some_and(|since| now - since >= keep) {
                Some((*id, "the session ended"))
            } else {
                None
            }
        };
        self.certified.iter_mut().filter_map(leaves).collect()
    }
}
