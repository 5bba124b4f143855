//! Checks that the duration, the warm-up time and the number of repeats of a scenario fit each other.

use crate::error::{Checked, Source};
use crate::quantity::Quantity;
use std::time::Duration;
use toml::Spanned;

pub(crate) struct RunLength {
    pub duration: Duration,
    pub warmup: Duration,
    pub repeats: u32,
}

pub(crate) fn run_length(
    source: &Source<'_>,
    duration: &Spanned<Quantity<Duration>>,
    warmup: Option<&Spanned<Quantity<Duration>>>,
    repeats: &Spanned<u32>,
) -> Checked<RunLength> {
    let length = RunLength {
        duration: duration.get_ref().0,
        warmup: warmup.map_or(Duration::ZERO, |warmup| warmup.get_ref().0),
        repeats: *repeats.get_ref(),
    };
    if length.duration.is_zero() {
        return Err(source.at(duration, "the duration of a run must be greater than zero"));
    }
    if length.warmup >= length.duration {
        return Err(source.at(warmup.unwrap_or(duration), "the warm-up must be shorter than the run"));
    }
    if length.repeats == 0 {
        return Err(source.at(repeats, "a run needs at least one repeat"));
    }
    Ok(length)
}
