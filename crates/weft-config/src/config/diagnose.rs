//! Findings about a configuration, each with its place in the source and the likely fix.
//!
//! A [`Report`] collects the findings of the parser and of the checks, and prints them in the order of their places.
//! Text of the source is escaped before it is printed.

use crate::escape;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::ops::Range;
use weft_units::nearest;

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but probably does not mean what the user intended.
    Warning,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A finding in the form that `--json` prints.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Diagnostic {
    /// "error" or "warning".
    pub severity: &'static str,
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1, in characters.
    pub column: usize,
    /// Description of the mistake.
    pub message: String,
    /// The likely fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// Place of a finding in the source.
struct TextPosition {
    /// Number of bytes before the finding.
    start: usize,
    /// Number of bytes before the finding's line.
    line_start: usize,
    /// Line of the finding, counted from 1.
    row: usize,
    /// Number of characters before the finding in its line.
    column: usize,
}

/// A finding at a byte range of the source.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SpannedFinding {
    severity: Severity,
    span: Range<usize>,
    message: String,
    help: Option<String>,
}

/// All findings about one source text.
#[derive(Debug)]
pub struct Report {
    name: String,
    text: String,
    findings: RefCell<Vec<SpannedFinding>>,
    is_partial: Cell<bool>,
}

impl Report {
    /// Creates an empty report on `text`, which messages call `name`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Report {
        Report { name: name.into(), text: text.into(), findings: RefCell::default(), is_partial: Cell::default() }
    }

    /// Returns the source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Adds an error at `span`.
    pub fn error(&self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.add(Severity::Error, span, message.into(), help);
    }

    /// Adds a warning at `span`.
    pub fn warning(&self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.add(Severity::Warning, span, message.into(), help);
    }

    /// Records that parsing has ended.
    ///
    /// If it found an error, [`Report::is_partial`] returns true from now on.
    pub fn end_of_reading(&self) {
        self.is_partial.set(self.count(Severity::Error) > 0);
    }

    /// Returns true if parsing failed in part.
    ///
    /// A key that seems absent may then be present, with a mistake that is already reported.
    pub fn is_partial(&self) -> bool {
        self.is_partial.get()
    }

    fn add(&self, severity: Severity, span: Range<usize>, message: String, help: Option<String>) {
        self.findings.borrow_mut().push(SpannedFinding { severity, span, message, help });
    }

    /// Returns the number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.borrow().iter().filter(|f| f.severity == severity).count()
    }

    /// Returns the findings in the order of their places, in the form that `--json` prints.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let diagnostics = |finding: &SpannedFinding| {
            let place = self.place(finding);
            Diagnostic {
                severity: finding.severity.word(),
                line: place.row,
                column: place.column + 1,
                message: finding.message.clone(),
                help: finding.help.clone(),
            }
        };
        let mut findings = self.findings.borrow().clone();
        findings.sort_by_key(|finding| finding.span.start);
        findings.iter().map(diagnostics).collect()
    }

    fn place(&self, finding: &SpannedFinding) -> TextPosition {
        let start = floor_char(&self.text, finding.span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let row = self.text[..line_start].matches('\n').count() + 1;
        TextPosition { start, line_start, row, column: self.text[line_start..start].chars().count() }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, finding: &SpannedFinding) -> fmt::Result {
        let TextPosition { start, line_start, row, column } = self.place(finding);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let end = floor_char(&self.text, finding.span.end).clamp(start, line_end);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let carets = self.text[start..end].chars().count().max(1);
        let severity = finding.severity.word();
        let (name, message) = (escape::line(&self.name), escape::line(&finding.message));
        writeln!(f, "{name}:{row}:{}: {severity}: {message}", column + 1)?;
        writeln!(f, "{row:>5} | {}", escape::columns(&line.replace('\t', " ")))?;
        write!(f, "      | {:column$}{:^<carets$}", "", "")?;
        if let Some(help) = &finding.help {
            write!(f, " {}", escape::line(help))?;
        }
        f.write_char('\n')
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut findings = self.findings.borrow().clone();
        findings.sort_by_key(|finding| finding.span.start);
        findings.iter().try_for_each(|finding| self.write(f, finding))
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

/// Returns `did you mean …` if `known` has an entry similar to `word`.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// Returns the message that there is no `kind` called `name`.
///
/// It proposes a similar name from `known`, or lists all of them.
pub fn unknown_name<'a>(kind: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let list = || if known.is_empty() { "none exists".to_owned() } else { format!("known: {}", known.join(", ")) };
    format!("there is no {kind} `{name}`; {}", did_you_mean(name, known.iter().copied()).unwrap_or_else(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_line_column_caret_and_help() {
        let report = Report::new("weft.toml", "[node]\nü = 1\n listn = 2\n");
        report.error(15..20, "unknown key `listn`", did_you_mean("listn", ["key", "listen"]));
        assert_eq!(
            report.to_string(),
            "weft.toml:3:2: error: unknown key `listn`\n    3 |  listn = 2\n      |  ^^^^^ did you mean `listen`?\n"
        );
    }

    #[test]
    fn survives_spans_outside_the_text() {
        let report = Report::new("x", "ü");
        report.error(1..9, "inside a character", None);
        report.error(7..9, "behind the end", None);
        assert_eq!(report.to_string().lines().count(), 6);
    }
}
