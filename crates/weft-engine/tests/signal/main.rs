//! In-band signalling between two engines, for hosts with and without their own signalling.
#![allow(missing_docs)]

#[path = "../net/mod.rs"]
mod net;

mod agents;
mod host_to_host;
mod hostile;
mod hosts;
mod ipv6;
mod quick_answers;
mod routers;
mod shares;
