//! Ownership of prefixes (paper 001 §II).
//!
//! The nodes next to a prefix's key on the ring store claims of ownership. Any node can ask these nodes.
//!
//! - **Certified.** The network's root key assigns each prefix to its owner by a certificate. Every node verifies it:
//!   holders before they store a claim, askers before they trust one.
//! - **First hand.** An owner itself sends its contact to each of the four nodes next to the key on the ring
//!   ([`region`]). It uses a session with each. No holder trusts another. X25519 keys sign nothing, so a holder
//!   cannot prove an owner's contact to an asker. It can hide an owner, or state a wrong contact, at which the
//!   handshake fails. The asker then asks another holder ([`lookup`]).
//! - **Soft state.** An owner repeats its claim every minute and when the holders change. Only a newer claim replaces
//!   it. A claim ends after three minutes, with its certificate, or by withdrawal or revocation.
//!
//! [`OwnershipDirectory`] is the whole protocol as a state machine. It routes by an [`OverlayState`]. Other
//! applications can use its calls. An application with its own number may send a few bytes to the root of any key and
//! receive an answer ([`OwnershipDirectory::call`]).

mod announce;
mod cache;
mod directory;
mod lookup;
mod region;
mod store;

pub use directory::OwnershipDirectory;
pub use lookup::MOST as MOST_LOOKUPS;
pub use region::Region;
pub use store::{MOST_IN_REGION, MOST_OWNERS};

use super::calls;
use super::overlay::{LeafSet, OverlayState};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use region::contains;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::certificate::WirePrefix;
use weft_wire::ownership::{Claim, ClaimVerdict, MAX_QUESTION, OwnershipQuestion};

/// Number of nodes on each side of a key on the ring that store the claims of the key (its *holders*).
pub const HOLDERS_BESIDE: usize = 2;
/// Length of the directory's longest message in bytes.
pub const MAX_MESSAGE: usize = weft_wire::call::MAX_MESSAGE;
/// Interval at which an owner repeats its claim.
pub const REFRESH: Duration = Duration::from_secs(60);
/// Time after which a claim that its owner has not repeated is deleted.
const LIFETIME: Duration = Duration::from_secs(180);
/// Application number of the calls that the directory itself makes.
const DIRECTORY: u16 = 0;

/// Services that need cryptography or the time of day. The core's caller provides them.
pub trait DirectoryAuthority {
    /// Returns the position of a name on the ring: the first 160 bits of its SHA-256.
    fn place_of(&self, name: &[u8]) -> NodeId;

    /// Returns the content of a certificate, or `None` if it is not valid.
    ///
    /// The root key must have signed it, it must be valid now, and its node must not be revoked.
    fn check(&self, certificate: &[u8]) -> Option<CertificateGrant>;
}

/// Rights that a certificate assigns to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateGrant {
    /// Identifier of the node that owns the prefixes, derived from its key.
    pub owner: NodeId,
    /// Time since which the node owns the prefixes, in seconds since 1970.
    ///
    /// Of two owners of one prefix the earlier keeps it.
    pub since_unix_s: u64,
    /// Time from now until the certificate expires.
    pub holds_for: Duration,
    /// Prefixes that the node owns.
    pub prefixes: Vec<WirePrefix>,
}

/// Environment of each operation of the directory: the time, the overlay and the network's root key.
#[derive(Clone, Copy)]
pub struct DirectoryContext<'a> {
    /// The present time.
    pub now: Instant,
    /// This node's state of the overlay.
    pub overlay: &'a OverlayState,
    /// Verifies certificates by the network's root key.
    pub authority: &'a dyn DirectoryAuthority,
}

/// The node that owns an address, as a lookup found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressOwner {
    /// Identifier of the owner.
    pub id: NodeId,
    /// The owner's prefix that contains the address.
    pub prefix: WirePrefix,
    /// Contact details (key and addresses) of the owner, as a holder stated them.
    ///
    /// They may be wrong. A session to the owner at these addresses must prove the key in the certificate.
    pub details: Box<[u8]>,
    /// The owner's verified certificate.
    pub certificate: Box<[u8]>,
}

/// Result of the lookup of an address's owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The address has this owner.
    Owner(AddressOwner),
    /// The address has no owner.
    Nobody,
    /// Too few holders answered to decide.
    NoAnswer,
}

/// Two certificates for one prefix. The network's root signed one of them by mistake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Conflict {
    /// The prefix with two certificates.
    pub prefix: WirePrefix,
    /// Node that keeps the prefix, because its certificate is older.
    pub owner: NodeId,
    /// Node with the younger certificate.
    pub refused: NodeId,
}

/// An event of the directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectoryEvent {
    /// A lookup of this address ended, with this result.
    Found(IpAddr, Found),
    /// This holder refused this node's claim, for this reason.
    Refused(NodeId, ClaimVerdict),
    /// This node, as a holder, received certificates of two nodes for overlapping prefixes.
    Conflict(Conflict),
    /// An event of a call that an application made, or that arrived for an application.
    Call(calls::CallEvent),
}

/// Returns the holders of a key, nearest first, as far as a node and its leaves determine them.
///
/// A node always knows whether it is a holder itself: it has more leaves on each side than there can be holders
/// between it and the key.
fn holders(own: NodeId, leaves: &LeafSet, key: NodeId) -> Vec<NodeId> {
    let mut ring: Vec<NodeId> = leaves.iter().chain([own]).collect();
    ring.sort_by_key(|id| key.clockwise_to(id));
    ring.dedup();
    let mut holders: Vec<NodeId> =
        ring.iter().take(HOLDERS_BESIDE).chain(ring.iter().rev().take(HOLDERS_BESIDE)).copied().collect();
    holders.sort_by_key(|id| (id.distance_to(&key), *id));
    holders.dedup();
    holders
}

/// Returns the position on the ring at which to ask about a key in attempt number `attempt`, counted from 0.
///
/// Attempt 0 uses the key itself. Later attempts use positions at 1, 4, 16 and 64 mean node distances from the key,
/// on both sides. The nodes nearest to these positions are other holders, or nodes that name the holders. The mean is
/// that of the nodes around this one. Around the key the nodes may be farther apart, so that one node is nearest to
/// the key and to some of the positions.
fn beside(leaves: &LeafSet, key: NodeId, attempt: usize) -> NodeId {
    let Some(later) = attempt.checked_sub(1) else { return key };
    let share = leaves.spacing().wrapping_mul(1 << (later & !1));
    if attempt.is_multiple_of(2) { key.turned_by(share.wrapping_neg()) } else { key.turned_by(share) }
}

fn question(question: OwnershipQuestion) -> Box<[u8]> {
    let mut out = [0; MAX_QUESTION];
    let len = question.emit(&mut out).unwrap_or_default();
    out.get(..len).unwrap_or_default().into()
}

/// Returns the owner of `address` that a claim proves, or none if its certificate is invalid for the address.
fn verified(authority: &dyn DirectoryAuthority, claim: Claim<'_>, address: IpAddr) -> Option<AddressOwner> {
    let CertificateGrant { owner, prefixes, .. } = authority.check(claim.certificate)?;
    let prefix = prefixes.into_iter().filter(|prefix| contains(*prefix, address)).max_by_key(|(_, length)| *length)?;
    Some(AddressOwner { id: owner, prefix, details: claim.details.into(), certificate: claim.certificate.into() })
}

#[cfg(test)]
mod tests;
