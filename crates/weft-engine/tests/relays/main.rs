//! Routes over relays: detours, labels, limits, faulty relays and drills.
#![allow(missing_docs)]

mod adverse;
mod drill;
mod relay;
mod relay_labels;
mod relay_limits;

#[path = "../mesh/mod.rs"]
mod mesh;
#[path = "../net/mod.rs"]
mod net;
