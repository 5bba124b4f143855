//! Certificates and revocations in the running node.

use super::clock::Clock;
use super::log::Log;
use crate::config::{Config, prefix};
use crate::date::rfc_3339;
use weft_engine::{CertifiedPeer, Engine, Prefix, TrustConfig};
use weft_session::{Certificate, PublicKey, Revocation};
use weft_units::PeerId;

/// Configures which certificates the engine accepts, and the one that it shows.
///
/// `revocations` are stored ones that the engine may not yet have.
pub fn set(
    engine: &mut Engine,
    clock: Clock,
    config: &Config,
    certificate: Option<Certificate>,
    revocations: Vec<Revocation>,
) {
    let trust = config.network.as_ref().map(|network| TrustConfig {
        root: network.root.value,
        certificate,
        own: config.tun.addresses.iter().map(|prefix| prefix.address).collect(),
        policy: config.policy.clone(),
        revocations,
    });
    engine.set_trust(clock.now(), clock.unix_s(), trust);
}

/// Applies a revocation given as text.
///
/// # Errors
/// Returns the reason why the revocation has no effect, as text for a reader.
pub fn revoke(engine: &mut Engine, clock: Clock, text: &str) -> Result<(), String> {
    let wrong = |_| "the request has no revocation, as `weft ca revoke` writes it".to_owned();
    let revocation: Revocation = text.parse().map_err(wrong)?;
    engine.revoke(clock.now(), &revocation).map(|_| ()).map_err(|why| why.to_string())
}

/// Returns the prefixes of all peers with certificates.
pub fn prefixes(engine: &Engine) -> Vec<Prefix> {
    let claimed = engine.certified_peers().flat_map(|CertifiedPeer { certificate, .. }| &certificate.claims().prefixes);
    claimed.map(|&(address, length)| Prefix { address, length }).collect()
}

/// Returns the log line about a peer that joined.
///
/// `name` is the peer's name, safe to print.
pub fn joined(engine: &Engine, peer: PeerId, name: &str) -> String {
    let Some(of) = engine.certified_peers().find(|of| of.peer == peer) else {
        return format!("peer {name} joined this node, but was removed again before this line was written");
    };
    let claims = of.certificate.claims();
    let prefixes: Vec<String> =
        claims.prefixes.iter().map(|&(address, length)| prefix::text(Prefix { address, length })).collect();
    let (prefixes, until) = (prefixes.join(" "), rfc_3339(claims.not_after_unix_s));
    format!("peer {name} joined: its certificate is valid until {until}, with the prefixes {prefixes}")
}

/// Logs a revocation.
///
/// A revocation of this node's key is logged as an error: other nodes will soon end their sessions with this node.
pub fn log_revoked(revocation: &Revocation, own: &PublicKey, log: Log) {
    let key = revocation.public_key();
    if key == *own {
        log.error("this node's own key was revoked: make a new key and have it signed with: weft ca sign");
    } else {
        log.info(format_args!("key {key} was revoked: this node refuses its owner from now on"));
    }
}
