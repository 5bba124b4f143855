//! Peers and strangers that lie, flood or waste memory.
#![allow(missing_docs)]

mod budget;
mod handshake_load;
mod hostile;
mod room;

#[path = "../lies/mod.rs"]
mod lies;
#[path = "../mesh/mod.rs"]
mod mesh;
#[path = "../net/mod.rs"]
mod net;
