//! VPNs between two nodes: membership, shares and loops.
#![allow(missing_docs)]

mod loop_faults;
mod loop_paths;
mod loops;
mod vpns;

#[path = "../net/mod.rs"]
mod net;
#[path = "../tenants/mod.rs"]
mod tenants;
