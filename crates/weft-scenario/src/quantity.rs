//! Parses the quantities with units that a scenario file writes as TOML strings.

use crate::QueueSize;
use serde::de::{Deserialize, Deserializer, Error};
use std::time::Duration;
use weft_units::{Rate, parse_duration, parse_fraction, parse_rate};

/// A value that a scenario file writes as a string with a unit, such as `"12 ms"`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Quantity<T>(pub T);

/// Parses the text of a quantity.
///
/// The error message names the expected form.
pub(crate) trait FromText: Sized {
    fn from_text(text: &str) -> Result<Self, String>;
}

/// A fraction between 0 and 1, such as a loss probability.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Fraction(pub f64);

/// A size that a scenario file gives in bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bytes(pub u64);

/// The rate that an event promises to a VPN, or `None` if the event withdraws the promise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Promise(pub Option<Rate>);

impl FromText for Promise {
    fn from_text(text: &str) -> Result<Promise, String> {
        match text.trim() {
            "none" => Ok(Promise(None)),
            rate => Rate::from_text(rate).map(|rate| Promise(Some(rate))),
        }
    }
}

impl FromText for Rate {
    fn from_text(text: &str) -> Result<Rate, String> {
        let rate = parse_rate(text).map_err(|e| format!("expected a rate such as \"50 Mbit/s\": {e}"))?;
        if rate == Rate::ZERO {
            Err("a rate in a scenario must be greater than zero: to stop a link, use an event with `cut`".into())
        } else {
            Ok(rate)
        }
    }
}

impl FromText for Duration {
    fn from_text(text: &str) -> Result<Duration, String> {
        parse_duration(text).map_err(|e| format!("expected a time such as \"8 ms\": {e}"))
    }
}

impl FromText for Fraction {
    fn from_text(text: &str) -> Result<Fraction, String> {
        parse_fraction(text).map(Fraction).map_err(|e| format!("expected a share such as \"0.5 %\": {e}"))
    }
}

impl FromText for Bytes {
    fn from_text(text: &str) -> Result<Bytes, String> {
        byte_count(text).map(Bytes).ok_or_else(|| "not a size: expected B, kB or MB (for example \"64 kB\")".into())
    }
}

impl FromText for QueueSize {
    fn from_text(text: &str) -> Result<QueueSize, String> {
        let trimmed = text.trim();
        let wrong =
            || "not a queue: expected BDP, packets, B, kB or MB (for example \"1.5 BDP\", \"100 packets\")".to_owned();
        if let Some(number) = trimmed.strip_suffix("BDP") {
            return positive(number).map(QueueSize::Bdp).ok_or_else(wrong);
        }
        if let Some(number) = trimmed.strip_suffix("packets").or_else(|| trimmed.strip_suffix("packet")) {
            return number.trim().parse().ok().filter(|n| *n > 0).map(QueueSize::Packets).ok_or_else(wrong);
        }
        byte_count(trimmed).map(QueueSize::Bytes).ok_or_else(wrong)
    }
}

fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0)
}

fn byte_count(text: &str) -> Option<u64> {
    let units = [("MB", 1e6), ("kB", 1e3), ("B", 1.0)];
    let (number, factor) = units.iter().find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))?;
    let bytes = positive(number)? * factor;
    (1.0..1e15).contains(&bytes).then_some(bytes as u64)
}

impl<'de, T: FromText> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        T::from_text(&text).map(Quantity).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_come_in_three_units() {
        assert_eq!(QueueSize::from_text("1.5 BDP"), Ok(QueueSize::Bdp(1.5)));
        assert_eq!(QueueSize::from_text("100 packets"), Ok(QueueSize::Packets(100)));
        assert_eq!(QueueSize::from_text("64 kB"), Ok(QueueSize::Bytes(64_000)));
        assert!(QueueSize::from_text("-1 BDP").is_err());
        assert!(QueueSize::from_text("0 packets").is_err());
        assert!(QueueSize::from_text("inf MB").is_err());
        assert!(QueueSize::from_text("0.5 B").is_err());
    }
}
