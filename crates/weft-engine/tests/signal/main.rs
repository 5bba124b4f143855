//! In-band signalling between hosts that do not speak it, hosts that do, and two engines.
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
