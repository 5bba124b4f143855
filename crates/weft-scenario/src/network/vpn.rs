//! Defines the edges of a network and the VPNs between them.

use super::file::{EdgeFile, NetworkFlowFile, NetworkVpnFile};
use super::flow::NetworkFlow;
use super::ingress::{IngressChange, IngressFile, IngressSpec};
use crate::error::{Checked, Source};
use crate::file::EventFile;
use crate::pattern::{Unique, matching, sound_name};
use crate::schedule::moments;
use crate::{Action, Capacity, Link, TimedEvent};
use toml::Spanned;
use weft_units::Rate;

/// Default maximum of the leased rates at an edge, as a fraction of the rate of its links to non-hosts.
const LEASABLE: f64 = 0.9;

/// An edge: a node with hosts behind it, where tunnels begin and end.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkEdge {
    /// Index of the edge in the network's list of nodes.
    pub node: usize,
    /// Maximum total rate of the leased lines at this edge.
    ///
    /// `None` means that a link's capacity varies, so that no maximum is known.
    pub leasable: Option<Rate>,
}

/// The rate that a VPN is promised, and how firmly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VpnService {
    /// No promised rate. The VPN gets a share of the capacity by its weight.
    BestEffort,
    /// A rate that the VPN keeps in preference to others while enough capacity arrives (paper 004).
    Assured(Rate),
    /// A rate below which the VPN never falls: a quasi-leased line (paper 004).
    Leased(Rate),
}

/// A tenant: its hosts, its share, and its queue and loop.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkVpn {
    /// Name of the VPN in the results.
    pub name: String,
    /// Weight of the VPN, by which it shares capacity with other VPNs.
    pub weight: f64,
    /// The rate that the VPN is promised, if any.
    pub service: VpnService,
    /// Indices of the VPN's hosts in the network's list of nodes.
    pub hosts: Vec<usize>,
    /// Settings of the VPN's queue and loop before the changes of a variant.
    ///
    /// [`super::NetworkVariant::ingress_of`] returns the settings in a variant.
    pub ingress: IngressSpec,
}

/// Returns the index in `edges` of the edge behind which a host is: the only node to which its links lead.
///
/// Returns `None` if the links lead to several nodes or to no edge.
pub(super) fn edge_of(host: usize, edges: &[NetworkEdge], links: &[Link]) -> Option<usize> {
    let mut beside = neighbours(host, links);
    let first = beside.next()?;
    let only = beside.all(|node| node == first);
    edges.iter().position(|edge| only && edge.node == first)
}

fn neighbours(node: usize, links: &[Link]) -> impl Iterator<Item = usize> + '_ {
    let touching = links.iter().filter(move |link| link.ends.contains(&node));
    touching.map(move |link| if link.ends[0] == node { link.ends[1] } else { link.ends[0] })
}

pub(super) fn read_edges(
    source: &Source<'_>,
    files: &[EdgeFile],
    nodes: &[String],
    links: &[Link],
) -> Checked<Vec<NetworkEdge>> {
    let mut edges: Vec<NetworkEdge> = Vec::new();
    for file in files {
        for node in matching(source, &file.node, "node", nodes)? {
            if edges.iter().any(|edge| edge.node == node) {
                return Err(source.at(
                    &file.node,
                    format!("two [[edge]] tables contain node `{}`: remove it from one of them", nodes[node]),
                ));
            }
            let leasable = file.leasable.map(|q| q.0).or_else(|| Some(uplinks(node, links)?.scaled(LEASABLE)));
            edges.push(NetworkEdge { node, leasable });
        }
    }
    Ok(edges)
}

/// Returns the total outgoing rate of a node's links, except those to its hosts.
///
/// A host is a node that has only this one neighbour. The result is `None` if the rate of a link varies.
fn uplinks(node: usize, links: &[Link]) -> Option<Rate> {
    let mut sum = 0u64;
    for link in links.iter().filter(|link| link.ends.contains(&node)) {
        let (far, way) = if link.ends[0] == node { (link.ends[1], &link.up) } else { (link.ends[0], &link.down) };
        if neighbours(far, links).all(|beside| beside == node) {
            continue;
        }
        let Capacity::Rate(rate) = way.capacity else { return None };
        sum = sum.saturating_add(rate.bps());
    }
    Some(Rate::from_bps(sum))
}

/// The parts of the network against which a VPN is checked.
pub(super) struct VpnSurroundings<'a> {
    pub nodes: &'a [String],
    pub links: &'a [Link],
    pub edges: &'a [NetworkEdge],
}

pub(super) fn read(
    source: &Source<'_>,
    files: &[NetworkVpnFile],
    base: &IngressFile,
    around: &VpnSurroundings<'_>,
) -> Checked<Vec<NetworkVpn>> {
    let base = base.change(source)?.apply(IngressSpec::default());
    let mut names = Unique::new("VPN");
    let mut vpns: Vec<NetworkVpn> = Vec::new();
    for file in files {
        sound_name(source, &file.name, "VPN")?;
        names.take(source, file.name.span().start, file.name.get_ref())?;
        let own = file.ingress.as_ref().map_or(Ok(IngressChange::default()), |ingress| ingress.change(source))?;
        let vpn = NetworkVpn {
            name: file.name.get_ref().clone(),
            weight: weight(source, file)?,
            service: service(source, file)?,
            hosts: hosts(source, file, around, &vpns)?,
            ingress: own.apply(base),
        };
        vpns.push(vpn);
        leases(source, file, around, &vpns)?;
    }
    Ok(vpns)
}

fn weight(source: &Source<'_>, file: &NetworkVpnFile) -> Checked<f64> {
    let Some(weight) = &file.weight else { return Ok(1.0) };
    match *weight.get_ref() {
        value if value > 0.0 && value.is_finite() => Ok(value),
        value => Err(source.at(weight, format!("the `weight` of a VPN must be above 0, not {value}"))),
    }
}

fn service(source: &Source<'_>, file: &NetworkVpnFile) -> Checked<VpnService> {
    match (&file.assured, &file.leased) {
        (None, None) => Ok(VpnService::BestEffort),
        (Some(rate), None) => Ok(VpnService::Assured(rate.get_ref().0)),
        (None, Some(rate)) => Ok(VpnService::Leased(rate.get_ref().0)),
        (Some(_), Some(leased)) => Err(source.at(leased, "a VPN is `assured` or `leased`, not both")),
    }
}

/// Returns the indices of a VPN's hosts.
///
/// It checks that each host is behind an edge and in no other VPN, and that they are behind at least two edges.
fn hosts(
    source: &Source<'_>,
    file: &NetworkVpnFile,
    around: &VpnSurroundings<'_>,
    earlier: &[NetworkVpn],
) -> Checked<Vec<usize>> {
    let VpnSurroundings { nodes, links, edges } = *around;
    let mut hosts: Vec<usize> = Vec::new();
    let mut behind: Vec<usize> = Vec::new();
    for pattern in file.hosts.get_ref() {
        for host in matching(source, pattern, "node", nodes)? {
            let name = &nodes[host];
            if let Some(other) = earlier.iter().find(|vpn| vpn.hosts.contains(&host)) {
                let other = &other.name;
                return Err(source
                    .at(pattern, format!("host `{name}` is already in VPN `{other}`: a host can be in one VPN only")));
            }
            let Some(edge) = edge_of(host, edges, links) else { return Err(not_behind(source, pattern, host, around)) };
            if !hosts.contains(&host) {
                hosts.push(host);
                behind.push(edge);
            }
        }
    }
    if behind.iter().all(|edge| Some(edge) == behind.first()) {
        let name = file.name.get_ref();
        return Err(source.at(
            &file.hosts,
            format!("VPN `{name}` needs hosts behind two edges or more: add hosts behind another edge"),
        ));
    }
    Ok(hosts)
}

fn not_behind(
    source: &Source<'_>,
    pattern: &Spanned<String>,
    host: usize,
    around: &VpnSurroundings<'_>,
) -> crate::ScenarioError {
    let VpnSurroundings { nodes, links, edges } = *around;
    if edges.is_empty() {
        return source.at(pattern, "the network has no edge: add an [[edge]] with `node`");
    }
    let mut beside: Vec<&str> = neighbours(host, links).map(|node| nodes[node].as_str()).collect();
    beside.dedup();
    beside.truncate(8);
    let list = if beside.is_empty() { "nowhere".to_owned() } else { format!("to {}", beside.join(", ")) };
    source.at(
        pattern,
        format!(
            "host `{}` is not behind an edge: its links lead {list}, but the links of a host must lead to one edge",
            nodes[host]
        ),
    )
}

/// Checks that the leased rates of all VPNs at each edge do not exceed the leasable rate of the edge.
///
/// The error is reported at the VPN that was read last.
fn leases(
    source: &Source<'_>,
    file: &NetworkVpnFile,
    around: &VpnSurroundings<'_>,
    vpns: &[NetworkVpn],
) -> Checked<()> {
    let Some(leased) = &file.leased else { return Ok(()) };
    let services: Vec<VpnService> = vpns.iter().map(|vpn| vpn.service).collect();
    too_much_leased(&services, vpns, around).map_or(Ok(()), |why| Err(source.at(leased, why)))
}

/// Checks that the leased rates, which events may change, never exceed the leasable rate of an edge.
pub(super) fn check_leases(
    source: &Source<'_>,
    files: &[EventFile],
    events: &[TimedEvent],
    vpns: &[NetworkVpn],
    around: &VpnSurroundings<'_>,
) -> Checked<()> {
    let mut services: Vec<VpnService> = vpns.iter().map(|vpn| vpn.service).collect();
    for moment in moments(events) {
        let Some(TimedEvent { group, action: Action::Share(change), .. }) = events.get(moment.event) else { continue };
        let before = vpns.get(change.vpn).map(|vpn| vpn.service);
        let Some(service) = (if moment.is_end { change.service.and(before) } else { change.service }) else { continue };
        services[change.vpn] = service;
        let place = files.get(*group).and_then(|file| file.leased.as_ref());
        if let Some((place, why)) = place.zip(too_much_leased(&services, vpns, around)) {
            return Err(source.at(place, why));
        }
    }
    Ok(())
}

/// Returns an error message if the leased rates exceed the leasable rate of an edge. Returns `None` if they do not.
///
/// `services` has the present service of each VPN.
fn too_much_leased(services: &[VpnService], vpns: &[NetworkVpn], around: &VpnSurroundings<'_>) -> Option<String> {
    let VpnSurroundings { nodes, links, edges } = *around;
    edges.iter().enumerate().find_map(|(number, edge)| {
        let leasable = edge.leasable?;
        let is_here = |vpn: &NetworkVpn| vpn.hosts.iter().any(|host| edge_of(*host, edges, links) == Some(number));
        let here = vpns.iter().zip(services).filter(|(vpn, _)| is_here(vpn));
        let rates = here.map(|(_, service)| match service {
            VpnService::Leased(rate) => rate.bps(),
            VpnService::BestEffort | VpnService::Assured(_) => 0,
        });
        let sum = Rate::from_bps(rates.fold(0, u64::saturating_add));
        let name = &nodes[edge.node];
        let why = || {
            format!("the `leased` rates at edge `{name}` are {sum}, but only {leasable} may be leased there: lower one")
        };
        (sum > leasable).then(why)
    })
}

/// Checks that the two ends of each flow are in the same VPN.
pub(super) fn check_flows(
    source: &Source<'_>,
    files: &[NetworkFlowFile],
    flows: &[NetworkFlow],
    vpns: &[NetworkVpn],
    nodes: &[String],
) -> Checked<()> {
    let vpn_of = |node: usize| vpns.iter().find(|vpn| vpn.hosts.contains(&node));
    for flow in flows {
        if let (Some(from), Some(to), Some(file)) = (vpn_of(flow.from), vpn_of(flow.to), files.get(flow.group))
            && from.name != to.name
        {
            let message = format!(
                "the flow starts at host `{}` of VPN `{}` and ends at host `{}` of VPN `{}`, but VPNs are separate: choose two \
                 hosts of one VPN",
                nodes[flow.from], from.name, nodes[flow.to], to.name
            );
            return Err(source.at(&file.to, message));
        }
    }
    Ok(())
}
