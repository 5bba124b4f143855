//! Describes the mistakes in a scenario file and their positions.

use crate::read::missing;
use std::fmt;
use toml::Spanned;

/// A mistake in a scenario file: its position, its cause and the probable fix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The name of the file, as the caller gave it.
    pub file: String,
    /// Line of the mistake in the file, counted from 1.
    pub line: usize,
    /// Column of the mistake in its line, in characters, counted from 1.
    pub column: usize,
    /// Cause of the error and the probable fix.
    pub message: String,
    /// Further mistakes in the same file, in the order of their positions. Their own `more` is empty.
    pub more: Vec<ScenarioError>,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        self.more.iter().try_for_each(|mistake| write!(f, "\n{mistake}"))
    }
}

impl std::error::Error for ScenarioError {}

/// A value of a scenario file after its check, or the reason why the file is rejected.
pub(crate) type Checked<T> = Result<T, ScenarioError>;

/// The text of a file and its name. It converts byte offsets in the text into errors with line and column.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    pub fn error(&self, offset: usize, message: impl Into<String>) -> ScenarioError {
        let before: &str = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ScenarioError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.into(),
            more: Vec::new(),
        }
    }

    /// Returns an error with this message at the position of `what` in the file.
    pub fn at<T>(&self, what: &Spanned<T>, message: impl Into<String>) -> ScenarioError {
        self.error(what.span().start, message)
    }

    pub fn toml_error(&self, error: &toml::de::Error) -> ScenarioError {
        self.error(error.span().map_or(0, |span| span.start), explain(error.message()))
    }
}

/// Returns the known setting that an unknown one probably stands for. Returns `None` if none is similar.
///
/// It parses serde's message "unknown field `x`, expected one of `y`, `z`".
pub(crate) fn meant(message: &str) -> Option<&str> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    nearest(quoted.next()?, quoted)
}

/// Returns serde's message, reworded in the terms of the file format.
fn explain(message: &str) -> String {
    if let Some(name) = missing(message) {
        return format!("`{name}` is missing");
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let what = match message.get(..13) {
        Some("unknown field") => "unknown setting",
        Some("unknown varia") => "unknown value",
        _ => {
            if message == "wanted string or table" {
                return "wrong type: expected a word in quotation marks, or a table".to_owned();
            }
            let is_bare = ["integer", "floating point"].into_iter().any(|of| message.contains(of));
            let fix = match message.ends_with("expected a string") && is_bare {
                true => ": write it in quotation marks, with its unit",
                false => "",
            };
            return message.replace("invalid type: ", "wrong type: ") + fix;
        }
    };
    let unknown = quoted.next().unwrap_or_default();
    format!("{what} `{unknown}`: {}", which_exist(unknown, quoted))
}

/// Returns the candidate with the least edit distance from `word`, if that distance is small enough.
///
/// The limit is half the characters of `word`, rounded up, and at least 2.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.chars().count().div_ceil(2).max(2);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the number of characters to insert, delete or replace to turn `a` into `b` (Levenshtein distance).
///
/// It keeps only one row of the table of distances.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Returns a list of the existing names, preceded by the nearest one if it is similar to `word`.
pub(crate) fn which_exist<'a>(word: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let list = names.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match nearest(word, names) {
        Some(name) => format!("did you mean `{name}`? (known: {list})"),
        None => format!("known: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("delay", "delay"), 0);
    }

    #[test]
    fn the_nearest_name_is_found_and_strangers_are_not() {
        assert_eq!(nearest("dealy", ["rate", "delay", "loss"]), Some("delay"));
        assert_eq!(nearest("bandwidthmax", ["rate", "delay", "loss"]), None);
    }

    #[test]
    fn columns_count_characters() {
        let source = Source { file: "f", text: "a\nµµ=x" };
        let error = source.error("a\nµµ".len(), "m");
        assert_eq!((error.line, error.column), (2, 3));
    }
}
