//! Acts on revocations of keys: a revocation ends every session with its key, and is sent to every peer.

use super::Engine;
use crate::api::{Event, RevokeError};
use weft_session::{PublicKey, Revocation};
use weft_units::Instant;
use weft_units::planted::{self, Fault};

const CAUSE: &str = "its key was revoked";

impl Engine {
    /// Accepts a revocation of a key: ends the sessions with that key and sends the revocation to every peer.
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

    /// Returns all revocations that this node has learnt, in the order in which it learnt them.
    pub fn revocations(&self) -> &[Revocation] {
        self.trust.revocations.list()
    }

    /// Applies revocations that the program had stored, without reporting them as new.
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
    pub(super) fn act_on_revocations(&mut self, now: Instant) {
        while let Some(revocation) = self.trust.revocations.list.get(self.trust.revocations.done).copied() {
            self.trust.revocations.done += 1;
            self.events.queue.push_back(Event::Revoked(revocation));
            self.end_all_with(now, &revocation.public_key());
        }
        for index in 0..self.peers.len() {
            self.with_peer(now, index, |peer, cx| peer.send_revocations(cx));
        }
    }
}
