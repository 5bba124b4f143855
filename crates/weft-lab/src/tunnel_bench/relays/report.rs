//! Formats the relay bench as a table for readers.

use super::super::Turn;
use super::super::report::{cell, heading};
use super::{Over, RelayBench};
use std::fmt::Write;
use weft_scenario::median;

/// Returns the result of the bench as a table: medians over the runs, and the least and the greatest goodput.
pub fn relay_bench_table(bench: &RelayBench) -> String {
    let mut text = heading(&bench.machine, bench.duration_s, bench.warmup_s, "over veth pairs in a row");
    let _ = writeln!(
        text,
        "{:<14}{:>8}{:>8}{:>15}{:>10}{:>18}{:>8}{:>13}{:>18}",
        "",
        "between",
        "Gbit/s",
        "least … most",
        "CPU s/GB",
        "each between",
        "p50 ms",
        "64 B: 1000/s",
        "each between, µs"
    );
    for row in &bench.rows {
        text.push_str(&line(row));
        if let Some(failure) = &row.series.failure {
            let _ = writeln!(text, "  failed: {}", failure.replace('\n', " / "));
        }
    }
    text
}

fn line(row: &Over) -> String {
    let turns = || row.series.turns.iter().flatten();
    let of = |value: fn(&Turn) -> Option<f64>| median(turns().filter_map(value));
    let between = |each: fn(&Turn) -> &[f64]| median(turns().filter_map(|turn| mean_between(each(turn))));
    let goodput = || turns().map(|turn| turn.gbit_s);
    let (least, most) = (goodput().fold(f64::INFINITY, f64::min), goodput().fold(0.0, f64::max));
    format!(
        "{:<14}{:>8}{:>8}{:>15}{:>10}{:>18}{:>8}{:>13}{:>18}\n",
        row.series.name,
        row.between,
        cell(of(|turn| Some(turn.gbit_s)), 2),
        if least <= most { format!("{least:.2} … {most:.2}") } else { "–".into() },
        cell(of(|turn| turn.cpu_s_per_gb), 2),
        cell(between(|turn| &turn.cpu_s_per_gb_each), 2),
        cell(of(|turn| turn.idle_rtt_ms_p50), 3),
        cell(of(|turn| turn.small_packets_per_s.map(|packets| packets / 1e3)), 1),
        cell(between(|turn| &turn.cpu_us_per_small_packet_each), 2),
    )
}

/// Returns the mean over the nodes between the first and the last one. `each` has one value per node, in order.
fn mean_between(each: &[f64]) -> Option<f64> {
    let [_, between @ .., _] = each else { return None };
    (!between.is_empty()).then(|| between.iter().sum::<f64>() / between.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::super::{BenchMachine, Competitor};
    use super::*;

    #[test]
    fn medians_spread_and_what_each_node_between_costs_are_shown() {
        let turn = |gbit_s, each: &[f64]| {
            let all = Some(each.iter().sum());
            Some(Turn { gbit_s, cpu_s_per_gb: all, cpu_s_per_gb_each: each.to_vec(), ..Turn::default() })
        };
        let over = |name: &str, between, turns, failure| Over {
            between,
            series: Competitor { name: name.into(), turns, failure },
        };
        let turns = vec![turn(3.0, &[1.0, 0.25, 0.75, 1.0]), turn(2.0, &[1.0, 0.5, 0.5, 1.0]), None];
        let rows =
            vec![over("weft", 2, turns, Some("lost\nits way".into())), over("wireguard-go", 0, Vec::new(), None)];
        let machine = BenchMachine { processor: "X".into(), processors: 2, kernel: "6".into(), load_before: 0.1 };
        let text = relay_bench_table(&RelayBench { machine, duration_s: 10.0, warmup_s: 2.0, rows });
        for part in ["2.50", "2.00 … 3.00", "3.00", "0.50", "failed: lost / its way", "–"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
