//! Parts of the node that run in parallel with the packet loop, each on a thread or in a process of its own.

pub mod access;
pub mod allow;
pub mod export;
pub mod flows;
pub mod names;
pub mod openvpn;
pub mod proxy;
pub mod routing;
pub mod signalling;
pub mod tcp_er;
