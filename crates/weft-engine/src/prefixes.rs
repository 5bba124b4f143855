//! Who has which prefix, for a reader.

use crate::config::Prefix;
use crate::node::Engine;
use crate::vpn::Vpn;
use alloc::string::String;
use alloc::vec::Vec;
use weft_units::{PeerId, VpnId};

/// A prefix by which packets are routed to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPrefix {
    /// The VPN it belongs to.
    pub vpn: VpnId,
    /// The VPN's name; empty for the default one.
    pub vpn_name: String,
    /// The prefix, with zeros behind its length.
    pub prefix: Prefix,
    /// The name of the peer that has it.
    pub peer: String,
    /// The peer's certificate says so, until that second since 1970; none: the configuration does.
    pub certified_until_unix_s: Option<u64>,
}

impl Engine {
    /// The prefixes of all VPNs, the default one first, in the order of their addresses. Their number may be large.
    pub fn prefixes(&self) -> impl Iterator<Item = OwnedPrefix> {
        let default = self.vpns.get(VpnId::DEFAULT).map(|vpn| (VpnId::DEFAULT, vpn));
        let vpns: Vec<(VpnId, &Vpn)> = default.into_iter().chain(self.vpns.others()).collect();
        vpns.into_iter().flat_map(move |(id, vpn)| {
            vpn.prefixes().into_iter().filter_map(move |(prefix, peer)| self.owned(id, vpn, prefix, peer))
        })
    }

    fn owned(&self, vpn: VpnId, of: &Vpn, prefix: Prefix, peer: PeerId) -> Option<OwnedPrefix> {
        let certificate = self.trust.certificate_of(peer).filter(|_| vpn == VpnId::DEFAULT);
        Some(OwnedPrefix {
            vpn,
            vpn_name: of.name.clone(),
            prefix,
            peer: self.peer_name(peer)?.into(),
            certified_until_unix_s: certificate.map(|certificate| certificate.claims().not_after_unix_s),
        })
    }
}
