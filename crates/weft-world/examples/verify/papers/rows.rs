//! Topic `papers`, part `rows`: the papers' own algorithms, and rows of the reproduction compared with its document.

use crate::check::{Bound, Check};
use crate::claim::{LIB, claim, run};
use crate::topic::{Context, Part};
use weft_world::reproduce::{Effort, Progress, Reproduction, RowVerdict, reproduce};

/// The part `rows`.
pub const ROWS: Part = Part { name: "rows", run: rows };

/// Rows that take seconds, for a short run. A full run takes all rows.
const SHORT: [&str; 7] = ["A1", "B1", "B2", "C2", "E6", "E13", "E14"];
/// Number of seeds, as in the document.
const SEEDS: u64 = 5;
/// The document with the verdicts.
const DOCUMENT: &str = include_str!("../../../../../docs/reproduction.md");

fn rows(context: &Context) -> Vec<Check> {
    let mut checks = run(
        context,
        &[
            claim("counts over intervals equal the bytes in queues", "weft-core", LIB, "intervals"),
            claim("both measures of paper 004's law", "weft-core", &["--test", "control_loop"], "accumulation::"),
            claim("markers that ask for counts, and their reports", "weft-wire", &["--test", "golden"], "marker"),
            claim("a loop's parameters, or line, column and fix", "weft-config", &["--test", "vpn_loop"], ""),
            claim("no acknowledged byte is lost, with SACK or without", "weft-core", &["--test", "ack_condition"], ""),
            claim("documents have the numbers of the rows", "weft-world", &["--test", "reproduce"], "documents"),
        ],
    );
    let wanted = context.pick(SHORT.iter().map(|row| (*row).to_owned()).collect(), Vec::new());
    let effort = Effort { seeds: SEEDS, quick: false, threads: context.threads };
    match reproduce(&wanted, effort, &Silent, |_| Ok(())) {
        Ok(result) => checks.extend(judged(&result)),
        Err(why) => checks.push(Check::skipped("rows of the papers".to_owned(), Bound::AtMost(0.0), "failures", why)),
    }
    checks
}

/// Returns a check for each row: its verdict must equal the verdict in the document.
fn judged(result: &Reproduction) -> Vec<Check> {
    let of = |row: &weft_world::reproduce::RowResult| {
        let word = if row.verdict == RowVerdict::Missed { "**no**" } else { row.verdict.word() };
        let line = DOCUMENT.lines().find(|line| line.starts_with(&format!("| [{}]", row.id)));
        let differs = line.is_none_or(|line| !line.ends_with(&format!("| {word} |")));
        let name = format!("row {} is judged as in docs/reproduction.md: {word}", row.id);
        Check::new(name, Some(f64::from(differs)), Bound::AtMost(0.0), "differences")
    };
    result.rows.iter().map(of).collect()
}

/// Shows no progress.
struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: usize) {}

    fn advance(&self) {}
}
