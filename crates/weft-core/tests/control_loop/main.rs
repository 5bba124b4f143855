//! Properties of the control loops, in a fluid model and in a packet-level model.

mod accumulation;
mod aimd;
mod explicit_rate;
mod fluid;
mod network;
mod robustness;

use weft_units::{Duration, Instant};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Prints a result. `--nocapture` shows it.
macro_rules! figure {
    ($($what:tt)*) => { println!("figure: {}", format_args!($($what)*)) };
}
pub(crate) use figure;
