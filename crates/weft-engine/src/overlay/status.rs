//! The overlay as a reader sees it.

use super::{Contact, Unmet};
use crate::node::Engine;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use weft_core::route::overlay::{Quality, Standing};
use weft_units::NodeId;

/// A node's part in the overlay.
#[derive(Clone, Debug)]
pub struct OverlayStatus {
    /// Its place.
    pub id: NodeId,
    /// It has found its place.
    pub is_ready: bool,
    /// Nodes that are members here, were, or may become some, in the order of their places.
    pub members: Vec<OverlayMember>,
    /// How often a member has fallen silent since the start.
    pub losses: u64,
    /// Nodes that were called and have not answered yet.
    pub calling: usize,
    /// The configuration's contacts.
    pub contacts: Vec<ContactStatus>,
    /// Owners of prefixes whose claims this node keeps for the others.
    pub kept_owners: usize,
    /// Their prefixes.
    pub kept_prefixes: usize,
}

/// Another node of the overlay.
#[derive(Clone, Debug)]
pub struct OverlayMember {
    /// Its place.
    pub id: NodeId,
    /// Its name, if it is a peer.
    pub name: Option<String>,
    /// What it is to this node.
    pub standing: Standing,
    /// It is one of the next nodes on the ring.
    pub is_leaf: bool,
    /// What its link is worth.
    pub quality: Quality,
    /// Round-trip time, once there was an answer.
    pub rtt: Option<Duration>,
    /// What is lost of questions and answers together, 0…1.
    pub loss: f64,
    /// Only relays lead there.
    pub is_relayed: bool,
}

/// A node that the configuration names to begin with.
#[derive(Clone, Debug)]
pub struct ContactStatus {
    /// The node.
    pub contact: Contact,
    /// Its name, while there is a session with it.
    pub name: Option<String>,
    /// Why it was not met at the last try.
    pub why_not: Option<Unmet>,
}

impl Engine {
    /// How the overlay stands; none without it.
    pub fn overlay_status(&self) -> Option<OverlayStatus> {
        let state = self.overlay.state.as_ref()?;
        let members = state.known().filter_map(|id| self.overlay_member(id)).collect();
        let contact = |(contact, why_not): &(Contact, Option<Unmet>)| ContactStatus {
            contact: contact.clone(),
            name: self.name_in_session(contact.id()),
            why_not: why_not.clone(),
        };
        let (kept_owners, kept_prefixes) = self.kept_claims();
        Some(OverlayStatus {
            id: state.id(),
            is_ready: state.is_ready(),
            members,
            calling: self.overlay.meetings.met().filter(|peer| !self.trust.is_certified(*peer)).count(),
            losses: state.census().losses,
            contacts: self.overlay.meetings.contacts().iter().map(contact).collect(),
            kept_owners,
            kept_prefixes,
        })
    }

    fn name_in_session(&self, id: NodeId) -> Option<String> {
        let peer = self.peers.get(usize::from(self.peer_at(id)?.0))?;
        peer.is_established().then(|| peer.config.name.clone())
    }

    fn overlay_member(&self, id: NodeId) -> Option<OverlayMember> {
        let state = self.overlay.state.as_ref()?;
        let link = state.link(id)?;
        let peer = self.peer_at(id).and_then(|peer| self.peers.get(usize::from(peer.0)));
        Some(OverlayMember {
            id,
            name: self.name_in_session(id),
            standing: state.standing(id)?,
            is_leaf: state.leaves().contains(id),
            quality: link.quality(),
            rtt: link.is_measured().then(|| link.latency()),
            loss: link.loss(),
            is_relayed: peer.is_some_and(|peer| peer.is_established() && peer.fastest_direct_path().is_none()),
        })
    }
}
