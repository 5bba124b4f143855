//! Nodes that meet through the overlay, and the owners of addresses.
#![allow(missing_docs)]

mod join;
mod owners;
mod routes;

#[path = "../cloud/mod.rs"]
mod cloud;
#[path = "../net/mod.rs"]
mod net;
