//! The simulator of a scenario with two nodes: two sites and the links between them.

use super::lane::{LaneCarrier, SimLane};
use crate::site::{DSS_MAPPING_LEN, EngineSite, Engines, MultipathSite, PlainSite, Site, SiteLink};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weft_core::service::Service;
use weft_engine::{
    EngineConfig, Entry, FlowsConfig, LinkConfig, MemberConfig, PathState, PeerConfig, Policy, Prefix, VpnConfig,
};
use weft_scenario::{PAYLOAD_BYTES, Scenario, Traces};
use weft_session::{Cipher, Identity};
use weft_sim::link::{LinkCapacity, LinkSpec};
use weft_sim::{LinkId, NodeId, Simulator};
use weft_units::{Duration, Instant, Rate, Rng, VpnId};

/// The scenario's first node.
pub const HOME: NodeId = NodeId(0);
/// The scenario's second node.
pub const HUB: NodeId = NodeId(1);
/// The first of the scenario's hosts behind the first node. They have no links of their own.
pub(super) const FIRST_HOST: NodeId = NodeId(2);
const PORT: u16 = 51_900;
/// Prefix of the hosts behind each of the two nodes: all IPv4 addresses. It is the same in every VPN.
const EVERYWHERE: Prefix = Prefix { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), length: 0 };
/// Length of IPv4 and TCP headers with timestamps, in bytes.
const HEADERS_LEN: u32 = 52;
/// Maximum time until a tunnel must carry packets.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval between two checks that the tunnel carries packets.
const READY_STEP: Duration = Duration::from_millis(50);

/// The settings of both engines of a lane.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineSettings {
    /// The policy with which each engine sends to the other.
    pub policy: Policy,
    /// The AEAD that both engines prefer.
    pub cipher: Cipher,
    /// Maximum MTU of the tunnel's device, in bytes. `None`: the MTU is derived from the paths.
    pub inner_mtu: Option<u16>,
    /// Settings of links, by name.
    pub links: Vec<LinkConfig>,
    /// VPNs besides the default one, in the scenario's order.
    pub vpns: Vec<VpnSettings>,
    /// Settings of the flow state; `None`: the engines keep none.
    pub flows: Option<FlowsConfig>,
}

/// A VPN between the two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct VpnSettings {
    /// The VPN's name.
    pub name: String,
    /// The VPN's weight against other VPNs.
    pub weight: u32,
    /// The service of the VPN, for example a guaranteed rate.
    pub service: Service,
    /// Settings of the VPN's queue at the ingress edge.
    pub entry: Entry,
}

impl Default for EngineSettings {
    /// Returns the program's defaults.
    fn default() -> EngineSettings {
        EngineSettings {
            policy: Policy::default(),
            cipher: Cipher::Aes256Gcm,
            inner_mtu: None,
            links: Vec::new(),
            vpns: Vec::new(),
            flows: None,
        }
    }
}

/// Two sites joined by the links of a scenario.
pub struct TwoSiteWorld {
    /// The simulator with both nodes and all links. The first node of the scenario is first.
    pub simulator: Simulator<Site>,
    /// Simulator's links for both directions of each link of the scenario, first the direction up.
    pub links: Vec<[LinkId; 2]>,
    /// TCP payload of a full packet between the hosts, in bytes, if no engine determines it.
    pub(super) mss: u32,
}

impl TwoSiteWorld {
    /// Builds the simulator of a lane. Everything random in it depends on `seed`.
    ///
    /// It contains all links of the scenario, so the random values of a link are the same in every lane. Links that the
    /// lane does not use carry no packets.
    pub(super) fn build(
        scenario: &Scenario,
        traces: &Traces,
        lane: &SimLane,
        seed: u64,
    ) -> Result<TwoSiteWorld, String> {
        let mut simulator = Simulator::new(seed);
        let links: Vec<[LinkId; 2]> =
            (0..scenario.links.len() as u32).map(|n| [LinkId(2 * n), LinkId(2 * n + 1)]).collect();
        for site in sites(scenario, lane, &links, &Rng::new(seed).split(2))? {
            simulator.add_node(site);
        }
        for [up, down] in described(scenario, traces, seed)? {
            for link in [simulator.add_link(HOME, HUB, up), simulator.add_link(HUB, HOME, down)] {
                simulator.link_mut(link).watch_lengths();
            }
        }
        let mss = match &lane.carrier {
            LaneCarrier::Plain { overhead, .. } => overhead.mss,
            LaneCarrier::Multipath { .. } => PAYLOAD_BYTES as u32 - DSS_MAPPING_LEN,
            LaneCarrier::Engines { .. } => 0,
        };
        let mut world = TwoSiteWorld { simulator, links, mss };
        if let LaneCarrier::Engines { links, .. } = &lane.carrier {
            world.wait_until_ready(links.len())?;
        }
        Ok(world)
    }

    /// Runs until each session is established and `paths` paths of each pair of engines carry packets.
    ///
    /// Returns an error if that takes longer than [`READY_TIMEOUT`].
    fn wait_until_ready(&mut self, paths: usize) -> Result<(), String> {
        while self.carrying_paths() < paths {
            if self.simulator.now() > Instant::ZERO + READY_TIMEOUT {
                return Err(format!("weft was not ready within {} s", READY_TIMEOUT.as_secs()));
            }
            self.simulator.run_until(self.simulator.now() + READY_STEP);
        }
        Ok(())
    }

    /// Returns the number of paths that carry packets.
    ///
    /// With several pairs of engines it is that of the pair with the fewest such paths.
    fn carrying_paths(&self) -> usize {
        let Some(engines) = self.simulator.nodes().first().and_then(Site::engines) else { return 0 };
        engines.all().map(|site| self.carrying_paths_of(site)).min().unwrap_or(0)
    }

    fn carrying_paths_of(&self, site: &EngineSite) -> usize {
        let snapshot = site.engine().snapshot(self.simulator.now());
        let peer = snapshot.peers.first().filter(|peer| peer.established_for.is_some());
        let carries = |state| !matches!(state, PathState::Opening | PathState::Down);
        peer.map_or(0, |peer| peer.paths.iter().filter(|path| path.active && carries(path.state)).count())
    }

    /// Returns the rate that the paths of `node`'s engine can carry together, in inner IP bytes.
    ///
    /// Returns `None` while there is no path.
    pub(super) fn paths_rate(&self, node: NodeId) -> Option<Rate> {
        let site = self.simulator.nodes().get(node.index()).and_then(Site::engine)?;
        site.engine().payload_rates(self.simulator.now()).next()?.rate
    }

    /// Returns the queueing delay of each node's port in the port's last interval, first node first.
    ///
    /// Returns `None` for a node without flow state, and for a port through which no packet passed.
    pub(super) fn port_delays(&self) -> [Option<Duration>; 2] {
        [HOME, HUB].map(|node| {
            let site = self.simulator.nodes().get(node.index()).and_then(Site::engine)?;
            let load = site.engine().port_views(self.simulator.now()).first()?.load;
            (load.departed > Rate::ZERO).then_some(load.queue_delay)
        })
    }

    /// Returns the TCP payload of a full packet of a new connection of `node`, in bytes.
    ///
    /// It is computed from the engine's present MTU, if there is an engine.
    pub(super) fn mss(&self, node: NodeId) -> u32 {
        let engine = self.simulator.nodes().get(node.index()).and_then(Site::engine);
        engine.map_or(self.mss, |site| u32::from(site.engine().inner_mtu()).saturating_sub(HEADERS_LEN))
    }

    /// Restarts every trace and every timed change of a link at the current time.
    ///
    /// In all variants, a trace and an outage thus begin at the same time of the run.
    pub(super) fn begin_run(&mut self) {
        self.links.iter().flatten().for_each(|link| self.simulator.restart_link(*link));
        for link in self.links.iter().flatten() {
            let spec = self.simulator.links().get(link.index()).map(|link| link.spec().clone());
            let Some(LinkSpec { capacity: capacity @ LinkCapacity::Trace(_), impaired: None, .. }) = spec else {
                continue;
            };
            let LinkCapacity::Trace(trace) = &capacity else { continue };
            let pause = LinkCapacity::Rate(trace.mean_rate());
            self.simulator.set_link(*link, |spec| spec.capacity = pause);
            self.simulator.set_link(*link, |spec| spec.capacity = capacity);
        }
    }
}

/// Returns both directions of every link as the scenario describes them, for a run with this seed.
///
/// # Errors
/// Returns an error if a trace does not exist.
pub(super) fn described(scenario: &Scenario, traces: &Traces, seed: u64) -> Result<Vec<[LinkSpec; 2]>, String> {
    scenario.links.iter().map(|link| LinkSpec::both(link, traces, seed, true)).collect()
}

fn sites(scenario: &Scenario, lane: &SimLane, links: &[[LinkId; 2]], rng: &Rng) -> Result<Vec<Site>, String> {
    match &lane.carrier {
        LaneCarrier::Plain { link, overhead } => {
            let pair = links.get(*link).ok_or("there is no such link")?;
            Ok(pair.map(|out| Site::Plain(Box::new(PlainSite::new(out, overhead.bytes)))).into())
        }
        LaneCarrier::Multipath { links: used } => {
            let site = |node| Site::Multipath(Box::new(MultipathSite::new(seen_from(node, scenario, used, links))));
            Ok([HOME, HUB].map(site).into())
        }
        LaneCarrier::Engines { links: used, pairs } => {
            let seen = [HOME, HUB].map(|node| seen_from(node, scenario, used, links));
            let pair = |(number, settings)| engine_pair(seen.clone(), settings, number, rng);
            let pairs = (0..).zip(pairs).map(pair).collect::<Result<Vec<_>, String>>()?;
            let (homes, hubs): (Vec<_>, Vec<_>) = pairs.into_iter().map(|[home, hub]| (home, hub)).unzip();
            Ok(vec![side_by_side(homes)?, side_by_side(hubs)?])
        }
    }
}

/// Returns the site of a node that runs these engines.
fn side_by_side(engines: Vec<EngineSite>) -> Result<Site, String> {
    let mut engines = engines.into_iter();
    let first = engines.next().ok_or("the scenario has no VPN for a pair of nodes")?;
    Ok(Site::Engines(Box::new(Engines::new(first, engines.collect()))))
}

/// Returns a pair of engines, one at each node, with these links.
///
/// `number` distinguishes several pairs on the same links.
fn engine_pair(
    [home, hub]: [Vec<SiteLink>; 2],
    settings: &EngineSettings,
    number: u16,
    rng: &Rng,
) -> Result<[EngineSite; 2], String> {
    let rng = if number == 0 { rng.clone() } else { rng.split(2 + u64::from(number)) };
    let port = PORT + number;
    let identities = [HOME, HUB].map(|node| Identity::from_secret(bytes(&mut rng.split(1).split(node.0.into()))));
    let site = |node: NodeId, seen: Vec<SiteLink>| {
        let there = if node == HOME { HUB } else { HOME };
        let endpoints = seen
            .iter()
            .filter(|_| node == HOME)
            .filter_map(|link| Some(SocketAddr::new(link.reaches.first()?.0.into(), port)))
            .collect();
        let peer = PeerConfig {
            preshared_key: None,
            name: if there == HOME { "home" } else { "hub" }.into(),
            public_key: identities[there.index()].public_key(),
            endpoints,
            routes: Vec::new(),
            prefixes: vec![EVERYWHERE],
            policy: settings.policy.clone(),
        };
        let vpn = |(position, vpn): (usize, &VpnSettings)| VpnConfig {
            id: VpnId(position as u32 + 1),
            name: vpn.name.clone(),
            weight: vpn.weight,
            service: vpn.service,
            entry: vpn.entry.clone(),
            prefixes: Vec::new(),
            members: vec![MemberConfig { public_key: peer.public_key, prefixes: vec![EVERYWHERE] }],
        };
        let config = EngineConfig {
            identity: identities[node.index()].clone(),
            cipher: settings.cipher,
            vpns: settings.vpns.iter().enumerate().map(vpn).collect(),
            peers: vec![peer],
            links: settings.links.clone(),
            accepted_stamps: Vec::new(),
            stamp_base: 1,
            inner_mtu: settings.inner_mtu,
        };
        let seed = bytes(&mut rng.split(2).split(node.0.into()));
        let mut site =
            EngineSite::new(node, config, port, seen, Instant::ZERO, seed).map_err(|error| error.to_string())?;
        site.set_flows(Instant::ZERO, settings.flows.clone())?;
        Ok::<_, String>(site)
    };
    Ok([site(HOME, home)?, site(HUB, hub)?])
}

/// Returns the links at the positions `used`, as the site `node` sees them.
///
/// They have the addresses of `node` and those of the other node that it reaches.
fn seen_from(node: NodeId, scenario: &Scenario, used: &[usize], links: &[[LinkId; 2]]) -> Vec<SiteLink> {
    let there = if node == HOME { HUB } else { HOME };
    let address = |position: usize, node: NodeId| Ipv4Addr::new(10, 77, position as u8, node.0 as u8 + 1);
    let seen = used.iter().filter_map(|&position| {
        let [up, down] = *links.get(position)?;
        let (out, back) = if node == HOME { (up, down) } else { (down, up) };
        // The other node answers at each of its addresses over every link, as a Linux host does. So all its addresses
        // are listed for this link.
        let others = used.iter().copied().filter(|other| *other != position);
        let reaches = std::iter::once(position).chain(others).map(|other| (address(other, there), there)).collect();
        let link = scenario.links.get(position)?;
        let rebind = link.rebind.filter(|_| node == HOME);
        Some(SiteLink { name: link.name.clone(), out, back, address: address(position, node), reaches, rebind })
    });
    seen.collect()
}

fn bytes(rng: &mut Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.next_u64().to_le_bytes()));
    bytes
}
