//! Explains the route, queue and paths that a packet would take. It only reads state and changes nothing.

use super::Engine;
use crate::api::{CommandError, Explanation, FlowPattern, Match, Prefix};
use crate::vpn::Vpn;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_session::VpnStanding;
use weft_units::{Instant, PeerId, VpnId};

impl Engine {
    /// Explains by which peer, queue and paths a packet of a flow that matches `of` would leave.
    ///
    /// Without a VPN name, the default VPN is tried first, then the other VPNs.
    pub fn explain(&self, now: Instant, vpn: Option<&str>, of: &FlowPattern) -> Result<Explanation, CommandError> {
        let asked = vpn.map(|name| self.vpn_called(name)).transpose()?;
        let (vpn, place) = self.place_of(asked, of.destination).ok_or(CommandError::NoRoute)?;
        let name = |peer: PeerId| self.peers.get(usize::from(peer.0)).map(|peer| peer.config.name.clone());
        let found: Vec<(Prefix, PeerId)> = place.matches(of.destination);
        let (_, id) = *found.last().ok_or(CommandError::NoRoute)?;
        let peer = self.peers.get(usize::from(id.0)).ok_or(CommandError::NoRoute)?;
        let standing = self.sessions.vpn_standing(id, vpn);
        let is_established = peer.is_established();
        Ok(Explanation {
            vpn_name: place.name.clone(),
            matches: found.into_iter().filter_map(|(prefix, peer)| Some(Match { prefix, peer: name(peer)? })).collect(),
            is_established,
            is_open: is_established && (vpn == VpnId::DEFAULT || standing != VpnStanding::Closed),
            ..peer.explain_flow(now, vpn, of)
        })
    }

    fn vpn_called(&self, name: &str) -> Result<VpnId, CommandError> {
        if name == "default" {
            return Ok(VpnId::DEFAULT);
        }
        let known = || self.vpns.others().into_iter().map(|(_, vpn)| vpn.name.clone()).collect();
        self.vpns.by_name(name).ok_or_else(|| CommandError::UnknownVpn(name.into(), known()))
    }

    /// Returns the VPN `asked` for. Without `asked`, returns the first VPN that has a prefix for the destination.
    fn place_of(&self, asked: Option<VpnId>, destination: IpAddr) -> Option<(VpnId, &Vpn)> {
        if let Some(id) = asked {
            return self.vpns.get(id).map(|vpn| (id, vpn));
        }
        let default = self.vpns.get(VpnId::DEFAULT).map(|vpn| (VpnId::DEFAULT, vpn));
        default.into_iter().chain(self.vpns.others()).find(|(_, vpn)| vpn.route(destination).is_some())
    }
}
