//! Simulates a deterministic network in virtual time.
//!
//! The network has links, queues, routers, TCP models and traffic sources. The same seed gives the same bytes.
//! [`Simulator`] owns the clock, the nodes and the links. It delivers packets and timer expiries to [`SimNode`]s, and
//! nodes send packets on links. This crate must not depend on any kind of node, such as weft's engine.
#![forbid(unsafe_code)]

mod agenda;
pub mod edge;
pub mod forward;
pub mod host;
pub mod link;
mod node;
mod packet;
pub mod record;
mod router;
mod schedule;
pub mod signalling;
mod simulator;
pub mod source;
mod station;
pub mod tcp;
pub mod topology;

pub use node::{Ports, SimNode};
pub use packet::{Body, FlowNo, LinkId, NodeId, Packet, PacketEcn};
pub use router::Router;
pub use schedule::LONGEST;
pub use simulator::{Simulator, Tap};
pub use station::Station;
