//! Relaying: forwards datagrams for others, and presents relayed routes as links.
//!
//! A relayed datagram is sealed between the two ends of its route. Session, packet numbers, reports, rates and
//! retransmissions belong to those ends. Between adjacent nodes it is authenticated once more and carries its route
//! ([`Way`](weft_wire::relay::Way)). A relay keeps no state about the datagrams that it forwards.

mod address;
mod bulletin;
mod departures;
mod detours;
mod forward;
mod labels;
mod neighbours;
mod routes;
mod turns;
mod wrap;

pub use address::relays_to;
pub(crate) use address::{is_route, outer_header_len, room_for_relays};
pub(crate) use bulletin::Bulletin;
pub use forward::{Departing, Forward};
pub(crate) use neighbours::Reach;
pub(crate) use routes::Routes;

use crate::config::PeerConfig;
use crate::event::RelayTotals;
use crate::links::Link;
use crate::node::Engine;
use crate::peer::Peer;
use crate::vpn::ConfigError;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use departures::Departures;
use forward::{Arrival, Segment};
use labels::Labels;
use weft_session::PublicKey;
use weft_units::{Instant, LinkId, NodeId, PeerId};
pub use weft_wire::relay::MAX_RELAYS;
use weft_wire::relay::{Label, Way};

/// A node's state as a relay and as a user of relays.
#[derive(Default)]
pub(crate) struct Relaying {
    /// True if the node forwards datagrams between other nodes.
    pub(crate) is_relay: bool,
    pub(crate) labels: Labels,
    pub(crate) routes: Routes,
    /// Datagrams to forward.
    pub(crate) departures: Departures,
    /// Reports to the peers about each other.
    pub(crate) bulletin: Bulletin,
    /// Number of peers last reported as reachable.
    reached: usize,
    /// Time at which the relay next repeats reports about some peers.
    say_at: Option<Instant>,
    /// Index of the peer whose report is repeated first.
    say_next: usize,
    /// Time at which reports are next sent to some peers.
    tell_at: Option<Instant>,
    /// Index of the peer that is sent reports first.
    tell_next: usize,
    /// Time before which no reports are sent.
    ///
    /// It bounds the share of the node's time that reports take.
    quiet_until: Instant,
    /// True if a relay's reported set of reachable nodes has changed.
    pub(crate) has_news: bool,
    /// Peers that have reported the nodes that they reach, as of the last search.
    speakers: Vec<PeerId>,
    /// Time of the next search for better detours.
    look_at: Option<Instant>,
    /// Number of events at the last update.
    seen_events: u64,
    /// Next node of the batch that is being received.
    segment: Option<Segment>,
    /// Route by which that batch arrived.
    arrival: Option<Arrival>,
    pub(crate) totals: RelayTotals,
}

/// The reason for which a route was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteError {
    /// The route has no relay.
    Empty,
    /// The route has more than [`MAX_RELAYS`] relays.
    TooLong,
    /// The route contains a node twice, or one of its ends.
    Loop,
    /// The first relay is not a peer of this node.
    FirstIsNoPeer,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Empty => f.write_str("it has no relay"),
            RouteError::TooLong => write!(f, "it has more than {MAX_RELAYS} relays"),
            RouteError::Loop => f.write_str("it contains a node twice"),
            RouteError::FirstIsNoPeer => f.write_str("its first relay is not a peer of this node"),
        }
    }
}

/// Returns the label of a node in relay headers.
pub(crate) fn label_of(id: &NodeId) -> Label {
    let [a, b, c, d, ..] = *id.as_bytes();
    Label(u32::from_be_bytes([a, b, c, d]))
}

pub(crate) fn label(key: &PublicKey) -> Label {
    label_of(&key.node_id())
}

impl Relaying {
    /// Returns the name of a node, if it is a peer.
    pub(crate) fn name_of(&self, node: Label, peers: &[Peer]) -> Option<String> {
        peers.get(usize::from(self.labels.peer(node)?.0)).map(|peer| peer.config.name.clone())
    }

    /// Searches for detours at once, because a new peer is to be reached.
    pub(crate) fn look_soon(&mut self, now: Instant) {
        self.look_at = Some(now);
    }
}

/// Checks that every configured route is valid.
pub(crate) fn check_routes(own: &PublicKey, peers: &[PeerConfig]) -> Result<(), ConfigError> {
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

impl Engine {
    /// Sets whether this node forwards datagrams between its peers. It cannot decrypt them.
    pub fn set_relaying(&mut self, is_relay: bool) {
        self.relaying.is_relay = is_relay;
    }

    /// Returns the name of a route's link: `via` and its first relay.
    pub fn route_name(&self, link: LinkId) -> Option<&str> {
        self.relaying.routes.link(link).map(|link| link.name.as_str())
    }

    /// Returns the counters of relayed datagrams.
    pub fn relay_totals(&self) -> RelayTotals {
        RelayTotals { dropped_datagrams: self.relaying.departures.dropped(), ..self.relaying.totals }
    }

    /// Updates the peers' labels and the configured routes to them.
    pub(crate) fn set_routes(&mut self, now: Instant) {
        self.set_labels();
        self.relaying.routes.forget_configured();
        for index in 0..self.peers.len() {
            if self.peers.get(index).is_none_or(|peer| peer.config.routes.is_empty() && peer.routes.is_empty()) {
                continue;
            }
            let config = self.peers[index].config.clone();
            let routes = config.routes.iter().filter_map(|relays| self.configure_route(now, &config, relays)).collect();
            self.peers[index].routes = routes;
        }
    }

    fn configure_route(&mut self, now: Instant, to: &PeerConfig, relays: &[PublicKey]) -> Option<SocketAddr> {
        let (first, others) = relays.split_first()?;
        let via = self.sessions.peer_by_key(first)?;
        let labels: Vec<Label> = others.iter().chain([&to.public_key]).map(label).collect();
        let way = Way::new(&labels).ok()?;
        let name = &self.peers.get(usize::from(via.0))?.config.name;
        Some(self.relaying.routes.configure(now, via, way, name))
    }

    /// True if the set of reachable peers or a relay's reports may have changed.
    fn has_relaying_news(&self) -> bool {
        self.event_count() != self.relaying.seen_events || self.relaying.has_news
    }

    /// Returns the time at which [`Engine::refresh_relaying`] must be called next.
    pub(crate) fn relaying_timeout(&self, now: Instant) -> Option<Instant> {
        let relaying = &self.relaying;
        let timeout = [relaying.tell_at, relaying.say_at, relaying.look_at].into_iter().flatten().min();
        let depends = relaying.is_relay || timeout.is_some() || !relaying.routes.is_empty();
        if depends && self.has_relaying_news() { Some(now) } else { timeout }
    }

    /// Updates routes, reports and detours, after changes and periodically.
    pub(crate) fn refresh_relaying(&mut self, now: Instant) {
        let is_due = self.relaying_timeout(now).is_some_and(|at| at <= now);
        if !is_due && !self.has_relaying_news() {
            return;
        }
        self.relaying.seen_events = self.event_count();
        self.relaying.has_news = false;
        self.refresh_routes(now);
        self.tell_neighbours(now);
        self.refresh_detours(now);
    }

    /// Updates the state of routes. A route is up while its first relay is reachable.
    fn refresh_routes(&mut self, now: Instant) {
        let peers = &self.peers;
        let reaches = |via: PeerId| {
            let peer = peers.get(usize::from(via.0));
            peer.is_some_and(|peer| peer.is_established() && peer.fastest_direct_path().is_some())
        };
        let mut changed: Vec<(Link, bool)> = Vec::new();
        for route in self.relaying.routes.iter_mut() {
            let is_up = reaches(route.via);
            if is_up != route.is_up {
                route.is_up = is_up;
                changed.push((route.link.clone(), is_up));
            }
        }
        let any_up = changed.iter().any(|(_, is_up)| *is_up);
        for (link, is_up) in changed {
            if is_up {
                self.open_paths(now, &link);
            } else {
                for index in 0..self.peers.len() {
                    self.with_peer(now, index, |p, cx| p.on_link_down(cx, link.id, "the relay cannot be reached"));
                }
            }
        }
        if any_up {
            self.start_handshakes(now);
        }
    }
}
