//! Where the tables and settings of a configuration stand in its text.
//!
//! A table or a setting owns the comments and empty lines above it, and the comment behind it.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Place of a value in the text: on the lines of its key, or as a table below a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Behind its key. An inline table is one.
    Setting,
    /// A table below its header, `[node]` or `[[peer]]`.
    Headed,
    /// Tables below headers of one name, `[[peer]]`.
    Elements,
    /// A table without a header, which dotted keys or the headers of its subtables make.
    Implied,
}

/// Places of the headers and settings in a text, in bytes.
pub struct Layout<'a> {
    text: &'a str,
    /// Start of each header, in order.
    headers: Vec<usize>,
    /// End of each header and setting, in order.
    ends: Vec<usize>,
}

impl<'a> Layout<'a> {
    /// Finds all places. `root` is the content of `text`.
    pub fn new(text: &'a str, root: &DeTable<'_>) -> Layout<'a> {
        let mut layout = Layout { text, headers: Vec::new(), ends: Vec::new() };
        root.values().for_each(|value| layout.collect(value));
        layout.headers.sort_unstable();
        layout.ends.sort_unstable();
        layout
    }

    fn collect(&mut self, value: &Spanned<DeValue<'_>>) {
        let form = self.form(value);
        if form == Form::Headed {
            self.headers.push(value.span().start);
        }
        if matches!(form, Form::Headed | Form::Setting) {
            self.ends.push(value.span().end);
        }
        if form != Form::Setting {
            children(value).into_iter().for_each(|child| self.collect(child));
        }
    }

    /// Returns whether the text has a value behind its key, or as a table with or without a header.
    pub fn form(&self, value: &Spanned<DeValue<'_>>) -> Form {
        match value.get_ref() {
            // The place of a table is its header, the inline table, or else a key.
            DeValue::Table(_) => match self.text.as_bytes().get(value.span().start) {
                Some(b'[') => Form::Headed,
                Some(b'{') => Form::Setting,
                _ => Form::Implied,
            },
            DeValue::Array(items) if items.first().is_some_and(|item| self.is_element(item)) => Form::Elements,
            _ => Form::Setting,
        }
    }

    fn is_element(&self, item: &Spanned<DeValue<'_>>) -> bool {
        item.get_ref().is_table() && self.form(item) == Form::Headed
    }

    /// Returns the end of the text's last line that is not empty or a comment.
    pub fn end(&self) -> usize {
        self.ends.last().map_or(self.text.len(), |end| self.line_end(*end))
    }

    /// Returns the place for another setting above all headers.
    pub fn head_end(&self) -> usize {
        self.headers.first().map_or_else(|| self.end(), |header| self.lead(*header))
    }

    /// Returns the lines of a table without its subtables, from the start of its header.
    pub fn block(&self, header: usize) -> Range<usize> {
        let next = self.headers.get(self.headers.partition_point(|other| *other <= header));
        self.lead(header)..next.map_or_else(|| self.end(), |next| self.lead(*next))
    }

    /// Returns the lines of a setting or of a table with its subtables, in parts.
    pub fn lines(&self, value: &Spanned<DeValue<'_>>) -> Vec<Range<usize>> {
        match self.form(value) {
            Form::Setting => {
                let lines = self.lead(value.span().start)..self.line_end(value.span().end);
                vec![lines]
            }
            Form::Implied => children(value).into_iter().flat_map(|child| self.lines(child)).collect(),
            Form::Headed | Form::Elements => {
                self.headers_in(value).into_iter().map(|header| self.block(header)).collect()
            }
        }
    }

    /// Returns the end of the last line of a table or setting.
    pub fn after(&self, value: &Spanned<DeValue<'_>>) -> usize {
        self.lines(value).into_iter().map(|lines| lines.end).max().unwrap_or_else(|| self.end())
    }

    /// Returns true if dotted keys make this table.
    pub fn is_dotted(&self, value: &Spanned<DeValue<'_>>) -> bool {
        let is_line = |child: &&Spanned<DeValue<'_>>| self.form(child) == Form::Setting || self.is_dotted(child);
        self.form(value) == Form::Implied && children(value).iter().any(is_line)
    }

    fn headers_in(&self, value: &Spanned<DeValue<'_>>) -> Vec<usize> {
        let mut headers = Vec::new();
        if self.form(value) == Form::Headed {
            headers.push(value.span().start);
        }
        if self.form(value) != Form::Setting {
            headers.extend(children(value).into_iter().flat_map(|child| self.headers_in(child)));
        }
        headers
    }

    /// Returns the start of the lines that belong to what stands at `at`: those behind the setting or header before it.
    fn lead(&self, at: usize) -> usize {
        let before = self.ends.partition_point(|end| *end <= at);
        before.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |end| self.line_end(*end))
    }

    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |end| at + end + 1)
    }
}

/// Returns the values of a table or array.
pub fn children<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Vec<&'a Spanned<DeValue<'i>>> {
    match value.get_ref() {
        DeValue::Table(table) => table.values().collect(),
        DeValue::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the place for another setting in an inline table, and true if it has one already.
pub fn inline_end(table: &Spanned<DeValue<'_>>) -> (usize, bool) {
    match inline_ends(table).into_iter().max() {
        Some(end) => (end, true),
        None => (table.span().start + 1, false),
    }
}

/// Returns the part of an inline table that holds one of its settings and a comma.
pub fn inline_part(text: &str, table: &Spanned<DeValue<'_>>, setting: &Range<usize>) -> Range<usize> {
    if let Some(before) = inline_ends(table).into_iter().filter(|end| *end < setting.start).max() {
        return before..setting.end;
    }
    let rest = text[setting.end..].trim_start();
    let end = if rest.starts_with(',') { text.len() - rest.len() + 1 } else { setting.end };
    table.span().start + 1..end
}

/// Returns the ends of an inline table's settings.
fn inline_ends(table: &Spanned<DeValue<'_>>) -> Vec<usize> {
    let ends = |child: &Spanned<DeValue<'_>>| {
        let (end, inner) = (child.span().end, inline_ends(child));
        // The place of a table that dotted keys make is a key, before its settings.
        if inner.iter().any(|of| *of > end) { inner } else { vec![end] }
    };
    children(table).into_iter().flat_map(ends).collect()
}
