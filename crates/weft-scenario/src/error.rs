//! Describes the mistakes in a scenario file and their positions.

use crate::read::missing;
use std::fmt;
use toml::Spanned;
use weft_units::nearest;

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
        return format!("the setting `{name}` is missing: add it");
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let what = match message.get(..13) {
        Some("unknown field") => "setting",
        Some("unknown varia") => "value",
        _ => {
            if message == "wanted string or table" {
                return "wrong type: expected a word in quotation marks, or a table".to_owned();
            }
            let is_bare = ["integer", "floating point"].into_iter().any(|of| message.contains(of));
            let fix = match message.ends_with("expected a string") && is_bare {
                true => ": write the value in quotation marks, with its unit",
                false => "",
            };
            return message.replace("invalid type: ", "wrong type: ") + fix;
        }
    };
    let unknown = quoted.next().unwrap_or_default();
    format!("unknown {what} `{unknown}`: {}", which_exist(unknown, quoted))
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
    fn columns_count_characters() {
        let source = Source { file: "f", text: "a\nµµ=x" };
        let error = source.error("a\nµµ".len(), "m");
        assert_eq!((error.line, error.column), (2, 3));
    }
}
