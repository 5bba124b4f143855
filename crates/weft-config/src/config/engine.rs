//! Conversion of a checked [`Config`] into the engine's configuration types.

use super::read::At;
use super::{Config, TcpFallback};
use weft_engine::{
    Alternate, FlowsConfig, LinkConfig, MemberConfig, OverlayConfig, PeerConfig, PortSettings, Prefix, SignalConfig,
    TransitConfig, VpnConfig,
};
use weft_units::VpnId;

/// Default of `[signal] reservable`: fraction of the paths' measured capacity that may be guaranteed to flows.
///
/// *Tuned*: with it, the delay of voice calls varies by less than 10 ms even at a port of 4 Mbit/s.
const DEFAULT_RESERVABLE: f64 = 0.75;

impl Config {
    /// Returns the peers, in the order of the configuration.
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

    /// Returns the VPNs, in the order of the configuration.
    ///
    /// The checks guarantee that each member is a peer.
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

    /// Returns the settings of the overlay, if this node takes part in it.
    pub fn engine_overlay(&self) -> Option<OverlayConfig> {
        self.network.as_ref().filter(|network| network.has_overlay()).map(super::Network::engine_overlay)
    }

    /// Returns the settings of signalling, if it is configured.
    pub fn engine_signal(&self) -> Option<SignalConfig> {
        let own = self.tun.addresses.iter().map(|prefix| prefix.address).collect();
        self.signal.as_ref().map(|signal| signal.engine(own))
    }

    /// Returns the settings of flow state, if a table about classes, rules, users, export or the router is present.
    ///
    /// `own_name` is the name in this node's certificate, or empty.
    pub fn engine_flows(&self, own_name: &str) -> Option<FlowsConfig> {
        let flows = &self.flows;
        let reservable = self.signal.as_ref().map_or(DEFAULT_RESERVABLE, |signal| signal.reservable.value);
        flows.is_present().then(|| FlowsConfig {
            own_name: own_name.to_owned(),
            router: flows.router(&self.vpns),
            port: PortSettings { reservable, target_use: flows.router.target_use },
        })
    }

    /// Returns the settings of transit (forwarding between peers), if it is on.
    ///
    /// `local` are the prefixes of this machine's networks outside the tunnel.
    pub fn engine_transit(&self, local: Vec<Prefix>) -> Option<TransitConfig> {
        let addresses = self.tun.addresses.iter().map(|prefix| prefix.address).collect();
        self.flows.router.transit.then_some(TransitConfig { local, addresses })
    }

    /// Returns the further next hops toward prefixes: the `alternate-for` of the peers.
    pub fn engine_alternates(&self) -> Vec<Alternate> {
        let of = |peer: &super::Peer| {
            let peer_key = peer.public_key.value;
            peer.alternate_for.iter().map(move |at| Alternate { prefix: at.value, peer: peer_key }).collect::<Vec<_>>()
        };
        self.peers.iter().flat_map(of).collect()
    }

    /// Returns the settings of the links: for each link one value for UDP and one for TCP.
    pub fn engine_links(&self) -> Vec<LinkConfig> {
        let link = |link: &super::Link| {
            let allowed = link.tier.unwrap_or_default().into();
            let udp = LinkConfig {
                name: link.name.value.clone(),
                cap: link.max_rate_up,
                send: link.up && link.tcp.fallback != TcpFallback::Always,
                allowed,
            };
            let tcp = LinkConfig { name: tcp_link_name(&udp.name), send: link.up, ..udp.clone() };
            [udp, tcp]
        };
        self.link.iter().flat_map(link).collect()
    }
}

/// Returns the name under which the engine lists the TCP connections of a link.
pub fn tcp_link_name(link: &str) -> String {
    format!("{link}/tcp")
}

fn values(prefixes: &[At<Prefix>]) -> Vec<Prefix> {
    prefixes.iter().map(|at| at.value).collect()
}
