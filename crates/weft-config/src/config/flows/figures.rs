//! Keys that `[[class]]` and `[[rule]]` share: the rates, delays and precedence of a flow.

use crate::config::read::{Section, names};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_flows::class::MAX_PRIORITY;
use weft_flows::rules::Overrides;
use weft_flows::treatment::Service;
use weft_units::{Duration, parse_duration, parse_rate};

names!(Service {
    Available = "available",
    Guaranteed = "guaranteed",
    Maximum = "maximum",
    Variable = "variable",
});

/// Byte ranges of the keys of a table in the file, for messages of the checks.
#[derive(Clone, Debug, Default)]
pub struct KeySpans {
    spans: BTreeMap<&'static str, Range<usize>>,
}

impl KeySpans {
    /// Stores the byte range of the value of each of `keys` that is in the table.
    pub fn keep(&mut self, section: &mut Section<'_, '_>, keys: &[&'static str]) {
        for key in keys {
            if let Some(value) = section.value(key) {
                self.spans.insert(key, value.span());
            }
        }
    }

    /// Returns the stored byte range of the first of `keys` that is present. Without any, returns `otherwise`.
    pub fn first(&self, keys: &[&str], otherwise: &Range<usize>) -> Range<usize> {
        keys.iter().find_map(|key| self.spans.get(key)).unwrap_or(otherwise).clone()
    }
}

/// Parses a flow's rates, delays and precedence, and stores the byte ranges of their values in `spans`.
pub fn read(section: &mut Section<'_, '_>, spans: &mut KeySpans) -> Overrides {
    let priorities = 0..i64::from(MAX_PRIORITY) + 1;
    let figures = Overrides {
        service: section.choice("service"),
        guaranteed: section.parsed("guaranteed", "\"82 kbit/s\"", parse_rate).map(|at| at.value),
        available: None,
        maximum: section.parsed("maximum", "\"20 Mbit/s\"", above_zero("maximum", parse_rate)).map(|at| at.value),
        burst_bytes: section.integer("burst-bytes", 1..1 << 32).map(|at| at.value as u32),
        delay_variance: section
            .parsed("delay-variance", "\"10 ms\"", above_zero("delay-variance", parse_duration))
            .map(|at| at.value),
        precedence: section.integer("precedence", priorities.clone()).map(|at| at.value as u8),
        delay_priority: section.integer("delay-priority", priorities).map(|at| at.value as u8),
        must_be_met: section.flag("must-be-met"),
    };
    spans.keep(
        section,
        &["service", "guaranteed", "maximum", "burst-bytes", "delay-variance", "precedence", "delay-priority"],
    );
    figures
}

/// Returns a parser of the setting `key` that works as `parse` and refuses zero.
fn above_zero<T: Default + PartialEq, E: ToString>(
    key: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&str) -> Result<T, String> {
    move |text| match parse(text) {
        Ok(value) if value == T::default() => Err(format!("`{key}` must be greater than zero")),
        Ok(value) => Ok(value),
        Err(why) => Err(why.to_string()),
    }
}

/// Returns a parser of the setting `key`, a time from `least` to `most`.
pub fn time_within(key: &'static str, least: Duration, most: Duration) -> impl Fn(&str) -> Result<Duration, String> {
    move |text| match parse_duration(text) {
        Ok(time) if (least..=most).contains(&time) => Ok(time),
        Ok(_) => Err(format!("the time `{key}` must be from {least:?} to {most:?}")),
        Err(why) => Err(why.to_string()),
    }
}
