//! The state of the overlay, for status output.

use crate::api::{Contact, ContactStatus, OverlayMember, OverlayStatus, Unmet};
use crate::node::Engine;
use alloc::string::String;
use weft_units::NodeId;

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
