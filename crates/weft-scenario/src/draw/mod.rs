//! Random links and mixes of links from the whole class of those that exist, each named by its class.
//!
//! Every function here is pure: the same stream gives the same link. Ranges are wide on purpose. A protocol that is right on the whole
//! class is right for a reason; one that is right on ten links may be fitted to them.

mod class;
mod link;
mod mix;

pub use class::LinkClass;
pub use link::draw_link;
pub use mix::draw_mix;

use weft_units::Rng;

/// A value between two others, drawn so that its logarithm is even.
fn log_even(rng: &mut Rng, least: f64, most: f64) -> f64 {
    let [low, high] = [least, most].map(libm::log);
    libm::exp(low + (high - low) * rng.unit())
}

/// A value between two others, drawn evenly.
fn even(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least + (most - least) * rng.unit()
}
