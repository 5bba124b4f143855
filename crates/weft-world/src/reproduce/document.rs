//! Writes the reproduction as a Markdown document for readers.

use super::counts::RowCounts;
use super::earlier::{Earlier, HEADING};
use super::row::{Figure, Measured, RowVerdict};
use super::{Estimate, Reproduction, RowResult, ids};
use std::fmt::Write;

/// Places at which the papers are open or contradict themselves, and the assumption that the reproduction makes.
const INCONSISTENCIES: [(&str, &str); 12] = [
    (
        "000, Figure 3",
        "The axis of the delay difference, the buffers' size and the delayed acknowledgement's timer are not given. \
      Here: 0 to 100 %, path k (from 0) being slower by the factor 1 + k·x; 100 packets; 200 ms.",
    ),
    (
        "000, §4.1",
        "Flows are hashed by source address, of which there are ten for a hundred flows: how well they spread over two to five \
      paths is luck. Both that hash and one of all addresses and ports are run.",
    ),
    (
        "000 and 002",
        "Both spray a connection's packets over paths; Quick-Start (RFC 4782) forbids routers that do so to approve a rate.",
    ),
    (
        "002, Table I",
        "The text calls T(2, 2, 4) about one third of T(2, 2, 2); the table has 188/280 = 67 %: one third is lost.",
    ),
    ("002, §III", "“0.1 % round trip packet loss” against a loss of 0.005 one way, which is about 1 % both ways."),
    ("002, Figure 2", "The text says IPv6 header, the caption IPv4."),
    (
        "003, abstract",
        "1.6 Gbit/s, but 5.7 in the text; 16 000 VPNs does not follow from 1.73 % of a processor for 100.",
    ),
    ("003, §III-B", "“16 times the round-trip time” of 0.312 s are 5 s; the text and Figure 8 say 10 s."),
    (
        "003, §III-A",
        "a ≤ 0.5 is called safe, but Figures 3 and 4 have a = 0.01, 0.1 and 1. How a window starts is not said.",
    ),
    ("003, Equation 1", "The index of the sum is misprinted: F = (Σ x/r)² / (N Σ (x/r)²)."),
    ("004, §6.2 and §7", "α is σ/τ in one place and one packet per τ in the other: the same, in other units."),
    (
        "004, Figure 10",
        "The queue's peak “q ≈ b/(1 − b)” has no unit. By the fluid law it is in units of Cτ, times 1.2 to 1.8 by the feedback delay.",
    ),
];

/// Returns the whole document in Markdown.
///
/// `pictures` is the path of the directory with the pictures, relative to the document. `earlier` is an earlier
/// document: rows that were not run now are copied from it, if it contains them.
pub fn document(reproduction: &Reproduction, pictures: &str, earlier: &str) -> String {
    let earlier = Earlier::of(earlier);
    let (mut lines, mut sections) = (String::new(), String::new());
    for id in ids() {
        if let Some(row) = reproduction.rows.iter().find(|row| row.id == id) {
            let _ = writeln!(lines, "| [{id}](#{}) | {} | {} | {} |", anchor(row), row.figure, row.claim, verdict(row));
            section(&mut sections, row);
            for picture in reproduction.pictures.iter().filter(|picture| picture.row == row.id) {
                image(&mut sections, picture.title, pictures, picture.file);
            }
            for picture in reproduction.surfaces.iter().filter(|picture| picture.row == row.id) {
                image(&mut sections, picture.title, pictures, picture.file);
            }
        } else if let Some((line, section)) = earlier.lines.get(id).zip(earlier.sections.get(id)) {
            let _ = writeln!(lines, "{line}");
            let _ = write!(sections, "{HEADING}{section}");
        }
    }
    let counts = RowCounts::of(&lines);
    let mut text =
        format!("{HEAD}\n{counts}\n\n| row | what | claim | accepted |\n|---|---|---|---|\n{lines}{sections}");
    text.push_str("\n## The papers' own inconsistencies\n\n| where | what |\n|---|---|\n");
    for (place, what) in INCONSISTENCIES {
        let _ = writeln!(text, "| {place} | {what} |");
    }
    text
}

const HEAD: &str = "# Papers 000 to 004, reproduced

Written by `weft sim reproduce`, row by row; do not edit. A row stays as it is until it is run again. Same program, same bytes.

Rows A, B and C are runs of 30 simulated seconds, the first 10 of them not counted; rows B9, B10, B12, C7, C8, D, E and F as long as their scenarios say. A figure is \
the mean over the seeds ± half its 95 % confidence interval (Student's t). Ratios are taken seed by seed. The setups are the files \
`scenarios/paper-000-*.toml`, `paper-001-figure-6.toml`, `mixed-port.toml`, `voice-under-load.toml`, `naval-fleet.toml`, `paper-002-*-sim.toml`, `paper-003-*.toml`, `paper-004-*.toml`, `clean-links.toml`, `fair-vpns.toml`, `three-hundred-connections.toml`, `preemption.toml` and `flow-alternates.toml`, which also say what \
they assume. Rows D7 to D10 are of processor and memory: `make bench` measures them ([scale.md](operate/scale.md)). \
Rows that only report figures say so. Explanations by hand, with the figures of their day, stand in [reproduction-notes.md](reproduction-notes.md).
";

/// Returns the anchor that GitHub gives a heading: lower case, with hyphens for spaces.
fn anchor(row: &RowResult) -> String {
    let kept =
        heading(row).to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    kept.replace(' ', "-")
}

fn heading(row: &RowResult) -> String {
    format!("{} – {}", row.id, row.figure)
}

fn verdict(row: &RowResult) -> &'static str {
    if row.verdict == RowVerdict::Missed { "**no**" } else { row.verdict.word() }
}

fn section(text: &mut String, row: &RowResult) {
    let _ = writeln!(text, "{HEADING}{}\n", heading(row));
    let _ = writeln!(text, "- **Claim**: {}.", row.claim);
    let seeds = if row.seeds == 0 { "nothing is drawn".to_owned() } else { format!("seeds 1 to {}", row.seeds) };
    let _ = writeln!(text, "- **Run**: {}; {seeds}.", row.setup);
    let _ = writeln!(text, "- **Asked for**: {}.", row.accept);
    let _ = writeln!(text, "- **Accepted**: {}.\n", verdict(row));
    for table in tables(&row.measured) {
        text.push_str(&table);
        text.push('\n');
    }
    for remark in &row.remarks {
        let _ = writeln!(text, "{remark}\n");
    }
}

fn image(text: &mut String, title: &str, pictures: &str, file: &str) {
    let _ = writeln!(text, "![{title}]({pictures}/{file})");
}

/// Returns the measurements as tables. Adjacent rows with the same columns share a table.
fn tables(Measured(figures): &Measured) -> Vec<String> {
    let rows: Vec<&[Figure]> = figures.chunk_by(|a, b| a.row == b.row).collect();
    rows.chunk_by(|a, b| columns(a) == columns(b)).map(table).collect()
}

fn columns(row: &[Figure]) -> Vec<&str> {
    row.iter().map(|figure| figure.column.as_str()).collect()
}

fn table(rows: &[&[Figure]]) -> String {
    let columns = rows.first().map_or_else(Vec::new, |row| columns(row));
    let mut text = format!("| | {} |\n|---{}|\n", columns.join(" | "), "|---:".repeat(columns.len()));
    for row in rows {
        let name = row.first().map_or("", |figure| figure.row.as_str());
        let values: Vec<String> = row.iter().map(|figure| shown(figure.value)).collect();
        let _ = writeln!(text, "| {name} | {} |", values.join(" | "));
    }
    text
}

/// Formats a value with three or four significant digits.
fn shown(Estimate { mean, half_width }: Estimate) -> String {
    let digits = match mean.abs() {
        size if size >= 1.0 && half_width == 0.0 && mean.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        _ => 2,
    };
    match half_width {
        0.0 => format!("{mean:.digits$}"),
        _ => format!("{mean:.digits$} ± {half_width:.digits$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_the_same_columns_share_a_table() {
        let mut measured = Measured::default();
        measured.add("one path, Mbit/s", "", Estimate { mean: 50.25, half_width: 0.5 });
        for (row, mean) in [("N = 2", 2.0), ("N = 3", 300.04)] {
            measured.add(row, "0 %", Estimate::exact(mean));
            measured.add(row, "25 %", Estimate { mean, half_width: 0.25 });
        }
        let expected =
            "| | 0 % | 25 % |\n|---|---:|---:|\n| N = 2 | 2 | 2.00 ± 0.25 |\n| N = 3 | 300.0 | 300.0 ± 0.2 |\n";
        let tables = tables(&measured);
        assert_eq!(tables[0], "| |  |\n|---|---:|\n| one path, Mbit/s | 50.25 ± 0.50 |\n");
        assert_eq!(tables[1], expected);
    }
}
