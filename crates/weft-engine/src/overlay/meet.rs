//! Calling nodes that are known by their keys only, and forgetting them again.

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
use weft_core::route::overlay::Standing;
use weft_session::PublicKey;
use weft_units::{Duration, Instant, NodeId, PeerId};

/// Peers that were called, at a time.
const MAX_MET: usize = 1_024;
/// Who has not answered by then is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Who was called in vain is left alone for so long; a contact of the configuration for less.
const REST: Duration = Duration::from_secs(30);
const SHORT_REST: Duration = Duration::from_secs(3);
/// So many who were called in vain are remembered.
const MAX_UNMET: usize = 1_024;
/// Whom neither the overlay nor traffic has wanted for so long is let go.
const WANTED_FOR: Duration = Duration::from_secs(60);
/// A peer by certificate that is silent for so long is gone: idle paths are tried every fifteen seconds.
const SILENT_FOR: Duration = Duration::from_secs(45);
/// The same where the overlay has lost it, too.
const LOST_FOR: Duration = Duration::from_secs(5);

/// Why a node was not met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// This node itself.
    Myself,
    /// This node has no certificate to show.
    NothingToShow,
    /// Its key was revoked.
    Revoked,
    /// It was called in vain a short time ago.
    JustTried,
    /// There are as many such peers as there may be.
    TooMany,
    /// It did not answer: no such node there, or it does not know this node's root key, or nothing arrives.
    Silent,
    /// It showed no certificate.
    NoCertificate,
    /// What it showed does not make it a peer.
    Refused(Rejection),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unmet::Myself => "it is this node itself",
            Unmet::NothingToShow => "this node has no certificate to show",
            Unmet::Revoked => "its key was revoked",
            Unmet::JustTried => "it was called in vain a short time ago",
            Unmet::TooMany => "too many nodes are being talked to",
            Unmet::Silent => {
                "no answer: the address or the key is wrong, or it does not accept this node's certificate"
            }
            Unmet::NoCertificate => "it showed no certificate",
            Unmet::Refused(why) => return write!(f, "{why}"),
        })
    }
}

/// A peer that was called by its key alone.
#[derive(Debug)]
struct Met {
    called_at: Instant,
    wanted_at: Instant,
    /// It was told goodbye, and goes at the next look.
    is_leaving: bool,
}

/// Whom this node has called, and who was called in vain.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    met: BTreeMap<PeerId, Met>,
    /// Not to be called before then.
    resting: BTreeMap<PublicKey, Instant>,
    /// The configuration's contacts, and why they were not met.
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

    /// The peers that were called.
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

    /// Notes what came of calling a contact; true if that is news of one of the configuration's.
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
    /// Calls a node that is known by its key and addresses only: its certificate says what it is called and what lies behind it
    /// ([`Event::Joined`]). Who is a peer already gets what addresses are new. Without a good certificate, and when nobody wants it any more,
    /// it is let go again.
    ///
    /// # Errors
    /// [`Unmet`]; nothing has changed then.
    pub fn meet(&mut self, now: Instant, contact: &Contact) -> Result<PeerId, Unmet> {
        let key = contact.public_key;
        if key == self.sessions.public_key() {
            return Err(Unmet::Myself);
        }
        if self.trust.revocations.has(&key) {
            return Err(Unmet::Revoked);
        }
        match self.sessions.peer_by_key(&key) {
            Some(peer) if self.overlay.meetings.is_leaving(peer) => self.dismiss(now, peer, "it is called anew"),
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

    /// Whether a peer is not of the configuration: it came by certificate, or was called to show one.
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

    /// Calls a peer at these addresses, too; those that answer stay.
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

    /// A peer has shaken hands: what it showed is looked at. False if it is no peer any more.
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

    /// Lets a node go that was called in vain.
    fn give_up(&mut self, now: Instant, peer: PeerId, why: Unmet) {
        let Some(key) = self.peers.get(usize::from(peer.0)).map(|peer| peer.config.public_key) else { return };
        self.on_owner_unreachable(now, key.node_id());
        self.remove_peer(now, peer.0.into(), "it did not show a good certificate");
        self.on_peer_changed(now, peer);
        if self.overlay.meetings.note(now, key, Some(&why)) {
            self.events.push_back(Event::Unmet { public_key: key, why });
        }
    }

    /// Lets those go who do not answer, are silent, or are wanted by nobody.
    pub(super) fn look_after_met(&mut self, now: Instant) {
        let is_certified = |peer: &PeerId| self.trust.is_certified(*peer);
        let met = self.overlay.meetings.met.iter();
        let unanswered = met.filter(|(peer, met)| !is_certified(peer) && now - met.called_at >= ANSWER_WITHIN);
        let unanswered: Vec<PeerId> = unanswered.map(|(peer, _)| *peer).collect();
        unanswered.into_iter().for_each(|peer| self.give_up(now, peer, Unmet::Silent));
        let certified: Vec<PeerId> = self.certified_peers().map(|certified| certified.peer).collect();
        for peer in certified {
            if self.is_silent(now, peer) {
                self.dismiss(now, peer, "it fell silent");
            } else {
                self.let_go_if_unwanted(now, peer);
            }
        }
    }

    fn standing(&self, peer: PeerId) -> Option<Standing> {
        let node = self.peers.get(usize::from(peer.0))?.node;
        self.overlay.state.as_ref()?.standing(node)
    }

    fn is_silent(&self, now: Instant, peer: PeerId) -> bool {
        let patience = if self.standing(peer) == Some(Standing::Lost) { LOST_FOR } else { SILENT_FOR };
        let of = self.peers.get(usize::from(peer.0)).filter(|of| of.is_established());
        self.overlay.is_on() && of.is_some_and(|of| of.heard_at.is_some_and(|at| now - at >= patience))
    }

    /// Only who called lets go: where both did, both must want to.
    fn let_go_if_unwanted(&mut self, now: Instant, peer: PeerId) {
        let is_of_overlay = matches!(self.standing(peer), Some(Standing::Member | Standing::Candidate));
        let Some(of) = self.peers.get_mut(usize::from(peer.0)) else { return };
        let Some(met) = self.overlay.meetings.met.get_mut(&peer) else { return };
        if met.is_leaving {
            return self.dismiss(now, peer, "nobody needs it any more");
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

/// What a node is called until it has shown its certificate.
fn name_of(id: &NodeId) -> String {
    id.to_string().chars().take(8).collect()
}
