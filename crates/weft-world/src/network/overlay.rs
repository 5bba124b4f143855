//! The engines of a network's overlay.
//!
//! The module decides which nodes are peers, at which addresses they reach each other, and over which relays.

use super::build::node_id;
use crate::site::{EngineSite, SiteClient, SiteLink};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use weft_engine::{Contact, EngineConfig, OverlayConfig, PeerConfig, Policy, Prefix, Schedule, TrustConfig};
use weft_scenario::{LinkEnd, NetworkScenario, OverlayClient, OverlaySchedule, OverlayUse, Underlay};
use weft_session::{Cipher, Claims, Identity, PublicKey, RootKey};
use weft_sim::LinkId;
use weft_sim::record::address_of;
use weft_units::{Instant, Rng};

const PORT: u16 = 51_900;
/// Time of day at the start of a run, in seconds since 1970.
///
/// Certificates are valid from [`VALID_S`] before it to [`VALID_S`] after it.
const START_UNIX_S: u64 = 1_800_000_000;
/// Time for which certificates are valid before and after the start, in seconds.
const VALID_S: u64 = 1_000_000;

/// Makes the engine ([`EngineSite`]) of each node that runs weft.
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

    /// Returns the site of a node: its engine, and a host that has no flows yet.
    pub fn site(&self, node: usize) -> Result<EngineSite, String> {
        let links: Vec<SiteLink> = self.underlay.tunnel_ends_at(node).map(|end| self.link(end)).collect();
        let known = if self.used.discovers { BTreeSet::new() } else { self.underlay.peers(node) };
        let config = EngineConfig {
            identity: self.identities[node].clone(),
            cipher: Cipher::Aes256Gcm,
            peers: known.into_iter().map(|peer| self.peer(node, peer, &links)).collect(),
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
        self.clients(node).for_each(|client| site.admit(self.client(client)));
        if self.used.discovers {
            self.join(&mut site, node)?;
        }
        Ok(site)
    }

    /// Returns the link over which a client sends to its node with weft. `None` if the node is no client.
    pub fn client_link(&self, node: usize) -> Option<LinkId> {
        let mut clients = self.network.overlay.clients.iter();
        clients.find(|client| client.node == node).map(|client| self.client(client).back)
    }

    fn clients(&self, gateway: usize) -> impl Iterator<Item = &OverlayClient> {
        self.network.overlay.clients.iter().filter(move |client| client.gateway == gateway)
    }

    fn client(&self, client: &OverlayClient) -> SiteClient {
        let end = usize::from(self.network.links[client.link].ends[0] != client.gateway);
        let [out, back] = [end, 1 - end].map(|end| direction(LinkEnd { link: client.link, end }));
        SiteClient { node: node_id(client.node), out, back }
    }

    /// Returns the addresses behind a node: that of its own host, and those of its clients.
    fn prefixes(&self, node: usize) -> Vec<Prefix> {
        let nodes = std::iter::once(node).chain(self.clients(node).map(|client| client.node));
        nodes.map(|node| Prefix { address: address_of(node_id(node)).into(), length: 32 }).collect()
    }

    /// Lets a node join the overlay. It gets a certificate, and its neighbours as the contacts that it calls first.
    fn join(&self, site: &mut EngineSite, node: usize) -> Result<(), String> {
        let root = RootKey::from_seed(bytes(&mut self.rng.split(3)));
        let prefixes = self.prefixes(node);
        let claims = Claims {
            public_key: self.key(node),
            name: self.network.nodes[node].clone(),
            not_before_unix_s: START_UNIX_S - VALID_S,
            not_after_unix_s: START_UNIX_S + VALID_S,
            may_relay: self.network.overlay.is_relay(node),
            prefixes: prefixes.iter().map(|prefix| (prefix.address, prefix.length)).collect(),
            groups: Vec::new(),
        };
        let certificate = root.sign(&claims).map_err(|error| format!("{}: {error}", self.network.nodes[node]))?;
        let trust = TrustConfig {
            root: root.public_key(),
            certificate: Some(certificate),
            own: prefixes.iter().map(|prefix| prefix.address).collect(),
            policy: self.policy(),
            revocations: Vec::new(),
        };
        let contact = |other: usize| {
            let links = self.underlay.tunnel_ends_at(node).flat_map(|end| self.underlay.reached_by(end));
            let addresses = links.filter(|(_, there)| *there == other).map(|(address, _)| address);
            let endpoints = addresses.map(|address| SocketAddr::new(address.into(), PORT)).collect();
            Contact { public_key: self.key(other), endpoints }
        };
        let contacts = self.underlay.neighbours(node).into_iter().map(contact).collect();
        site.join_network(Instant::ZERO, START_UNIX_S, trust, OverlayConfig { contacts, ..OverlayConfig::default() });
        Ok(())
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
            prefixes: self.prefixes(peer),
            policy: self.policy(),
        }
    }

    fn policy(&self) -> Policy {
        let schedule = match self.used.schedule {
            OverlaySchedule::EarliestDelivery => Schedule::EarliestDelivery,
            OverlaySchedule::FlowHash => Schedule::FlowHash,
            OverlaySchedule::WeightedRoundRobin => Schedule::WeightedRoundRobin,
            OverlaySchedule::Redundant => Schedule::Redundant,
        };
        Policy { schedule, sense: self.used.senses, ..Policy::default() }
    }

    /// Returns the settings of a link for the site of the node at its end `end`.
    fn link(&self, end: LinkEnd) -> SiteLink {
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

/// Returns the direction of a link in which packets leave from the end `from`.
fn direction(from: LinkEnd) -> LinkId {
    LinkId((2 * from.link + from.end) as u32)
}

fn bytes(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    bytes
}
