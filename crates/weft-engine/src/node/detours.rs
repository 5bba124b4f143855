//! Detours: relayed routes that were not configured. They carry data when no other path reaches a peer.
//!
//! The link map yields routes over several relays ([`Engine::found_routes`]). Routes over one relay also follow from
//! the relays' own reports. Nodes without a certificate have no link map and use these reports.

use super::Engine;
use crate::peer::Peer;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Duration, Instant, PeerId};
use weft_wire::frame::Neighbour;
use weft_wire::relay::{Label, Way};

/// Maximum number of detours over one relay that are kept for each peer. They use different relays.
const DETOURS: usize = 2;
/// Interval of the search for better detours.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Delay until the search for routes continues if the limit of the last round interrupted it.
const FIND_MORE_AFTER: Duration = Duration::from_millis(20);
/// Largest ratio of a new detour's cost to the present detour's cost at which the new one replaces it.
const BETTER: f64 = 0.8;

/// Returns the cost of a detour over `relay`: its RTT in seconds, with an addition for retransmissions.
///
/// `behind` is the relay's report about the node to which the detour leads. `None` if the relay does not answer.
fn cost(relay: &Peer, behind: &Neighbour) -> Option<f64> {
    let path = relay.fastest_direct_path().filter(|path| path.health.answers())?;
    let lost = path.loss().fraction() + f64::from(behind.loss) / 256.0;
    let round_trip = path.rtt().smoothed() + Duration::from_micros(behind.rtt_us.into());
    Some(round_trip.as_secs_f64() * (1.0 + 2.0 * lost))
}

impl Engine {
    /// Selects the detours to all peers anew, by the link map and the relays' reports.
    pub(super) fn refresh_detours(&mut self, now: Instant) {
        let is_needed =
            self.peers.iter().any(|peer| !peer.control.reach.is_empty() || !peer.addresses.detours.is_empty())
                || self.has_found_routes();
        self.relaying.look_at = is_needed.then_some(now + LOOK_EVERY);
        if !is_needed {
            return;
        }
        self.begin_finding(now);
        let mut relays = core::mem::take(&mut self.relaying.speakers);
        relays.clear();
        relays.extend(self.peers.iter().filter(|peer| !peer.control.reach.is_empty()).map(|peer| peer.id));
        for index in 0..self.peers.len() {
            // Of two nodes, the one with the greater public key selects the detours for both. If this node has
            // contacted the other one by key and has no session with it yet, the other node may not store this node
            // as a peer. This node then selects in any case.
            let Some(peer) = self.peers.get(index) else { continue };
            let is_called = self.overlay.meetings.has(peer.id) && !peer.is_established();
            if !self.is_present(peer) {
                continue;
            }
            if self.sessions.public_key() > peer.config.public_key || is_called {
                self.choose_detours(now, index, &relays);
            } else {
                // The other node opens the routes, and this node learns of them when datagrams arrive over them. This
                // search only serves the status output.
                self.find_routes(now, index);
            }
        }
        self.relaying.speakers = relays;
        if self.is_finding() {
            self.relaying.look_at = Some(now + FIND_MORE_AFTER);
        }
    }

    fn choose_detours(&mut self, now: Instant, to: usize, relays: &[PeerId]) {
        let (Some(peer), labels) = (self.peers.get(to), &self.relaying.labels) else { return };
        let Some(label) = labels.of(to) else { return };
        let mut found: Vec<(f64, PeerId)> = Vec::new();
        let relays = relays.iter().filter_map(|relay| self.peers.get(usize::from(relay.0)));
        for relay in relays.filter(|relay| relay.id != peer.id && peer.config.policy.detours) {
            let cost = relay.control.reach.of(now, label).and_then(|behind| cost(relay, &behind));
            let is_used = self.relaying.routes.leads_over(relay.id, &peer.addresses.detours);
            found.extend(cost.map(|cost| (if is_used { cost * BETTER } else { cost }, relay.id)));
        }
        found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut chosen = self.found_routes(now, to);
        for (_, relay) in found {
            let is_used = self.relaying.routes.leads_over(relay, &chosen);
            if chosen.len() < DETOURS && !is_used {
                chosen.extend(self.detour(now, relay, label));
            }
        }
        self.set_detours(now, to, chosen);
    }

    fn detour(&mut self, now: Instant, relay: PeerId, to: Label) -> Option<SocketAddr> {
        let way = Way::new(&[to]).ok()?;
        let name = &self.peers.get(usize::from(relay.0))?.config.name;
        Some(self.relaying.routes.configure(now, relay, way, name))
    }

    fn set_detours(&mut self, now: Instant, to: usize, mut chosen: Vec<SocketAddr>) {
        let peer = &mut self.peers[to];
        // Exclude routes that are configured here or opened by the peer.
        let is_there = |detour| peer.paths.iter().any(|path| !path.ours && path.remote == detour);
        chosen.retain(|detour| !peer.addresses.routes.contains(detour) && !is_there(*detour));
        if peer.addresses.detours.len() == chosen.len()
            && chosen.iter().all(|detour| peer.addresses.detours.contains(detour))
        {
            return;
        }
        let is_called = peer.is_established() || !peer.addresses.detours.is_empty();
        peer.addresses.detours = chosen;
        self.with_peer(now, to, |peer, cx| peer.bar_unwanted(cx, None));
        let links: Vec<_> = self.relaying.routes.up().cloned().collect();
        for link in links {
            self.with_peer(now, to, |peer, cx| peer.on_link_up(cx, &link));
        }
        if !is_called {
            self.start_handshakes(now);
        }
    }
}
