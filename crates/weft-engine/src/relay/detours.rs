//! Detours: routes over one relay that nobody asked for, ready for when nothing else reaches a peer.

use super::Label;
use crate::node::Engine;
use crate::peer::Peer;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Duration, Instant, PeerId};
use weft_wire::frame::Neighbour;
use weft_wire::relay::Way;

/// How many are kept ready for each peer. They have no relay in common.
const DETOURS: usize = 2;
/// How often it is looked for better ones.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Another is better only if it takes less than so much of the time.
const BETTER: f64 = 0.8;

/// How long a datagram takes over a relay, with what is lost counted as repeated.
fn cost(relay: &Peer, behind: &Neighbour) -> Option<f64> {
    let path = relay.fastest_direct_path().filter(|path| path.health.answers())?;
    let lost = path.loss().fraction() + f64::from(behind.loss) / 256.0;
    let round_trip = path.rtt().smoothed() + Duration::from_micros(behind.rtt_us.into());
    Some(round_trip.as_secs_f64() * (1.0 + 2.0 * lost))
}

impl Engine {
    /// Asks those peers whom they reach over which a detour may lead: there is another peer, and the configuration allows detours.
    ///
    /// Otherwise a hub would tell each of its peers of all the others, which costs it the square of their number.
    pub(super) fn choose_speakers(&mut self) {
        let present = self.peers.iter().filter(|peer| self.is_present(peer)).count();
        let wants: Vec<bool> = self.peers.iter().map(|peer| present > 1 && peer.config.policy.detours).collect();
        for (index, wants) in wants.into_iter().enumerate() {
            if self.peers.get(index).is_some_and(|peer| peer.wants_neighbours() != wants)
                && let Some(peer) = self.peers.get_mut(index)
            {
                peer.want_neighbours(wants);
            }
        }
    }

    /// Looks for detours by what relays have said.
    pub(super) fn refresh_detours(&mut self, now: Instant) {
        let is_needed = self.peers.iter().any(|peer| !peer.reach.is_empty() || !peer.detours.is_empty());
        self.relaying.look_at = is_needed.then_some(now + LOOK_EVERY);
        if !is_needed {
            return;
        }
        let mut relays = core::mem::take(&mut self.relaying.speakers);
        relays.clear();
        relays.extend(self.peers.iter().filter(|peer| !peer.reach.is_empty()).map(|peer| peer.id));
        for index in 0..self.peers.len() {
            // One of the two ends looks for both; whom this node calls may not know it.
            let Some(peer) = self.peers.get(index) else { continue };
            let is_called = self.overlay.meetings.has(peer.id) && !peer.is_established();
            if (self.sessions.public_key() > peer.config.public_key || is_called) && self.is_present(peer) {
                self.choose_detours(now, index, &relays);
            }
        }
        self.relaying.speakers = relays;
    }

    fn choose_detours(&mut self, now: Instant, to: usize, relays: &[PeerId]) {
        let (Some(peer), labels) = (self.peers.get(to), &self.relaying.labels) else { return };
        let Some(label) = labels.of(to) else { return };
        let mut found: Vec<(f64, PeerId)> = Vec::new();
        let relays = relays.iter().filter_map(|relay| self.peers.get(usize::from(relay.0)));
        for relay in relays.filter(|relay| relay.id != peer.id && peer.config.policy.detours) {
            let cost = relay.reach.of(now, label).and_then(|behind| cost(relay, &behind));
            let is_used = self.relaying.routes.leads_over(relay.id, &peer.detours);
            found.extend(cost.map(|cost| (if is_used { cost * BETTER } else { cost }, relay.id)));
        }
        found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let chosen = found.iter().take(DETOURS).filter_map(|(_, relay)| self.detour(now, *relay, label)).collect();
        self.set_detours(now, to, chosen);
    }

    fn detour(&mut self, now: Instant, relay: PeerId, to: Label) -> Option<SocketAddr> {
        let way = Way::new(&[to]).ok()?;
        let name = &self.peers.get(usize::from(relay.0))?.config.name;
        Some(self.relaying.routes.configure(now, relay, way, name))
    }

    fn set_detours(&mut self, now: Instant, to: usize, mut chosen: Vec<SocketAddr>) {
        let peer = &mut self.peers[to];
        // Nor one that is asked for, here or there.
        let is_there = |detour| peer.paths.iter().any(|path| !path.ours && path.remote == detour);
        chosen.retain(|detour| !peer.routes.contains(detour) && !is_there(*detour));
        if peer.detours.len() == chosen.len() && chosen.iter().all(|detour| peer.detours.contains(detour)) {
            return;
        }
        let is_called = peer.is_established() || !peer.detours.is_empty();
        peer.detours = chosen;
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
