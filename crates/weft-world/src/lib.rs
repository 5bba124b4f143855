//! Scenarios in virtual time: the simulator's networks, and the engine's nodes over simulated links.
#![forbid(unsafe_code)]

pub mod network;
pub mod pair;
pub mod reproduce;
mod side_by_side;
pub mod site;
pub mod swarm;
