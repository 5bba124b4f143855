//! Tables for people: aligned columns, quantities with units.

use crate::escape;
use std::fmt;
use std::time::Duration;
use weft_units::Rate;

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a heading.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; a heading that begins with `>` belongs to a column of numbers.
    pub fn new(headings: &[&'static str]) -> Table {
        let column = |heading: &&'static str| match heading.strip_prefix('>') {
            Some(heading) => (heading, Align::Right),
            None => (*heading, Align::Left),
        };
        Table { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row; names in it are escaped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| escape::line(&cell).into_owned()).collect());
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn widths(&self) -> Vec<usize> {
        let width =
            |i: usize| self.rows.iter().filter_map(move |row| row.get(i)).map(|cell| cell.chars().count()).max();
        self.columns.iter().enumerate().map(|(i, (h, _))| width(i).unwrap_or(0).max(h.chars().count())).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let heading: Vec<&str> = self.columns.iter().map(|(heading, _)| *heading).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(String::as_str).collect::<Vec<_>>());
        for row in std::iter::once(heading).chain(rows) {
            let mut line = String::new();
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                match align {
                    Align::Left => line += &format!("{cell:<width$}  "),
                    Align::Right => line += &format!("{cell:>width$}  "),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A number of bytes: `12 B`, `3.4 MB`.
pub fn bytes(n: u64) -> String {
    let x = n as f64;
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", x / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", x / 1e6),
        _ => format!("{:.2} GB", x / 1e9),
    }
}

/// Microseconds as milliseconds: `12.3 ms`.
pub fn millis(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1e3)
}

/// A rate, or a dash.
pub fn rate(bps: Option<u64>) -> String {
    bps.map_or_else(dash, |bps| Rate::from_bps(bps).to_string())
}

/// A share as per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A time span as people say it: `850 ms`, `42 s`, `3 min`, `5 h`, `2 d`.
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        s @ 1..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} d", s / 86_400),
    }
}

/// What stands for nothing known.
pub fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((millis(12_340), percent(0.005)), ("12.3 ms".to_owned(), "0.5 %".to_owned()));
    }
}
