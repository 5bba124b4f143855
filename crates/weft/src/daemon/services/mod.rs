//! Parts of the node that run beside the packet loop, each on a thread or in a process of its own.

pub mod access;
pub mod export;
pub mod flows;
pub mod names;
pub mod openvpn;
pub mod proxy;
pub mod signalling;
pub mod tcp_er;
