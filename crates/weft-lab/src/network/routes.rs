//! Static routes along shortest routes.
//!
//! If several routes are equally short, a node uses the one whose link comes first in the scenario.

use std::fmt::Write;
use std::net::Ipv4Addr;
use weft_scenario::{CostMetric, LinkEnd, NetworkScenario, Underlay};
use weft_sim::NodeId;
use weft_sim::topology::{Graph, RouteTable, graph_of, shortest_routes};

/// First two bytes of the addresses 10.98.0.0/16, of which each node has one on its loopback interface.
const OWN: [u8; 2] = [10, 98];
/// Prefix of the addresses of links' ends (RFC 6598).
const LINKS: &str = "100.64.0.0/10";
/// Number of nodes whose addresses have the same third byte.
const HOSTS_PER_NET: usize = 250;

/// Returns a node's address in the prefix that begins with the bytes `first`.
pub(super) fn address_in(first: [u8; 2], node: usize) -> Ipv4Addr {
    Ipv4Addr::new(first[0], first[1], (node / HOSTS_PER_NET) as u8, (node % HOSTS_PER_NET + 1) as u8)
}

/// Returns a node's address on its loopback interface, which is reached without weft.
pub(super) fn own_address(node: usize) -> Ipv4Addr {
    address_in(OWN, node)
}

/// Returns for each node the input of `ip -batch` that sets the node's address on loopback and its routes.
pub(super) fn batches(network: &NetworkScenario, cost: CostMetric) -> Vec<String> {
    let (graph, underlay) = (graph_of(network, cost), Underlay::new(network));
    let tables = shortest_routes(&graph);
    let routers = routers_only(network, cost);
    let among_routers = shortest_routes(&routers);
    (0..network.nodes.len())
        .map(|node| {
            let mut batch = format!("address add {}/32 dev lo\n", own_address(node));
            for other in (0..network.nodes.len()).filter(|other| *other != node) {
                if let Some(next) = next_hop(&graph, &tables, node, other) {
                    let route_arguments = route_arguments(network, next);
                    let _ = writeln!(
                        batch,
                        "route add {}/32 {route_arguments} src {}",
                        own_address(other),
                        own_address(node)
                    );
                }
            }
            match network.overlay.has(node) {
                true => to_routers(network, &underlay, node, &mut batch),
                false if network.overlay.nodes.is_empty() => {}
                false => to_links(network, &underlay, (&routers, &among_routers), node, &mut batch),
            }
            batch
        })
        .collect()
}

/// Adds the routes of a node with weft: one to the addresses of all links' ends, over each of its links to a router.
///
/// weft chooses the link for each datagram, so every link to a router needs such a route.
fn to_routers(network: &NetworkScenario, underlay: &Underlay<'_>, node: usize, batch: &mut String) {
    let leads_to_router = |end: &LinkEnd| !network.overlay.has(underlay.node_at(end.other()));
    for end in underlay.tunnel_ends_at(node).filter(leads_to_router) {
        let _ = writeln!(batch, "route add {LINKS} {} metric {}", route_arguments(network, end), end.link + 1);
    }
}

/// Adds routes of a router to the ends of links. These routes cross only routers.
fn to_links(
    network: &NetworkScenario,
    underlay: &Underlay<'_>,
    (graph, tables): (&Graph, &[RouteTable]),
    node: usize,
    batch: &mut String,
) {
    for (link, description) in network.links.iter().enumerate().filter(|(_, link)| !link.ends.contains(&node)) {
        let Some(router) = description.ends.into_iter().find(|end| !network.overlay.has(*end)) else { continue };
        let Some(next) = next_hop(graph, tables, node, router) else { continue };
        for end in underlay.ends_at(router).iter().filter(|end| end.link == link) {
            let route_arguments = route_arguments(network, next);
            let _ = writeln!(
                batch,
                "route add {}/32 {route_arguments}\nroute add {}/32 {route_arguments}",
                end.address(),
                end.other().address()
            );
        }
    }
}

/// Returns a graph of the network in which links of nodes with weft have the highest cost, so that routes avoid them.
fn routers_only(network: &NetworkScenario, cost: CostMetric) -> Graph {
    let mut routers = network.clone();
    routers.links.iter_mut().for_each(|link| {
        if link.ends.iter().any(|end| network.overlay.has(*end)) {
            link.cost = Some(u32::MAX);
        }
    });
    graph_of(&routers, cost)
}

/// Returns this node's end of the first link on the route from `node` to `to`. Returns `None` if there is no route.
fn next_hop(graph: &Graph, tables: &[RouteTable], node: usize, to: usize) -> Option<LinkEnd> {
    let hop = tables.get(node)?.towards(NodeId(to as u32)).first()?;
    let direction = hop.link.index();
    debug_assert_eq!(graph.edge(hop.link).from.index(), node);
    Some(LinkEnd { link: direction / 2, end: direction % 2 })
}

fn route_arguments(network: &NetworkScenario, near: LinkEnd) -> String {
    format!("via {} dev {}", near.other().address(), interface(network, near.link))
}

/// Returns the name of a link's interfaces: the link's own name if Linux allows it, or else `link` and its index.
pub(super) fn interface(network: &NetworkScenario, link: usize) -> String {
    let name = network.links.get(link).map_or("", |link| link.name.as_str());
    if name.len() < 16 && name != "lo" { name.to_owned() } else { format!("link{link}") }
}
