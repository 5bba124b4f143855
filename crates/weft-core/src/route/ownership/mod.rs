//! Who owns which prefix (paper 001 §II): claims are kept by the nodes next to a prefix's key, and found by whoever asks at it.
//!
//! - **Certified.** A prefix is owned by whom the network's root key has given it to. Everybody checks that for himself: holders before they
//!   keep a claim, askers before they believe one.
//! - **First hand.** Where an owner is it says itself, to each of the four nodes next to the key on the ring ([`region`]), under a session with
//!   it; no holder believes another. X25519 keys sign nothing, and a holder proves nothing of an owner's whereabouts to an asker: it can
//!   hide an owner, or send the asker to a wrong place, where the handshake fails. Then the asker asks another ([`lookup`]).
//! - **Soft state.** A claim is made anew every minute and when holders change, replaced by newer ones only, and ends after three minutes,
//!   with its certificate, or when it is withdrawn or revoked.
//!
//! [`Directory`] is all of it as a state machine, beside an [`Overlay`] which it routes by. Its calls are everybody's: an application with a
//! number of its own may send the root of any key a few bytes, and be answered ([`Directory::call`]).

mod announce;
mod cache;
mod directory;
mod lookup;
mod region;
mod store;

pub use directory::Directory;
pub use lookup::MOST as MOST_LOOKUPS;
pub use region::Region;
pub use store::{MOST_IN_REGION, MOST_OWNERS};

use super::calls;
use super::overlay::{LeafSet, Overlay};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use region::contains;
use weft_units::{Duration, Instant, NodeId};
use weft_wire::certificate::Prefix;
use weft_wire::ownership::{Claim, MAX_QUESTION, Question, Verdict};

/// What belongs to a key is kept by so many nodes next to it on either side of the ring; its root is one of them.
pub const HOLDERS_BESIDE: usize = 2;
/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = weft_wire::call::MAX_MESSAGE;
/// Between two claims of an owner.
pub const REFRESH: Duration = Duration::from_secs(60);
/// A claim ends that is not made again.
const LIFETIME: Duration = Duration::from_secs(180);
/// The application of the directory's own calls.
const DIRECTORY: u16 = 0;

/// What the core leaves to who knows cryptography and the time of day.
pub trait Authority {
    /// A name's place on the ring: the first 160 bits of its SHA-256.
    fn place_of(&self, name: &[u8]) -> NodeId;

    /// What a certificate says, if the network's root key has signed it, it holds now, and its node is not revoked.
    fn check(&self, certificate: &[u8]) -> Option<Grant>;
}

/// What a certificate gives to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The place of its key.
    pub owner: NodeId,
    /// Since when, in seconds since 1970. Of two owners of one prefix the earlier keeps it.
    pub since_unix_s: u64,
    /// For how long from now.
    pub holds_for: Duration,
    /// What it owns.
    pub prefixes: Vec<Prefix>,
}

/// The time, the overlay, and whom to trust: what is at hand whenever the directory does something.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time.
    pub now: Instant,
    /// This node's part in the overlay.
    pub overlay: &'a Overlay,
    /// The network's root key.
    pub authority: &'a dyn Authority,
}

/// Who owns an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The owner.
    pub id: NodeId,
    /// Which of its prefixes holds the address.
    pub prefix: Prefix,
    /// How to reach it, as a holder says: for the layer below, which has to meet it under the key that the certificate is for.
    pub details: Box<[u8]>,
    /// Its certificate, checked.
    pub certificate: Box<[u8]>,
}

/// The end of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Somebody owns it.
    Owner(Owner),
    /// Nobody does.
    Nobody,
    /// Too few holders answered to tell.
    NoAnswer,
}

/// Two certificates for one prefix: somebody signed what he should not have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Conflict {
    /// The prefix.
    pub prefix: Prefix,
    /// Whose it stays: its certificate is older.
    pub owner: NodeId,
    /// Who has one, too.
    pub refused: NodeId,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An address was looked up.
    Found(IpAddr, Found),
    /// A holder did not take this node's claim.
    Refused(NodeId, Verdict),
    /// Seen at a holder.
    Conflict(Conflict),
    /// Of the applications' calls.
    Call(calls::Event),
}

/// The holders of a key, as far as a node and its leaves tell, the nearest first. Whether it is one itself a node always knows: it has
/// more leaves on either side than may lie between it and the key.
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

/// Where to ask about a key: at itself, then one mean distance between nodes beside it on either side, then two, then four: other holders
/// are the roots there, or nodes that name them.
fn beside(overlay: &Overlay, key: NodeId, attempt: usize) -> NodeId {
    let Some(doublings) = attempt.checked_sub(1) else { return key };
    let share = overlay.leaves().spacing().wrapping_mul(1 << (doublings / 2));
    if attempt.is_multiple_of(2) { key.turned_by(share.wrapping_neg()) } else { key.turned_by(share) }
}

fn question(question: Question) -> Box<[u8]> {
    let mut out = [0; MAX_QUESTION];
    let len = question.emit(&mut out).unwrap_or_default();
    out.get(..len).unwrap_or_default().into()
}

/// An owner that a claim proves to be one.
fn verified(authority: &dyn Authority, claim: Claim<'_>, address: IpAddr) -> Option<Owner> {
    let Grant { owner, prefixes, .. } = authority.check(claim.certificate)?;
    let prefix = prefixes.into_iter().filter(|prefix| contains(*prefix, address)).max_by_key(|(_, length)| *length)?;
    Some(Owner { id: owner, prefix, details: claim.details.into(), certificate: claim.certificate.into() })
}

#[cfg(test)]
mod tests;
