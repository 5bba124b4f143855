//! Deserializes a scenario file and collects all its mistakes in one error.
//!
//! The TOML reader stops at the first mistake. This module then overwrites the wrong entry with the same number of
//! blanks, so that the positions of later mistakes stay correct. It reads the text again until no mistake is left or
//! [`MOST`] are found.

use crate::error::{Checked, ScenarioError, Source, meant};
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Maximum number of mistakes that one error reports.
///
/// A file with more mistakes is probably not a scenario.
const MOST: usize = 20;

/// Deserializes the text as a `T`, or returns all mistakes in one error.
pub(crate) fn read<T: DeserializeOwned>(source: &Source<'_>) -> Checked<T> {
    let mut text = source.text.to_owned();
    let mut mistakes: Vec<ScenarioError> = Vec::new();
    let mut taken = OverwrittenEntries::default();
    while mistakes.len() < MOST {
        let error = match toml::from_str(&text) {
            Ok(value) if mistakes.is_empty() => return Ok(value),
            Ok(_) => break,
            Err(error) => error,
        };
        let entry = error.span().and_then(|span| entry_at(&text, span.start));
        if !taken.explains(error.message(), entry.as_ref()) {
            mistakes.push(source.toml_error(&error));
        }
        let Some((name, place)) = entry else { break };
        blank(&mut text, place.clone());
        taken.note(error.message(), name, place.start);
    }
    mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
    let mut mistakes = mistakes.into_iter();
    let first = mistakes.next().unwrap_or_else(|| source.error(0, "not readable"));
    Err(ScenarioError { more: mistakes.collect(), ..first })
}

/// The entries of the file that were wrong and were overwritten with blanks.
#[derive(Default)]
struct OverwrittenEntries {
    /// Names of the overwritten settings, and the known settings whose misspellings they probably are.
    names: Vec<String>,
    /// Byte offsets of the overwritten settings that do not exist in the format.
    unknown: Vec<usize>,
}

impl OverwrittenEntries {
    fn note(&mut self, message: &str, name: String, start: usize) {
        self.names.push(name);
        self.names.extend(meant(message).map(str::to_owned));
        self.unknown.extend(message.starts_with("unknown field").then_some(start));
    }

    /// Returns true if this "missing field" error only follows from an overwritten entry.
    ///
    /// Either the missing setting itself was overwritten, or its table had an unknown setting that was probably a
    /// misspelling of it.
    fn explains(&self, message: &str, table: Option<&(String, Range<usize>)>) -> bool {
        let Some(name) = missing(message) else { return false };
        let is_in_table = |start: &usize| table.is_some_and(|(_, place)| place.contains(start));
        self.names.iter().any(|taken| taken == name) || self.unknown.iter().any(is_in_table)
    }
}

/// Returns the name `x` from serde's message "missing field `x`".
pub(crate) fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// Returns the name and byte range of the innermost setting or table that contains `offset`.
fn entry_at(text: &str, offset: usize) -> Option<(String, Range<usize>)> {
    let root = DeTable::parse(text).ok()?;
    in_table(text, root.get_ref(), offset)
}

fn in_table(text: &str, table: &DeTable, offset: usize) -> Option<(String, Range<usize>)> {
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().to_string();
        let within = match value.get_ref() {
            DeValue::Table(inner) => in_table(text, inner, offset),
            DeValue::Array(items) => items.iter().find_map(|item| match item.get_ref() {
                DeValue::Table(inner) => in_table(text, inner, offset)
                    .or_else(|| is_header(text, &item.span(), offset).then(|| (name.clone(), section(text, offset)))),
                _ => None,
            }),
            _ => None,
        };
        within.or_else(|| {
            let is_it = key.span().contains(&offset) || value.span().contains(&offset);
            let is_section = is_header(text, &value.span(), offset) || is_header(text, &key.span(), offset);
            is_it.then(|| (name, if is_section { section(text, offset) } else { key.span().start..value.span().end }))
        })
    })
}

/// Returns true if `offset` lies on the line of the table header that `place` begins with.
fn is_header(text: &str, place: &Range<usize>, offset: usize) -> bool {
    let line = text.get(..place.start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let begins = text.get(line..).is_some_and(|rest| rest.trim_start().starts_with('['));
    begins && (line..place.end).contains(&offset)
}

/// Returns the byte range of the table whose header is at `offset`: up to the next table header.
fn section(text: &str, offset: usize) -> Range<usize> {
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
    let rest = text.get(offset..).unwrap_or_default();
    let end = rest.match_indices("\n[").next().map_or(text.len(), |(at, _)| offset + at);
    start..end
}

/// Overwrites the bytes in `place` with blanks and keeps line breaks.
fn blank(text: &mut String, place: Range<usize>) {
    let Some(old) = text.get(place.clone()) else { return };
    let blanks: String = old.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(place, &blanks);
}

#[cfg(test)]
mod tests {
    use crate::AnyScenario;

    fn places(text: &str) -> Vec<(usize, String)> {
        let Err(first) = AnyScenario::parse(text, "f") else { return Vec::new() };
        let more = first.more.iter().map(|mistake| (mistake.line, mistake.message.clone()));
        std::iter::once((first.line, first.message.clone())).chain(more).collect()
    }

    const GOOD: &str = "name = \"x\"\nduration = \"10s\"\n[[link]]\nname = \"a\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
                        [[link]]\nname = \"b\"\nrate = \"5 Mbit/s\"\ndelay = \"20 ms\"\n[[flow]]\nname = \"f\"\napp = \"iperf3\"\n\
                        [[variant]]\nname = \"weft\"\n";

    /// Every misspelt setting, wrong type and wrong form is reported at its line.
    ///
    /// Mistakes that only follow from another mistake are not reported.
    #[test]
    fn all_mistakes_are_reported_and_nothing_that_follows_from_them() {
        assert_eq!(places(GOOD), []);
        let lines: Vec<&str> = GOOD.lines().collect();
        let settings: Vec<usize> = (0..lines.len()).filter(|&line| lines[line].contains('=')).collect();
        let mut random = 1_u64;
        let mut draw = |most: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % most
        };
        for _ in 0..500 {
            let mut wrong: Vec<usize> = (0..1 + draw(5)).map(|_| settings[draw(settings.len())]).collect();
            wrong.sort_unstable();
            wrong.dedup();
            let mut file: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            for &line in &wrong {
                let (key, value) = lines[line].split_once(" = ").unwrap();
                file[line] = match draw(2) {
                    0 => format!("{key}x = {value}"),
                    _ => format!("{key} = [[3]]"),
                };
            }
            let file = file.join("\n");
            let told: Vec<usize> = places(&file).iter().map(|(line, _)| line - 1).collect();
            assert_eq!(told, wrong, "{file}\n{:?}", places(&file));
        }
    }
}
