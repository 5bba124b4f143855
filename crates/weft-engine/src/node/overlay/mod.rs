//! The overlay: the nodes of one network find each other through any one of them.
//!
//! The state machine is weft-core's ([`weft_core::route::overlay`]). Its messages travel in the sessions with peers.
//! To reach a node without a session, this module contacts that node ([`Engine::meet`]), which must present its
//! certificate. Routes around a failed link belong to relaying, below the session. The overlay's own detours are not
//! used here.

mod status;

use super::Engine;
use crate::api::{Contact, OverlayConfig};
use crate::overlay::contact::{named, without_repeats};
use crate::relay::label_of;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_core::route::overlay::{OverlayState, OverlayTiming, OverlayTransmit};
use weft_core::route::ownership::OwnershipDirectory;
use weft_units::{Duration, Instant, NodeId, PeerId};
use weft_wire::link_map::is_link_map;
use weft_wire::overlay::OverlayMessage;
use weft_wire::ownership;

/// Interval at which contacted peers are checked for answers and use.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum length of an overlay message in bytes.
///
/// It fits into a control datagram on any path with an MTU of at least 1280 bytes.
const MAX_MESSAGE: usize = 1_120;

impl Engine {
    /// Joins or leaves the overlay. Without a certificate of this node ([`Engine::set_trust`]) nothing happens.
    pub fn set_overlay(&mut self, now: Instant, config: Option<OverlayConfig>) {
        let config = config.filter(|_| self.trust.shows_certificate());
        if self.overlay.config == config {
            return;
        }
        if let (Some(own), Some(new)) = (&mut self.overlay.config, &config)
            && (OverlayConfig { routes: new.routes, ..own.clone() }) == *new
        {
            own.routes = new.routes;
            return self.overlay.mapping.iter_mut().for_each(|mapping| mapping.most_routes = new.routes);
        }
        self.give_up_all(now);
        self.overlay.meetings.begin_with(config.as_ref().map_or(&[], |config| &config.contacts));
        self.overlay.state = config.as_ref().map(|config| Box::new(self.new_overlay(now, config)));
        self.overlay.owners = config.as_ref().map(|_| Box::new(self.new_owners(now)));
        self.overlay.config = config;
        self.overlay.look_at = Some(now + LOOK_INTERVAL);
        self.overlay.members.clear();
        self.restart_mapping(now);
        let in_session: Vec<PeerId> =
            self.peers.iter().filter(|peer| peer.is_established()).map(|peer| peer.id).collect();
        for peer in in_session {
            self.note_member(now, peer);
            self.on_session(now, peer);
        }
        self.claim_own(now);
        self.drive_overlay(now);
    }

    /// Updates whether a configured peer is an overlay member: its handshake must show a valid certificate.
    pub(super) fn note_member(&mut self, now: Instant, peer: PeerId) {
        if self.overlay.is_on() && !self.is_dynamic(peer) && self.has_shown_good(now, peer) {
            self.overlay.members.insert(peer);
        } else {
            self.overlay.members.remove(&peer);
        }
    }

    fn new_overlay(&self, now: Instant, config: &OverlayConfig) -> OverlayState {
        let own = Contact { public_key: self.sessions.public_key(), endpoints: config.endpoints.clone() };
        let configured = self.peers.iter().filter(|peer| self.is_present(peer) && !self.is_dynamic(peer.id));
        let configured = configured
            .map(|peer| Contact { public_key: peer.config.public_key, endpoints: peer.config.endpoints.clone() });
        let bootstrap = config.contacts.iter().cloned().chain(configured).map(|contact| named(&contact)).collect();
        let rng = self.rng.split(now.as_nanos().rotate_left(24));
        OverlayState::new(now, named(&own), bootstrap, OverlayTiming::default(), rng)
    }

    /// Returns the peer that has this node id, or `None` if no peer has it.
    pub(super) fn peer_at(&self, id: NodeId) -> Option<PeerId> {
        let is_it = |peer: &PeerId| self.peers.get(usize::from(peer.0)).is_some_and(|found| found.node == id);
        self.relaying.labels.all(label_of(&id)).find(is_it)
    }

    /// Informs the overlay that a session with a peer has begun.
    pub(super) fn on_session(&mut self, now: Instant, peer: PeerId) {
        let (Some(state), Some(of)) = (&mut self.overlay.state, self.peers.get(usize::from(peer.0))) else { return };
        // Only a configured peer is added here. A peer that joined by certificate sends its key and addresses itself
        // if it takes part in the overlay.
        if self.overlay.members.contains(&peer) {
            let (public_key, endpoints) = (of.config.public_key, of.config.endpoints.clone());
            state.handle_met(now, &named(&Contact { public_key, endpoints }));
        }
        state.handle_reachable(now, of.node);
        self.drive_overlay(now);
        self.map_member(now, peer);
    }

    /// Informs the overlay that a peer has ended its session.
    pub(super) fn on_session_closed(&mut self, now: Instant, index: usize) {
        let (Some(state), Some(peer)) = (&mut self.overlay.state, self.peers.get(index)) else { return };
        state.handle_leave(now, peer.node);
        self.drive_overlay(now);
    }

    /// Passes the waiting overlay messages of a peer to the overlay.
    ///
    /// A turn ends after a message that needs a signature check. The remaining messages wait, so that they do not
    /// delay the packets of other peers.
    pub(super) fn take_overlay_messages(&mut self, now: Instant, index: usize) {
        let before = self.map_checks();
        while self.map_checks() == before
            && let Some(peer) = self.peers.get_mut(index)
            && let Some(message) = peer.take_overlay_message()
        {
            let peer = peer.id;
            self.on_overlay_message(now, peer, &message);
        }
        if let (Some(peer), Some(mapping)) = (self.peers.get(index), &mut self.overlay.mapping)
            && peer.has_overlay_messages()
        {
            mapping.hear_more(now, peer.id);
        }
        self.drive_overlay(now);
    }

    fn on_overlay_message(&mut self, now: Instant, peer: PeerId, bytes: &[u8]) {
        let is_of_network = self.trust.is_certified(peer) || self.overlay.members.contains(&peer);
        let Some(of) = self.peers.get(usize::from(peer.0)).filter(|_| is_of_network) else { return };
        if is_link_map(bytes) {
            return self.on_map_message(now, peer, bytes);
        }
        let (id, public_key) = (of.node, of.config.public_key);
        let seen: Vec<SocketAddr> = of.direct_remotes().collect();
        if OwnershipDirectory::is_for(bytes) {
            return self.on_directory_message(now, id, &seen, bytes);
        }
        let Some(state) = &mut self.overlay.state else { return };
        let known = state.details(id).and_then(Contact::decode).map_or_else(Vec::new, |known| known.endpoints);
        if state.handle_message(now, id, None, bytes).is_err() {
            return;
        }
        for told in state.take_told() {
            if let Some(contact) = Contact::decode(&told.details).filter(|contact| contact.id() == told.id) {
                self.call_where_told(now, &contact);
            }
        }
        let said = match OverlayMessage::parse(bytes) {
            Ok(OverlayMessage::Introduction { details, .. }) => Contact::decode(details),
            _ => None,
        };
        let Some(said) = said.filter(|said| said.public_key == public_key) else { return };
        let is_seen = !seen.is_empty();
        let endpoints = without_repeats(said.endpoints.into_iter().chain(seen).chain(known));
        self.set_details(&Contact { public_key, endpoints: endpoints.clone() });
        if !is_seen && self.is_dynamic(peer) {
            self.call_at(now, peer, &endpoints);
        }
    }

    fn set_details(&mut self, contact: &Contact) {
        if let Some(state) = &mut self.overlay.state {
            state.set_details(contact.id(), &contact.encode());
        }
    }

    /// Sends handshakes to a peer that only relays reach, at addresses that another node reported.
    ///
    /// A node behind a NAT does not know its outer address. A peer with a session over a relay learns the address
    /// only from a third node, and the NATs let no datagram in until both ends have sent one.
    pub(super) fn call_where_told(&mut self, now: Instant, contact: &Contact) {
        let peer = self.sessions.peer_by_key(&contact.public_key);
        let Some(peer) = peer.filter(|peer| self.is_dynamic(*peer) && !self.overlay.meetings.is_leaving(*peer)) else {
            return;
        };
        let Some(of) = self.peers.get(usize::from(peer.0)) else { return };
        let known = &of.config.endpoints;
        if of.direct_remotes().next().is_some() || contact.endpoints.iter().all(|told| known.contains(told)) {
            return;
        }
        // The new addresses come first, because a full list drops the last ones.
        let endpoints = without_repeats(contact.endpoints.iter().chain(known).copied());
        self.set_details(&Contact { public_key: contact.public_key, endpoints: endpoints.clone() });
        self.call_at(now, peer, &endpoints);
    }

    /// Sends the overlay's messages, and updates the time of its next timer.
    pub(super) fn drive_overlay(&mut self, now: Instant) {
        self.drive_owners(now);
        let mut out = [0; MAX_MESSAGE];
        while let Some(OverlayTransmit { to, via, len }) = self.poll_overlay(&mut out) {
            // A message for one of the overlay's own detours (`via`) is not sent. It is not needed: a node that can be
            // reached only through relays has a session with this node too, on a relayed route.
            if via.is_none() {
                self.send_overlay_message(now, to, out.get(..len).unwrap_or_default());
            }
        }
        let wake = self.overlay.state.as_mut().map(|state| state.next_timeout());
        self.overlay.wake =
            wake.into_iter().chain(self.overlay.owners.iter().map(|owners| owners.next_timeout())).min();
    }

    fn poll_overlay(&mut self, out: &mut [u8]) -> Option<OverlayTransmit> {
        let transmit = self.overlay.state.as_mut()?.poll_transmit(out);
        transmit.or_else(|| self.poll_directory(out))
    }

    fn send_overlay_message(&mut self, now: Instant, to: NodeId, message: &[u8]) {
        let peer = self.peer_at(to).and_then(|peer| self.peers.get_mut(usize::from(peer.0)));
        if let Some(peer) = peer.filter(|peer| peer.is_established()) {
            if self.trust.is_certified(peer.id) || self.overlay.members.contains(&peer.id) {
                peer.send_overlay(message);
            }
            return;
        }
        // A verdict answers a claim. A node that has ended its session does not wait for the answer, so none is sent.
        if matches!(ownership::ClaimMessage::parse(message), Ok(ownership::ClaimMessage::Verdict { .. })) {
            return;
        }
        let known = self.overlay.state.as_ref().and_then(|state| state.details(to));
        let details = known.or_else(|| self.overlay.owners.as_ref()?.directory.details(to));
        if let Some(contact) = details.and_then(Contact::decode).filter(|contact| contact.id() == to) {
            // The error is not needed here. For a configured contact, `give_up` reports it.
            let _ = self.meet(now, &contact);
        }
    }

    /// Runs the overlay's timers that are due.
    pub(super) fn refresh_overlay(&mut self, now: Instant) {
        self.refresh_mapping(now);
        if let Some(state) = self.overlay.state.as_mut().filter(|_| self.overlay.wake.is_some_and(|at| at <= now)) {
            state.handle_timeout(now);
            self.drive_overlay(now);
        }
        if self.overlay.look_at.is_some_and(|at| at <= now) {
            self.look_after_met(now);
            let is_needed = self.overlay.is_on() || !self.overlay.meetings.is_empty();
            self.overlay.look_at = is_needed.then_some(now + LOOK_INTERVAL);
        }
    }
}
