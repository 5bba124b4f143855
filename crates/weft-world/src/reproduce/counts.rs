//! Counts the rows with each verdict in the document of the reproduction.

use super::rows::is_own;
use std::fmt;

/// Number of rows in the checklist: A1 to A10, B1 to B12, C1 to C8, D1 to D10 and E1 to E15.
const CHECKLIST: usize = 55;

/// Number of rows with each verdict in the summary table of the document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RowCounts {
    /// Rows of the checklist whose condition is met.
    pub accepted: usize,
    /// Rows of the checklist whose condition is missed.
    pub missed: usize,
    /// Rows of the checklist that only report figures.
    pub reported: usize,
    /// Rows that the checklist does not have: numbers of those met, missed and reported.
    pub own: [usize; 3],
}

impl RowCounts {
    /// Counts the verdicts in a text with the lines of a summary table. Lines of other forms are ignored.
    pub fn of(text: &str) -> RowCounts {
        let mut counts = RowCounts::default();
        for (id, verdict) in text.lines().filter_map(line) {
            let place = match verdict {
                "yes" => 0,
                "**no**" => 1,
                "reported" => 2,
                _ => continue,
            };
            if is_own(id) {
                counts.own[place] += 1;
            } else {
                *[&mut counts.accepted, &mut counts.missed, &mut counts.reported][place] += 1;
            }
        }
        counts
    }
}

/// Returns the name and the verdict in a row's line of the summary table. Returns `None` for any other line.
fn line(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("| [")?.split_once(']')?;
    Some((id, rest.trim_end().strip_suffix('|')?.rsplit('|').next()?.trim()))
}

impl fmt::Display for RowCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RowCounts { accepted, missed, reported, own: [met, not_met, recorded] } = self;
        let elsewhere = CHECKLIST.saturating_sub(accepted + missed + reported);
        write!(
            f,
            "Of the checklist's {CHECKLIST} rows {accepted} are accepted, {missed} are missed, {reported} only report \
             figures, and {elsewhere} are not here. Rows of our own: {met} accepted, {not_met} missed, {recorded} reported."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_their_verdicts_and_own_rows_apart() {
        let text = "| [A1](#a1) | x | y | yes |\n| [B3](#b3) | x | a | b | **no** |\n| [C4](#c4) | x | y | reported |\n\
                    | [D-voip](#d) | x | y | reported |\n| [asymmetric](#as) | x | y | yes |\n| N = 2 | 1 | yes |\n";
        let counts = RowCounts::of(text);
        assert_eq!(counts, RowCounts { accepted: 1, missed: 1, reported: 1, own: [1, 0, 1] });
        assert!(counts.to_string().contains("55 rows 1 are accepted, 1 are missed, 1 only report"));
        assert!(counts.to_string().contains("52 are not here"));
    }
}
