//! Clients that are no nodes: unmodified WireGuard, ended at this edge. Sockets and devices are in `daemon/access.rs`.

pub mod clients;
pub mod gate;
pub mod profile;
