//! The node's side: `weft controller join`, `follow` and `status`.
//!
//! `follow` runs beside the daemon. It reads the node's desired configuration from the controller and has the node run
//! it on trial. It keeps the configuration if the controller is reachable during the trial. While the controller is
//! unreachable, the node's configuration does not change.

mod follow;
mod join;
mod membership;
mod progress;
mod status;
mod trial;

pub use follow::follow;
pub use join::join;
pub use status::status;
