//! Whole networks: hosts, routers, links between them, routes and traffic.
//!
//! Patterns and counts of the file are expanded here: what comes out is plain lists, in which nodes, links and paths are told
//! by their number.

mod change;
mod event;
mod file;
mod flow;
mod ingress;
mod link;
mod overlay;
mod path;
mod pattern;
mod queue;
mod routing;
mod signalling;
mod tcp;
mod underlay;
mod variant;
mod vpn;

pub use event::{NetworkEvent, Target};
pub use flow::{NetworkFlow, Traffic};
pub use ingress::{IngressChange, IngressSpec, LoopLaw, Markers, Steering, WeightBy};
pub use link::{LinkDirection, NetworkLink};
pub use overlay::{Overlay, OverlayNode, OverlaySchedule, OverlayUse, Tunnel};
pub use path::ExplicitPath;
pub use queue::{Discipline, RandomEarly};
pub use routing::{CostMetric, Forwarding, HashKey, Routes, Routing};
pub use signalling::{GrantLaw, SignallingSpec, SubPath};
pub use tcp::{CongestionControl, DelayedAck, DupThresh, Recovery, TcpChange, TcpSpec};
pub use underlay::{LinkEnd, Underlay};
pub use variant::NetworkVariant;
pub use vpn::{NetworkEdge, NetworkVpn, VpnService};

use crate::ScenarioError;
use crate::error::{Checked, Source};
use crate::run_length::{RunLength, run_length};
use file::{NetworkFile, NodeFile};
use pattern::{Unique, sound_name};
use std::time::Duration;

/// What happens in one experiment over a network.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// Its name in the results.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// Length of a run.
    pub duration: Duration,
    /// The beginning of a run that does not count.
    pub warmup: Duration,
    /// Runs of each variant.
    pub repeats: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// The names of hosts and routers; elsewhere a node is told by its place here.
    pub nodes: Vec<String>,
    /// What joins them.
    pub links: Vec<NetworkLink>,
    /// Explicit paths.
    pub paths: Vec<ExplicitPath>,
    /// Where tunnels begin and end, if there are any.
    pub edges: Vec<NetworkEdge>,
    /// Who shares them.
    pub vpns: Vec<NetworkVpn>,
    /// Where weft runs in variants with an overlay.
    pub overlay: Overlay,
    /// The traffic.
    pub flows: Vec<NetworkFlow>,
    /// Timed events in order.
    pub events: Vec<NetworkEvent>,
    /// What is compared.
    pub variants: Vec<NetworkVariant>,
}

impl Network {
    /// Reads and checks a network; `file` names the text in errors.
    ///
    /// # Errors
    /// When the text is not TOML, a key or unit is unknown, something refers to what is not there, a path goes in a circle, or
    /// no links lead from a flow's source to its destination.
    pub fn parse(text: &str, file: &str) -> Result<Network, ScenarioError> {
        Network::read(&Source { file, text })
    }

    pub(crate) fn read(source: &Source<'_>) -> Checked<Network> {
        let read: NetworkFile = crate::read::read(source)?;
        let RunLength { duration, warmup, repeats } =
            run_length(source, &read.duration, read.warmup.as_ref(), &read.repeats)?;
        let nodes = nodes(source, &read.nodes)?;
        let links = link::read(source, &read.links, &nodes)?;
        let paths = path::read(source, &read.paths, &nodes, &links)?;
        let edges = vpn::read_edges(source, &read.edges, &nodes, &links)?;
        let around = vpn::Surroundings { nodes: &nodes, links: &links, edges: &edges };
        let vpns = vpn::read(source, &read.vpns, &read.ingress, &around)?;
        let flows = flow::read(source, &read.flows, &read.tcp, duration, &nodes, &links)?;
        vpn::check_flows(source, &read.flows, &flows, &vpns, &nodes)?;
        let overlay = overlay::read(source, &read.nodes, &read.tunnels, &nodes)?;
        let events = event::read(source, &read.events, duration, &nodes, &links)?;
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
        Ok(Network {
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
            variants,
        })
    }
}

/// The names of the nodes: those with a count are numbered from 0.
fn nodes(source: &Source<'_>, files: &[NodeFile]) -> Checked<Vec<String>> {
    if files.is_empty() {
        return Err(source.error(0, "there is no node: add a [[node]] with `name`"));
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
