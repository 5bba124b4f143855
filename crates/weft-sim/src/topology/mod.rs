//! Routes through a network: shortest, equal-cost, k shortest, link-disjoint and explicit ones, and the tables a router looks them up in.
//!
//! A [`Graph`] is nodes and directed links with costs. From it come one [`RouteTable`] for each node: [`shortest_routes`],
//! [`equal_cost_routes`], and these with label-switched paths laid over ([`lay_paths`]). [`network_routes`] does all that for
//! the network of a scenario; after a failure it is asked again, over a graph without the failed links.
//!
//! Every choice between equals goes to the link with the least number, so that a network has one answer.

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
pub use graph::{Edge, Graph};
pub use k_shortest::k_shortest_paths;
pub use labels::{LabelPath, TooManyPaths, destinations_behind, lay_paths};
pub use network::{graph_of, link_id, network_routes};
pub use table::{NextHop, NextHops, RouteTable, path_count};

#[cfg(test)]
mod brute_force;
