//! From a checked [`Config`] to what the engine is told.

use super::Config;
use super::read::At;
use weft_engine::{LinkConfig, MemberConfig, OverlayConfig, PeerConfig, Prefix, SignalConfig, VpnConfig};
use weft_units::VpnId;

impl Config {
    /// The peers, in their order.
    pub fn engine_peers(&self) -> Vec<PeerConfig> {
        let peer = |peer: &super::Peer| PeerConfig {
            name: peer.name.value.clone(),
            public_key: peer.public_key.value,
            preshared_key: peer.preshared_key.clone(),
            endpoints: peer.endpoints.clone(),
            routes: peer.via.iter().filter_map(|route| route.value.keys(&self.peers)).collect(),
            prefixes: values(&peer.prefixes),
            policy: peer.policy.clone(),
        };
        self.peers.iter().map(peer).collect()
    }

    /// The VPNs, in their order; members are peers, as was checked.
    pub fn engine_vpns(&self) -> Vec<VpnConfig> {
        let member = |member: &super::Member| {
            let peer = self.peers.iter().find(|peer| peer.name.value == member.peer.value)?;
            Some(MemberConfig { public_key: peer.public_key.value, prefixes: values(&member.prefixes) })
        };
        let vpn = |vpn: &super::Vpn| VpnConfig {
            id: VpnId(vpn.id.value),
            name: vpn.name.value.clone(),
            weight: vpn.weight,
            service: vpn.service(),
            entry: vpn.entry.clone(),
            prefixes: values(&vpn.prefixes),
            members: vpn.members.iter().filter_map(member).collect(),
        };
        self.vpns.iter().map(vpn).collect()
    }

    /// The network's overlay, if this node takes part in it.
    pub fn engine_overlay(&self) -> Option<OverlayConfig> {
        self.network.as_ref().filter(|network| network.has_overlay()).map(super::Network::engine_overlay)
    }

    /// Signalling, if it is wanted.
    pub fn engine_signal(&self) -> Option<SignalConfig> {
        let own = self.tun.addresses.iter().map(|prefix| prefix.address).collect();
        self.signal.as_ref().map(|signal| signal.engine(own))
    }

    /// The settings of links.
    pub fn engine_links(&self) -> Vec<LinkConfig> {
        let link =
            |link: &super::Link| LinkConfig { name: link.name.value.clone(), cap: link.max_rate_up, send: link.up };
        self.link.iter().map(link).collect()
    }
}

fn values(prefixes: &[At<Prefix>]) -> Vec<Prefix> {
    prefixes.iter().map(|at| at.value).collect()
}
