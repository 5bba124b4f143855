//! Keys and certificates: who may connect, and for how long.
#![allow(missing_docs)]

mod preshared;
mod renewal;
mod shared_keys;
mod trust;

#[path = "../mesh/mod.rs"]
mod mesh;
#[path = "../net/mod.rs"]
mod net;
