//! What arrives from a peer: units in parts are joined, and units become writes for the TUN device.

pub mod egress;
pub mod join;
