//! Revocations: a list that only grows, known to all nodes, and what is done by it.

use crate::event::Event;
use crate::node::Engine;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use weft_session::{PublicKey, Revocation, RootPublicKey};
use weft_units::Instant;
use weft_units::planted::{self, Fault};

/// Revocations kept: 1.7 MB on the wire. A network with more needs a new root key.
const MAX_REVOCATIONS: usize = 16_384;
const CAUSE: &str = "its key was revoked";

/// Why a revocation was not taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RevokeError {
    /// This node trusts no root key.
    NoRoot,
    /// It is not signed by the network's root key.
    OtherRoot,
    /// There are as many as may be kept.
    TooMany,
}

impl fmt::Display for RevokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RevokeError::NoRoot => "this node has no root key: set [network] root",
            RevokeError::OtherRoot => "the revocation is not signed by the network's root key",
            RevokeError::TooMany => "too many revocations: begin with a new root key",
        })
    }
}

/// The revocations this node knows, in the order it learnt of them.
#[derive(Default)]
pub(crate) struct Revocations {
    list: Vec<Revocation>,
    keys: BTreeSet<PublicKey>,
    /// So many of the list have been acted upon.
    done: usize,
}

impl Revocations {
    /// All of them; each node is told those it was not told before.
    pub(crate) fn list(&self) -> &[Revocation] {
        &self.list
    }

    pub(crate) fn has(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// Whether some wait to be acted upon.
    pub(crate) fn are_new(&self) -> bool {
        self.done < self.list.len()
    }

    /// Adds one that `root` has signed; false if it is known.
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
    /// Takes in a revocation: sessions with that key end now, and every peer is told. False if it was known.
    ///
    /// # Errors
    /// [`RevokeError`]; nothing has changed then.
    pub fn revoke(&mut self, now: Instant, revocation: &Revocation) -> Result<bool, RevokeError> {
        let is_new = self.trust.take_revocation(revocation)?;
        self.act_on_revocations(now);
        Ok(is_new)
    }

    /// All revocations this node knows, in the order it learnt of them.
    pub fn revocations(&self) -> &[Revocation] {
        self.trust.revocations.list()
    }

    /// Takes in what was revoked before: it is no news.
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

    /// Ends what was revoked since the last time, and passes the news on.
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
