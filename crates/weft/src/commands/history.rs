//! `weft sense --history`: prints the measurement history of a peer's paths.

use crate::cli::Reading;
use crate::control::histories;
use crate::outcome::{Failure, Outcome, json};
use crate::status::{PathHistory, Point};
use crate::table::{Table, dash, millis, percent, rate};
use std::io::Write as _;

/// Bars of rising height, for values from zero to the greatest value of the line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// A row of the table: its name, the function that reads its value from a point, and that which formats the value.
type HistoryRow = (&'static str, fn(&Point) -> Option<f64>, fn(f64) -> String);
/// Width of a line of bars, in characters.
const WIDTH: usize = 60;

/// Prints the histories of the paths to `peer`.
pub fn history(reading: &Reading, peer: &str) -> Result<Outcome, Failure> {
    let paths = histories(&reading.control.control, peer)?;
    let text = if reading.json { json(&paths)? } else { table(&paths) };
    // A reader that closes the pipe early is no error.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Ok(Outcome::Well)
}

fn table(paths: &[PathHistory]) -> String {
    let mut table = Table::new(&["LINK", "WHAT", ">LEAST", ">MOST", ">LAST", "LAST TEN MINUTES", "LAST DAY"]);
    for path in paths {
        let quantities: [HistoryRow; 4] = [
            ("RTT", |point| point.rtt_us, |us| millis(us as u64)),
            ("loss", |point| point.loss, percent),
            ("capacity", |point| point.capacity_bps, |bps| rate(Some(bps as u64))),
            ("available", |point| point.available_bps, |bps| rate(Some(bps as u64))),
        ];
        for (what, value, shown) in quantities {
            let seconds: Vec<Option<f64>> = path.seconds.iter().map(value).collect();
            let minutes: Vec<Option<f64>> = path.minutes.iter().map(value).collect();
            let known = || seconds.iter().chain(&minutes).flatten().copied();
            let text = |value: Option<f64>| value.map_or_else(dash, shown);
            table.row([
                path.link.clone(),
                what.to_owned(),
                text(known().reduce(f64::min)),
                text(known().reduce(f64::max)),
                text(seconds.last().copied().flatten()),
                line(&seconds, 600),
                line(&minutes, 1_440),
            ]);
        }
    }
    if table.is_empty() { "no history: no path to this peer was recorded\n".to_owned() } else { table.to_string() }
}

/// Returns the values as bars from zero to the greatest value. One bar stands for `span` / [`WIDTH`] values.
///
/// A bar shows the mean of its values, and is blank if none of them is known.
fn line(values: &[Option<f64>], span: usize) -> String {
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let step = span / WIDTH;
    let bar = |values: &[Option<f64>]| {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let height = if most > 0.0 { (mean / most * 7.0).round() as usize } else { 0 };
        if known.is_empty() { ' ' } else { BARS.get(height).copied().unwrap_or(' ') }
    };
    values.chunks(step).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_rises_with_its_values_and_leaves_gaps() {
        let mut values: Vec<Option<f64>> = (0..600).map(|i| Some(f64::from(i))).collect();
        values[100..120].fill(None);
        let text = line(&values, 600);
        assert_eq!(text.chars().count(), WIDTH);
        assert!(text.starts_with("▁▁") && text.ends_with('█') && text.contains("  "), "{text}");
        assert_eq!(line(&[], 600), "");
        assert_eq!(line(&[Some(0.0); 20], 600), "▁▁");
    }
}
