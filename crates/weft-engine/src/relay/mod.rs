//! The state of relaying: labels, routes, reports and the datagrams to forward.
//!
//! A relayed datagram is sealed between the two ends of its route. Session, packet numbers, reports, rates and
//! retransmissions belong to those ends. Between adjacent nodes it is authenticated once more and carries its route
//! ([`Way`](weft_wire::relay::Way)). A relay keeps no state about the datagrams that it forwards.

pub mod bulletin;
pub mod departures;
pub mod forward;
pub mod labels;
pub mod reach;
pub mod routes;
pub mod turns;

pub use bulletin::Bulletin;
pub use labels::{Labels, label, label_of};
pub use reach::ReachableNodes;
pub use routes::Routes;

use crate::api::{ConfigError, PeerConfig, RelayTotals, RouteError};
use alloc::vec::Vec;
use departures::Departures;
use forward::{ArrivalRoute, RelayHop};
use weft_session::PublicKey;
use weft_units::{Instant, PeerId};
use weft_wire::relay::MAX_RELAYS;

/// A node's state as a relay and as a user of relays.
#[derive(Default)]
pub struct Relaying {
    /// True if the node forwards datagrams between other nodes.
    pub is_relay: bool,
    pub labels: Labels,
    pub routes: Routes,
    /// Relayed datagrams that wait to be forwarded.
    pub departures: Departures,
    /// This relay's reports to its peers about its other peers.
    pub bulletin: Bulletin,
    /// Number of peers that this relay last reported as reachable.
    pub reached: usize,
    /// Time at which this relay next repeats its reports about some of its peers.
    pub repeat_at: Option<Instant>,
    /// Index of the peer whose report is repeated next.
    pub repeat_next: usize,
    /// Time at which this relay next sends reports to some of its peers.
    pub send_at: Option<Instant>,
    /// Index of the peer to which reports are sent next.
    pub send_next: usize,
    /// Time until which this relay sends no more reports.
    ///
    /// It bounds the share of the node's time that reports take.
    pub quiet_until: Instant,
    /// True if the set of nodes that some relay reports as reachable has changed.
    pub has_news: bool,
    /// Peers that, at the last search for detours, had reported to which nodes they relay.
    pub speakers: Vec<PeerId>,
    /// Time of the next search for better detours (relayed routes that this node chose itself).
    pub look_at: Option<Instant>,
    /// Number of events that the engine had reported when routes, reports and detours were last updated.
    pub seen_events: u64,
    /// Next hop of the batch that is being received, as the last label lookup returned it.
    pub segment: Option<RelayHop>,
    /// Route by which the batch being received arrived.
    pub arrival: Option<ArrivalRoute>,
    pub totals: RelayTotals,
}

impl Relaying {
    /// Searches for detours at once, because this node wants to reach a new peer.
    pub fn look_soon(&mut self, now: Instant) {
        self.look_at = Some(now);
    }
}

/// Checks every configured route: its length, that it visits no node twice, and that its first relay is a peer.
pub fn check_routes(own: &PublicKey, peers: &[PeerConfig]) -> Result<(), ConfigError> {
    for peer in peers {
        for relays in &peer.routes {
            check_route(own, peer, relays, peers).map_err(|why| ConfigError::Route(peer.name.clone(), why))?;
        }
    }
    Ok(())
}

fn check_route(own: &PublicKey, to: &PeerConfig, relays: &[PublicKey], peers: &[PeerConfig]) -> Result<(), RouteError> {
    let first = relays.first().ok_or(RouteError::Empty)?;
    if relays.len() > MAX_RELAYS {
        return Err(RouteError::TooLong);
    }
    let is_again = |(index, relay): (usize, &PublicKey)| {
        relay == own || *relay == to.public_key || relays[..index].contains(relay)
    };
    if relays.iter().enumerate().any(is_again) {
        return Err(RouteError::Loop);
    }
    let is_peer = peers.iter().any(|peer| peer.public_key == *first);
    if is_peer { Ok(()) } else { Err(RouteError::FirstIsNoPeer) }
}
