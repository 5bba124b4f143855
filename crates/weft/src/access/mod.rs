//! Clients that are no nodes: unmodified WireGuard, ended at this edge, and OpenVPN. Sockets, devices and processes are in `daemon`.

pub mod clients;
pub mod gate;
pub mod openvpn;
pub mod profile;
