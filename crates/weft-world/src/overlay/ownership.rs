//! Whole overlays whose nodes keep the directory of prefix owners.
//!
//! A site is a node that owns prefixes. Any node can look up the owner of any address.

use super::judge::Roots;
use super::sites::LookupResult;
use super::terrain::{Terrain, TerrainShape};
use super::world::OverlayWorld;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::route::overlay::OverlayTiming;
use weft_core::route::ownership::{Found, Region};
use weft_units::{Duration, Rng};
use weft_wire::certificate::WirePrefix;

const GROWTH: f64 = 0.5;
const SETTLE: Duration = Duration::from_secs(20);
/// Maximum time that a lookup of an owner may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two successive lookups, whichever nodes make them.
const APART: Duration = Duration::from_millis(1);

/// An overlay of sites: nodes each of which owns its [`prefixes`].
pub struct Estate {
    /// The nodes and the network.
    pub world: OverlayWorld,
    /// The random stream for the choice of nodes and for the order of lookups.
    pub rng: Rng,
    nodes: u32,
}

/// Returns the prefixes that site `n` owns: the address of a host, and an IP network.
///
/// Every eighth site also owns an IPv6 prefix. Site 0 owns the default route. Site 1 owns a short prefix, which
/// contains many addresses.
pub fn prefixes(n: u32) -> Vec<WirePrefix> {
    let [_, _, high, low] = n.to_be_bytes();
    let mut all = vec![(Ipv4Addr::new(10, 9, high, low).into(), 32), (Ipv4Addr::new(10, 64 + high, low, 0).into(), 24)];
    if n.is_multiple_of(8) {
        all.push((Ipv6Addr::new(0xfd00, 0, n as u16, 0, 0, 0, 0, 0).into(), 64));
    }
    match n {
        0 => all.push((Ipv4Addr::UNSPECIFIED.into(), 0)),
        1 => all.push((Ipv4Addr::new(172, 16, 0, 0).into(), 12)),
        _ => {}
    }
    all
}

/// Returns an address in a prefix that a site owns. No longer prefix of any site contains this address.
pub fn address_in((network, length): WirePrefix) -> IpAddr {
    match network {
        IpAddr::V4(_) if length == 0 => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V4(network) if length < 32 => Ipv4Addr::from(network.to_bits() + 7).into(),
        IpAddr::V6(network) if length < 128 => Ipv6Addr::from(network.to_bits() + 7).into(),
        host => host,
    }
}

impl Estate {
    /// Builds an overlay of `nodes` sites, lets them claim their prefixes, and lets it settle.
    pub fn new(seed: u64, nodes: u32) -> Estate {
        let mut rng = Rng::new(seed).split(1);
        let mut terrain = Terrain::new(TerrainShape::Plane, rng.split(2));
        terrain.jitter = Duration::from_millis(2);
        let mut world = OverlayWorld::new(terrain, OverlayTiming::default(), rng.split(3));
        world.keep_directories();
        world.add(&[]);
        for known in 1..nodes {
            let apart = Duration::from_secs_f64(1.0 / (5.0 + GROWTH * f64::from(known)));
            world.run_until(world.now() + apart);
            let via = rng.below(known.into()) as u32;
            world.add(&[via]);
        }
        (0..nodes).for_each(|node| world.own(node, &prefixes(node)));
        world.run_until(world.now() + SETTLE);
        Estate { world, rng, nodes }
    }

    /// Runs the overlay for this virtual time.
    pub fn wait(&mut self, duration: Duration) {
        self.world.run_until(self.world.now() + duration);
    }

    /// Lets nodes look up the owners of addresses: each pair is a node and the address.
    ///
    /// Returns each result and the time that the lookup took.
    pub fn look_up(&mut self, all: impl IntoIterator<Item = (u32, IpAddr)>) -> Vec<(LookupResult, Duration)> {
        self.world.take_findings();
        let mut began = BTreeMap::new();
        for (node, address) in all {
            began.insert((node, address), self.world.now());
            self.world.look_up(node, address);
            self.wait(APART);
        }
        self.wait(PATIENCE);
        let findings = self.world.take_findings();
        let took = |finding: &LookupResult| finding.at - began[&(finding.node, finding.address)];
        findings.into_iter().map(|finding| (finding.clone(), took(&finding))).collect()
    }

    /// Returns the owner that one node finds for an address, and the time that the lookup took.
    pub fn ask(&mut self, node: u32, address: IpAddr) -> (Option<u32>, Duration) {
        let all = self.look_up([(node, address)]);
        let (finding, took) = all.first().expect("every lookup ends");
        (owner(&self.world, finding), *took)
    }

    /// Returns the node at which a lookup of this address asks first: the root of the first key that it tries.
    ///
    /// Only live nodes on the same side of a partition as `beside` are considered.
    pub fn root_for(&self, address: IpAddr, beside: u32) -> u32 {
        let world = &self.world;
        let key = world.key_of(Region::around(address)[0]);
        world.node(Roots::beside(world, beside).of(key).unwrap_or_default())
    }

    /// Returns a random live node that is not in `not`.
    pub fn other_than(&mut self, not: &[u32]) -> u32 {
        loop {
            let node = self.rng.below(self.nodes.into()) as u32;
            if !not.contains(&node) && self.world.overlay(node).is_some() {
                return node;
            }
        }
    }
}

/// Returns the owner that a lookup found, or `None` if it found none.
pub fn owner(world: &OverlayWorld, finding: &LookupResult) -> Option<u32> {
    match &finding.found {
        Found::Owner(owner) => Some(world.node(owner.id)),
        _ => None,
    }
}

/// The measurements of an overlay whose nodes all own prefixes (sites).
#[derive(Clone, Debug, Default)]
pub struct OwnershipOutcome {
    /// Number of sites.
    pub nodes: u32,
    /// Number of lookups, and number of lookups that found no owner or a wrong one.
    pub lookups: (u64, u64),
    /// Duration of each lookup, in ms.
    pub ms: Vec<f64>,
    /// Number of owners whose claim each site stores.
    pub kept: Vec<u32>,
    /// Rate at which each site sends to keep stored claims alive, measured without lookups, in bit/s, with headers.
    pub bps: Vec<f64>,
    /// Number of sites with which each site had a session only for the directory of prefix owners.
    pub met: Vec<u32>,
    /// Bytes that all sites together sent for one lookup, on average.
    pub bytes_per_lookup: f64,
}

/// Time without lookups over which the traffic that keeps the stored claims alive is measured.
const MEASURE: Duration = Duration::from_secs(120);

/// Builds and measures an overlay of `nodes` sites.
///
/// Each site looks up an address in each prefix of each of `others` other sites.
pub fn run(seed: u64, nodes: u32, others: u32) -> OwnershipOutcome {
    let mut estate = Estate::new(seed, nodes);
    let total = |world: &OverlayWorld, node| world.directory_traffic(node).bytes as f64;
    let all = |world: &OverlayWorld| (0..nodes).map(|node| total(world, node)).collect::<Vec<f64>>();
    let before = all(&estate.world);
    estate.wait(MEASURE);
    let after = all(&estate.world);
    let bps = after.iter().zip(&before).map(|(after, before)| 8.0 * (after - before) / MEASURE.as_secs_f64()).collect();
    let asked: Vec<(u32, u32, WirePrefix)> = (0..nodes)
        .flat_map(|node| (1..=others).map(move |n| (node, n)))
        .flat_map(|(node, n)| {
            let owner = (node + n * (nodes / others.max(1)).max(1)) % nodes;
            prefixes(owner).into_iter().map(move |prefix| (node, owner, prefix))
        })
        .collect();
    let expected: BTreeMap<(u32, IpAddr), u32> =
        asked.iter().map(|(node, owner, prefix)| ((*node, address_in(*prefix)), *owner)).collect();
    let mut turns: Vec<(u32, IpAddr)> = expected.keys().copied().collect();
    for n in (1..turns.len()).rev() {
        turns.swap(n, estate.rng.below(n as u64 + 1) as usize);
    }
    let began = estate.world.now();
    let findings = estate.look_up(turns);
    let spent = all(&estate.world).iter().sum::<f64>() - after.iter().sum::<f64>();
    let refreshing = (after.iter().sum::<f64>() - before.iter().sum::<f64>()) / MEASURE.as_secs_f64();
    let of_lookups = spent - refreshing * (estate.world.now() - began).as_secs_f64();
    let is_right = |(finding, _): &&(LookupResult, Duration)| {
        owner(&estate.world, finding) == expected.get(&(finding.node, finding.address)).copied()
    };
    let right = findings.iter().filter(is_right).count() as u64;
    let kept = |node| estate.world.directory(node).map_or(0, |directory| directory.kept().0 as u32);
    OwnershipOutcome {
        nodes,
        lookups: (expected.len() as u64, expected.len() as u64 - right),
        ms: findings.iter().map(|(_, took)| took.as_secs_f64() * 1e3).collect(),
        kept: (0..nodes).map(kept).collect(),
        bps,
        met: (0..nodes).map(|node| estate.world.met(node)).collect(),
        bytes_per_lookup: of_lookups / expected.len().max(1) as f64,
    }
}
