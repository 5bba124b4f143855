//! Limits of a link in `[[link]]`: the rate by the time of day, and the data of a period.

pub mod cap_hours;
pub mod quota;
