//! The terminal that standard output leads to: its width, and whether it shows colours.
//!
//! It is looked at once, when the command begins. Elsewhere, and in tests, output is plain and as wide as its content.

use clap::ValueEnum;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// No text is fitted into fewer columns.
const LEAST_COLUMNS: usize = 20;

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub enum Color {
    /// Where standard output is a terminal that has them; NO_COLOR and CLICOLOR_FORCE are followed
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

/// How a word stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tint {
    /// A heading.
    Heading,
    /// All is well.
    Good,
    /// It works, with less than it should have.
    Warning,
    /// It does not work.
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

/// What standard output leads to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Screen {
    /// Columns and rows; none: it is no terminal.
    pub size: Option<(usize, usize)>,
    /// Whether colours are used.
    pub has_color: bool,
}

static SCREEN: OnceLock<Screen> = OnceLock::new();

impl Screen {
    /// Looks at standard output, and keeps what it finds for [`Screen::get`].
    pub fn look(color: Color) {
        let has_color = match color {
            Color::Auto => anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never,
            Color::Always => true,
            Color::Never => false,
        };
        // Looked at twice, it would be the same.
        let _ = SCREEN.set(Screen { size: None, has_color });
    }

    /// What standard output leads to, as wide as it is now: a terminal may be made wider while it is watched.
    pub fn get() -> Screen {
        let Some(screen) = SCREEN.get() else { return Screen::default() };
        let out = std::io::stdout();
        let size = terminal_size::terminal_size_of(&out).filter(|_| out.is_terminal());
        let size = size.map(|(width, height)| (usize::from(width.0).max(LEAST_COLUMNS), usize::from(height.0)));
        Screen { size, ..*screen }
    }

    /// Columns; none: as many as are wanted.
    pub fn width(&self) -> Option<usize> {
        self.size.map(|(width, _)| width)
    }

    /// The text in this tint, where there are colours.
    pub fn tint(&self, tint: Option<Tint>, text: &str) -> String {
        match tint.filter(|_| self.has_color && !text.trim().is_empty()) {
            Some(tint) => format!("\x1b[{}m{text}\x1b[0m", tint.code()),
            None => text.to_owned(),
        }
    }

    /// Breaks lines between words where they are wider than the screen.
    pub fn fold(&self, text: &str) -> String {
        let Some(width) = self.width() else { return text.to_owned() };
        text.split_inclusive('\n').map(|line| fold_line(line, width)).collect()
    }
}

/// Characters that a terminal shows of a text with colours.
fn shown(text: &str) -> usize {
    let mut is_code = false;
    let visible = |c: &char| {
        let hidden = is_code || *c == '\x1b';
        is_code = if is_code { *c != 'm' } else { *c == '\x1b' };
        !hidden && *c != '\n'
    };
    text.chars().filter(visible).count()
}

fn fold_line(line: &str, width: usize) -> String {
    if shown(line) <= width {
        return line.to_owned();
    }
    let (mut text, mut column) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let long = shown(word.trim_end());
        if column > 0 && column + long > width {
            text.truncate(text.trim_end_matches(' ').len());
            text += "\n  ";
            column = 2;
        }
        text += word;
        column += shown(word);
    }
    text
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
