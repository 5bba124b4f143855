//! Reads whole networks: hosts, routers, the links between them, routes and traffic.
//!
//! This module expands the patterns and counts of the file. The result consists of plain lists, which refer to nodes,
//! links and paths by index. The submodules each read and check one kind of table. None of them runs anything.

mod change;
mod client;
mod file;
mod flow;
mod grid;
mod ingress;
mod overlay;
mod path;
mod routing;
mod signalling;
mod tcp;
mod underlay;
mod variant;
mod vpn;

pub use client::OverlayClient;
pub use flow::{NetworkFlow, Traffic};
pub use grid::NetworkGrid;
pub use ingress::{AccumulationBy, ControlLaw, IngressChange, IngressSpec, Markers, Steering, WeightBy};
pub use overlay::{OverlayNode, OverlaySchedule, OverlaySpec, OverlayUse, TunnelSpec};
pub use path::ExplicitPath;
pub use routing::{CostMetric, Forwarding, HashKey, RouteSet, Routing};
pub use signalling::{GrantLaw, SignallingSpec, SubPath};
pub use tcp::{CongestionControl, DelayedAck, DupThresh, TcpChange, TcpRecovery, TcpSpec};
pub use underlay::{LinkEnd, Underlay};
pub use variant::NetworkVariant;
pub use vpn::{NetworkEdge, NetworkVpn, VpnService};

use crate::error::{Checked, Source};
use crate::event::{self, EventSurroundings};
use crate::link_file::{self, LinkRules};
use crate::pattern::{Unique, sound_name};
use crate::run_length::{RunLength, run_length};
use crate::{Link, ScenarioError, TimedEvent};
use file::{NetworkFile, NodeFile};
use std::time::Duration;

/// One experiment over a network: nodes, links, traffic, events and the variants to compare.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkScenario {
    /// Name of the network in the results.
    pub name: String,
    /// One sentence that describes the network to people.
    pub description: String,
    /// Duration of a run.
    pub duration: Duration,
    /// Time at the start of a run that the results leave out.
    pub warmup: Duration,
    /// Number of runs of each variant, with different seeds.
    pub repeats: u32,
    /// Seed from which all random numbers of a run derive.
    pub seed: u64,
    /// Names of the hosts and routers.
    ///
    /// All other parts of the network refer to a node by its index in this list.
    pub nodes: Vec<String>,
    /// The links that join the nodes.
    pub links: Vec<Link>,
    /// Label-switched paths for traffic, each with its list of nodes.
    pub paths: Vec<ExplicitPath>,
    /// The edges: nodes with hosts behind them, between which the tunnels of VPNs lead.
    pub edges: Vec<NetworkEdge>,
    /// The VPNs that share the links between the edges.
    pub vpns: Vec<NetworkVpn>,
    /// The nodes that run weft in variants with an overlay.
    pub overlay: OverlaySpec,
    /// The flows of the network.
    pub flows: Vec<NetworkFlow>,
    /// Timed events in order of time.
    pub events: Vec<TimedEvent>,
    /// Parameters that take several values. Each combination of values is run once.
    pub grid: Option<NetworkGrid>,
    /// The variants that the run compares.
    pub variants: Vec<NetworkVariant>,
}

impl NetworkScenario {
    /// Reads and checks a network. `file` is the name that error messages give to the text.
    ///
    /// # Errors
    /// Fails if the text is not TOML, a key or unit is unknown, or a reference names a missing item. It also fails if a
    /// path visits a node twice, or if no links connect a flow's source to its destination.
    pub fn parse(text: &str, file: &str) -> Result<NetworkScenario, ScenarioError> {
        NetworkScenario::read(&Source { file, text })
    }

    pub(crate) fn read(source: &Source<'_>) -> Checked<NetworkScenario> {
        let read: NetworkFile = crate::read::read(source)?;
        let RunLength { duration, warmup, repeats } =
            run_length(source, &read.duration, read.warmup.as_ref(), &read.repeats)?;
        let nodes = nodes(source, &read.nodes)?;
        let links = link_file::read(source, &read.links, &nodes, LinkRules::Network)?;
        let paths = path::read(source, &read.paths, &nodes, &links)?;
        let edges = vpn::read_edges(source, &read.edges, &nodes, &links)?;
        let around = vpn::VpnSurroundings { nodes: &nodes, links: &links, edges: &edges };
        let vpns = vpn::read(source, &read.vpns, &read.ingress, &around)?;
        let flows = flow::read(source, &read.flows, &read.tcp, duration, &nodes, &links)?;
        vpn::check_flows(source, &read.flows, &flows, &vpns, &nodes)?;
        let mut overlay = overlay::read(source, &read.nodes, &read.tunnels, &nodes)?;
        overlay.clients = client::read(source, &read.nodes, &nodes, &links, &overlay)?;
        let events_around = EventSurroundings {
            nodes: &nodes,
            links: &links,
            vpns: vpns.iter().map(|vpn| vpn.name.as_str()).collect(),
            probes: None,
            has_weft: !overlay.nodes.is_empty(),
        };
        let events = event::read(source, &read.events, duration, &events_around)?;
        vpn::check_leases(source, &read.events, &events, &vpns, &around)?;
        let signalling = read.signalling.apply(source, &SignallingSpec::default(), &nodes, &links)?;
        let around = variant::Surroundings {
            nodes: &nodes,
            links: &links,
            paths: &paths,
            flows: &flows,
            vpns: &vpns,
            overlay: &overlay,
        };
        let variants = variant::read(source, &read.variants, &read.routing, &signalling, &around)?;
        for (number, variant) in variants.iter().enumerate() {
            for (vpn, file) in vpns.iter().zip(&read.vpns) {
                let of_variant = read.variants.get(number).map(|file| &file.ingress);
                let tables = of_variant.into_iter().chain(&file.ingress).chain([&read.ingress]);
                ingress::check(source, tables, &variant.ingress_of(vpn))?;
            }
        }
        let grid = read.grid.map(|file| grid::read(source, &file, &links)).transpose()?;
        Ok(NetworkScenario {
            name: read.name,
            description: read.description,
            duration,
            warmup,
            repeats,
            seed: read.seed,
            nodes,
            links,
            paths,
            edges,
            vpns,
            overlay,
            flows,
            events,
            grid,
            variants,
        })
    }
}

/// Returns the names of all nodes.
///
/// An entry with a count gives several nodes, whose names end with a number from 0.
fn nodes(source: &Source<'_>, files: &[NodeFile]) -> Checked<Vec<String>> {
    if files.is_empty() {
        return Err(source.error(0, "the network has no node: add a [[node]] with `name`"));
    }
    let mut names = Unique::new("node");
    let mut nodes = Vec::new();
    for file in files {
        sound_name(source, &file.name, "node")?;
        let (name, place) = (file.name.get_ref(), file.name.span().start);
        let Some(count) = &file.count else {
            names.take(source, place, name)?;
            nodes.push(name.clone());
            continue;
        };
        for number in 0..u32::from(*count.get_ref()) {
            let name = format!("{name}{number}");
            names.take(source, place, &name)?;
            nodes.push(name);
        }
    }
    Ok(nodes)
}
