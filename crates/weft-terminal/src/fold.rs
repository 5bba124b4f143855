//! Text as wide as a terminal.

/// Least number of columns that the description of an option keeps.
const LEAST_DESCRIPTION: usize = 20;

/// Breaks a line between words where it is wider than `width` columns. Further lines begin with `indent` spaces.
///
/// Codes of colours have no width.
pub fn fold_line(line: &str, width: usize, indent: usize) -> String {
    if shown(line) <= width {
        return line.to_owned();
    }
    let (mut text, mut column) = (String::new(), 0);
    let mut start = line.len() - line.trim_start_matches(' ').len();
    for word in line.split_inclusive(' ') {
        let long = shown(word.trim_end());
        if column > start && column + long > width {
            text.truncate(text.trim_end_matches(' ').len());
            text += "\n";
            text += &" ".repeat(indent);
            (start, column) = (indent, indent);
        }
        text += word;
        column += shown(word);
    }
    text
}

/// Breaks the lines of a help text. Descriptions stay in their column if it leaves them enough room.
pub(crate) fn fold_help(text: &str, width: usize) -> String {
    let indent = |line: &str| match description(line) {
        at if at + LEAST_DESCRIPTION <= width => at,
        _ => line.len() - line.trim_start_matches(' ').len(),
    };
    text.split_inclusive('\n').map(|line| fold_line(line, width, indent(line))).collect()
}

/// Returns the column where a line's description begins. Two spaces separate it from the option or command.
fn description(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let begins = match text.find("  ") {
        Some(gap) => text[gap..].trim_start_matches(' '),
        None => text,
    };
    line[..line.len() - begins.len()].chars().count()
}

/// Returns the number of characters that a terminal shows of a text with codes of colours.
fn shown(text: &str) -> usize {
    let mut is_code = false;
    let visible = |c: &char| {
        let hidden = is_code || *c == '\x1b';
        is_code = if is_code { *c != 'm' } else { *c == '\x1b' };
        !hidden && *c != '\n'
    };
    text.chars().filter(visible).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn descriptions_stay_in_their_column() {
        let help = "\
Many words before the options are folded without a column
  -c, --config <FILE>  Configuration of the node
          An indented text continues where it began
";
        let folded = "\
Many words before the options are folded
without a column
  -c, --config <FILE>  Configuration of the
                       node
          An indented text continues where
          it began
";
        assert_eq!(fold_help(help, 43), folded);
        assert_eq!(fold_help(help, 100), help);
    }

    /// Lines of words with gaps of one to three spaces.
    const LINES: &str = "( {0,9}[a-z]{1,12}( {1,3}[a-z]{1,12}){0,20}\n){0,9}";

    proptest! {
        #[test]
        fn folded_help_fits_and_keeps_its_words(text in LINES, width in 40usize..120) {
            let folded = fold_help(&text, width);
            prop_assert!(folded.lines().all(|line| line.trim_end().chars().count() <= width), "{}", folded);
            prop_assert_eq!(folded.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
