//! Relays: datagrams for others are passed on, and routes over relays are links like any other to those who use them.
//!
//! What is relayed is sealed between the ends of its route, with everything they do on a path: their session, numbers, reports,
//! rates and repeats are of that route. Between here and the next node it is authenticated once more, and says its way
//! ([`Way`](weft_wire::relay::Way)). A relay keeps nothing of what it passes on.

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

/// What a node knows as a relay and of relays.
#[derive(Default)]
pub(crate) struct Relaying {
    /// Whether datagrams are passed on between other nodes.
    pub(crate) is_relay: bool,
    pub(crate) labels: Labels,
    pub(crate) routes: Routes,
    /// What is to be passed on.
    pub(crate) departures: Departures,
    /// What the peers are told of each other.
    pub(crate) bulletin: Bulletin,
    /// Peers that can be reached, as was last said.
    reached: usize,
    /// When the relay speaks again of some peers, and of which first.
    say_at: Option<Instant>,
    say_next: usize,
    /// When some peers are told what they have not heard, and which first.
    tell_at: Option<Instant>,
    tell_next: usize,
    /// Nobody is told before then, so that words do not take more than their share of the node's time.
    quiet_until: Instant,
    /// A relay reaches other nodes than before, as it says.
    pub(crate) has_news: bool,
    /// The peers that said whom they reach, as of the last look.
    speakers: Vec<PeerId>,
    /// When it is looked for better detours.
    look_at: Option<Instant>,
    /// How many events there had been when all was last looked at.
    seen_events: u64,
    /// Where the batch that is taken in goes, and by which route it came.
    segment: Option<Segment>,
    arrival: Option<Arrival>,
    pub(crate) totals: RelayTotals,
}

/// Why a route was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteError {
    /// No relay on it.
    Empty,
    /// More than [`MAX_RELAYS`].
    TooLong,
    /// It comes by a node twice, or by one of its ends.
    Loop,
    /// This node has no session with the first relay.
    FirstIsNoPeer,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Empty => f.write_str("no relay on it"),
            RouteError::TooLong => write!(f, "more than {MAX_RELAYS} relays"),
            RouteError::Loop => f.write_str("it comes by a node twice"),
            RouteError::FirstIsNoPeer => f.write_str("its first relay is not among the peers"),
        }
    }
}

/// The name of a node on ways.
pub(crate) fn label_of(id: &NodeId) -> Label {
    let [a, b, c, d, ..] = *id.as_bytes();
    Label(u32::from_be_bytes([a, b, c, d]))
}

pub(crate) fn label(key: &PublicKey) -> Label {
    label_of(&key.node_id())
}

impl Relaying {
    /// What a node is called here, if it is a peer.
    pub(crate) fn name_of(&self, node: Label, peers: &[Peer]) -> Option<String> {
        peers.get(usize::from(self.labels.peer(node)?.0)).map(|peer| peer.config.name.clone())
    }

    /// Somebody new is to be reached: detours are looked for at once.
    pub(crate) fn look_soon(&mut self, now: Instant) {
        self.look_at = Some(now);
    }
}

/// Whether every route to a peer makes sense.
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
    /// Whether this node passes datagrams on between its peers. It cannot read them.
    pub fn set_relaying(&mut self, is_relay: bool) {
        self.relaying.is_relay = is_relay;
    }

    /// What the link of a route is called: `via` and its first relay.
    pub fn route_name(&self, link: LinkId) -> Option<&str> {
        self.relaying.routes.link(link).map(|link| link.name.as_str())
    }

    /// What this node has passed on.
    pub fn relay_totals(&self) -> RelayTotals {
        RelayTotals { dropped_datagrams: self.relaying.departures.dropped(), ..self.relaying.totals }
    }

    /// Takes the peers' labels, and the routes to them that are asked for.
    pub(crate) fn set_routes(&mut self, now: Instant) {
        self.set_labels();
        self.choose_speakers();
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

    /// Which peers can be reached, or what relays say of others, may have changed.
    fn has_relaying_news(&self) -> bool {
        self.event_count() != self.relaying.seen_events || self.relaying.has_news
    }

    /// When [`Engine::refresh_relaying`] is to be called next.
    pub(crate) fn relaying_timeout(&self, now: Instant) -> Option<Instant> {
        let relaying = &self.relaying;
        let timeout = [relaying.tell_at, relaying.say_at, relaying.look_at].into_iter().flatten().min();
        let depends = relaying.is_relay || timeout.is_some() || !relaying.routes.is_empty();
        if depends && self.has_relaying_news() { Some(now) } else { timeout }
    }

    /// What depends on which peers can be reached, when that may have changed, and from time to time.
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

    /// A route is up while its first relay can be reached.
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
