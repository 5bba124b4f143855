//! The node's side: `weft controller join`, `follow` and `status`.
//!
//! `follow` runs beside the daemon. It reads the node's desired configuration, lets the node run it on trial, and
//! keeps it if the node then still reaches the controller. While the controller is unreachable, nothing changes.

mod follow;
mod join;
mod membership;
mod progress;
mod status;
mod trial;

pub use follow::follow;
pub use join::join;
pub use status::status;
