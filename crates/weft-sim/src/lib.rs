//! A deterministic network in virtual time: links, queues, routers, TCP models and traffic sources. Same seed, same bytes.
//!
//! It drives [`Node`]s and knows nothing of what they are.
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

pub use node::{Node, Ports};
pub use packet::{Body, Ecn, FlowNo, LinkId, NodeId, Packet};
pub use router::Router;
pub use schedule::LONGEST;
pub use simulator::{Simulator, Tap};
pub use station::Station;
