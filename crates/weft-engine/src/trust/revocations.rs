//! Revocations: a list that only grows and is shared by all nodes of the network.
//!
//! A revocation ends every session with its key, and is sent to every peer. Only revocations signed by the root key
//! are stored.

use crate::event::Event;
use crate::node::Engine;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use weft_session::{PublicKey, Revocation, RootPublicKey};
use weft_units::Instant;
use weft_units::planted::{self, Fault};

/// Most revocations that are stored: 1.7 MB on the wire. A network with more needs a new root key.
const MAX_REVOCATIONS: usize = 16_384;
const CAUSE: &str = "its key was revoked";

/// The reason for which a revocation was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RevokeError {
    /// This node trusts no root key.
    NoRoot,
    /// The revocation is not signed by the network's root key.
    OtherRoot,
    /// The list is full.
    TooMany,
}

impl fmt::Display for RevokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RevokeError::NoRoot => "this node has no root key: set [network] root",
            RevokeError::OtherRoot => "the revocation is not signed by the network's root key",
            RevokeError::TooMany => "too many revocations: make a new root key",
        })
    }
}

/// The revocations that this node has learnt, in that order.
#[derive(Default)]
pub(crate) struct Revocations {
    list: Vec<Revocation>,
    keys: BTreeSet<PublicKey>,
    /// Number of revocations in the list that were acted upon.
    done: usize,
}

impl Revocations {
    /// Returns all revocations. Each peer is sent those that it lacks.
    pub(crate) fn list(&self) -> &[Revocation] {
        &self.list
    }

    pub(crate) fn has(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// True if some revocations were not acted upon yet.
    pub(crate) fn are_new(&self) -> bool {
        self.done < self.list.len()
    }

    /// Adds a revocation signed by `root`. Returns false if it is already stored.
    pub(super) fn take(&mut self, root: &RootPublicKey, revocation: &Revocation) -> Result<bool, RevokeError> {
        if self.has(&revocation.public_key()) {
            return Ok(false);
        }
        if self.list.len() >= MAX_REVOCATIONS {
            return Err(RevokeError::TooMany);
        }
        if !root.has_revoked(revocation) {
            return Err(RevokeError::OtherRoot);
        }
        self.list.push(*revocation);
        self.keys.insert(revocation.public_key());
        Ok(true)
    }
}

impl Engine {
    /// Accepts a revocation: ends sessions with that key and sends it to every peer.
    ///
    /// Returns false if it was already stored.
    ///
    /// # Errors
    /// Fails with [`RevokeError`]. In that case nothing has changed.
    pub fn revoke(&mut self, now: Instant, revocation: &Revocation) -> Result<bool, RevokeError> {
        let is_new = self.trust.take_revocation(revocation)?;
        self.act_on_revocations(now);
        Ok(is_new)
    }

    /// Returns all revocations that this node has learnt, in that order.
    pub fn revocations(&self) -> &[Revocation] {
        self.trust.revocations.list()
    }

    /// Restores stored revocations without reporting them as new.
    pub(super) fn restore_revocations(&mut self, now: Instant, revocations: &[Revocation]) {
        for revocation in revocations {
            if self.trust.take_revocation(revocation) == Ok(true) {
                self.trust.revocations.done += 1;
                self.end_all_with(now, &revocation.public_key());
            }
        }
    }

    fn end_all_with(&mut self, now: Instant, key: &PublicKey) {
        if planted::is(Fault::RevokedStays) {
            return;
        }
        self.forget_owner(key.node_id());
        match self.sessions.peer_by_key(key) {
            Some(peer) if self.trust.is_certified(peer) => self.dismiss(now, peer, CAUSE),
            Some(peer) => {
                self.sessions.bar_peer(peer);
                self.with_peer(now, peer.0.into(), |peer, cx| peer.on_lost(cx, CAUSE));
            }
            None => {}
        }
    }

    /// Ends the sessions of newly revoked keys, and sends the new revocations to the peers.
    pub(crate) fn act_on_revocations(&mut self, now: Instant) {
        while let Some(revocation) = self.trust.revocations.list.get(self.trust.revocations.done).copied() {
            self.trust.revocations.done += 1;
            self.events.push_back(Event::Revoked(revocation));
            self.end_all_with(now, &revocation.public_key());
        }
        for index in 0..self.peers.len() {
            self.with_peer(now, index, |peer, cx| peer.tell_revocations(cx));
        }
    }
}
