//! Limits of a link in `[[link]]`: its rate by the time of day, and the data that it may carry in a day or a month.

pub mod cap_hours;
pub mod quota;
