//! What happens by time: attempts, rekeys, the end of keys.

use super::Sessions;
use crate::error::InitiateError;
use crate::peer::Peer;
use crate::timers::{Attempt, REKEY_AFTER, RETRY_INTERVAL};
use weft_units::{Duration, Instant, PeerId};

/// What the owner of the table has to do, or to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Call [`Sessions::initiate`] for this peer and send the initiation, over every path there is.
    Initiate {
        /// To whom.
        peer: PeerId,
    },
    /// The last key with this peer ended without a new one: nothing can be sealed until a handshake succeeds.
    Expired {
        /// With whom.
        peer: PeerId,
    },
}

impl Sessions {
    /// Starts an attempt to get a new key now: the next [`Sessions::handle_timeout`] asks for an initiation, a new one unless
    /// the last is younger than [`RETRY_INTERVAL`]. For the first handshake with a peer, for a path that has just come up,
    /// and when the peer has been silent (it may have restarted).
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

    /// Brings forward the next initiation of an attempt under way, because packets wait for the session. It becomes due `interval` after
    /// the last one, or at once if that is past. This starts no attempt. The peer's own initiation still goes first where it should.
    pub fn hurry(&mut self, now: Instant, peer: PeerId, interval: Duration) {
        if let Some(attempt) = self.peer_mut(peer).and_then(|peer| peer.attempt.as_mut()) {
            attempt.hurry(now, interval);
            self.refresh_timeout(peer);
        }
    }

    /// Whether an attempt to get a new key is under way.
    pub fn is_calling(&self, peer: PeerId) -> bool {
        self.peer(peer).is_some_and(|peer| peer.attempt.is_some())
    }

    /// Whether the peer initiated the key in use, and should have renewed it by now.
    pub fn awaits_renewal(&self, now: Instant, peer: PeerId) -> bool {
        let key = self.peer(peer).and_then(|peer| peer.keys.sending());
        key.is_some_and(|key| !key.initiator && now.since(key.created) >= REKEY_AFTER)
    }

    /// When [`Sessions::handle_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        Some(self.timeouts.total()).filter(|at| *at != Instant::FAR_FUTURE)
    }

    /// Ends old keys and says what is due. Allocates only when something is. Its cost grows with what is due, not with the peers.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Action> {
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

    fn act_on_time(&mut self, id: PeerId, actions: &mut Vec<Action>) {
        let Sessions { peers, indices, rng, now, .. } = self;
        let Some(peer) = peers.get_mut(usize::from(id.0)).and_then(Option::as_mut) else { return };
        if peer.rekey_due().is_some_and(|due| due <= *now) {
            peer.attempt = Some(Attempt::start(*now));
        }
        peer.expire_keys(*now, |key| indices.free_key(key));
        if peer.keys.sending().is_none() && peer.established.take().is_some() {
            actions.push(Action::Expired { peer: id });
        }
        if let Some(attempt) = peer.attempt.as_mut().filter(|attempt| attempt.due <= *now) {
            attempt.schedule_next(*now, rng);
            actions.push(Action::Initiate { peer: id });
        }
    }

    /// Notes when something is next due with a peer. To be called after every change of its keys or its attempt.
    pub(super) fn refresh_timeout(&mut self, id: PeerId) {
        let timeout = self.peer(id).and_then(Peer::next_timeout);
        self.timeouts.set(usize::from(id.0), timeout.unwrap_or(Instant::FAR_FUTURE));
    }
}
