//! The same scenario in both worlds, figure by figure.

use crate::table::Table;
use serde::Serialize;
use weft_scenario::{RunResult, VariantResult};

/// Two figures are the same within a tenth…
const SHARE: f64 = 0.1;
/// …gaps also within so many milliseconds.
const GAP_MS: f64 = 10.0;

/// One figure in both worlds: medians over the runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ParityRow {
    /// The scenario's name.
    pub scenario: String,
    /// The variant's name.
    pub variant: String,
    /// What is compared, with its unit.
    pub figure: String,
    /// What the lab measured.
    pub lab: f64,
    /// What the simulator measured.
    pub sim: f64,
    /// By how much they may differ whatever their size.
    slack: f64,
}

impl ParityRow {
    /// The simulator's figure over the lab's, less one.
    pub fn difference(&self) -> f64 {
        self.sim / self.lab - 1.0
    }

    /// Whether both worlds say the same.
    pub fn is_inside(&self) -> bool {
        (self.sim - self.lab).abs() <= (SHARE * self.lab.abs()).max(self.slack)
    }
}

/// Every figure that two results of one scenario share.
pub fn parity(lab: &RunResult, sim: &RunResult) -> Vec<ParityRow> {
    let mut rows = Vec::new();
    for ours in &lab.variants {
        let Some(theirs) = sim.variants.iter().find(|variant| variant.name == ours.name) else { continue };
        let figures = figures(ours).into_iter().zip(figures(theirs));
        rows.extend(figures.filter_map(|((figure, lab_figure, slack), (same, sim_figure, _))| {
            let row = ParityRow {
                scenario: lab.scenario.clone(),
                variant: ours.name.clone(),
                figure: figure.clone(),
                lab: lab_figure?,
                sim: sim_figure?,
                slack,
            };
            (figure == same).then_some(row)
        }));
    }
    rows
}

fn figures(variant: &VariantResult) -> Vec<(String, Option<f64>, f64)> {
    let mut figures = vec![("Mbit/s".to_owned(), Some(variant.goodput_bps / 1e6), 0.0)];
    for flow in &variant.flows {
        figures.push((format!("{}: RTT p50 ms", flow.name), flow.rtt_ms_p50, 0.0));
        figures.push((format!("{}: RTT p95 ms", flow.name), flow.rtt_ms_p95, 0.0));
        figures.push((format!("{}: one-way p95 ms", flow.name), flow.one_way_ms_p95, 0.0));
    }
    for event in &variant.events {
        figures.push((format!("{} {}: gap ms", event.action, event.direction), event.gap_ms_median, GAP_MS));
    }
    figures
}

/// The comparison as a table.
pub fn parity_table(rows: &[ParityRow]) -> String {
    let mut table = Table::new(["scenario", "variant", "figure", "lab", "sim", "difference", "inside"]);
    for row in rows {
        table.row([
            row.scenario.clone(),
            row.variant.clone(),
            row.figure.clone(),
            format!("{:.2}", row.lab),
            format!("{:.2}", row.sim),
            format!("{:+.1} %", row.difference() * 100.0),
            if row.is_inside() { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    let inside = rows.iter().filter(|row| row.is_inside()).count();
    let rule = format!("medians of the runs; inside: within {:.0} %, gaps also within {GAP_MS:.0} ms", SHARE * 100.0);
    format!("{}\n{inside} of {} inside ({rule})\n", table.render(), rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::{EventSummary, VariantResult};

    fn result(world: &str, goodput_bps: f64, gap_ms: f64) -> RunResult {
        let event = EventSummary {
            action: "cut".into(),
            direction: "up".into(),
            gap_ms_median: Some(gap_ms),
            ..EventSummary::default()
        };
        let variant =
            VariantResult { goodput_bps, events: vec![event], ..VariantResult::from_runs("weft", None, Vec::new()) };
        RunResult {
            schema: weft_scenario::SCHEMA,
            scenario: "s".into(),
            world: world.into(),
            seed: 1,
            duration_s: 1.0,
            warmup_s: 0.0,
            repeats: 1,
            bound_bps: 1.0,
            variants: vec![variant],
            skipped: Vec::new(),
        }
    }

    #[test]
    fn a_tenth_is_inside_and_small_gaps_always() {
        let inside = |goodput, gap| {
            let rows = parity(&result("lab", 100e6, 20.0), &result("sim", goodput, gap));
            rows.iter().map(ParityRow::is_inside).collect::<Vec<_>>()
        };
        assert_eq!(inside(109e6, 29.0), [true, true]);
        assert_eq!(inside(88e6, 31.0), [false, false]);
        let table = parity_table(&parity(&result("lab", 100e6, 20.0), &result("sim", 109e6, 31.0)));
        assert!(table.lines().any(|line| line.contains("+9.0 %") && line.ends_with("yes")), "{table}");
        assert!(table.contains("1 of 2 inside"), "{table}");
    }
}
