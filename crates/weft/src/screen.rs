//! Properties of standard output: the terminal's size, and whether to print colours.
//!
//! The program decides about colours once, when a command begins, and reads the terminal's size whenever it prints.
//! If standard output is not a terminal, and in tests, output is plain and as wide as its content.

use clap::ValueEnum;
use std::sync::OnceLock;
use weft_terminal::fold_line;

/// Smallest width that text is folded to, in columns.
const LEAST_COLUMNS: usize = 20;
/// Spaces before the rest of a line that is folded.
const INDENT: usize = 2;

/// Argument of `--color`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub enum Color {
    /// Colour a terminal that supports it; NO_COLOR and CLICOLOR_FORCE override this
    #[default]
    Auto,
    /// Always colour
    Always,
    /// Never colour
    Never,
}

/// Emphasis of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tint {
    /// Marks a heading.
    Heading,
    /// Marks a state without a fault.
    Good,
    /// Marks a state that works with less than it should have.
    Warning,
    /// Marks a state that does not work.
    Bad,
}

impl Tint {
    fn code(self) -> &'static str {
        match self {
            Tint::Heading => "1",
            Tint::Good => "32",
            Tint::Warning => "33",
            Tint::Bad => "31",
        }
    }
}

/// Properties of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Screen {
    /// Columns and rows of the terminal, or `None` if standard output is not a terminal.
    pub size: Option<(usize, usize)>,
    /// True if output is coloured.
    pub has_color: bool,
}

/// The decision about colours that [`Screen::look`] has stored.
static SCREEN: OnceLock<Screen> = OnceLock::new();

impl Screen {
    /// Decides about colours and stores the decision for [`Screen::get`].
    pub fn look(color: Color) {
        let has_color = match color {
            Color::Auto => weft_terminal::wants_color(&std::io::stdout()),
            Color::Always => true,
            Color::Never => false,
        };
        // A second call would store the same value, so its failure is ignored.
        let _ = SCREEN.set(Screen { size: None, has_color });
    }

    /// Returns the properties of standard output with its current size.
    ///
    /// The size is read on each call because a user may resize the terminal under `--watch`.
    pub fn get() -> Screen {
        let Some(screen) = SCREEN.get() else { return Screen::default() };
        let size = weft_terminal::size(std::io::stdout());
        Screen { size: size.map(|(width, height)| (width.max(LEAST_COLUMNS), height)), ..*screen }
    }

    /// Returns the width in columns; `None` means unlimited.
    pub fn width(&self) -> Option<usize> {
        self.size.map(|(width, _)| width)
    }

    /// Returns the text in this tint, or the plain text where colours are off.
    pub fn tint(&self, tint: Option<Tint>, text: &str) -> String {
        match tint.filter(|_| self.has_color && !text.trim().is_empty()) {
            Some(tint) => format!("\x1b[{}m{text}\x1b[0m", tint.code()),
            None => text.to_owned(),
        }
    }

    /// Breaks lines between words where they are wider than the screen.
    pub fn fold(&self, text: &str) -> String {
        let Some(width) = self.width() else { return text.to_owned() };
        text.split_inclusive('\n').map(|line| fold_line(line, width, INDENT)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn screen(width: usize, has_color: bool) -> Screen {
        Screen { size: Some((width, 24)), has_color }
    }

    #[test]
    fn colours_are_there_only_where_they_are_shown() {
        assert_eq!(screen(80, false).tint(Some(Tint::Bad), "down"), "down");
        assert_eq!(screen(80, true).tint(Some(Tint::Bad), "down"), "\x1b[31mdown\x1b[0m");
        assert_eq!(screen(80, true).tint(Some(Tint::Heading), "  "), "  ");
    }

    proptest! {
        #[test]
        fn folded_lines_fit_and_keep_their_words(text in "([a-z]{1,12} ){0,60}\n?([a-z]{1,12} ){0,9}", width in 20usize..120) {
            let folded = screen(width, false).fold(&text);
            prop_assert!(folded.lines().all(|line| line.trim_end().chars().count() <= width), "{}", folded);
            prop_assert_eq!(folded.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        }
    }
}
