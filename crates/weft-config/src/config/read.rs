//! Reading typed values out of a spanned TOML tree; everything wrong goes to the report, nothing stops at the first error.

use super::diagnose::{Report, did_you_mean, nearest};
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its byte range in the source.
    pub span: Range<usize>,
}

impl<T> At<T> {
    /// The same place with what `f` makes of the value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), span: self.span }
    }
}

/// A setting with a fixed set of values, each with its name.
pub trait Choice: Copy + 'static {
    /// The names as they are written in the configuration.
    const NAMES: &'static [(&'static str, Self)];
}

/// Gives the variants of an enum their names: makes it a [`Choice`].
macro_rules! names {
    ($name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $crate::config::read::Choice for $name {
            const NAMES: &'static [(&'static str, Self)] = &[$(($text, $name::$variant),)+];
        }
    };
}
pub(super) use names;

/// One table of the file, read key by key; [`Section::finish`] reports the keys nobody asked for.
pub struct Section<'a, 'i> {
    name: &'static str,
    table: &'a DeTable<'i>,
    span: Range<usize>,
    report: &'a Report,
    known: Vec<&'static str>,
    missing: RefCell<Vec<(String, String)>>,
}

impl<'a, 'i> Section<'a, 'i> {
    /// The table `table`, called `name` in messages.
    pub fn new(name: &'static str, table: &'a DeTable<'i>, span: Range<usize>, report: &'a Report) -> Self {
        Section { name, table, span, report, known: Vec::new(), missing: RefCell::default() }
    }

    /// Where the table stands.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where this key stands, or the table if the key is absent.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        self.table.keys().find(|k| k.get_ref() == key).map_or(self.span(), |k| k.span())
    }

    /// Whether the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.keys().any(|k| k.get_ref() == key)
    }

    /// Reports an error at `span`.
    pub fn complain(&self, span: Range<usize>, message: &str, help: &str) {
        self.report.error(span, message, Some(help.to_owned()));
    }

    /// The value of `key`, whatever its type.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, value)| value)
    }

    fn wrong_type(&self, value: &Spanned<DeValue<'_>>, key: &str, expected: &str) {
        let found = value.get_ref().type_str();
        self.report.error(value.span(), format!("`{key}` must be {expected}, not {found}"), None);
    }

    /// The string at `key`.
    pub fn text(&mut self, key: &'static str) -> Option<At<&'a str>> {
        let value = self.value(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_type(value, key, "a string");
            return None;
        };
        Some(At { value: text, span: value.span() })
    }

    /// The string at `key` as `parse` understands it; `example` is shown when it does not.
    pub fn parsed<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let text = self.text(key)?;
        parse_at(self.report, key, text, example, parse)
    }

    /// The boolean at `key`.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.value(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(value, key, "true or false");
        }
        flag
    }

    /// The whole number at `key`, if within `range`.
    pub fn integer(&mut self, key: &'static str, range: Range<i64>) -> Option<At<i64>> {
        let value = self.value(key)?;
        integer_at(self.report, key, value, range)
    }

    /// The value at `key`, one of the names of `T`.
    pub fn choice<T: Choice>(&mut self, key: &'static str) -> Option<T> {
        let text = self.text(key)?;
        let found = T::NAMES.iter().find(|(name, _)| *name == text.value).map(|(_, value)| *value);
        if found.is_none() {
            let names = T::NAMES.iter().map(|(name, _)| *name);
            let list = names.clone().collect::<Vec<_>>().join(", ");
            let message = format!("`{key}` cannot be `{}`; it is one of {list}", text.value);
            self.report.error(text.span, message, did_you_mean(text.value, names));
        }
        found
    }

    /// The array at `key`, each string as `parse` understands it.
    pub fn list<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<At<T>>> {
        let value = self.value(key)?;
        self.strings(key, value, example, parse)
    }

    fn strings<T, E: Display>(
        &self,
        key: &str,
        value: &'a Spanned<DeValue<'i>>,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<At<T>>> {
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_type(value, key, "an array of strings");
            return None;
        };
        let read = |item: &'a Spanned<DeValue<'i>>| match item.get_ref().as_str() {
            Some(text) => parse_at(self.report, key, At { value: text, span: item.span() }, example, &parse),
            None => {
                self.wrong_type(item, key, "an array of strings");
                None
            }
        };
        Some(items.iter().filter_map(read).collect())
    }

    /// The table at `key`, to be read as `name`.
    pub fn section(&mut self, key: &'static str, name: &'static str) -> Option<Section<'a, 'i>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, key, "a table");
            return None;
        };
        Some(Section::new(name, table, value.span(), self.report))
    }

    /// The tables of the array of tables at `key`.
    pub fn sections(&mut self, key: &'static str, name: &'static str) -> Vec<Section<'a, 'i>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.report.error(value.span(), format!("`{key}` is an array of tables"), Some(format!("write [[{key}]]")));
            return Vec::new();
        };
        items
            .iter()
            .filter_map(|item| match item.get_ref().as_table() {
                Some(table) => Some(Section::new(name, table, item.span(), self.report)),
                None => {
                    self.wrong_type(item, key, "an array of tables");
                    None
                }
            })
            .collect()
    }

    /// The whole numbers of a table whose keys are free names.
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

    /// The lists of a table whose keys are free names, each string as `parse` understands it.
    pub fn lists<T, E: Display>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<(At<String>, Vec<At<T>>)> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, key, "a table");
            return Vec::new();
        };
        let read = |(name, list): (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>)| {
            let name = At { value: name.get_ref().to_string(), span: name.span() };
            let list = self.strings(key, list, example, &parse)?;
            Some((name, list))
        };
        table.iter().filter_map(read).collect()
    }

    /// Notes that `key` is missing; [`Section::finish`] says so, unless something unknown may be meant for it.
    pub fn missing(&self, key: &str, help: &str) {
        self.missing.borrow_mut().push((key.to_owned(), help.to_owned()));
    }

    /// Whether an unknown key may be meant for a missing one: any, or for a table one with a name like it.
    fn may_be_meant(&self, missing: &str) -> bool {
        let table = missing.strip_prefix('[').and_then(|key| key.strip_suffix(']'));
        self.unknown().any(|at| table.is_none_or(|table| nearest(at.get_ref(), [table]).is_some()))
    }

    /// The keys that were not asked for.
    fn unknown(&self) -> impl Iterator<Item = &Spanned<std::borrow::Cow<'i, str>>> {
        self.table.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()))
    }

    /// Reports every key that was not asked for, and those that are missing.
    pub fn finish(self) {
        let missing = self.missing.borrow();
        for (key, help) in missing.iter().filter(|(key, _)| !self.may_be_meant(key)) {
            self.report.error(self.span(), format!("{} needs `{key}`", self.name), Some(help.clone()));
        }
        for key in self.unknown() {
            let word = key.get_ref().as_ref();
            let help = did_you_mean(word, self.known.iter().copied())
                .unwrap_or_else(|| format!("known here: {}", self.known.join(", ")));
            self.report.error(key.span(), format!("unknown key `{word}` in {}", self.name), Some(help));
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
            report.error(text.span, message, Some(format!("for example {example}")));
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
