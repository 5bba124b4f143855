//! Calls nodes that are known by key and address, and removes unused ones.
//!
//! A called node becomes a peer once it has shown a valid certificate. Contacts that did not answer are left alone
//! for a while. The initiator removes a peer that neither the overlay nor traffic has used for some time.

use super::{Contact, LOOK_INTERVAL, without_repeats};
use crate::config::PeerConfig;
use crate::event::Event;
use crate::node::Engine;
use crate::trust::Rejection;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use weft_core::route::overlay::NodeStanding;
use weft_session::PublicKey;
use weft_units::{Duration, Instant, NodeId, PeerId};

/// Most peers at one time that this node called by key.
const MAX_MET: usize = 1_024;
/// Time within which a called node must answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Time before a node is called again after a failed call.
const REST: Duration = Duration::from_secs(30);
/// Time before a configured contact is called again after a failed call.
const SHORT_REST: Duration = Duration::from_secs(3);
/// Most nodes whose failed calls are remembered.
const MAX_UNMET: usize = 1_024;
/// Time without use by the overlay or by traffic after which a called peer is removed.
const WANTED_FOR: Duration = Duration::from_secs(60);
/// Silence after which a certified peer is removed.
///
/// Derived: three times the interval of 15 s at which idle paths are probed.
const SILENT_FOR: Duration = Duration::from_secs(45);
/// Silence after which a certified peer is removed if the overlay has lost it as well.
const LOST_FOR: Duration = Duration::from_secs(5);

/// The reason for which a node was not met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// The contact is this node itself.
    Myself,
    /// This node has no certificate to show.
    NothingToShow,
    /// The contact's key was revoked.
    Revoked,
    /// A call to the contact failed a short time ago.
    JustTried,
    /// The limit on called peers is reached.
    TooMany,
    /// The contact did not answer.
    ///
    /// No such node is there, it does not have this network's root key, or datagrams are lost.
    Silent,
    /// The contact showed no certificate.
    NoCertificate,
    /// The contact's certificate was rejected.
    Refused(Rejection),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unmet::Myself => "it is this node itself",
            Unmet::NothingToShow => "this node has no certificate to present",
            Unmet::Revoked => "its key was revoked",
            Unmet::JustTried => "a recent call to it got no answer",
            Unmet::TooMany => "too many called peers: the limit is reached",
            Unmet::Silent => {
                "no answer: the address or the key is wrong, or it does not accept this node's certificate"
            }
            Unmet::NoCertificate => "it presented no certificate",
            Unmet::Refused(why) => return write!(f, "{why}"),
        })
    }
}

/// A peer that was called by key.
#[derive(Debug)]
struct Met {
    called_at: Instant,
    wanted_at: Instant,
    /// True if the peer was sent CLOSE. It is removed at the next check.
    is_leaving: bool,
}

/// The peers that this node called by key, and the failed calls.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    met: BTreeMap<PeerId, Met>,
    /// Nodes with a recent failed call, and the time until which they are not called.
    resting: BTreeMap<PublicKey, Instant>,
    /// The configured contacts, and the reason for which each was not met.
    contacts: Vec<(Contact, Option<Unmet>)>,
}

impl Meetings {
    pub(super) fn begin_with(&mut self, contacts: &[Contact]) {
        self.contacts = contacts.iter().map(|contact| (contact.clone(), None)).collect();
        self.resting.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.met.is_empty()
    }

    pub(super) fn contacts(&self) -> &[(Contact, Option<Unmet>)] {
        &self.contacts
    }

    /// Returns the peers that this node called by key.
    pub(super) fn met(&self) -> impl Iterator<Item = PeerId> {
        self.met.keys().copied()
    }

    pub(crate) fn has(&self, peer: PeerId) -> bool {
        self.met.contains_key(&peer)
    }

    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.met.remove(&peer);
    }

    fn is_leaving(&self, peer: PeerId) -> bool {
        self.met.get(&peer).is_some_and(|met| met.is_leaving)
    }

    fn rests(&mut self, now: Instant, key: &PublicKey) -> bool {
        self.resting.retain(|_, until| *until > now);
        self.resting.contains_key(key)
    }

    /// Notes the outcome of a call. Returns true if it is a new outcome for a configured contact.
    fn note(&mut self, now: Instant, key: PublicKey, outcome: Option<&Unmet>) -> bool {
        let contact = self.contacts.iter_mut().find(|(contact, _)| contact.public_key == key);
        let rest = if contact.is_some() { SHORT_REST } else { REST };
        if outcome.is_some() && self.resting.len() < MAX_UNMET {
            self.resting.insert(key, now + rest);
        }
        let Some((_, known)) = contact.filter(|(_, known)| known.as_ref() != outcome) else { return false };
        *known = outcome.cloned();
        true
    }
}

impl Engine {
    /// Calls a node that is known by key and addresses only.
    ///
    /// Its certificate states its name and prefixes ([`Event::Joined`]). An existing peer only gets the new
    /// addresses. The node is removed again if it shows no valid certificate, or when nothing needs it any more.
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

    /// True if a peer is not configured: it joined by certificate, or was called to show one.
    pub(crate) fn is_dynamic(&self, peer: PeerId) -> bool {
        self.trust.is_certified(peer) || self.overlay.meetings.has(peer)
    }

    fn meet_again(&mut self, now: Instant, peer: PeerId, contact: &Contact) {
        if let Some(met) = self.overlay.meetings.met.get_mut(&peer) {
            met.wanted_at = now;
        }
        let is_established = self.peers.get(usize::from(peer.0)).is_some_and(|peer| peer.is_established());
        if !is_established && self.is_dynamic(peer) {
            self.call_at(now, peer, &contact.endpoints);
        }
    }

    /// Calls a peer at these addresses as well. The addresses that answer are kept.
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

    /// Checks the certificate that a peer showed in a handshake. Returns false if the peer was removed.
    pub(crate) fn on_shown(&mut self, now: Instant, peer: PeerId) -> bool {
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

    /// Removes a called node that did not become a peer.
    fn give_up(&mut self, now: Instant, peer: PeerId, why: Unmet) {
        let Some(key) = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key) else { return };
        self.on_owner_unreachable(now, key.node_id());
        self.remove_peer(now, peer.0.into(), "it presented no valid certificate");
        self.on_peer_changed(now, peer);
        if self.overlay.meetings.note(now, key, Some(&why)) {
            self.events.push_back(Event::Unmet { public_key: key, why });
        }
    }

    /// Removes called and certified peers that do not answer or are not needed.
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
        self.overlay.is_on() && of.is_some_and(|of| of.heard_at.is_some_and(|at| now - at >= patience))
    }

    /// Removes an unused peer if this node called it. If both nodes called, both must agree.
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

/// Returns the provisional name of a node that has not yet shown its certificate.
fn name_of(id: &NodeId) -> String {
    id.to_string().chars().take(8).collect()
}
