//! The state of in-band signalling toward all peers.

use super::Engine;
use crate::api::SignalStatus;
use weft_units::Instant;

impl Engine {
    /// Returns the state of in-band signalling, or `None` if it is not configured.
    pub fn signal_status(&self, now: Instant) -> Option<SignalStatus> {
        let offers = self.peers.iter().map(|peer| (peer.id, peer.offer()));
        self.signal.room().map(|room| room.status(now, offers, &self.hosts.flows.admission))
    }
}
