//! Checks that doc comments begin with a full sentence, and that constants state their source.

use super::sources::{Source, sources};
use crate::check::{Bound, Check};
use crate::topic::Context;
use serde_json::json;

/// First words of a doc comment that lacks a subject or verb.
const HEADLESS: [&str; 10] =
    ["What", "Who", "Whoever", "Whether", "So", "Those", "That", "Where", "However", "Wherever"];

/// Checks the first words of doc comments.
pub fn words(_: &Context) -> Vec<Check> {
    let sources = sources();
    let (mut all, mut bad) = (0, Vec::new());
    for source in sources.iter().filter(|source| source.is_shipped()) {
        for (number, sentence) in first_lines(source) {
            all += 1;
            if HEADLESS.contains(&sentence.split([' ', ',']).next().unwrap_or_default()) {
                bad.push(format!("{}:{number}: {sentence}", source.path.display()));
            }
        }
    }
    let share = 100.0 * bad.len() as f64 / f64::from(all.max(1));
    vec![
        Check::new("doc comments that begin with a clause without a head", Some(share), Bound::AtMost(1.0), "%")
            .with(json!(bad)),
    ]
}

/// Returns the first line of each doc comment, with its line number.
fn first_lines(source: &Source) -> Vec<(usize, &str)> {
    let mut was_comment = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let text = line.trim_start();
        let comment = text.strip_prefix("/// ").or_else(|| text.strip_prefix("//! "));
        if let (Some(comment), false) = (comment, was_comment) {
            found.push((number, comment));
        }
        was_comment = text.starts_with("///") || text.starts_with("//!");
    }
    found
}
