//! The sending rate of each path, learnt from the measurements of [`crate::sense`].
//!
//! [`PathRate`] takes one sample of measurements per report. It returns a pacing rate and a limit of bytes in flight.
//! It never sends and never reads a clock.

mod path_rate;

pub use path_rate::{PathRate, PathRateConfig, Phase};
