//! The overlay in the node: the nodes of a network find each other through any one of them.
//!
//! The state machine is weft-core's ([`weft_core::route::overlay`]). Its messages travel in the sessions that peers have; where it wants to
//! talk to a node with which there is none, that node is called ([`Engine::meet`]) and has to show its certificate. What goes around
//! a link that is down is the relays' matter, below the session: the overlay's own detours carry nothing here.

mod contact;
mod meet;
mod owners;
mod status;

pub use contact::{Contact, MAX_ENDPOINTS};
pub use meet::Unmet;
pub use status::{ContactStatus, OverlayMember, OverlayStatus};

use crate::node::Engine;
use crate::peer::Peer;
use crate::relay::{is_route, label_of};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::SocketAddr;
use meet::Meetings;
use owners::Owners;
use weft_core::route::overlay::{self, Overlay, Timing, Transmit};
use weft_core::route::ownership::Directory;
use weft_units::{Duration, Instant, NodeId, PeerId};
use weft_wire::overlay::Message;
use weft_wire::ownership;

/// How often it is looked after those who were met.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a message that fits into a control datagram on any path of 1280 bytes and more.
const MAX_MESSAGE: usize = 1_120;

/// What a node needs to know to find others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverlayConfig {
    /// Where this node can be called, as far as it knows; others add the addresses they see it at.
    pub endpoints: Vec<SocketAddr>,
    /// Nodes to begin with, beside the configured peers.
    pub contacts: Vec<Contact>,
}

/// A node's part in the overlay, and whom it has met.
#[derive(Default)]
pub(crate) struct Overlaying {
    config: Option<OverlayConfig>,
    state: Option<Box<Overlay>>,
    owners: Option<Box<Owners>>,
    /// When the state machine has something to do.
    wake: Option<Instant>,
    look_at: Option<Instant>,
    pub(crate) meetings: Meetings,
    /// Configured peers that have shown a certificate, too: others are not told of the network.
    members: BTreeSet<PeerId>,
}

impl Overlaying {
    /// When [`Engine::refresh_overlay`] has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.wake.into_iter().chain(self.look_at).min()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.state.is_some()
    }

    /// It is no peer any more.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) {
        self.meetings.forget(peer);
        self.members.remove(&peer);
    }
}

impl Engine {
    /// Takes part in the network's overlay from now on, or no more. It needs a certificate to show ([`Engine::set_trust`]); without one
    /// nothing happens.
    pub fn set_overlay(&mut self, now: Instant, config: Option<OverlayConfig>) {
        let config = config.filter(|_| self.trust.shows_certificate());
        if self.overlay.config == config {
            return;
        }
        self.give_up_all(now);
        self.overlay.meetings.begin_with(config.as_ref().map_or(&[], |config| &config.contacts));
        self.overlay.state = config.as_ref().map(|config| Box::new(self.new_overlay(now, config)));
        self.overlay.owners = config.as_ref().map(|_| Box::new(self.new_owners(now)));
        self.overlay.config = config;
        self.overlay.look_at = Some(now + LOOK_INTERVAL);
        self.overlay.members.clear();
        let in_session: Vec<PeerId> =
            self.peers.iter().filter(|peer| peer.is_established()).map(|peer| peer.id).collect();
        for peer in in_session {
            self.note_member(now, peer);
            self.on_session(now, peer);
        }
        self.claim_own(now);
        self.settle_overlay(now);
    }

    /// A configured peer has shaken hands: it is of the network while it shows a good certificate.
    fn note_member(&mut self, now: Instant, peer: PeerId) {
        if self.overlay.is_on() && !self.is_dynamic(peer) && self.has_shown_good(now, peer) {
            self.overlay.members.insert(peer);
        } else {
            self.overlay.members.remove(&peer);
        }
    }

    fn new_overlay(&self, now: Instant, config: &OverlayConfig) -> Overlay {
        let own = Contact { public_key: self.sessions.public_key(), endpoints: config.endpoints.clone() };
        let configured = self.peers.iter().filter(|peer| self.is_present(peer) && !self.is_dynamic(peer.id));
        let configured = configured
            .map(|peer| Contact { public_key: peer.config.public_key, endpoints: peer.config.endpoints.clone() });
        let bootstrap = config.contacts.iter().cloned().chain(configured).map(|contact| named(&contact)).collect();
        let rng = self.rng.split(now.as_nanos().rotate_left(24));
        Overlay::new(now, named(&own), bootstrap, Timing::default(), rng)
    }

    /// The peer at a place of the overlay.
    pub(crate) fn peer_at(&self, id: NodeId) -> Option<PeerId> {
        let is_it = |peer: &PeerId| self.peers.get(usize::from(peer.0)).is_some_and(|found| found.node == id);
        self.relaying.labels.all(label_of(&id)).find(is_it)
    }

    /// A session with a peer has begun.
    pub(crate) fn on_session(&mut self, now: Instant, peer: PeerId) {
        let (Some(state), Some(of)) = (&mut self.overlay.state, self.peers.get(usize::from(peer.0))) else { return };
        // A peer by certificate introduces itself if it wants.
        if self.overlay.members.contains(&peer) {
            let (public_key, endpoints) = (of.config.public_key, of.config.endpoints.clone());
            state.handle_met(now, &named(&Contact { public_key, endpoints }));
        }
        state.handle_reachable(now, of.node);
        self.settle_overlay(now);
    }

    /// A peer has ended its session.
    pub(crate) fn on_session_closed(&mut self, now: Instant, index: usize) {
        let (Some(state), Some(peer)) = (&mut self.overlay.state, self.peers.get(index)) else { return };
        state.handle_leave(now, peer.node);
        self.settle_overlay(now);
    }

    /// Hands what a peer has said to the overlay.
    pub(crate) fn take_overlay_messages(&mut self, now: Instant, index: usize) {
        while let Some((peer, message)) =
            self.peers.get_mut(index).and_then(|peer| Some((peer.id, peer.take_overlay_message()?)))
        {
            self.on_overlay_message(now, peer, &message);
        }
        self.settle_overlay(now);
    }

    fn on_overlay_message(&mut self, now: Instant, peer: PeerId, bytes: &[u8]) {
        let is_of_network = self.trust.is_certified(peer) || self.overlay.members.contains(&peer);
        let Some(of) = self.peers.get(usize::from(peer.0)).filter(|_| is_of_network) else { return };
        let (id, public_key) = (of.node, of.config.public_key);
        let seen: Vec<SocketAddr> = of.direct_remotes().collect();
        if Directory::is_for(bytes) {
            return self.on_directory_message(now, id, &seen, bytes);
        }
        let Some(state) = &mut self.overlay.state else { return };
        let known = state.details(id).and_then(Contact::decode).map_or_else(Vec::new, |known| known.endpoints);
        if state.handle_message(now, id, None, bytes).is_err() {
            return;
        }
        let said = match Message::parse(bytes) {
            Ok(Message::Introduction { details, .. }) => Contact::decode(details),
            _ => None,
        };
        let Some(said) = said.filter(|said| said.public_key == public_key) else { return };
        let is_seen = !seen.is_empty();
        let endpoints = without_repeats(said.endpoints.into_iter().chain(seen).chain(known));
        state.set_details(id, &Contact { public_key, endpoints: endpoints.clone() }.encode());
        if !is_seen && self.is_dynamic(peer) {
            self.call_at(now, peer, &endpoints);
        }
    }

    /// Sends what the overlay has to say, and sees when it wants to be woken.
    pub(crate) fn settle_overlay(&mut self, now: Instant) {
        self.settle_owners(now);
        let mut out = [0; MAX_MESSAGE];
        while let Some(Transmit { to, via, len }) = self.poll_overlay(&mut out) {
            // Whoever can be reached by relays only has a session all the same.
            if via.is_none() {
                self.send_overlay_message(now, to, out.get(..len).unwrap_or_default());
            }
        }
        let wake = self.overlay.state.as_mut().map(|state| state.next_timeout());
        self.overlay.wake =
            wake.into_iter().chain(self.overlay.owners.iter().map(|owners| owners.next_timeout())).min();
    }

    fn poll_overlay(&mut self, out: &mut [u8]) -> Option<Transmit> {
        let transmit = self.overlay.state.as_mut()?.poll_transmit(out);
        transmit.or_else(|| self.poll_directory(out))
    }

    fn send_overlay_message(&mut self, now: Instant, to: NodeId, message: &[u8]) {
        let peer = self.peer_at(to).and_then(|peer| self.peers.get_mut(usize::from(peer.0)));
        if let Some(peer) = peer.filter(|peer| peer.is_established()) {
            if self.trust.is_certified(peer.id) || self.overlay.members.contains(&peer.id) {
                peer.tell_overlay(message);
            }
            return;
        }
        // Whoever has ended the session since does not wait for an answer.
        if matches!(ownership::Message::parse(message), Ok(ownership::Message::Verdict { .. })) {
            return;
        }
        let known = self.overlay.state.as_ref().and_then(|state| state.details(to));
        let details = known.or_else(|| self.overlay.owners.as_ref()?.directory.details(to));
        if let Some(contact) = details.and_then(Contact::decode).filter(|contact| contact.id() == to) {
            // It says by itself why not, if it was asked for.
            let _ = self.meet(now, &contact);
        }
    }

    /// Does what is due.
    pub(crate) fn refresh_overlay(&mut self, now: Instant) {
        if let Some(state) = self.overlay.state.as_mut().filter(|_| self.overlay.wake.is_some_and(|at| at <= now)) {
            state.handle_timeout(now);
            self.settle_overlay(now);
        }
        if self.overlay.look_at.is_some_and(|at| at <= now) {
            self.look_after_met(now);
            let is_needed = self.overlay.is_on() || !self.overlay.meetings.is_empty();
            self.overlay.look_at = is_needed.then_some(now + LOOK_INTERVAL);
        }
    }
}

/// A contact as the overlay takes it.
fn named(contact: &Contact) -> overlay::Contact {
    overlay::Contact { id: contact.id(), details: contact.encode().into() }
}

fn without_repeats(endpoints: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut list = Vec::new();
    for endpoint in endpoints {
        if !list.contains(&endpoint) {
            list.push(endpoint);
        }
    }
    list.truncate(MAX_ENDPOINTS);
    list
}

impl Peer {
    /// Where it is reached now without relays.
    fn direct_remotes(&self) -> impl Iterator<Item = SocketAddr> {
        let answers = self.paths.iter().filter(|path| path.health.answers() && !is_route(&path.remote));
        answers.map(|path| path.remote)
    }
}
