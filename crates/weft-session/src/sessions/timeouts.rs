//! Actions that depend on time: handshake attempts, rekeys, and the end of keys.

use super::Sessions;
use crate::error::InitiateError;
use crate::peer::PeerSession;
use crate::timers::{Attempt, REKEY_AFTER, RETRY_INTERVAL};
use weft_units::{Duration, Instant, PeerId};

/// An action that the owner of the table must take, because its time has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutAction {
    /// Call [`Sessions::initiate`] for this peer and send the initiation over every path.
    Initiate {
        /// The peer to which the initiation is sent.
        peer: PeerId,
    },
    /// The last session key with this peer has ended. Nothing can be sealed until a handshake succeeds.
    Expired {
        /// The peer for which there is no session key any more.
        peer: PeerId,
    },
}

impl Sessions {
    /// Starts an attempt to get a new session key from a peer now.
    ///
    /// The next [`Sessions::handle_timeout`] requests an initiation. It is a new initiation unless the last one is
    /// younger than [`RETRY_INTERVAL`]. The caller uses this function for the first handshake with a peer, for a new
    /// path, and for a peer that is silent and may have restarted.
    ///
    /// # Errors
    /// [`InitiateError::UnknownPeer`].
    pub fn force_initiate(&mut self, now: Instant, peer: PeerId) -> Result<(), InitiateError> {
        self.now = now;
        let id = peer;
        let peer = self.peers.get_mut(usize::from(id.0)).and_then(Option::as_mut);
        let peer = peer.filter(|peer| !peer.is_barred).ok_or(InitiateError::UnknownPeer)?;
        peer.attempt = Some(Attempt::start(now));
        if let Some(old) = peer.pending.take_if(|pending| now.since(pending.created) >= RETRY_INTERVAL) {
            self.indices.free(old.index);
        }
        self.refresh_timeout(id);
        Ok(())
    }

    /// Makes the next initiation of an attempt in progress due earlier, because packets wait for the session.
    ///
    /// The initiation becomes due `interval` after the last one, or at once if this time is past. Without an attempt in
    /// progress it does nothing. If this node waits for the peer's own handshake, the initiation is not due before this
    /// wait ends.
    pub fn hurry(&mut self, now: Instant, peer: PeerId, interval: Duration) {
        if let Some(attempt) = self.peer_mut(peer).and_then(|peer| peer.attempt.as_mut()) {
            attempt.hurry(now, interval);
            self.refresh_timeout(peer);
        }
    }

    /// True if an attempt to get a new session key from this peer is in progress.
    pub fn is_calling(&self, peer: PeerId) -> bool {
        self.peer(peer).is_some_and(|peer| peer.attempt.is_some())
    }

    /// True if the peer should have started a new handshake by now: it initiated the key in use, which is old enough.
    pub fn awaits_renewal(&self, now: Instant, peer: PeerId) -> bool {
        let key = self.peer(peer).and_then(|peer| peer.keys.sending());
        key.is_some_and(|key| !key.initiator && now.since(key.created) >= REKEY_AFTER)
    }

    /// Returns the time at which [`Sessions::handle_timeout`] must be called next. Returns `None` if nothing is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        Some(self.timeouts.total()).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// Ends the session keys that have reached their lifetime, and returns the actions that are due.
    ///
    /// It allocates only if an action is due. Its cost grows with the number of due actions, not with the number of
    /// peers.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<TimeoutAction> {
        self.now = now;
        let mut actions = Vec::new();
        let mut start = 0;
        while let Some(slot) = self.timeouts.next(start, |at| at <= now && at != Instant::FAR_FUTURE) {
            start = slot + 1;
            let id = PeerId(slot as u16);
            self.act_on_time(id, &mut actions);
            self.refresh_timeout(id);
        }
        actions
    }

    fn act_on_time(&mut self, id: PeerId, actions: &mut Vec<TimeoutAction>) {
        let Sessions { peers, indices, rng, now, .. } = self;
        let Some(peer) = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut) else { return };
        if peer.rekey_due().is_some_and(|due| due <= *now) {
            peer.attempt = Some(Attempt::start(*now));
        }
        peer.expire_keys(*now, |key| indices.free_key(key));
        if peer.keys.sending().is_none() && peer.established.take().is_some() {
            actions.push(TimeoutAction::Expired { peer: id });
        }
        if let Some(attempt) = peer.attempt.as_mut().filter(|attempt| attempt.due <= *now) {
            attempt.schedule_next(*now, rng);
            actions.push(TimeoutAction::Initiate { peer: id });
        }
    }

    /// Updates the time at which this node must act next for a peer.
    ///
    /// It must be called after every change of the peer's session keys or attempt.
    pub(super) fn refresh_timeout(&mut self, id: PeerId) {
        let timeout = self.peer(id).and_then(PeerSession::next_timeout);
        self.timeouts.set(usize::from(id.0), timeout.unwrap_or(Instant::FAR_FUTURE));
    }
}
