//! Lists the prefixes of all VPNs with their owners, for status output.

use super::Engine;
use crate::api::OwnedPrefix;
use crate::vpn::Vpn;
use alloc::vec::Vec;
use weft_units::VpnId;

impl Engine {
    /// Returns the prefixes of all VPNs in order of address, the default VPN first. There may be very many.
    pub fn prefixes(&self) -> impl Iterator<Item = OwnedPrefix> {
        let default = self.vpns.get(VpnId::DEFAULT).map(|vpn| (VpnId::DEFAULT, vpn));
        let vpns: Vec<(VpnId, &Vpn)> = default.into_iter().chain(self.vpns.others()).collect();
        vpns.into_iter().flat_map(move |(id, vpn)| {
            vpn.prefixes().into_iter().filter_map(move |(prefix, peer, protocol)| {
                let certificate =
                    self.trust.certificate_of(peer).filter(|_| id == VpnId::DEFAULT && protocol.is_none());
                Some(OwnedPrefix {
                    vpn: id,
                    vpn_name: vpn.name.clone(),
                    prefix,
                    peer: self.peer_name(peer)?.into(),
                    certified_until_unix_s: certificate.map(|certificate| certificate.claims().not_after_unix_s),
                    protocol,
                })
            })
        })
    }
}
