//! The state of the overlay, for status output.

use super::{Contact, Unmet};
use crate::node::Engine;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use weft_core::route::overlay::{NodeStanding, Quality};
use weft_units::NodeId;

/// A node's state in the overlay.
#[derive(Clone, Debug)]
pub struct OverlayStatus {
    /// The node's place in the overlay.
    pub id: NodeId,
    /// True if the node has found its place.
    pub is_ready: bool,
    /// Past, present and candidate members of this node's neighbourhood, sorted by place.
    pub members: Vec<OverlayMember>,
    /// Number of times that a member fell silent since the start.
    pub losses: u64,
    /// Nodes that were called and have not answered yet.
    pub calling: usize,
    /// The configured contacts.
    pub contacts: Vec<ContactStatus>,
    /// Owners of prefixes whose claims this node stores for others.
    pub kept_owners: usize,
    /// Prefixes of those owners.
    pub kept_prefixes: usize,
}

/// Another node of the overlay.
#[derive(Clone, Debug)]
pub struct OverlayMember {
    /// The node's place in the overlay.
    pub id: NodeId,
    /// The node's name, if it is a peer.
    pub name: Option<String>,
    /// The node's relation to this node.
    pub standing: NodeStanding,
    /// True if the node is one of the next nodes on the ring.
    pub is_leaf: bool,
    /// Quality of the link to the node.
    pub quality: Quality,
    /// Round-trip time, once an answer has arrived.
    pub rtt: Option<Duration>,
    /// Share of probes whose question or answer was lost, 0…1.
    pub loss: f64,
    /// True if only relays lead to the node.
    pub is_relayed: bool,
}

/// A configured first contact.
#[derive(Clone, Debug)]
pub struct ContactStatus {
    /// The node.
    pub contact: Contact,
    /// The node's name, while there is a session with it.
    pub name: Option<String>,
    /// The reason for which the last call failed.
    pub why_not: Option<Unmet>,
}

impl Engine {
    /// Returns the state of the overlay, or `None` without an overlay.
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
