//! How fast to send: each path's pacing rate, learned from [`crate::sense`].

mod drain;
mod path_rate;
mod rate_meter;
mod trial;

pub use path_rate::{PathRate, PathRateConfig, Phase};
