//! Parsing of command-line values that several programs of this project read in the same way.

use std::time::Duration;

/// Reads a time such as `5s` or `2m`. It must be above zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = weft_units::parse_duration(text).map_err(|why| format!("{why}: write a time such as 5s or 2m"))?;
    if time.is_zero() { Err("the time must be greater than zero".to_owned()) } else { Ok(time) }
}
