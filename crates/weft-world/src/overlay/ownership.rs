//! Who owns which prefix, in whole overlays: every site has some, and any node can be asked for all.

use super::judge::Roots;
use super::sites::Finding;
use super::terrain::{Shape, Terrain};
use super::world::World;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_core::route::overlay::Timing;
use weft_core::route::ownership::{Found, Region};
use weft_units::{Duration, Rng};
use weft_wire::certificate::Prefix;

const GROWTH: f64 = 0.5;
const SETTLE: Duration = Duration::from_secs(20);
/// As long as a lookup may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Between two lookups of all nodes together.
const APART: Duration = Duration::from_millis(1);

/// A world of sites, each of which owns [`prefixes`].
pub struct Estate {
    /// The nodes.
    pub world: World,
    /// For choices.
    pub rng: Rng,
    nodes: u32,
}

/// What the site `n` owns: a host's address, a network behind it, and every eighth an IPv6 network, too. Site 0 has the default route,
/// site 1 a large network.
pub fn prefixes(n: u32) -> Vec<Prefix> {
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

/// An address in a prefix that is in no longer one.
pub fn address_in((network, length): Prefix) -> IpAddr {
    match network {
        IpAddr::V4(_) if length == 0 => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V4(network) if length < 32 => Ipv4Addr::from(network.to_bits() + 7).into(),
        IpAddr::V6(network) if length < 128 => Ipv6Addr::from(network.to_bits() + 7).into(),
        host => host,
    }
}

impl Estate {
    /// An overlay of `nodes` nodes that has settled.
    pub fn new(seed: u64, nodes: u32) -> Estate {
        let mut rng = Rng::new(seed).split(1);
        let mut terrain = Terrain::new(Shape::Plane, rng.split(2));
        terrain.jitter = Duration::from_millis(2);
        let mut world = World::new(terrain, Timing::default(), rng.split(3));
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

    /// Lets time pass.
    pub fn wait(&mut self, duration: Duration) {
        self.world.run_until(self.world.now() + duration);
    }

    /// Looks these up, and waits for what is found.
    pub fn look_up(&mut self, all: impl IntoIterator<Item = (u32, IpAddr)>) -> Vec<(Finding, Duration)> {
        self.world.take_findings();
        let mut began = BTreeMap::new();
        for (node, address) in all {
            began.insert((node, address), self.world.now());
            self.world.look_up(node, address);
            self.wait(APART);
        }
        self.wait(PATIENCE);
        let findings = self.world.take_findings();
        let took = |finding: &Finding| finding.at - began[&(finding.node, finding.address)];
        findings.into_iter().map(|finding| (finding.clone(), took(&finding))).collect()
    }

    /// The owner that one node finds, and after how long.
    pub fn ask(&mut self, node: u32, address: IpAddr) -> (Option<u32>, Duration) {
        let all = self.look_up([(node, address)]);
        let (finding, took) = all.first().expect("every lookup ends");
        (owner(&self.world, finding), *took)
    }

    /// The root of the key that an address is looked up at first.
    pub fn root_for(&self, address: IpAddr, beside: u32) -> u32 {
        let world = &self.world;
        let key = world.key_of(Region::around(address)[0]);
        world.node(Roots::beside(world, beside).of(key).unwrap_or_default())
    }

    /// Any node but these.
    pub fn other_than(&mut self, not: &[u32]) -> u32 {
        loop {
            let node = self.rng.below(self.nodes.into()) as u32;
            if !not.contains(&node) && self.world.overlay(node).is_some() {
                return node;
            }
        }
    }
}

/// The node that was found.
pub fn owner(world: &World, finding: &Finding) -> Option<u32> {
    match &finding.found {
        Found::Owner(owner) => Some(world.node(owner.id)),
        _ => None,
    }
}

/// What an estate came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Sites.
    pub nodes: u32,
    /// Lookups, and how many found another owner than they should, or none.
    pub lookups: (u64, u64),
    /// Milliseconds that lookups took.
    pub ms: Vec<f64>,
    /// Owners of whom each node keeps a claim.
    pub kept: Vec<u32>,
    /// Bits a second that each node sends for the directory's sake, headers included, while nobody looks anything up.
    pub bps: Vec<f64>,
    /// Nodes that each node is in session with for the directory's sake only.
    pub met: Vec<u32>,
    /// Bytes that a lookup cost all nodes together.
    pub bytes_per_lookup: f64,
}

/// How long refreshing is measured.
const MEASURE: Duration = Duration::from_secs(120);

/// Measures an estate of `nodes` sites: each node looks up a prefix of each of `others` others.
pub fn run(seed: u64, nodes: u32, others: u32) -> Outcome {
    let mut estate = Estate::new(seed, nodes);
    let total = |world: &World, node| world.directory_traffic(node).bytes as f64;
    let all = |world: &World| (0..nodes).map(|node| total(world, node)).collect::<Vec<f64>>();
    let before = all(&estate.world);
    estate.wait(MEASURE);
    let after = all(&estate.world);
    let bps = after.iter().zip(&before).map(|(after, before)| 8.0 * (after - before) / MEASURE.as_secs_f64()).collect();
    let asked: Vec<(u32, u32, Prefix)> = (0..nodes)
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
    let is_right = |(finding, _): &&(Finding, Duration)| {
        owner(&estate.world, finding) == expected.get(&(finding.node, finding.address)).copied()
    };
    let right = findings.iter().filter(is_right).count() as u64;
    let kept = |node| estate.world.directory(node).map_or(0, |directory| directory.kept().0 as u32);
    Outcome {
        nodes,
        lookups: (expected.len() as u64, expected.len() as u64 - right),
        ms: findings.iter().map(|(_, took)| took.as_secs_f64() * 1e3).collect(),
        kept: (0..nodes).map(kept).collect(),
        bps,
        met: (0..nodes).map(|node| estate.world.met(node)).collect(),
        bytes_per_lookup: of_lookups / expected.len().max(1) as f64,
    }
}
