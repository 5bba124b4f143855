//! From a network's links and a variant's routing to every node's table.

use weft_scenario::{CostMetric, ExplicitPath, NetworkFlow, NetworkLink, Routes, Routing};
use weft_scenario::{Capacity, Network};
use weft_sim::topology::{
    Edge, Graph, LabelPath, RouteTable, destinations_behind, disjoint_paths, equal_cost_routes, k_shortest_paths,
    lay_paths, path_count, shortest_routes,
};
use weft_sim::{LinkId, NodeId};

/// The simulator's number of one direction of a scenario's link.
pub(super) fn link_id(link: usize, is_up: bool) -> LinkId {
    LinkId(2 * link as u32 + u32::from(!is_up))
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(node as u32)
}

/// The tables of all nodes.
pub(super) struct Tables {
    graph: Graph,
    pub tables: Vec<RouteTable>,
}

impl Tables {
    /// # Errors
    /// When there are more explicit paths than labels.
    pub(super) fn new(network: &Network, routing: &Routing) -> Result<Tables, String> {
        let graph = graph(network, routing.cost);
        let mut tables = match routing.routes {
            Routes::EqualCost => equal_cost_routes(&graph),
            Routes::Shortest | Routes::KShortest { .. } | Routes::Explicit { .. } => shortest_routes(&graph),
        };
        let paths = label_paths(network, &graph, &routing.routes);
        lay_paths(&graph, &mut tables, &paths).map_err(|error| error.to_string())?;
        Ok(Tables { graph, tables })
    }

    /// How many paths a flow's data has.
    pub(super) fn paths_of(&self, flow: &NetworkFlow) -> u32 {
        let count = path_count(&self.graph, &self.tables, node_id(flow.from), node_id(flow.to));
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

fn graph(network: &Network, cost: CostMetric) -> Graph {
    let edge = |link: &NetworkLink, is_up: bool| {
        let (direction, [from, to]) = match is_up {
            true => (&link.up, link.ends),
            false => (&link.down, [link.ends[1], link.ends[0]]),
        };
        let by_metric = match cost {
            CostMetric::Hops => 1,
            CostMetric::Delay => direction.spec.delay.as_nanos() as u64,
        };
        let weight = match &direction.spec.capacity {
            Capacity::Rate(rate) => u32::try_from(rate.bps() / 1_000).unwrap_or(u32::MAX).max(1),
            Capacity::Trace(_) => 1,
        };
        Edge { from: node_id(from), to: node_id(to), cost: link.cost.map_or(by_metric, u64::from), weight }
    };
    let edges = network.links.iter().flat_map(|link| [edge(link, true), edge(link, false)]).collect();
    Graph::new(network.nodes.len(), edges)
}

fn label_paths(network: &Network, graph: &Graph, routes: &Routes) -> Vec<LabelPath> {
    match routes {
        Routes::Shortest | Routes::EqualCost => Vec::new(),
        Routes::KShortest { k, disjoint } => {
            let find = if *disjoint { disjoint_paths } else { k_shortest_paths };
            let plain = |links, to| LabelPath { links, weight: 1, destinations: vec![to] };
            pairs(network)
                .into_iter()
                .flat_map(|(from, to)| find(graph, from, to, *k as usize).into_iter().map(move |path| (path, to)))
                .map(|(links, to)| plain(links, to))
                .collect()
        }
        Routes::Explicit { paths } => paths.iter().flat_map(|&path| both_ways(network, graph, path)).collect(),
    }
}

/// The pairs of nodes between which flows go, both ways, each once.
fn pairs(network: &Network) -> Vec<(NodeId, NodeId)> {
    let both = |flow: &NetworkFlow| [(flow.from, flow.to), (flow.to, flow.from)];
    let mut pairs: Vec<(NodeId, NodeId)> =
        network.flows.iter().flat_map(both).map(|(from, to)| (node_id(from), node_id(to))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn both_ways(network: &Network, graph: &Graph, path: usize) -> Vec<LabelPath> {
    let Some(path) = network.paths.get(path) else { return Vec::new() };
    let forth = laid(network, graph, path, false);
    if path.one_way { vec![forth] } else { vec![forth, laid(network, graph, path, true)] }
}

fn laid(network: &Network, graph: &Graph, path: &ExplicitPath, is_back: bool) -> LabelPath {
    let mut hops: Vec<(usize, usize)> = path.nodes.iter().copied().zip(path.links.iter().copied()).collect();
    let (mut first, mut last) = (path.nodes.first().copied().unwrap_or(0), path.nodes.last().copied().unwrap_or(0));
    if is_back {
        hops = path.nodes.iter().copied().skip(1).zip(path.links.iter().copied()).collect();
        hops.reverse();
        (first, last) = (last, first);
    }
    let directed = |(from, link): (usize, usize)| link_id(link, network.links[link].ends[0] == from);
    let behind = || destinations_behind(graph, node_id(first), node_id(last));
    let named = path.destinations.as_ref().filter(|_| !is_back);
    LabelPath {
        links: hops.into_iter().map(directed).collect(),
        weight: path.weight,
        destinations: named.map_or_else(behind, |nodes| nodes.iter().copied().map(node_id).collect()),
    }
}
