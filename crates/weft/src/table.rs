//! Tables for readers: aligned columns, and quantities with units.
//!
//! A table fits the screen: it first shortens names, then drops columns. Cells are escaped, since they contain names
//! from outside.

use crate::escape;
use crate::screen::{Screen, Tint};
use std::fmt;
use std::time::Duration;
use weft_units::Rate;

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
}

/// A table with a heading.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    first_to_go: Vec<&'static str>,
    shortened: Vec<&'static str>,
}

impl Table {
    /// Creates an empty table. A heading that begins with `>` belongs to a column of numbers.
    pub fn new(headings: &[&'static str]) -> Table {
        let column = |heading: &&'static str| match heading.strip_prefix('>') {
            Some(heading) => (heading, Align::Right),
            None => (*heading, Align::Left),
        };
        Table {
            columns: headings.iter().map(column).collect(),
            rows: Vec::new(),
            first_to_go: Vec::new(),
            shortened: Vec::new(),
        }
    }

    /// Adds a row; escapes the names in it.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| escape::line(&cell).into_owned()).collect());
    }

    /// Returns true if the table has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Sets the columns for narrow screens: those that are dropped first, and those that are shortened before that.
    pub fn give_way(mut self, first_to_go: &[&'static str], shortened: &[&'static str]) -> Table {
        (self.first_to_go, self.shortened) = (first_to_go.to_vec(), shortened.to_vec());
        self
    }

    /// Returns the table as text in which no line is wider than the screen.
    pub fn text(&self, screen: Screen) -> String {
        let fit = self.fit(screen.width());
        let mut text = String::new();
        let heading: Vec<&str> = self.columns.iter().map(|(heading, _)| *heading).collect();
        text += &self.line(&fit, &heading, |_, _| Some(Tint::Heading), screen);
        for row in &self.rows {
            let row: Vec<&str> = row.iter().map(String::as_str).collect();
            text += &self.line(&fit, &row, tint, screen);
        }
        let gone: Vec<&str> = (0..heading.len()).filter(|at| fit[*at].is_none()).map(|at| heading[at]).collect();
        if !gone.is_empty() {
            text += &screen.fold(&format!("columns left out because the screen is too narrow: {}\n", gone.join(", ")));
        }
        text
    }

    fn line(&self, fit: &Fit, row: &[&str], tint: impl Fn(&str, &str) -> Option<Tint>, screen: Screen) -> String {
        let columns = row.iter().zip(fit).zip(&self.columns);
        let shown = columns.filter_map(|((cell, width), column)| Some((*cell, (*width)?, column)));
        let mut line = String::new();
        for (cell, width, (heading, align)) in shown {
            let cell = shorten(cell, width);
            let blank = " ".repeat(width - cell.chars().count());
            let cell = screen.tint(tint(heading, &cell), &cell);
            match align {
                Align::Left => line += &format!("{cell}{blank}  "),
                Align::Right => line += &format!("{blank}{cell}  "),
            }
        }
        format!("{}\n", line.trim_end())
    }

    /// Returns the widths of the columns; `None` stands for a dropped column.
    fn fit(&self, width: Option<usize>) -> Fit {
        let full = self.widths();
        let mut fit: Fit = full.iter().copied().map(Some).collect();
        let Some(limit) = width else { return fit };
        let mut first_to_go = self.first_to_go.iter();
        loop {
            for (kept, full) in fit.iter_mut().zip(&full).filter(|(kept, _)| kept.is_some()) {
                *kept = Some(*full);
            }
            self.shorten_to(limit, &mut fit, LEAST_NAME);
            if total(&fit) <= limit {
                return fit;
            }
            let Some(goes) = first_to_go.next() else { break };
            if let Some(at) = self.columns.iter().position(|(heading, _)| heading == goes) {
                fit[at] = None;
            }
        }
        self.shorten_to(limit, &mut fit, LEAST_HEADING);
        while total(&fit) > limit && fit.iter().flatten().count() > 1 {
            // All columns of `first_to_go` are dropped, so the last columns follow.
            if let Some(last) = fit.iter_mut().rev().find(|kept| kept.is_some()) {
                *last = None;
            }
        }
        if let Some(only) = fit.iter_mut().flatten().next().filter(|only| **only > limit) {
            *only = limit;
        }
        fit
    }

    /// Shortens columns, the widest first, until the table fits or all are at `least`.
    fn shorten_to(&self, limit: usize, fit: &mut Fit, least: usize) {
        let may: Vec<usize> = (0..fit.len()).filter(|at| self.shortened.contains(&self.columns[*at].0)).collect();
        while total(fit) > limit {
            let widest = may.iter().copied().filter(|at| fit[*at].is_some_and(|w| w > least)).max_by_key(|at| fit[*at]);
            let Some(widest) = widest else { return };
            fit[widest] = fit[widest].map(|width| width - 1);
        }
    }

    fn widths(&self) -> Vec<usize> {
        let width =
            |i: usize| self.rows.iter().filter_map(move |row| row.get(i)).map(|cell| cell.chars().count()).max();
        self.columns.iter().enumerate().map(|(i, (h, _))| width(i).unwrap_or(0).max(h.chars().count())).collect()
    }
}

/// Width of each column, in characters; `None` stands for a dropped column.
type Fit = Vec<Option<usize>>;

/// Minimum width of a shortened name, in characters, while other columns can be dropped instead.
const LEAST_NAME: usize = 12;

/// Minimum width of a column that may be shortened, in characters.
const LEAST_HEADING: usize = 4;

/// Returns the width of a line of the table, in characters.
fn total(fit: &Fit) -> usize {
    fit.iter().flatten().map(|width| width + 2).sum::<usize>().saturating_sub(2)
}

/// Removes the middle of a text that is too long: names mostly differ at an end.
fn shorten(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let head = width.saturating_sub(1).div_ceil(2);
    let tail = width.saturating_sub(1 + head);
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{start}…{end}").chars().take(width).collect()
}

/// Returns the emphasis of a cell, from its first words. `None` if its column states no condition.
fn tint(heading: &str, cell: &str) -> Option<Tint> {
    if !["STATE", "VERDICT"].contains(&heading) {
        return None;
    }
    let starts = |words: &[&str]| words.iter().any(|word| cell.starts_with(word));
    if starts(&["good", "well", "valid"]) {
        Some(Tint::Good)
    } else if starts(&["down", "bad", "no session", "no path", "revoked", "expired"]) {
        Some(Tint::Bad)
    } else if cell.contains("down")
        || starts(&["degraded", "suspect", "opening", "fair", "poor", "reported", "expires"])
    {
        Some(Tint::Warning)
    } else {
        None
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Screen::get()))
    }
}

/// Formats a number of bytes: `12 B`, `3.4 MB`.
pub fn bytes(n: u64) -> String {
    let x = n as f64;
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", x / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", x / 1e6),
        _ => format!("{:.2} GB", x / 1e9),
    }
}

/// Formats microseconds as milliseconds: `12.3 ms`, and short times with more digits: `0.043 ms`.
pub fn millis(us: u64) -> String {
    format!("{} ms", digits(us as f64 / 1e3))
}

/// Formats a number with one decimal, or with more if a positive number would otherwise become zero.
fn digits(x: f64) -> String {
    let of_one = |decimals: i32| 10f64.powi(-decimals);
    match (1..=3).find(|decimals| x >= of_one(*decimals)) {
        _ if x == 0.0 => "0".to_owned(),
        Some(decimals) if x < 1.0 => format!("{x:.*}", decimals as usize + 1),
        Some(_) => format!("{x:.1}"),
        None if x >= 0.000_5 => format!("{x:.4}"),
        None => "<0.001".to_owned(),
    }
}

/// Formats a rate; `None` becomes a dash.
pub fn rate(bps: Option<u64>) -> String {
    bps.map_or_else(dash, |bps| Rate::from_bps(bps).to_string())
}

/// Formats a fraction as a percentage.
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Formats a duration: `850 ms`, `42 s`, `3 min`, `5 h`, `2 d`.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        0 if time.as_millis() == 0 => millis(u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
        0 => format!("{} ms", time.as_millis()),
        s @ 1..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} d", s / 86_400),
    }
}

/// Returns the mark for an unknown value.
pub fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["LINK", ">RATE"]);
        table.row(["eth0".to_owned(), "9.5 Mbit/s".to_owned()]);
        table.row(["wwan–0".to_owned(), dash()]);
        assert_eq!(table.to_string(), "LINK          RATE\neth0    9.5 Mbit/s\nwwan–0           –\n");
    }

    #[test]
    fn quantities() {
        assert_eq!((bytes(999), bytes(1_500_000)), ("999 B".to_owned(), "1.5 MB".to_owned()));
        assert_eq!(span(Duration::from_secs(7_199)), "119 min");
        assert_eq!((millis(12_340), percent(0.005)), ("12.3 ms".to_owned(), "0.50 %".to_owned()));
        assert_eq!(
            (millis(0), millis(43), millis(430)),
            ("0 ms".to_owned(), "0.043 ms".to_owned(), "0.43 ms".to_owned())
        );
    }

    proptest! {
        /// Property: a positive quantity is shown as positive, and near its value.
        #[test]
        fn no_quantity_is_rounded_to_nothing(us in 1u64..10_000_000, share in 1e-9f64..1.0, bps in 1u64..1 << 50) {
            for (text, value) in [
                (millis(us), us as f64 / 1e3),
                (percent(share), share * 100.0),
                (span(Duration::from_micros(us)), 0.0),
                (bytes(us), 0.0),
                (rate(Some(bps)), 0.0),
            ] {
                let number = text.split(' ').next().unwrap().trim_start_matches('<');
                let number: f64 = number.parse().unwrap();
                prop_assert!(number > 0.0, "{}", text);
                prop_assert!(value == 0.0 || text.starts_with('<') || (number - value).abs() <= value * 0.06, "{} of {}", text, value);
            }
        }

        /// Property: at any width no line is wider than the screen, and the first column stays.
        #[test]
        fn a_table_fits_every_screen(
            rows in prop::collection::vec(prop::collection::vec("[a-zé]{0,40}", 5), 0..6),
            width in 20usize..220,
            has_color in any::<bool>(),
        ) {
            let mut table = Table::new(&["PEER", "PATH", "STATE", ">RTT", "WHY"]).give_way(&["WHY", "RTT"], &["PATH", "PEER"]);
            rows.iter().for_each(|row| table.row(row.clone()));
            let text = table.text(Screen { size: Some((width, 9)), has_color: false });
            prop_assert!(text.lines().all(|line| line.chars().count() <= width), "{}", text);
            prop_assert!(text.starts_with("PEER"), "{}", text);
            let colored = table.text(Screen { size: Some((width, 9)), has_color });
            let plain = colored.replace("\x1b[1m", "").replace("\x1b[0m", "");
            prop_assert!(has_color == colored.contains('\x1b') && (plain == text || plain.contains("\x1b[3")), "{}", colored);
        }
    }

    #[test]
    fn a_narrow_screen_loses_the_middle_of_names_first_and_then_columns() {
        let table = || {
            let mut table = Table::new(&["PATH", "STATE", ">RTT", "WHY"]).give_way(&["WHY"], &["PATH"]);
            table.row(
                ["0 fibre-in-the-cellar → 192.0.2.1:51900", "good", "12.3 ms", "it carries packets"].map(str::to_owned),
            );
            table
        };
        let at = |width| table().text(Screen { size: Some((width, 9)), has_color: false });
        assert!(at(90).contains("cellar → 192") && at(90).contains("carries"), "{}", at(90));
        assert!(
            at(60).contains("0 fibre-i") && at(60).contains("1900  good  ") && at(60).contains("carries"),
            "{}",
            at(60)
        );
        assert!(!at(40).contains("carries") && at(40).ends_with("too narrow: WHY\n"), "{}", at(40));
    }
}
