//! Readers of typed values from a TOML table whose values have their places in the source.
//!
//! A reader returns the value at a key, or reports a mistake and returns `None`. Parsing continues after a mistake, so
//! that one run reports all of them.

use super::diagnose::{Report, did_you_mean};
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weft_units::nearest;

/// A value and its place in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Byte range of the value in the source.
    pub span: Range<usize>,
}

impl<T> At<T> {
    /// Applies `f` to the value and keeps its place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), span: self.span }
    }
}

/// A type of setting whose values have fixed names.
pub trait Choice: Copy + 'static {
    /// The values with their names in the configuration.
    const NAMES: &'static [(&'static str, Self)];
}

/// Implements [`Choice`] for an enum by naming its variants.
macro_rules! names {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $crate::config::read::Choice for $name {
            const NAMES: &'static [(&'static str, Self)] = &[$(($text, $name::$variant),)+];
        }
    };
}
pub(super) use names;

/// One table of the file, read key by key.
///
/// [`Section::finish`] reports the keys that none of these methods has read.
pub struct Section<'a, 'i> {
    name: &'static str,
    table: &'a DeTable<'i>,
    span: Range<usize>,
    report: &'a Report,
    known: Vec<&'static str>,
    missing: RefCell<Vec<(String, String)>>,
}

impl<'a, 'i> Section<'a, 'i> {
    /// Creates a reader of `table`, called `name` in messages.
    pub fn new(name: &'static str, table: &'a DeTable<'i>, span: Range<usize>, report: &'a Report) -> Self {
        Section { name, table, span, report, known: Vec::new(), missing: RefCell::default() }
    }

    /// Returns the place of the table.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Returns the place of this key, or of the table if the key is absent.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        self.table.keys().find(|k| k.get_ref() == key).map_or(self.span(), |k| k.span())
    }

    /// Returns true if the key is present.
    pub fn has(&self, key: &str) -> bool {
        self.table.keys().any(|k| k.get_ref() == key)
    }

    /// Reports an error at `span`.
    pub fn complain(&self, span: Range<usize>, message: &str, help: &str) {
        self.report.error(span, message, Some(help.to_owned()));
    }

    /// Returns the value of `key`, of any type, or `None` if the key is absent.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    /// Returns true if the value of `key` is an array without entries.
    pub fn is_empty_list(&self, key: &str) -> bool {
        let is_empty = |value: &Spanned<DeValue<'_>>| value.get_ref().as_array().is_some_and(|list| list.is_empty());
        self.table.iter().any(|(k, value)| k.get_ref() == key && is_empty(value))
    }

    fn wrong_type(&self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str, help: Option<String>) {
        let found = value.get_ref().type_str();
        self.report.error(value.span(), format!("`{key}` must be {expected}, not {found}"), help);
    }

    /// Returns the string at `key`.
    pub fn text(&mut self, key: &'static str) -> Option<At<&'a str>> {
        self.text_or_help(key, || None)
    }

    /// Returns the string at `key`. If the value has another type, reports this with the text `help`.
    fn text_or_help(&mut self, key: &'static str, help: impl Fn() -> Option<String>) -> Option<At<&'a str>> {
        let value = self.value(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, key, "a string", help());
            return None;
        };
        Some(At { value: text, span: value.span() })
    }

    /// Parses the string at `key` with `parse`. If that fails, reports an error that shows `example`.
    pub fn parsed<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let text = self.text_or_help(key, || Some(format!("write for example {example}")))?;
        parse_at(self.report, key, text, example, parse)
    }

    /// Returns the boolean at `key`.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(value, key, "true or false", None);
        }
        flag
    }

    /// Returns the integer at `key`, if it is within `range`.
    pub fn integer(&mut self, key: &'static str, range: Range<i64>) -> Option<At<i64>> {
        let value = self.value(key)?;
        integer_at(self.report, key, value, range)
    }

    /// Returns true if the value of `key` is a table.
    pub fn is_table(&self, key: &str) -> bool {
        self.table.iter().any(|(k, value)| k.get_ref() == key && value.get_ref().as_table().is_some())
    }

    /// Returns the number at `key`, if it is above the start of `within` and at most its end. A message shows `example`.
    pub fn number(&mut self, key: &'static str, within: Range<f64>, example: f32) -> Option<f64> {
        let value = self.value(key)?;
        let of = value.get_ref();
        let float = of.as_float().and_then(|float| float.as_str().replace('_', "").parse::<f64>().ok());
        let integer = || of.as_integer().and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
        let number = float.or_else(|| integer().map(|n| n as f64));
        let found = number.filter(|number| *number > within.start && *number <= within.end);
        if found.is_none() {
            let message = format!("`{key}` must be a number above {} and at most {}", within.start, within.end);
            self.report.error(value.span(), message, Some(format!("write for example {key} = {example}")));
        }
        found
    }

    /// Returns the value at `key`, one of the names of `T`.
    pub fn choice<T: Choice>(&mut self, key: &'static str) -> Option<T> {
        let first = T::NAMES.first().map(|(name, _)| format!("write for example {key} = \"{name}\""));
        let text = self.text_or_help(key, || first.clone())?;
        let found = T::NAMES.iter().find(|(name, _)| *name == text.value).map(|(_, value)| *value);
        if found.is_none() {
            let names = T::NAMES.iter().map(|(name, _)| *name);
            let list = names.clone().collect::<Vec<_>>().join(", ");
            let message = format!("`{key}` cannot be `{}`: write one of {list}", text.value);
            self.report.error(text.span, message, did_you_mean(text.value, names));
        }
        found
    }

    /// Parses each string of the array at `key` with `parse`.
    pub fn list<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<At<T>>> {
        let value = self.value(key)?;
        self.strings(key, value, example, parse)
    }

    /// Parses the string at `key`, or each string of the array at it, with `parse`.
    pub fn one_or_list<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<At<T>>> {
        let value = self.value(key)?;
        match value.get_ref().as_str() {
            Some(text) => {
                let text = At { value: text, span: value.span() };
                Some(parse_at(self.report, key, text, example, &parse).into_iter().collect())
            }
            None => self.strings(key, value, example, parse),
        }
    }

    fn strings<T, E: Display>(
        &self,
        key: &str,
        value: &'a Spanned<DeValue<'i>>,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<At<T>>> {
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(value, key, "an array of strings", Some(format!("write for example {example}")));
            return None;
        };
        let read = |item: &'a Spanned<DeValue<'i>>| match item.get_ref().as_str() {
            Some(text) => parse_at(self.report, key, At { value: text, span: item.span() }, example, &parse),
            None => {
                self.wrong_type(item, key, "an array of strings", Some(format!("write for example {example}")));
                None
            }
        };
        Some(items.iter().filter_map(read).collect())
    }

    /// Returns a reader of the table at `key`, called `name` in messages.
    pub fn section(&mut self, key: &'static str, name: &'static str) -> Option<Section<'a, 'i>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, key, "a table", Some(format!("write {name}")));
            return None;
        };
        Some(Section::new(name, table, value.span(), self.report))
    }

    /// Returns one reader for each table in the array of tables at `key`. Messages call each table `name`.
    pub fn sections(&mut self, key: &'static str, name: &'static str) -> Vec<Section<'a, 'i>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.report.error(
                value.span(),
                format!("`{key}` must be an array of tables, each with the heading [[{key}]]"),
                Some(format!("write [[{key}]]")),
            );
            return Vec::new();
        };
        items
            .iter()
            .filter_map(|item| match item.get_ref().as_table() {
                Some(table) => Some(Section::new(name, table, item.span(), self.report)),
                None => {
                    self.wrong_type(item, key, "an array of tables", Some(format!("write [[{key}]]")));
                    None
                }
            })
            .collect()
    }

    /// Returns each name and integer of the table at `key`, whose keys are arbitrary names.
    ///
    /// Each integer must be in `range`.
    pub fn numbers(&mut self, key: &'static str, range: Range<i64>) -> Option<Vec<(At<String>, i64)>> {
        let value = self.value(key)?;
        let table = value.get_ref().as_table()?;
        let read = |(name, number): (&'a Spanned<_>, &'a Spanned<DeValue<'i>>)| {
            let name: &Spanned<std::borrow::Cow<'i, str>> = name;
            let number = integer_at(self.report, name.get_ref(), number, range.clone())?;
            Some((At { value: name.get_ref().to_string(), span: name.span() }, number.value))
        };
        Some(table.iter().filter_map(read).collect())
    }

    /// Returns each name and list of strings of the table at `key`, whose keys are arbitrary names.
    ///
    /// `parse` parses each string. Messages show `example`.
    pub fn lists<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<(At<String>, Vec<At<T>>)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, key, "a table", None);
            return Vec::new();
        };
        let read = |(name, list): (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>)| {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            let list = self.strings(key, list, example, &parse)?;
            Some((name, list))
        };
        table.iter().filter_map(read).collect()
    }

    /// Records that `key` is missing.
    ///
    /// [`Section::finish`] reports this, unless the table has an unknown key that may be a misspelling of `key`.
    pub fn missing(&self, key: &str, help: &str) {
        self.missing.borrow_mut().push((key.to_owned(), help.to_owned()));
    }

    /// Returns true if an unknown key in the table may be a misspelling of the missing key.
    ///
    /// If `missing` is a table's name, only an unknown key with a similar name may be. Otherwise every unknown key may
    /// be.
    fn may_be_misspelt(&self, missing: &str) -> bool {
        let table = missing.strip_prefix('[').and_then(|key| key.strip_suffix(']'));
        self.unknown().any(|at| table.is_none_or(|table| nearest(at.get_ref(), [table]).is_some()))
    }

    /// Returns the keys in the table that none of the methods has read.
    fn unknown(&self) -> impl Iterator<Item = &Spanned<std::borrow::Cow<'i, str>>> {
        self.table.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()))
    }

    /// Reports every unknown key and every missing key.
    pub fn finish(self) {
        let missing = self.missing.borrow();
        for (key, help) in missing.iter().filter(|(key, _)| !self.may_be_misspelt(key)) {
            let message = format!("{} needs `{key}`, which is missing: add this setting", self.name);
            self.report.error(self.span(), message, Some(help.clone()));
        }
        for key in self.unknown() {
            let word = key.get_ref().as_ref();
            let help = did_you_mean(word, self.known.iter().copied())
                .unwrap_or_else(|| format!("the keys that {} may have are: {}", self.name, self.known.join(", ")));
            self.report.error(
                key.span(),
                format!("unknown key `{word}` in {}: correct or remove it", self.name),
                Some(help),
            );
        }
    }
}

fn parse_at<'a, T, E: Display>(
    report: &Report,
    key: &str,
    text: At<&'a str>,
    example: &str,
    parse: impl Fn(&'a str) -> Result<T, E>,
) -> Option<At<T>> {
    match parse(text.value) {
        Ok(value) => Some(text.map(|_| value)),
        Err(why) => {
            let message = format!("`{key}` cannot be `{}`: {why}", text.value);
            report.error(text.span, message, Some(format!("write for example {example}")));
            None
        }
    }
}

fn integer_at(report: &Report, key: &str, value: &Spanned<DeValue<'_>>, range: Range<i64>) -> Option<At<i64>> {
    let number = value.get_ref().as_integer();
    let number = number.and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
    match number.filter(|n| range.contains(n)) {
        Some(number) => Some(At { value: number, span: value.span() }),
        None => {
            let message = format!("`{key}` must be a whole number from {} to {}", range.start, range.end - 1);
            report.error(value.span(), message, None);
            None
        }
    }
}
