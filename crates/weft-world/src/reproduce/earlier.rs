//! Reads the rows of an earlier document, for rows that are not run again.

use std::collections::BTreeMap;

/// The rows of an earlier document, by their names (`A1`).
#[derive(Default)]
pub(super) struct Earlier<'t> {
    /// For each row, its line in the summary table.
    pub lines: BTreeMap<&'t str, &'t str>,
    /// For each row, its section, from the text of the heading on.
    pub sections: BTreeMap<&'t str, &'t str>,
}

/// The characters at the start of a section's heading in the document.
pub(super) const HEADING: &str = "\n## ";

impl<'t> Earlier<'t> {
    /// Splits a document into rows. A document of another format has no rows.
    pub fn of(text: &'t str) -> Earlier<'t> {
        let mut parts = text.split(HEADING);
        let head = parts.next().unwrap_or_default();
        let name_of_line = |line: &'t str| Some((line.strip_prefix("| [")?.split_once(']')?.0, line));
        let name_of_section = |section: &'t str| Some((section.split_once(" – ")?.0, section));
        Earlier {
            lines: head.lines().filter_map(name_of_line).collect(),
            sections: parts.filter_map(name_of_section).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_name() {
        let text = "# Title\n\n| row |\n|---|\n| [A1](#a1) | x |\n\n## A1 – Paper\n\n- text\n\n## A2 – Other\nend\n\n## Papers\n";
        let earlier = Earlier::of(text);
        assert_eq!(earlier.lines.into_iter().collect::<Vec<_>>(), [("A1", "| [A1](#a1) | x |")]);
        let sections = [("A1", "A1 – Paper\n\n- text\n"), ("A2", "A2 – Other\nend\n")];
        assert_eq!(earlier.sections.into_iter().collect::<Vec<_>>(), sections);
    }
}
