//! Contacts nodes whose key and address are known, and removes contacted peers that are not used.
//!
//! A contacted node becomes a peer once it has presented a valid certificate. If a contact does not answer, this node
//! pauses before it sends the contact another handshake. The initiator removes a peer that neither the overlay nor
//! traffic has used for some time.

use super::Engine;
use super::overlay::LOOK_INTERVAL;
use crate::api::{Contact, Event, PeerConfig, Unmet};
use crate::overlay::contact::without_repeats;
use crate::overlay::meetings::Met;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_core::route::overlay::NodeStanding;
use weft_units::{Duration, Instant, NodeId, PeerId};

/// Maximum number of peers at one time that this node contacted by key.
const MAX_MET: usize = 1_024;
/// Time within which a contacted node must answer the handshake before it is removed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time without use by the overlay or by traffic after which a contacted peer is removed.
const WANTED_FOR: Duration = Duration::from_secs(60);
/// Time without any datagram from a certified peer after which the peer is removed, while the overlay is on.
///
/// *Derived*: an idle path is probed every 25 s, and a probe without an answer is soon repeated. So 20 s of probes had
/// no answer.
const SILENT_FOR: Duration = Duration::from_secs(45);
/// Time without any datagram from a certified peer after which it is removed if it is silent in the overlay, too.
const LOST_FOR: Duration = Duration::from_secs(5);

impl Engine {
    /// Contacts a node that is known by key and addresses only.
    ///
    /// Its certificate states its name and prefixes ([`Event::Joined`]). An existing peer only gets the new
    /// addresses. The node is removed again if it sends no valid certificate, or when it is no longer needed.
    ///
    /// # Errors
    /// Fails with [`Unmet`]. In that case nothing has changed.
    pub fn meet(&mut self, now: Instant, contact: &Contact) -> Result<PeerId, Unmet> {
        let key = contact.public_key;
        if key == self.sessions.public_key() {
            return Err(Unmet::Myself);
        }
        if self.trust.revocations.has(&key) {
            return Err(Unmet::Revoked);
        }
        match self.sessions.peer_by_key(&key) {
            Some(peer) if self.overlay.meetings.is_leaving(peer) => self.dismiss(now, peer, "this node calls it again"),
            Some(peer) => {
                self.meet_again(now, peer, contact);
                return Ok(peer);
            }
            None => {}
        }
        let policy = self.trust.policy_of_certified().ok_or(Unmet::NothingToShow)?;
        if self.overlay.meetings.rests(now, &key) {
            return Err(Unmet::JustTried);
        }
        if self.overlay.meetings.met.len() >= MAX_MET {
            return Err(Unmet::TooMany);
        }
        let id = self.sessions.add_peer(key.into()).map_err(|_| Unmet::TooMany)?;
        self.trust.restore_stamp(&mut self.sessions, id, &key);
        let config = PeerConfig {
            preshared_key: None,
            name: name_of(&contact.id()),
            public_key: key,
            endpoints: contact.endpoints.clone(),
            routes: Vec::new(),
            prefixes: Vec::new(),
            policy,
        };
        self.place_peer(now, id, config);
        self.overlay.meetings.met.insert(id, Met { called_at: now, wanted_at: now, is_leaving: false });
        self.overlay.look_at.get_or_insert(now + LOOK_INTERVAL);
        self.on_peer_changed(now, id);
        self.relaying.look_soon(now);
        self.call(now, id);
        Ok(id)
    }

    /// True if a peer is not configured: it joined by certificate, or was contacted and must present a certificate.
    pub(super) fn is_dynamic(&self, peer: PeerId) -> bool {
        self.trust.is_certified(peer) || self.overlay.meetings.has(peer)
    }

    fn meet_again(&mut self, now: Instant, peer: PeerId, contact: &Contact) {
        if let Some(met) = self.overlay.meetings.met.get_mut(&peer) {
            met.wanted_at = now;
        }
        let is_established = self.peers.get(usize::from(peer.0)).is_some_and(|peer| peer.is_established());
        if !is_established && self.is_dynamic(peer) {
            self.call_at(now, peer, &contact.endpoints);
        } else {
            self.call_where_told(now, contact);
        }
    }

    /// Sends handshakes to a peer at these addresses as well. The addresses that answer are kept.
    pub(super) fn call_at(&mut self, now: Instant, peer: PeerId, endpoints: &[SocketAddr]) {
        let Some(of) = self.peers.get_mut(usize::from(peer.0)) else { return };
        let answering: Vec<SocketAddr> = of.direct_remotes().collect();
        let known = of.config.endpoints.iter().copied().filter(|known| answering.contains(known));
        let wanted = without_repeats(known.chain(endpoints.iter().copied()));
        if wanted != of.config.endpoints {
            of.config.endpoints = wanted;
            self.call(now, peer);
        }
    }

    fn call(&mut self, now: Instant, peer: PeerId) {
        let links: Vec<_> = self.links.iter().chain(self.relaying.routes.up()).cloned().collect();
        for link in links {
            self.with_peer(now, peer.0.into(), |peer, cx| peer.on_link_up(cx, &link));
        }
        let to = self.peers.get(usize::from(peer.0));
        if to.is_some_and(|to| !to.is_established() && to.endpoints().next().is_some()) {
            let _ = self.sessions.force_initiate(now, peer);
        }
    }

    /// Checks the certificate that a peer sent in a handshake. Returns false if the peer was removed.
    pub(super) fn on_shown(&mut self, now: Instant, peer: PeerId) -> bool {
        if !self.overlay.meetings.has(peer) || self.trust.is_certified(peer) {
            self.renew(now, peer);
            self.note_member(now, peer);
            return true;
        }
        let Some(key) = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key) else { return false };
        match self.certify(now, peer) {
            Ok(()) => {
                self.overlay.meetings.note(now, key, None);
                true
            }
            Err(why) => {
                self.give_up(now, peer, why);
                false
            }
        }
    }

    /// Removes a contacted node that did not present a valid certificate in time, and reports the reason `why`.
    fn give_up(&mut self, now: Instant, peer: PeerId, why: Unmet) {
        let Some(key) = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key) else { return };
        self.on_owner_unreachable(now, key.node_id());
        self.remove_peer(now, peer.0.into(), "it presented no valid certificate");
        self.on_peer_changed(now, peer);
        if self.overlay.meetings.note(now, key, Some(&why)) {
            self.events.queue.push_back(Event::Unmet { public_key: key, why });
        }
    }

    /// Removes contacted nodes that do not answer, and certified peers that do not answer or are not needed.
    pub(super) fn look_after_met(&mut self, now: Instant) {
        let is_certified = |peer: &PeerId| self.trust.is_certified(*peer);
        let met = self.overlay.meetings.met.iter();
        let unanswered = met.filter(|(peer, met)| !is_certified(peer) && now - met.called_at >= ANSWER_WITHIN);
        let unanswered: Vec<PeerId> = unanswered.map(|(peer, _)| *peer).collect();
        unanswered.into_iter().for_each(|peer| self.give_up(now, peer, Unmet::Silent));
        let certified: Vec<PeerId> = self.certified_peers().map(|certified| certified.peer).collect();
        for peer in certified {
            if self.is_silent(now, peer) {
                self.dismiss(now, peer, "it stopped answering");
            } else {
                self.let_go_if_unwanted(now, peer);
            }
        }
    }

    fn standing(&self, peer: PeerId) -> Option<NodeStanding> {
        let node = self.peers.get(usize::from(peer.0))?.node;
        self.overlay.state.as_ref()?.standing(node)
    }

    fn is_silent(&self, now: Instant, peer: PeerId) -> bool {
        let patience = if self.standing(peer) == Some(NodeStanding::Lost) { LOST_FOR } else { SILENT_FOR };
        let of = self.peers.get(usize::from(peer.0)).filter(|of| of.is_established());
        self.overlay.is_on() && of.is_some_and(|of| of.session.heard_at.is_some_and(|at| now - at >= patience))
    }

    /// Removes an unused peer that this node contacted.
    ///
    /// If the peer also contacted this node, both nodes must agree to the removal.
    fn let_go_if_unwanted(&mut self, now: Instant, peer: PeerId) {
        let is_of_overlay = matches!(self.standing(peer), Some(NodeStanding::Member | NodeStanding::Candidate));
        let Some(of) = self.peers.get_mut(usize::from(peer.0)) else { return };
        let Some(met) = self.overlay.meetings.met.get_mut(&peer) else { return };
        if met.is_leaving {
            return self.dismiss(now, peer, "no longer used");
        }
        if is_of_overlay || of.is_busy(now) || of.overlay_heard_since(now, WANTED_FOR) {
            met.wanted_at = now;
        } else if now - met.wanted_at >= WANTED_FOR {
            met.is_leaving = true;
            of.close();
            of.stop_calling();
        }
    }
}

/// Returns the name of a contacted node until its certificate arrives: the first eight digits of its id.
fn name_of(id: &NodeId) -> String {
    id.to_string().chars().take(8).collect()
}
