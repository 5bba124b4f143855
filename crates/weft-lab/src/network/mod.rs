//! Whole networks on this machine's kernel: a namespace for each node, an emulated link for each link, static routes or a daemon on each node.

mod check;
mod datagrams;
mod ground;
mod play;
mod routes;
mod run;
mod tcp;
mod timeline;
mod traffic;
mod wefts;

pub use run::{NetworkRuns, run_network};
