//! Formats the comparison as a table for readers, and its cuts as CSV.

use super::contender::WEFT;
use super::{CutSeries, Failover};
use std::fmt::Write;

/// Returns the comparison as a table.
pub fn failover_table(result: &Failover) -> String {
    let machine = &result.machine;
    let mut text = format!(
        "Silent cuts on a diamond of four nodes, links of {:.0} Mbit/s, {:.0} ms from end to end and back, a probe each {} ms{}.\n\
         {} × {}, Linux {}, load before {:.2}\n\n",
        result.link_bps as f64 / 1e6,
        result.rtt_ms,
        result.interval_ms,
        if result.restart { ", the far end restarted before each cut" } else { "" },
        machine.processors,
        machine.processor,
        machine.kernel,
        machine.load_before,
    );
    let _ = writeln!(
        text,
        "{:<20}{:<34}{:>5}{:>11}{:>11}{:>12}{:>10}{:>10}",
        "", "", "cuts", "median ms", "worst ms", "return ms", "idle", "spare"
    );
    result.series.iter().for_each(|series| text.push_str(&line(series, result)));
    text.push_str(&verdict(result));
    for skipped in &result.skipped {
        let _ = writeln!(text, "{} skipped: {}", skipped.name, skipped.reason.replace('\n', " / "));
    }
    text.push_str(
        "\nmedian, worst: the longest time without a probe after a cut; return: the worst such time after the link was restored.\n\
         idle: idle control traffic on the busiest link in one direction, as a share of the link's rate; spare: the same on the\n\
         spare links while the other links carry probes.\n",
    );
    text
}

fn line(series: &CutSeries, result: &Failover) -> String {
    let cell = |value: Option<f64>| value.map_or("–".to_owned(), |ms| format!("{ms:.0}"));
    let share = |bps: f64| format!("{:.3} %", bps / result.link_bps as f64 * 100.0);
    let mut text = format!(
        "{:<20}{:<34}{:>5}{:>11}{:>11}{:>12}{:>10}{:>10}\n",
        series.name,
        series.detection,
        series.cuts.len(),
        cell(series.median_ms()),
        cell(series.worst_ms()),
        cell(series.worst_return_ms()),
        share(series.idle_bps),
        share(series.spare_bps),
    );
    if let Some(failure) = &series.failure {
        let _ = writeln!(text, "  failed: {}", failure.replace('\n', " / "));
    }
    text
}

/// Returns a line that compares weft's longest gap with the permitted one.
///
/// It also compares weft's median gap with that of each other contender.
fn verdict(result: &Failover) -> String {
    let Some(weft) = result.series.iter().find(|series| series.name == WEFT) else { return String::new() };
    let (Some(median), Some(worst)) = (weft.median_ms(), weft.worst_ms()) else { return String::new() };
    let held = if result.is_held() { "passed" } else { "FAILED" };
    let mut text = format!(
        "\nweft: the longest time without a probe after a cut is {worst:.0} ms, and at most {:.0} ms are allowed: \
         {held}",
        result.bound_ms()
    );
    let others = result.series.iter().filter(|series| series.name != weft.name);
    for (name, other) in others.filter_map(|other| Some((&other.name, other.median_ms()?))) {
        let _ = write!(text, "; the median time is 1/{:.1} of that of {name}", other / median);
    }
    text + "\n"
}

/// Returns CSV with a line for each cut.
pub fn failover_csv(result: &Failover) -> String {
    let mut text = String::from("name,cut,link,at_s,gap_ms,whole_after_s,return_gap_ms\n");
    for series in &result.series {
        for (number, cut) in (1..).zip(&series.cuts) {
            let _ = writeln!(
                text,
                "{},{number},{},{:.3},{:.3},{:.3},{:.3}",
                series.name, cut.link, cut.at_s, cut.gap_ms, cut.whole_after_s, cut.return_gap_ms
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{CutResult, CutSeries, Failover};
    use super::*;
    use crate::tunnel_bench::BenchMachine;
    use weft_scenario::Skipped;

    fn series(name: &str, gaps: &[f64]) -> CutSeries {
        let cuts = gaps.iter().map(|&gap_ms| CutResult { link: "ab".into(), gap_ms, ..CutResult::default() });
        CutSeries { name: name.into(), idle_bps: 50_000.0, cuts: cuts.collect(), ..CutSeries::default() }
    }

    fn result(series: Vec<CutSeries>) -> Failover {
        let machine = BenchMachine { processor: "X".into(), processors: 2, kernel: "6".into(), load_before: 0.1 };
        let skipped = vec![Skipped { name: "ospf-default".into(), reason: "not there".into() }];
        Failover {
            schema: 1,
            machine,
            link_bps: 10_000_000,
            rtt_ms: 20.0,
            interval_ms: 1.0,
            restart: false,
            series,
            skipped,
        }
    }

    #[test]
    fn median_worst_and_ratio_are_shown_and_a_miss_is_reported() {
        let good = result(vec![series("weft", &[30.0, 34.0, 49.0]), series("ospf-bfd", &[136.0])]);
        let text = failover_table(&good);
        assert!(
            text.contains("a cut is 49 ms, and at most 50 ms are allowed: passed; the median time is 1/4.0 of"),
            "{text}"
        );
        assert!(text.contains("0.500 %") && text.contains("ospf-default skipped: not there"), "{text}");
        let late = failover_table(&result(vec![series("weft", &[30.0, 51.0])]));
        assert!(late.contains("a cut is 51 ms, and at most 50 ms are allowed: FAILED"), "{late}");
        assert!(!failover_table(&result(Vec::new())).contains("allowed"));
    }

    #[test]
    fn each_cut_is_a_line() {
        let text = failover_csv(&result(vec![series("weft", &[30.0, 34.0])]));
        assert_eq!(text.lines().nth(2), Some("weft,2,ab,0.000,34.000,0.000,0.000"));
    }
}
