//! Unmodified clients at an edge, on a real kernel.

mod clients;
#[path = "../common/mod.rs"]
mod common;
mod openvpn;
