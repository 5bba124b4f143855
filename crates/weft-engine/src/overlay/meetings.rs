//! The nodes that this node contacted by key, and recent handshakes with such nodes that failed.
//!
//! Contacts that did not answer are not contacted again for a while.

use crate::api::{Contact, Unmet};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use weft_session::PublicKey;
use weft_units::{Duration, Instant, PeerId};

/// Time after a failed handshake with a node before the node is contacted again.
const REST: Duration = Duration::from_secs(30);
/// Time after a failed handshake with a contact in the configuration before it is contacted again.
const SHORT_REST: Duration = Duration::from_secs(3);
/// Maximum number of nodes whose failed handshakes are remembered.
const MAX_UNMET: usize = 1_024;

/// A peer that this node contacted by key.
#[derive(Debug)]
pub struct Met {
    pub called_at: Instant,
    pub wanted_at: Instant,
    /// True if the peer was sent a CLOSE frame. The peer is removed at the next check.
    pub is_leaving: bool,
}

/// The peers that this node contacted by key, and the nodes that did not become peers.
#[derive(Debug, Default)]
pub struct Meetings {
    pub met: BTreeMap<PeerId, Met>,
    /// Nodes with a recent failed handshake, and the time until which they are not contacted.
    pub resting: BTreeMap<PublicKey, Instant>,
    /// The configured contacts, and for each the reason why it did not become a peer, if any.
    pub contacts: Vec<(Contact, Option<Unmet>)>,
}

impl Meetings {
    pub fn begin_with(&mut self, contacts: &[Contact]) {
        self.contacts = contacts.iter().map(|contact| (contact.clone(), None)).collect();
        self.resting.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.met.is_empty()
    }

    pub fn contacts(&self) -> &[(Contact, Option<Unmet>)] {
        &self.contacts
    }

    /// Returns the peers that this node contacted by key.
    pub fn met(&self) -> impl Iterator<Item = PeerId> {
        self.met.keys().copied()
    }

    pub fn has(&self, peer: PeerId) -> bool {
        self.met.contains_key(&peer)
    }

    pub fn forget(&mut self, peer: PeerId) {
        self.met.remove(&peer);
    }

    pub fn is_leaving(&self, peer: PeerId) -> bool {
        self.met.get(&peer).is_some_and(|met| met.is_leaving)
    }

    pub fn rests(&mut self, now: Instant, key: &PublicKey) -> bool {
        self.resting.retain(|_, until| *until > now);
        self.resting.contains_key(key)
    }

    /// Records the result of contacting a node: `outcome` is the failure, or `None` for success.
    ///
    /// Returns true if the node is a configured contact and the result is new.
    pub fn note(&mut self, now: Instant, key: PublicKey, outcome: Option<&Unmet>) -> bool {
        let contact = self.contacts.iter_mut().find(|(contact, _)| contact.public_key == key);
        let rest = if contact.is_some() { SHORT_REST } else { REST };
        if outcome.is_some() && self.resting.len() < MAX_UNMET {
            self.resting.insert(key, now + rest);
        }
        let Some((_, known)) = contact.filter(|(_, known)| known.as_ref() != outcome) else { return false };
        *known = outcome.cloned();
        true
    }
}
