//! Computes the routes of a network: shortest, equal-cost, k-shortest, link-disjoint and explicit ones.
//!
//! A [`Graph`] consists of nodes and directed links with costs. It yields one [`RouteTable`] for each node, through
//! [`shortest_routes`] or [`equal_cost_routes`]. [`lay_paths`] adds label-switched paths to these tables.
//! [`network_routes`] does all of this for the IP network of a scenario. After a failure it is called again with a
//! graph that lacks the failed links.
//!
//! Every choice between equal alternatives selects the link with the lowest number, so each graph has one unique
//! result.

mod dijkstra;
mod disjoint;
mod equal_cost;
mod graph;
mod k_shortest;
mod labels;
mod network;
mod table;

pub use dijkstra::{distances_to, shortest_path};
pub use disjoint::disjoint_paths;
pub use equal_cost::{equal_cost_routes, shortest_routes};
pub use graph::{Graph, GraphEdge};
pub use k_shortest::k_shortest_paths;
pub use labels::{LabelPath, TooManyPaths, destinations_behind, lay_paths};
pub use network::{graph_of, link_id, network_routes};
pub use table::{HopEntry, NextHops, RouteTable, path_count};

#[cfg(test)]
mod brute_force;
