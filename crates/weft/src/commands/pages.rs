//! Views on the whole screen, chosen by key and read again each second: `weft qos` without a view, and `weft top`.

use super::watch::{Keys, Pressed};
use crate::outcome::{Failure, Outcome};
use crate::screen::Screen;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Interval between two readings of the node's state.
const INTERVAL: Duration = Duration::from_secs(1);
/// Rows of the screen that show no lines of the view: the names of the views, and the keys.
const FRAME_ROWS: usize = 3;
/// Columns and rows that are assumed for a screen of unknown size. Standard: those of a VT100.
const ASSUMED: (usize, usize) = (80, 24);

/// A view: its key, its name, and a function that makes its text from the node's data.
pub struct Page<T> {
    /// Key that chooses the view. It is the first letter of the name.
    pub key: u8,
    /// Name of the view.
    pub name: &'static str,
    /// Returns the text of the view.
    pub text: fn(&T) -> String,
}

/// Contents of the screen: the chosen view, and the first of its lines that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct ScrollPosition {
    page: usize,
    from: usize,
}

impl ScrollPosition {
    /// Changes the contents for a pressed key.
    ///
    /// `keys` are the keys of the views. The present view has `lines` lines, of which `room` fit on the screen.
    fn press(&mut self, key: u8, keys: &[u8], (lines, room): (usize, usize)) {
        let last = lines.saturating_sub(room);
        if let Some(page) = keys.iter().position(|of| *of == key) {
            *self = ScrollPosition { page, from: 0 };
            return;
        }
        // The escape sequences of the cursor keys end with these capital letters.
        self.from = match key {
            b'j' | b'B' => self.from + 1,
            b'k' | b'A' => self.from.saturating_sub(1),
            b' ' => self.from + room,
            b'b' => self.from.saturating_sub(room),
            b'g' => 0,
            b'G' => last,
            _ => self.from,
        }
        .min(last);
    }
}

/// Shows the pages until a key or a signal ends the program. The screen states if the node no longer answers.
///
/// `instead` is the command that prints a view without a terminal.
///
/// # Errors
/// Fails without a terminal, and if the first reading fails.
pub fn show<T>(pages: &[Page<T>], instead: &str, read: impl Fn() -> Result<T, Failure>) -> Result<Outcome, Failure> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        let why = format!("the full-screen view needs a terminal for input and output; without one, run: {instead}");
        return Err(Failure::with(Outcome::Usage, why));
    }
    let mut state = read().map(Some)?;
    let keys = Keys::listen()
        .map_err(|why| Failure::new(format!("cannot read keys from the terminal: {why}: use another terminal")))?;
    let _whole = WholeScreen::take();
    let (mut place, mut problem, page_keys) =
        (ScrollPosition::default(), None, pages.iter().map(|page| page.key).collect::<Vec<_>>());
    let mut next_reading = Instant::now() + INTERVAL;
    loop {
        let screen = Screen::get();
        let (width, height) = screen.size.unwrap_or(ASSUMED);
        let room = height.saturating_sub(FRAME_ROWS).max(1);
        let text =
            state.as_ref().zip(pages.get(place.page)).map_or_else(String::new, |(state, page)| (page.text)(state));
        let folded = screen.fold(&text);
        let lines: Vec<&str> = folded.lines().collect();
        place.from = place.from.min(lines.len().saturating_sub(room));
        let frame = frame(pages, place, (&lines, room), (width, problem.as_deref()));
        let mut out = io::stdout().lock();
        if out.write_all(frame.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(Outcome::Well);
        }
        drop(out);
        match keys.next(next_reading.saturating_duration_since(Instant::now())) {
            Pressed::End => return Ok(Outcome::Well),
            Pressed::Key(key) => place.press(key, &page_keys, (lines.len(), room)),
            Pressed::Nothing => {
                next_reading = Instant::now() + INTERVAL;
                (state, problem) = match read() {
                    Ok(new) => (Some(new), None),
                    Err(why) => (state, Some(why.to_string())),
                };
            }
        }
    }
}

/// Returns the bytes that paint the screen: the names of the views, the view's lines from `place` on, and the keys.
///
/// Of `lines`, `room` fit on the screen. `width` is the screen's width in columns. `problem` is the reason why the
/// node does not answer, if it does not.
fn frame<T>(
    pages: &[Page<T>],
    place: ScrollPosition,
    (lines, room): (&[&str], usize),
    (width, problem): (usize, Option<&str>),
) -> String {
    let names = pages.iter().enumerate().map(|(at, page)| match at == place.page {
        true => format!("\x1b[7m {} \x1b[0m", page.name),
        false => format!(" {} ", page.name),
    });
    let mut text = format!("\x1b[H{}\x1b[K\r\n\x1b[K\r\n", names.collect::<String>());
    let shown = lines.iter().skip(place.from).take(room);
    let count = shown.len();
    shown.for_each(|line| text += &format!("{line}\x1b[K\r\n"));
    (count..room).for_each(|_| text += "\x1b[K\r\n");
    let keys: String = pages.iter().map(|page| format!("{} ", char::from(page.key))).collect();
    let below = lines.len().saturating_sub(place.from + count);
    let help = match problem {
        Some(problem) => format!("the view is not updated: {problem}"),
        None => format!("{keys}view  j k space b scroll  q quit  {below} lines below"),
    };
    text + &help.chars().take(width.saturating_sub(1)).collect::<String>() + "\x1b[K"
}

/// The terminal's alternate screen. Dropping it shows the normal screen again.
struct WholeScreen;

impl WholeScreen {
    fn take() -> WholeScreen {
        print!("\x1b[?1049h\x1b[?25l");
        WholeScreen
    }
}

impl Drop for WholeScreen {
    fn drop(&mut self) {
        print!("\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages() -> Vec<Page<()>> {
        [(b'f', "flows"), (b'u', "users")].map(|(key, name)| Page { key, name, text: |()| String::new() }).into()
    }

    #[test]
    fn keys_choose_and_scroll() {
        let mut place = ScrollPosition::default();
        let press =
            |place: &mut ScrollPosition, keys: &[u8]| keys.iter().for_each(|key| place.press(*key, b"fu", (30, 10)));
        press(&mut place, b"jjk\x1b[B");
        assert_eq!(place, ScrollPosition { page: 0, from: 2 });
        press(&mut place, b"  ");
        assert_eq!(place.from, 20, "the last line is at the bottom");
        press(&mut place, b"bb\x1b[A");
        assert_eq!(place.from, 0);
        press(&mut place, b"Gu");
        assert_eq!(place, ScrollPosition { page: 1, from: 0 });
    }

    proptest! {
        /// After any keys, the shown line exists in the chosen view, and a frame fills the screen exactly.
        #[test]
        fn a_frame_fills_the_screen(keys in proptest::collection::vec(any::<u8>(), 0..40), count in 0..50usize, height in 1..40usize) {
            let (mut place, room) = (ScrollPosition::default(), height.saturating_sub(FRAME_ROWS).max(1));
            let lines: Vec<String> = (0..count).map(|line| format!("line {line}")).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            for key in keys {
                place.press(key, b"fu", (count, room));
                prop_assert!(place.page < 2 && place.from <= count.saturating_sub(room));
                let text = frame(&pages(), place, (&lines, room), (30, None));
                prop_assert_eq!(text.matches("\r\n").count(), room + 2);
                let first = format!("line {}\x1b", place.from);
                prop_assert_eq!(text.contains(&first), count > 0, "{:?}", text);
            }
        }
    }
}
