//! The engines of a network's overlay.
//!
//! The module decides which nodes are peers, at which addresses they reach each other, and over which relays.

use super::build::node_id;
use crate::site::{EngineSite, SiteLink};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use weft_engine::{EngineConfig, PeerConfig, Policy, Prefix, Schedule};
use weft_scenario::{LinkEnd, NetworkScenario, OverlaySchedule, OverlayUse, Underlay};
use weft_session::{Cipher, Identity, PublicKey};
use weft_sim::LinkId;
use weft_sim::record::address_of;
use weft_units::{Instant, Rng};

const PORT: u16 = 51_900;

/// Makes a site of each node that runs weft.
pub(super) struct OverlayEngines<'a> {
    network: &'a NetworkScenario,
    used: &'a OverlayUse,
    underlay: Underlay<'a>,
    identities: Vec<Identity>,
    rng: Rng,
}

impl<'a> OverlayEngines<'a> {
    /// Prepares the engines of a network. Their keys depend on `rng`.
    pub fn new(network: &'a NetworkScenario, used: &'a OverlayUse, rng: Rng) -> OverlayEngines<'a> {
        let identity = |node| Identity::from_secret(bytes(&mut rng.split(1).split(node)));
        let identities = (0..network.nodes.len() as u64).map(identity).collect();
        OverlayEngines { network, used, underlay: Underlay::new(network), identities, rng }
    }

    /// True if weft runs on the node.
    pub fn has(&self, node: usize) -> bool {
        self.network.overlay.has(node)
    }

    /// Returns the engine and host of a node.
    pub fn site(&self, node: usize) -> Result<EngineSite, String> {
        let links: Vec<SiteLink> = self.underlay.ends_at(node).iter().map(|end| self.link(*end)).collect();
        let config = EngineConfig {
            identity: self.identities[node].clone(),
            cipher: Cipher::Aes256Gcm,
            peers: self.underlay.peers(node).into_iter().map(|peer| self.peer(node, peer, &links)).collect(),
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base: 1,
            inner_mtu: None,
        };
        let seed = bytes(&mut self.rng.split(2).split(node as u64));
        let mut site = EngineSite::new(node_id(node), config, PORT, links, Instant::ZERO, seed)
            .map_err(|error| format!("{}: {error}", self.network.nodes[node]))?;
        site.set_relaying(self.network.overlay.is_relay(node));
        Ok(site)
    }

    pub fn key(&self, node: usize) -> PublicKey {
        self.identities[node].public_key()
    }

    fn peer(&self, node: usize, peer: usize, links: &[SiteLink]) -> PeerConfig {
        let reached = links.iter().flat_map(|link| &link.reaches).filter(|(_, there)| *there == node_id(peer));
        let addresses: BTreeSet<Ipv4Addr> = reached.map(|(address, _)| *address).collect();
        let tunnels = self.network.overlay.tunnels_of(self.used).filter(|tunnel| tunnel.ends == [node, peer]);
        let routes = tunnels.flat_map(|tunnel| &tunnel.routes);
        PeerConfig {
            preshared_key: None,
            name: self.network.nodes[peer].clone(),
            public_key: self.key(peer),
            endpoints: addresses.into_iter().map(|address| SocketAddr::new(address.into(), PORT)).collect(),
            routes: routes.map(|relays| relays.iter().map(|relay| self.key(*relay)).collect()).collect(),
            prefixes: vec![Prefix { address: address_of(node_id(peer)).into(), length: 32 }],
            policy: Policy { schedule: self.schedule(), ..Policy::default() },
        }
    }

    fn schedule(&self) -> Schedule {
        match self.used.schedule {
            OverlaySchedule::EarliestDelivery => Schedule::EarliestDelivery,
            OverlaySchedule::FlowHash => Schedule::FlowHash,
            OverlaySchedule::WeightedRoundRobin => Schedule::WeightedRoundRobin,
        }
    }

    /// Returns a link as the node at one of its ends sees it.
    fn link(&self, end: LinkEnd) -> SiteLink {
        let direction = |from: LinkEnd| LinkId((2 * from.link + from.end) as u32);
        let reaches = self.underlay.reached_by(end).into_iter().map(|(address, node)| (address, node_id(node)));
        let described = &self.network.links[end.link];
        SiteLink {
            name: described.name.clone(),
            out: direction(end),
            back: direction(end.other()),
            address: end.address(),
            reaches: reaches.collect(),
            rebind: described.rebind.filter(|_| end.end == 0),
        }
    }
}

fn bytes(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    bytes
}
