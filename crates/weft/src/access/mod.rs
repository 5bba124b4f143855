//! Clients that are not nodes: unmodified WireGuard, which this module terminates, and OpenVPN.
//!
//! This module stores who is admitted and writes the clients' configurations. Sockets, devices and processes are in
//! `daemon`. The engine sees only prefixes of this edge.

pub mod clients;
pub mod gate;
pub mod openvpn;
pub mod profile;
