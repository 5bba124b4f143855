//! Admission of a node to a network: keys, certificates, codes and contacts.

mod allow;
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod explain;
mod first_steps;
mod join;
mod key_kinds;
mod routes;
