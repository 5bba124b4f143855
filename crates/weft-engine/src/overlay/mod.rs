//! The state of the overlay: the nodes of one network find each other through any one of them.
//!
//! The state machine is weft-core's ([`weft_core::route::overlay`]). The node drives it: it carries the messages in the
//! sessions with peers, and contacts nodes without a session.

pub mod chosen_routes;
pub mod contact;
pub mod map_answers;
pub mod map_limits;
pub mod mapping;
pub mod meetings;
pub mod owners;

use crate::api::OverlayConfig;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use mapping::LinkMapping;
use meetings::Meetings;
use owners::Owners;
use weft_core::route::overlay::OverlayState;
use weft_units::{Instant, PeerId};

/// A node's state in the overlay, and the peers that it has contacted.
#[derive(Default)]
pub struct Overlaying {
    pub config: Option<OverlayConfig>,
    pub state: Option<Box<OverlayState>>,
    pub owners: Option<Box<Owners>>,
    /// The link map: the claims of all members about their links, and this node's own claims.
    pub mapping: Option<Box<LinkMapping>>,
    /// Time at which a timer of the overlay's state machine or of the directory of owners is due.
    pub wake: Option<Instant>,
    pub look_at: Option<Instant>,
    pub meetings: Meetings,
    /// Configured peers that have also presented a certificate. Other configured peers get no overlay messages.
    pub members: BTreeSet<PeerId>,
}

impl Overlaying {
    /// Returns the time at which the next call of `Engine::refresh_overlay` is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let mapping = self.mapping.as_ref().map(|mapping| mapping.next_timeout());
        [self.wake, self.look_at, mapping].into_iter().flatten().min()
    }

    pub fn is_on(&self) -> bool {
        self.state.is_some()
    }

    /// Deletes what the overlay stores about a peer that was removed.
    pub fn forget_peer(&mut self, peer: PeerId) {
        self.meetings.forget(peer);
        self.members.remove(&peer);
        if let Some(mapping) = &mut self.mapping {
            mapping.forget_peer(peer);
        }
    }
}
