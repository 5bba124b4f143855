//! Parsing of command-line values that several programs of this project read in the same way.

use std::time::Duration;

/// Reads a time such as `5s` or `2m`. It must be above zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = weft_units::parse_duration(text)
        .map_err(|why| format!("cannot read the time `{text}`: {why}: write one such as 5s or 2m"))?;
    match time.is_zero() {
        true => Err(format!("the time `{text}` must be greater than zero: write one such as 5s or 2m")),
        false => Ok(time),
    }
}
