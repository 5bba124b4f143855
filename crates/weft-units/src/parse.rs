//! Parses quantities as people write them: `50 Mbit/s`, `8 ms`, `0.5 %`.

use crate::Rate;
use core::fmt;
use core::time::Duration;

/// Reason why a quantity could not be parsed. The text states the accepted form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseUnitError {
    /// The text does not start with a number.
    NoNumber,
    /// The unit is missing or unknown. The text lists the units that are accepted.
    Unit(&'static str),
    /// The number is negative or too large.
    OutOfRange,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseUnitError::NoNumber => f.write_str("expected a number with a unit"),
            ParseUnitError::Unit(units) => write!(f, "the unit must be one of {units}"),
            ParseUnitError::OutOfRange => f.write_str("the number is out of range"),
        }
    }
}

impl core::error::Error for ParseUnitError {}

fn split(text: &str) -> Result<(f64, &str), ParseUnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| ParseUnitError::NoNumber)?;
    if !number.is_finite() || number < 0.0 {
        return Err(ParseUnitError::OutOfRange);
    }
    Ok((number, text[end..].trim()))
}

/// Parses a rate such as `50 Mbit/s` or `1.5Gbit/s`.
///
/// # Errors
///
/// Fails if there is no number, the unit is not a bit rate, or the number is out of range.
pub fn parse_rate(text: &str) -> Result<Rate, ParseUnitError> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        _ => return Err(ParseUnitError::Unit("bit/s, kbit/s, Mbit/s, Gbit/s")),
    };
    if number * factor > 1e15 {
        return Err(ParseUnitError::OutOfRange);
    }
    Ok(Rate::from_bps((number * factor + 0.5) as u64))
}

/// Parses a time such as `8 ms`, `50 us`, `1.5 s`, `5 m` or `2 min`, `12 h`, `90 d`.
///
/// # Errors
///
/// Fails if there is no number, the unit is not a time, or the number is out of range.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let (number, unit) = split(text)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return Err(ParseUnitError::Unit("ns, us, µs, ms, s, m, min, h, d")),
    };
    if number * nanos > 1e18 {
        return Err(ParseUnitError::OutOfRange);
    }
    Ok(Duration::from_nanos((number * nanos + 0.5) as u64))
}

/// Parses a fraction such as `0.5 %` or `0.005`, and returns it as a number from 0 to 1.
///
/// # Errors
///
/// Fails if there is no number, the unit is not `%`, or the share is above one.
pub fn parse_fraction(text: &str) -> Result<f64, ParseUnitError> {
    let (number, unit) = split(text)?;
    let fraction = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(ParseUnitError::Unit("%, or no unit for a fraction of one")),
    };
    if fraction > 1.0 { Err(ParseUnitError::OutOfRange) } else { Ok(fraction) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_rate("50 Mbit/s"), Ok(Rate::from_mbps(50)));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(Rate::from_mbps(1500)));
        assert_eq!(parse_duration("8 ms"), Ok(Duration::from_millis(8)));
        assert_eq!(parse_duration("0.25 s"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5m"), parse_duration("300 s"));
        assert_eq!(parse_duration("5min"), parse_duration("300 s"));
        assert_eq!((parse_duration("36 h"), parse_duration("1.5d")), (parse_duration("2160m"), parse_duration("36h")));
        assert_eq!(parse_fraction("0.5 %"), Ok(0.005));
        assert_eq!(parse_fraction("0.005"), Ok(0.005));
    }

    /// Returns the units that the error of `parse` lists.
    fn listed<T: core::fmt::Debug>(parse: impl Fn(&str) -> Result<T, ParseUnitError>) -> Vec<&'static str> {
        match parse("1 parsec") {
            Err(ParseUnitError::Unit(units)) => units.split(", ").collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Tries every unit of up to three letters: exactly those that the errors list are accepted.
    #[test]
    fn error_lists_exactly_the_accepted_units() {
        let (times, rates) = (listed(parse_duration), listed(parse_rate));
        let letters: Vec<String> = ('a'..='z').chain(['µ', 'M']).map(String::from).collect();
        let mut words = letters.clone();
        for longer in 0..2 {
            let longest = words.iter().filter(|word| word.chars().count() == longer + 1);
            let next: Vec<_> =
                longest.flat_map(|word| letters.iter().map(move |letter| format!("{word}{letter}"))).collect();
            words.extend(next);
        }
        for unit in &words {
            let is_listed = times.contains(&unit.as_str());
            assert_eq!(parse_duration(&format!("1 {unit}")).is_ok(), is_listed, "{unit}");
        }
        assert!(times.iter().all(|unit| words.iter().any(|word| word == unit)), "{times:?}");
        assert!(rates.iter().all(|unit| parse_rate(&format!("1 {unit}")).is_ok()), "{rates:?}");
    }

    #[test]
    fn errors_name_the_mistake() {
        assert!(matches!(parse_rate("50 MB"), Err(ParseUnitError::Unit(_))));
        assert_eq!(parse_rate("fast"), Err(ParseUnitError::NoNumber));
        assert_eq!(parse_rate("-1 Mbit/s"), Err(ParseUnitError::OutOfRange));
        assert_eq!(parse_fraction("101 %"), Err(ParseUnitError::OutOfRange));
        assert!(matches!(parse_duration("5"), Err(ParseUnitError::Unit(_))));
    }
}
