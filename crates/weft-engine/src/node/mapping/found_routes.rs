//! Relayed routes to peers that are found in the link map.
//!
//! They replace the routes over one relay that follow from the relays' own reports.

use crate::api::RouteStatus;
use crate::node::Engine;
use crate::overlay::chosen_routes::ChosenRoute;
use crate::path::Path;
use crate::peer::Peer;
use crate::relay::label_of;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_session::{Certificate, PublicKey};
use weft_units::{Duration, Instant};
use weft_wire::relay::{Label, Way};

impl Engine {
    /// True if routes can be found in the link map: routes are wanted, and the map has more than two members.
    pub(in crate::node) fn has_found_routes(&self) -> bool {
        self.overlay.mapping.as_ref().is_some_and(|mapping| mapping.most_routes > 0 && mapping.map.members() > 2)
    }

    /// Begins a round of searches for routes, and renews the limit on the links that they may examine.
    pub(in crate::node) fn begin_finding(&mut self, now: Instant) {
        if let Some(mapping) = &mut self.overlay.mapping {
            mapping.routes.begin_round(now);
        }
    }

    /// True if some searches of the last round are not finished.
    pub(in crate::node) fn is_finding(&self) -> bool {
        self.overlay.mapping.as_ref().is_some_and(|mapping| mapping.routes.is_behind())
    }

    /// Updates the routes to the peer with the index `to` from the link map.
    pub(in crate::node) fn find_routes(&mut self, now: Instant, to: usize) {
        let Some(peer) = self.peers.get(to).filter(|peer| self.is_in_map(peer)) else { return };
        let (id, target) = (peer.id, label_of(&peer.node));
        if let Some(mapping) = self.overlay.mapping.as_mut().filter(|mapping| mapping.most_routes > 0) {
            mapping.choose_routes(now, (mapping.own, target), id);
        }
    }

    /// Finds the opened routes to a peer that do not answer, and marks their links as doubtful.
    fn doubt_silent_routes(&mut self, now: Instant, to: usize) {
        let (Some(peer), Some(mapping)) = (self.peers.get(to), self.overlay.mapping.as_mut()) else { return };
        let routes = &self.relaying.routes;
        let labels = &self.relaying.labels;
        let answers = |nodes: &[Label]| {
            let address = way(nodes).and_then(|(first, way)| routes.address_of(labels.peer(first)?, way));
            address.is_some_and(|address| peer.paths.iter().any(|p| p.remote == address && p.health.answers()))
        };
        mapping.routes.doubt_silent(now, mapping.own, peer.id, answers);
    }

    /// Returns the addresses that stand for the routes to a peer found in the link map.
    pub(in crate::node) fn found_routes(&mut self, now: Instant, to: usize) -> Vec<SocketAddr> {
        self.doubt_silent_routes(now, to);
        self.find_routes(now, to);
        let mapping = self.overlay.mapping.as_ref().filter(|mapping| mapping.most_routes > 0);
        let (Some(peer), Some(mapping)) = (self.peers.get(to), mapping) else { return Vec::new() };
        let chosen: Vec<Vec<Label>> =
            mapping.routes.of(peer.id).iter().map(|route| route.found.nodes.clone()).collect();
        chosen.iter().filter_map(|nodes| self.address_of_found(now, nodes)).collect()
    }

    fn address_of_found(&mut self, now: Instant, nodes: &[Label]) -> Option<SocketAddr> {
        let (first, way) = way(nodes)?;
        let via = self.relaying.labels.peer(first)?;
        let relay = self.peers.get(usize::from(via.0)).filter(|relay| self.is_in_map(relay))?;
        let relays = nodes.get(..nodes.len() - 1)?;
        let name = match relays {
            [_] => relay.config.name.clone(),
            _ => relays.iter().map(|relay| self.name_in_map(*relay)).collect::<Vec<_>>().join(" > "),
        };
        Some(self.relaying.routes.configure(now, via, way, &name))
    }

    /// True if the link map stores this peer, not another node with the same label (first 32 bits of the node id).
    fn is_in_map(&self, peer: &Peer) -> bool {
        let member = self.overlay.mapping.as_ref().and_then(|mapping| mapping.map.member(label_of(&peer.node)));
        member.is_some_and(|(key, _)| PublicKey(*key) == peer.config.public_key)
    }

    /// Returns the name in a member's certificate, or its label if the map has no certificate with this label.
    fn name_in_map(&self, label: Label) -> String {
        let certificate = self.overlay.mapping.as_ref().and_then(|mapping| mapping.map.member(label));
        let decoded = certificate.and_then(|(_, certificate)| Certificate::decode(certificate).ok());
        decoded.map_or_else(|| alloc::format!("{:08x}", label.0), |certificate| certificate.claims().name.clone())
    }

    /// Returns the state of the routes to each peer that were found in the link map, the best first.
    pub fn found_route_status(&self) -> Vec<RouteStatus> {
        let Some(mapping) = &self.overlay.mapping else { return Vec::new() };
        let of = |peer: &Peer| {
            let status = |route: &ChosenRoute| {
                let nodes = &route.found.nodes;
                let address = way(nodes)
                    .and_then(|(first, way)| self.relaying.routes.address_of(self.relaying.labels.peer(first)?, way));
                // Both ends may have opened a path over the route. One of the two paths is then given up.
                let is_there = |path: &&Path| Some(path.remote) == address && path.health.answers();
                let path = peer.paths.iter().find(is_there);
                RouteStatus {
                    to: peer.config.name.clone(),
                    relays: nodes.iter().take(nodes.len() - 1).map(|relay| self.name_in_map(*relay)).collect(),
                    rtt: Duration::from_micros(route.found.rtt_us),
                    loss: route.found.loss,
                    rate: route.found.rate,
                    answers: path.is_some(),
                    is_standby: path.is_some_and(|path| path.spare),
                }
            };
            mapping.routes.of(peer.id).iter().map(status).collect::<Vec<_>>()
        };
        self.peers.iter().filter(|peer| self.is_present(peer)).flat_map(of).collect()
    }
}

/// Returns the first relay of a route, and the nodes after it in the form that a relay header contains.
fn way(nodes: &[Label]) -> Option<(Label, Way)> {
    let (first, after) = nodes.split_first()?;
    Some((*first, Way::new(after).ok()?))
}
