//! Formats the tunnel bench as a table for readers.

use super::{BenchMachine, BenchRow, Competitor, TunnelBench, Turn};
use std::fmt::Write;
use weft_scenario::median;

/// Relative difference between measured and configured loss above which the table prints a warning.
const LOSS_TOLERANCE: f64 = 0.2;

/// Returns the result of the bench as a table, with medians over the runs of each competitor.
pub fn tunnel_bench_table(bench: &TunnelBench) -> String {
    let mut text = heading(&bench.machine, bench.duration_s, bench.warmup_s, "over a veth pair");
    let _ = writeln!(
        text,
        "{:<36}{:>10}{:>12}{:>10}{:>10}{:>12}",
        "", "Gbit/s", "CPU s/GB", "p50 ms", "p95 ms", "loss seen"
    );
    for row in &bench.rows {
        let _ = writeln!(text, "{}", row.condition);
        row.series.iter().for_each(|series| text.push_str(&line(series)));
        text.push_str(&ratio_line(row));
        row.series.iter().for_each(|series| text.push_str(&warnings(row, series)));
    }
    text
}

/// Returns the heading, which names the measurement and the machine.
pub(super) fn heading(machine: &BenchMachine, duration_s: f64, warmup_s: f64, place: &str) -> String {
    format!(
        "One TCP flow (cubic), {duration_s:.0} s, the first {warmup_s:.0} s not counted, {place}; medians.\n\
         {} × {}, Linux {}, load before {:.2}{}\n\n",
        machine.processors,
        machine.processor,
        machine.kernel,
        machine.load_before,
        if machine.load_before > 0.5 { " — BUSY: only the ratios mean anything" } else { "" }
    )
}

/// Formats a figure with `digits` decimals. Returns a dash for `None`.
pub(super) fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
}

fn line(series: &Competitor) -> String {
    let of = |value: fn(&Turn) -> Option<f64>| median(series.turns.iter().flatten().filter_map(value));
    format!(
        "  {:<34}{:>10}{:>12}{:>10}{:>10}{:>12}\n",
        series.name,
        cell(of(|turn| Some(turn.gbit_s)), 2),
        cell(of(|turn| turn.cpu_s_per_gb), 2),
        cell(of(|turn| turn.idle_rtt_ms_p50), 3),
        cell(of(|turn| turn.idle_rtt_ms_p95), 3),
        of(|turn| turn.loss_seen).map_or("–".to_owned(), |share| format!("{:.3} %", share * 100.0)),
    )
}

fn ratio_line(row: &BenchRow) -> String {
    let ratios = &row.weft_over_wireguard_go;
    let Some(middle) = median(ratios.iter().copied()) else { return String::new() };
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    format!(
        "  the goodput of weft is {middle:.2} × that of wireguard-go (median; ratio of each pair of runs: {})\n",
        each.join(", ")
    )
}

fn warnings(row: &BenchRow, series: &Competitor) -> String {
    let mut text = String::new();
    if let Some(failure) = &series.failure {
        let _ = writeln!(text, "  {} failed: {}", series.name, failure.replace('\n', " / "));
    }
    let turns = || series.turns.iter().flatten();
    if turns().any(|turn| turn.uncut > 0) {
        let _ = writeln!(text, "  {}: whole trains were dropped, so losses came in trains", series.name);
    }
    if let Some(wanted) = row.condition.loss_permille.map(|permille| f64::from(permille) / 1e3) {
        let seen = median(turns().filter_map(|turn| turn.loss_seen)).unwrap_or(wanted);
        if (seen - wanted).abs() > LOSS_TOLERANCE * wanted {
            let _ = writeln!(text, "  {}: the loss is not the requested loss", series.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Condition;
    use super::*;

    #[test]
    fn medians_ratios_and_what_went_wrong_are_shown() {
        let turn =
            |gbit_s, loss_seen, uncut| Some(Turn { gbit_s, loss_seen: Some(loss_seen), uncut, ..Turn::default() });
        let series = |name: &str, turns: Vec<Option<Turn>>| Competitor { name: name.into(), turns, failure: None };
        let row = BenchRow {
            condition: Condition { segmentation: false, loss_permille: Some(10) },
            series: vec![
                series("weft", vec![turn(5.0, 0.0101, 0), turn(7.0, 0.0099, 0)]),
                series("wireguard-go", vec![turn(2.0, 0.001, 4)]),
            ],
            weft_over_wireguard_go: vec![2.5, 3.5],
        };
        let machine = BenchMachine { processor: "X".into(), processors: 2, kernel: "6".into(), load_before: 3.0 };
        let text = tunnel_bench_table(&TunnelBench { machine, duration_s: 10.0, warmup_s: 2.0, rows: vec![row] });
        assert!(text.contains("BUSY") && text.contains("6.00") && text.contains("3.00 ×"), "{text}");
        assert!(text.contains("1.000 %") && text.contains("wireguard-go: whole trains were dropped"), "{text}");
        assert!(text.contains("wireguard-go: the loss is not") && !text.contains("weft: the loss"), "{text}");
    }
}
