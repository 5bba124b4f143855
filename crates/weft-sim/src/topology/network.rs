//! Computes the routes of a scenario's network.

use super::{
    Graph, GraphEdge, LabelPath, RouteTable, TooManyPaths, destinations_behind, disjoint_paths, equal_cost_routes,
    k_shortest_paths, lay_paths, shortest_routes,
};
use crate::{LinkId, NodeId};
use std::collections::BTreeSet;
use weft_scenario::{
    Capacity, CostMetric, DirectionSpec, Directions, ExplicitPath, Link, NetworkScenario, RouteSet, Routing,
};

/// Returns the simulator's link for one direction of link `number` of the scenario.
///
/// It is twice the number, plus one for the down direction. `direction` must not be `Both`.
pub fn link_id(number: usize, direction: Directions) -> LinkId {
    LinkId(2 * number as u32 + u32::from(direction == Directions::Down))
}

/// Returns the graph of the IP network of a scenario.
///
/// Its node `i` is node `i` of the network, and [`link_id`] gives the numbers of its links. The weight of a link is its
/// rate in kbit/s, or 1 for a link whose capacity is a trace.
pub fn graph_of(network: &NetworkScenario, metric: CostMetric) -> Graph {
    let edge = |link: &Link, direction: &DirectionSpec, from: usize, to: usize| GraphEdge {
        from: NodeId(from as u32),
        to: NodeId(to as u32),
        cost: cost(link, direction, metric),
        weight: weight(direction),
    };
    let both = |link: &Link| {
        let [first, second] = link.ends;
        [edge(link, &link.up, first, second), edge(link, &link.down, second, first)]
    };
    Graph::new(network.nodes.len(), network.links.iter().flat_map(both).collect())
}

fn cost(link: &Link, direction: &DirectionSpec, metric: CostMetric) -> u64 {
    match (link.cost, metric) {
        (Some(cost), _) => u64::from(cost),
        (None, CostMetric::Hops) => 1,
        (None, CostMetric::Delay) => u64::try_from(direction.delay.as_micros()).unwrap_or(u64::MAX),
    }
}

fn weight(direction: &DirectionSpec) -> u32 {
    match &direction.capacity {
        Capacity::Rate(rate) => u32::try_from(rate.bps() / 1_000).unwrap_or(u32::MAX).max(1),
        Capacity::Trace(_) => 1,
    }
}

/// Returns the route tables of all nodes of `network`, with the routes that `routing` asks for.
///
/// `graph` is the result of [`graph_of`], possibly without some links.
///
/// # Errors
/// Fails if `routing` needs more label-switched paths than there are labels.
pub fn network_routes(
    network: &NetworkScenario,
    graph: &Graph,
    routing: &Routing,
) -> Result<Vec<RouteTable>, TooManyPaths> {
    match &routing.routes {
        RouteSet::Shortest => Ok(shortest_routes(graph)),
        RouteSet::EqualCost => Ok(equal_cost_routes(graph)),
        RouteSet::KShortest { k, disjoint } => {
            over_paths(graph, &cheapest_paths(network, graph, *k as usize, *disjoint))
        }
        RouteSet::Explicit { paths } => {
            let used = paths.iter().filter_map(|number| network.paths.get(*number));
            over_paths(graph, &used.flat_map(|path| both_ways(network, graph, path)).collect::<Vec<_>>())
        }
    }
}

fn over_paths(graph: &Graph, paths: &[LabelPath]) -> Result<Vec<RouteTable>, TooManyPaths> {
    let mut tables = shortest_routes(graph);
    lay_paths(graph, &mut tables, paths)?;
    Ok(tables)
}

/// Returns an explicit path and, unless it is one-way, its reverse.
///
/// It leaves out a path with a link that is not in the graph.
fn both_ways(network: &NetworkScenario, graph: &Graph, path: &ExplicitPath) -> Vec<LabelPath> {
    let towards = |number: usize, from: usize| {
        let up = network.links[number].ends[0] == from;
        link_id(number, if up { Directions::Up } else { Directions::Down })
    };
    let there = path.links.iter().zip(&path.nodes).map(|(link, from)| towards(*link, *from));
    let back = path.links.iter().zip(&path.nodes[1..]).map(|(link, from)| towards(*link, *from)).rev();
    let named = path.destinations.as_ref().map(|nodes| nodes.iter().map(|node| NodeId(*node as u32)).collect());
    let mut count_paths = vec![(there.collect::<Vec<_>>(), named)];
    if !path.one_way {
        count_paths.push((back.collect(), None));
    }
    let is_whole = |links: &[LinkId]| links.iter().all(|link| graph.leaving(graph.edge(*link).from).contains(link));
    let labelled = |(links, named): (Vec<LinkId>, Option<Vec<NodeId>>)| {
        let (from, to) = (graph.edge(*links.first()?).from, graph.edge(*links.last()?).to);
        let destinations = named.unwrap_or_else(|| destinations_behind(graph, from, to));
        is_whole(&links).then_some(LabelPath { links, weight: path.weight, destinations })
    };
    count_paths.into_iter().filter_map(labelled).collect()
}

/// Returns up to `k` of the cheapest paths between the ends of each flow of the network, in both directions.
///
/// If `disjoint` is true, these `k` paths share no link. Each path joins the routers of the two hosts, so that hosts of
/// one router share it. The weight of a path is that of its slowest link.
fn cheapest_paths(network: &NetworkScenario, graph: &Graph, k: usize, disjoint: bool) -> Vec<LabelPath> {
    let ends = network.flows.iter().flat_map(|flow| [(flow.from, flow.to), (flow.to, flow.from)]);
    let attached = ends.map(|(from, to)| {
        let (from, to) = (NodeId(from as u32), NodeId(to as u32));
        (attachment(graph, from), attachment(graph, to), to)
    });
    let needed: BTreeSet<(NodeId, NodeId, NodeId)> =
        attached.filter(|(ingress, egress, _)| ingress != egress).collect();
    let mut paths: Vec<LabelPath> = Vec::new();
    let needed: Vec<_> = needed.into_iter().collect();
    for group in needed.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let Some((ingress, egress, _)) = group.first().copied() else { continue };
        let found = if disjoint {
            disjoint_paths(graph, ingress, egress, k)
        } else {
            k_shortest_paths(graph, ingress, egress, k)
        };
        paths.extend(found.into_iter().map(|links| LabelPath {
            weight: links.iter().map(|link| graph.edge(*link).weight).min().unwrap_or(1),
            destinations: group.iter().map(|(.., destination)| *destination).collect(),
            links,
        }));
    }
    paths
}

/// Returns the router of a host: the node to which its only link leads, or otherwise the node itself.
fn attachment(graph: &Graph, node: NodeId) -> NodeId {
    match graph.leaving(node) {
        [only] => graph.edge(*only).to,
        _ => node,
    }
}

#[cfg(test)]
mod tests {
    use super::super::path_count;
    use super::*;

    const DIAMOND: &str = r#"
name = "diamond"
duration = "1 s"
node = [{ name = "s", count = 2 }, { name = "d", count = 2 }, { name = "r", count = 5 }]
link = [
    { name = "in", between = ["s*", "r0"], rate = "1 Mbit/s" },
    { name = "out", between = ["r1", "d*"], rate = "1 Mbit/s" },
    { name = "a", between = ["r0", "r2"], rate = "9 Mbit/s", delay = "1 ms" },
    { name = "b", between = ["r2", "r1"], rate = "4 Mbit/s", delay = "9 ms" },
    { name = "c", between = ["r1", "r3"], rate = "2 Mbit/s", delay = "2 ms" },
    { name = "e", between = ["r3", "r0"], rate = "2 Mbit/s", delay = "2 ms" },
    { name = "f", between = ["r0", "r4"], rate = "1 Mbit/s", delay = "1 ms" },
    { name = "g", between = ["r4", "r2"], rate = "1 Mbit/s", delay = "1 ms" },
]
path = [
    { name = "long", via = ["r0", "r4", "r2", "r1"], weight = 5 },
    { name = "short", via = ["r0", "r3", "r1"], one-way = true, destinations = "d1" },
]
flow = [{ app = "ftp", from = "s*", to = "d*" }]
"#;
    const S0: NodeId = NodeId(0);
    const D0: NodeId = NodeId(2);
    const D1: NodeId = NodeId(3);
    const R0: usize = 4;
    const R1: usize = 5;

    fn routes(routing: &str) -> (Graph, Vec<RouteTable>) {
        let network = NetworkScenario::parse(&format!("{DIAMOND}\n[routing]\n{routing}"), "diamond.toml").unwrap();
        let routing = &network.variants[0].routing;
        let graph = graph_of(&network, routing.cost);
        let tables = network_routes(&network, &graph, routing).unwrap();
        (graph, tables)
    }

    /// Returns the links and weights of the next hops to `destination`.
    ///
    /// Up links have even numbers, down links odd ones.
    fn hops(table: &RouteTable, destination: NodeId) -> Vec<(u32, u32)> {
        table.towards(destination).iter().map(|hop| (hop.link.0, hop.weight)).collect()
    }

    #[test]
    fn the_metric_decides_which_way_is_shortest() {
        let (_, by_hops) = routes("");
        assert_eq!(hops(&by_hops[R0], D0), [(8, 9_000)]);
        let (_, by_delay) = routes("cost = \"delay\"");
        assert_eq!(hops(&by_delay[R0], D0), [(15, 2_000)]);
    }

    #[test]
    fn equal_costs_are_all_taken_in_the_order_of_the_links() {
        let (graph, tables) = routes("routes = \"equal-cost\"");
        assert_eq!(hops(&tables[R0], D0), [(8, 9_000), (15, 2_000)]);
        assert_eq!(hops(&tables[R1], S0), [(11, 4_000), (12, 2_000)]);
        assert_eq!(path_count(&graph, &tables, S0, D0), 2);
    }

    #[test]
    fn explicit_paths_lead_there_and_back_for_those_behind_them() {
        let (graph, tables) = routes("routes = \"explicit\"");
        assert_eq!(hops(&tables[R0], D0), [(16, 5)]);
        assert_eq!(hops(&tables[R0], D1), [(16, 5), (15, 1)]);
        assert_eq!(hops(&tables[R1], S0), [(11, 5)]);
        let label = tables[R0].towards(D0)[0].label;
        assert_eq!((tables[8].labelled(label), tables[6].labelled(label)), (Some(LinkId(18)), Some(LinkId(10))));
        assert_eq!(tables[R1].labelled(label), None);
        assert_eq!(path_count(&graph, &tables, S0, D1), 2);
    }

    #[test]
    fn k_shortest_paths_join_routers_and_are_as_heavy_as_their_slowest_link() {
        let (graph, tables) = routes("routes = \"k-shortest\"\nk = 5");
        assert_eq!(hops(&tables[R0], D0), [(8, 4_000), (15, 2_000), (16, 1_000)]);
        assert_eq!(hops(&tables[0], D0), [(0, 1_000)]);
        assert_eq!(path_count(&graph, &tables, S0, D0), 3);
        let (graph, tables) = routes("routes = \"k-shortest\"\nk = 5\ndisjoint = true");
        assert_eq!(hops(&tables[R0], D0), [(8, 4_000), (15, 2_000)]);
        assert_eq!(path_count(&graph, &tables, D1, S0), 2);
    }

    #[test]
    fn a_failed_node_is_gone_round() {
        let network = NetworkScenario::parse(&format!("{DIAMOND}\n[routing]\nroutes = \"explicit\""), "f").unwrap();
        let routing = &network.variants[0].routing;
        let mut graph = graph_of(&network, routing.cost);
        graph.isolate(NodeId(8));
        let tables = network_routes(&network, &graph, routing).unwrap();
        assert_eq!(hops(&tables[R0], D0), [(8, 9_000)]);
        assert_eq!(hops(&tables[R0], D1), [(15, 1)]);
        assert!(tables[R0].towards(NodeId(8)).is_empty());
    }

    /// Returns the number of routes of the first flow's packets to their destination, and the number of routes back.
    ///
    /// `text` is a scenario of the project, and `variant` is one of its variants.
    fn count_paths(text: &str, variant: &str) -> (u64, u64) {
        let network = NetworkScenario::parse(text, "shipped").unwrap();
        let routing = &network.variant(variant).unwrap().routing;
        let graph = graph_of(&network, routing.cost);
        let tables = network_routes(&network, &graph, routing).unwrap();
        let (from, to) = (NodeId(network.flows[0].from as u32), NodeId(network.flows[0].to as u32));
        (path_count(&graph, &tables, from, to), path_count(&graph, &tables, to, from))
    }

    #[test]
    fn paper_000_has_its_stated_number_of_paths() {
        let figure_2 = include_str!("../../../../scenarios/paper-000-figure-2.toml");
        let figure_6 = include_str!("../../../../scenarios/paper-000-figure-6.toml");
        let figure_7 = include_str!("../../../../scenarios/paper-000-figure-7.toml");
        for (figure, variant, paths) in [
            (figure_2, "single", 1),
            (figure_2, "spray", 5),
            (figure_6, "single", 1),
            (figure_6, "ecmp", 2),
            (figure_6, "two-lsps", 2),
            (figure_6, "three-lsps", 3),
            (figure_7, "single", 1),
            (figure_7, "ecmp", 2),
            (figure_7, "two-lsps", 2),
        ] {
            assert_eq!(count_paths(figure, variant), (paths, paths), "{variant}");
        }
    }

    #[test]
    fn figure_6_has_its_single_path_over_r4_both_ways() {
        let network =
            NetworkScenario::parse(include_str!("../../../../scenarios/paper-000-figure-6.toml"), "f").unwrap();
        let graph = graph_of(&network, CostMetric::Hops);
        let tables = network_routes(&network, &graph, &network.variant("single").unwrap().routing).unwrap();
        let node = |name: &str| NodeId(network.node(name).unwrap() as u32);
        for (from, to) in [("r2", "d3"), ("r1", "s3")] {
            let [hop] = tables[node(from).index()].towards(node(to)) else { panic!("one way from {from}") };
            assert_eq!(graph.edge(hop.link).to, node("r4"));
        }
    }
}
