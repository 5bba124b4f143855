//! Whole networks on this machine's kernel.
//!
//! Each node of the scenario becomes a namespace and each link an emulated link. Packets follow static
//! routes, or nodes run a daemon if the variant has an overlay. `run` runs all variants, `play` runs one variant.

mod certificates;
mod check;
mod datagrams;
mod explicit_rate;
mod ground;
mod openvpn_clients;
mod overlay_daemons;
mod play;
mod routes;
mod run;
mod tcp;
mod timeline;
mod traffic;

pub use run::{NetworkRuns, run_network};
