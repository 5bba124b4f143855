//! The engines of a network's overlay: who is whose peer, at which addresses, over which relays.

use super::build::node_id;
use crate::site::{EngineSite, SiteLink};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use weft_engine::{EngineConfig, PeerConfig, Policy, Prefix};
use weft_scenario::Network;
use weft_session::{Cipher, Identity, PublicKey};
use weft_sim::record::address_of;
use weft_sim::{LinkId, NodeId};
use weft_units::{Instant, Rng};

const PORT: u16 = 51_900;
/// The first address of links' ends: 100.64.0.0 (RFC 6598), apart from those of hosts.
const FIRST_ADDRESS: u32 = 0x6440_0000;

/// Makes a site of every node with weft.
pub(super) struct Engines<'a> {
    network: &'a Network,
    identities: Vec<Identity>,
    /// For each node its links, by their number and the end that is here.
    ends: Vec<Vec<(usize, usize)>>,
    rng: Rng,
}

impl<'a> Engines<'a> {
    /// Keys depend on `rng`.
    pub fn new(network: &'a Network, rng: Rng) -> Engines<'a> {
        let mut ends = vec![Vec::new(); network.nodes.len()];
        for (number, link) in network.links.iter().enumerate() {
            for (end, node) in link.ends.into_iter().enumerate() {
                ends[node].push((number, end));
            }
        }
        let identity = |node| Identity::from_secret(bytes(&mut rng.split(1).split(node)));
        let identities = (0..network.nodes.len() as u64).map(identity).collect();
        Engines { network, identities, ends, rng }
    }

    /// Whether weft runs on a node.
    pub fn has(&self, node: usize) -> bool {
        self.network.overlay.has(node)
    }

    /// A node's site.
    pub fn site(&self, node: usize) -> Result<EngineSite, String> {
        let links: Vec<SiteLink> = self.ends[node].iter().map(|(link, end)| self.link(*link, *end)).collect();
        let config = EngineConfig {
            identity: self.identities[node].clone(),
            cipher: Cipher::Aes256Gcm,
            peers: self.peers(node).into_iter().map(|peer| self.peer(node, peer, &links)).collect(),
            vpns: Vec::new(),
            links: Vec::new(),
            accepted_stamps: Vec::new(),
            stamp_base: 1,
            inner_mtu: None,
        };
        let seed = bytes(&mut self.rng.split(2).split(node as u64));
        let mut site = EngineSite::new(node_id(node), config, PORT, links, Instant::ZERO, seed)
            .map_err(|error| format!("{}: {error}", self.network.nodes[node]))?;
        site.set_relaying(self.network.overlay.nodes.iter().any(|known| known.node == node && known.is_relay));
        Ok(site)
    }

    pub fn key(&self, node: usize) -> PublicKey {
        self.identities[node].public_key()
    }

    /// Who a node knows: all that links and routers lead to, the other ends of its flows and of its tunnels, and the relays
    /// with which its routes begin.
    fn peers(&self, node: usize) -> BTreeSet<usize> {
        let direct = self.ends[node].iter().flat_map(|(link, end)| self.nodes_behind(*link, *end));
        let pairs = self.network.flows.iter().map(|flow| [flow.from, flow.to]);
        let pairs = pairs.chain(self.network.overlay.tunnels.iter().map(|tunnel| tunnel.ends));
        let others = pairs.filter_map(|[a, b]| match node {
            _ if node == a => Some(b),
            _ if node == b => Some(a),
            _ => None,
        });
        direct.chain(others).filter(|other| *other != node).collect()
    }

    fn peer(&self, node: usize, peer: usize, links: &[SiteLink]) -> PeerConfig {
        let reached = links.iter().flat_map(|link| &link.reaches).filter(|(_, there)| *there == node_id(peer));
        let addresses: BTreeSet<Ipv4Addr> = reached.map(|(address, _)| *address).collect();
        let tunnels = self.network.overlay.tunnels.iter().filter(|tunnel| tunnel.ends == [node, peer]);
        let routes = tunnels.flat_map(|tunnel| &tunnel.routes);
        PeerConfig {
            name: self.network.nodes[peer].clone(),
            public_key: self.key(peer),
            endpoints: addresses.into_iter().map(|address| SocketAddr::new(address.into(), PORT)).collect(),
            routes: routes.map(|relays| relays.iter().map(|relay| self.key(*relay)).collect()).collect(),
            prefixes: vec![Prefix { address: address_of(node_id(peer)).into(), length: 32 }],
            policy: Policy::default(),
        }
    }

    /// A link as the node at one of its ends sees it.
    fn link(&self, number: usize, end: usize) -> SiteLink {
        let directions = [LinkId(2 * number as u32), LinkId(2 * number as u32 + 1)];
        let (out, back) = (directions[end], directions[1 - end]);
        let there = self.network.links[number].ends[1 - end];
        let reaches = match self.network.overlay.has(there) {
            true => vec![(address(number, 1 - end), node_id(there))],
            false => {
                self.nodes_behind(number, end).into_iter().flat_map(|node| self.addresses_among_routers(node)).collect()
            }
        };
        SiteLink { name: self.network.links[number].name.clone(), out, back, address: address(number, end), reaches }
    }

    /// A node's addresses on links that lead to routers.
    fn addresses_among_routers(&self, node: usize) -> impl Iterator<Item = (Ipv4Addr, NodeId)> {
        let leads_to_router =
            |link: usize, end: usize| !self.network.overlay.has(self.network.links[link].ends[1 - end]);
        let ends = self.ends[node].iter().filter(move |(link, end)| leads_to_router(*link, *end));
        ends.map(move |(link, end)| (address(*link, *end), node_id(node)))
    }

    /// The nodes with weft to which a link leads, over routers or directly, from its end `end`.
    fn nodes_behind(&self, link: usize, end: usize) -> BTreeSet<usize> {
        let [first, next] = [end, 1 - end].map(|end| self.network.links[link].ends[end]);
        let (mut seen, mut found, mut open) = (BTreeSet::from([first]), BTreeSet::new(), vec![next]);
        while let Some(node) = open.pop() {
            if !seen.insert(node) {
                continue;
            }
            match self.network.overlay.has(node) {
                true => drop(found.insert(node)),
                false => open.extend(self.ends[node].iter().map(|(link, end)| self.network.links[*link].ends[1 - end])),
            }
        }
        found
    }
}

/// The address of a link's end.
fn address(link: usize, end: usize) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_ADDRESS + (4 * link + 1 + end) as u32)
}

fn bytes(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    bytes
}
