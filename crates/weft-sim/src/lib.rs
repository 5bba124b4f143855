//! A deterministic network in virtual time: links, queues, routers, TCP models and traffic sources. Same seed, same bytes.
//!
//! It drives [`Node`]s and knows nothing of what they are.
#![forbid(unsafe_code)]

pub mod link;
mod node;
mod packet;
mod schedule;
mod simulator;
pub mod tcp;
pub mod topology;

pub use node::{Node, Ports};
pub use packet::{Body, Ecn, FlowNo, LinkId, NodeId, Packet};
pub use simulator::{Simulator, Tap};
