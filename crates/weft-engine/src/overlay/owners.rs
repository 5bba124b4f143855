//! The directory of the owners of prefixes, and the packets that wait until the owner of their destination is found.
//!
//! The state machine is weft-core's ([`weft_core::route::ownership`]). It accepts only claims signed by the network's
//! root key.

use crate::api::Contact;
use crate::trust::Trust;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::pool::BufId;
use weft_core::route::ownership::{CertificateGrant, DirectoryAuthority, OwnershipDirectory};
use weft_session::{Certificate, place_of};
use weft_units::{Duration, Instant, NodeId};
use weft_wire::ownership::{Claim, ClaimMessage, ClaimVerdict};
use weft_wire::super_packet::SuperPacket;

/// A packet that waits until the owner of its destination is found.
#[derive(Debug)]
pub struct WaitingPacket {
    pub buf: BufId,
    pub shape: SuperPacket,
}

/// The lookup of an address's owner, and the packets for the address that wait for its result.
#[derive(Debug)]
pub struct Sought {
    pub until: Instant,
    pub waiting: Vec<WaitingPacket>,
}

/// The directory of the owners of prefixes, and the lookups in progress.
pub struct Owners {
    pub directory: OwnershipDirectory,
    pub sought: BTreeMap<IpAddr, Sought>,
    pub refused: BTreeSet<(NodeId, ClaimVerdict)>,
}

impl Owners {
    pub fn next_timeout(&self) -> Instant {
        let until = self.sought.values().map(|sought| sought.until).min();
        self.directory.next_timeout().min(until.unwrap_or(Instant::FAR_FUTURE))
    }
}

/// The network's root key, with which weft-core's directory checks claims.
pub struct Root<'a> {
    pub now: Instant,
    pub trust: &'a Trust,
}

impl DirectoryAuthority for Root<'_> {
    fn place_of(&self, name: &[u8]) -> NodeId {
        place_of(name)
    }

    fn check(&self, certificate: &[u8]) -> Option<CertificateGrant> {
        let certificate = Certificate::decode(certificate).ok()?;
        let left_s = self.trust.holds_for_s(self.now, &certificate)?;
        let claims = certificate.claims();
        Some(CertificateGrant {
            owner: claims.public_key.node_id(),
            since_unix_s: claims.not_before_unix_s,
            holds_for: Duration::from_secs(left_s),
            prefixes: claims.prefixes.clone(),
        })
    }
}

/// Returns the claim in `bytes` with the addresses `seen`, at which the owner is reached, added to its details.
///
/// The owner may not know these addresses itself. Returns `None` if `bytes` is no claim. The claim is written to `out`.
pub fn completed<'a>(bytes: &[u8], seen: &[SocketAddr], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let Ok(ClaimMessage::Claim(claim)) = ClaimMessage::parse(bytes) else { return None };
    let Contact { public_key, endpoints } = Contact::decode(claim.details)?;
    let endpoints = super::contact::without_repeats(endpoints.into_iter().chain(seen.iter().copied()));
    let details = Contact { public_key, endpoints }.encode();
    let len = ClaimMessage::Claim(Claim { details: &details, ..claim }).emit(out).ok()?;
    out.get(..len)
}
