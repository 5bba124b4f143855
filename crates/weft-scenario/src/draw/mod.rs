//! Draws random links and mixes of links, and names each by its class.
//!
//! The classes cover the whole range of real links. Every function is pure: the same random stream gives the same link.
//! The ranges are wide, so that a protocol cannot pass because it fits a few links by chance.

mod class;
mod link;
mod mix;

pub use class::LinkClass;
pub use link::draw_link;
pub use mix::draw_mix;

use weft_units::Rng;

/// Returns a value between the two limits, drawn from a log-uniform distribution.
pub(crate) fn log_even(rng: &mut Rng, least: f64, most: f64) -> f64 {
    let [low, high] = [least, most].map(libm::log);
    libm::exp(low + (high - low) * rng.unit())
}

/// Returns a value between the two limits, drawn from a uniform distribution.
fn even(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least + (most - least) * rng.unit()
}
