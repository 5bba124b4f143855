//! What happens by time: attempts, rekeys, the end of keys.

use super::Sessions;
use crate::error::InitiateError;
use crate::timers::{Attempt, RETRY_INTERVAL};
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
        let peer = self.peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut);
        let peer = peer.filter(|peer| !peer.is_barred).ok_or(InitiateError::UnknownPeer)?;
        peer.attempt = Some(Attempt::start(now));
        if let Some(old) = peer.pending.take_if(|pending| now.since(pending.created) >= RETRY_INTERVAL) {
            self.indices.free(old.index);
        }
        self.refresh_timeout();
        Ok(())
    }

    /// Brings forward the next initiation of an attempt under way, because packets wait for the session. It becomes due `interval` after
    /// the last one, or at once if that is past. This starts no attempt. The peer's own initiation still goes first where it should.
    pub fn hurry(&mut self, now: Instant, peer: PeerId, interval: Duration) {
        let peer = self.peers.get_mut(usize::from(peer.0)).and_then(Option::as_mut);
        if let Some(attempt) = peer.and_then(|peer| peer.attempt.as_mut()) {
            attempt.hurry(now, interval);
            self.refresh_timeout();
        }
    }

    /// Whether an attempt to get a new key is under way.
    pub fn is_calling(&self, peer: PeerId) -> bool {
        self.peer(peer).is_some_and(|peer| peer.attempt.is_some())
    }

    /// When [`Sessions::handle_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    /// Ends old keys and says what is due. Allocates only when something is.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Action> {
        self.now = now;
        let mut actions = Vec::new();
        if self.next_timeout.is_none_or(|due| due > now) {
            return actions;
        }
        let Sessions { peers, indices, rng, .. } = self;
        for (id, peer) in (0u16..).map(PeerId).zip(peers).filter_map(|(id, peer)| Some((id, peer.as_mut()?))) {
            if peer.rekey_due().is_some_and(|due| due <= now) {
                peer.attempt = Some(Attempt::start(now));
            }
            peer.expire_keys(now, |key| indices.free_key(key));
            if peer.keys.sending().is_none() && peer.established.take().is_some() {
                actions.push(Action::Expired { peer: id });
            }
            if let Some(attempt) = peer.attempt.as_mut().filter(|attempt| attempt.due <= now) {
                attempt.schedule_next(now, rng);
                actions.push(Action::Initiate { peer: id });
            }
        }
        self.refresh_timeout();
        actions
    }

    pub(super) fn refresh_timeout(&mut self) {
        self.next_timeout = self.peers.iter().flatten().filter_map(|peer| peer.next_timeout()).min();
    }
}
