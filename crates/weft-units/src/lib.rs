//! Basic types of all other crates: time, rates, identifiers, serial numbers, seeded randomness and near names.
//!
//! Each type is a newtype with checked or saturating arithmetic. Nothing here reads a clock or draws entropy.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod id;
mod nearest;
mod node_id;
mod parse;
mod path_use;
pub mod planted;
mod rate;
mod rng;
mod seq;
mod time;
mod tournament;
pub mod tuned;

pub use core::time::Duration;
pub use id::{FlowId, LinkId, PathId, PeerId, VpnId};
pub use nearest::nearest;
pub use node_id::{NodeId, RingDistance};
pub use parse::{ParseUnitError, parse_duration, parse_fraction, parse_rate};
pub use path_use::{PathTier, PathUse};
pub use rate::Rate;
pub use rng::Rng;
pub use seq::FlowSeq;
pub use time::Instant;
pub use tournament::{Join, Tournament};
