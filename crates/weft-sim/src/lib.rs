//! A deterministic network in virtual time: links, queues, routers, TCP models and traffic sources. Same seed, same bytes.
//!
//! It drives [`Node`]s and knows nothing of what they are.
#![forbid(unsafe_code)]

mod packet;
pub mod tcp;

pub use packet::{Body, Ecn, FlowNo, LinkId, NodeId, Packet};
