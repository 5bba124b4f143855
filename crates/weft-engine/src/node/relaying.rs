//! Relaying: presents relayed routes as links, and keeps the peers' labels, routes, reports and detours up to date.
//!
//! A label is the first 32 bits of a node id. It names a node in relay headers.

use super::Engine;
use crate::api::{Event, PeerConfig, RelayTotals};
use crate::links::Link;
use crate::relay::{label, label_of};
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_session::PublicKey;
use weft_units::{Instant, LinkId, PeerId};
use weft_wire::relay::{Label, Way};

impl Engine {
    /// Sets whether this node forwards datagrams between its peers. It cannot decrypt them.
    pub fn set_relaying(&mut self, is_relay: bool) {
        self.relaying.is_relay = is_relay;
    }

    /// Returns the name of the link that stands for a relayed route, such as `via hub`.
    pub fn route_name(&self, link: LinkId) -> Option<&str> {
        self.relaying.routes.link(link).map(|link| link.name.as_str())
    }

    /// Returns the counters of relayed datagrams.
    pub fn relay_totals(&self) -> RelayTotals {
        RelayTotals { dropped_datagrams: self.relaying.departures.dropped(), ..self.relaying.totals }
    }

    /// Updates the labels that name the peers in relay headers, and the configured routes to the peers.
    pub(super) fn set_routes(&mut self, now: Instant) {
        self.set_labels();
        self.relaying.routes.forget_configured();
        for index in 0..self.peers.len() {
            if self
                .peers
                .get(index)
                .is_none_or(|peer| peer.config.routes.is_empty() && peer.addresses.routes.is_empty())
            {
                continue;
            }
            let config = self.peers[index].config.clone();
            let routes = config.routes.iter().filter_map(|relays| self.configure_route(now, &config, relays)).collect();
            self.peers[index].addresses.routes = routes;
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

    /// True if some peer may have become reachable or unreachable, or a relay's reports may have changed.
    fn has_relaying_news(&self) -> bool {
        self.event_count() != self.relaying.seen_events || self.relaying.has_news
    }

    /// Returns the time at which the next call of [`Engine::refresh_relaying`] is due.
    pub(super) fn relaying_timeout(&self, now: Instant) -> Option<Instant> {
        let relaying = &self.relaying;
        let timeout = [relaying.send_at, relaying.repeat_at, relaying.look_at].into_iter().flatten().min();
        let depends = relaying.is_relay || timeout.is_some() || !relaying.routes.is_empty();
        if depends && self.has_relaying_news() { Some(now) } else { timeout }
    }

    /// Updates relayed routes, reports to peers, and detours, after changes and periodically.
    pub(super) fn refresh_relaying(&mut self, now: Instant) {
        let is_due = self.relaying_timeout(now).is_some_and(|at| at <= now);
        if !is_due && !self.has_relaying_news() {
            return;
        }
        self.relaying.seen_events = self.event_count();
        self.relaying.has_news = false;
        self.refresh_routes(now);
        self.report_neighbours(now);
        self.refresh_detours(now);
    }

    /// Updates which relayed routes are up. A route is up while its first relay is reachable.
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
        self.mark_first_relays();
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

    /// Marks each peer that is the first relay of a route.
    fn mark_first_relays(&mut self) {
        for route in self.relaying.routes.iter_mut() {
            let via = usize::from(route.via.0);
            if self.peers.get(via).is_some_and(|peer| !peer.session.is_first_relay)
                && let Some(peer) = self.peers.get_mut(via)
            {
                peer.session.is_first_relay = true;
            }
        }
    }
}

impl Engine {
    /// Assigns a label to each present peer. It names the peer in relay headers.
    pub(super) fn set_labels(&mut self) {
        let present = self.peers.iter().filter(|peer| self.is_present(peer));
        let peers = present.map(|peer| (label_of(&peer.node), self.trust.is_certified(peer.id), peer.id)).collect();
        let clashes = self.relaying.labels.set(self.peers.len(), peers);
        self.events.queue.extend(clashes.into_iter().map(|(peer, owner)| Event::LabelClash { peer, owner }));
    }

    /// Returns the peers to which relays forward nothing, because another peer has the same label.
    ///
    /// A label is the first 32 bits of a node id. Each peer is paired with the name of the peer that keeps the label.
    pub fn label_clashes(&self) -> impl Iterator<Item = (&str, &str)> {
        let name = |id: PeerId| self.peers.get(usize::from(id.0)).map(|peer| peer.config.name.as_str());
        self.relaying.labels.clashes.iter().filter_map(move |(peer, owner)| Some((name(*peer)?, name(*owner)?)))
    }
}
