//! How a node becomes a member of a network: keys, certificates, codes and contacts.

mod allow;
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod first_steps;
mod join;
mod key_kinds;
mod routes;
