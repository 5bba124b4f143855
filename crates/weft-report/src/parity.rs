//! Compares the results of one scenario in the lab and in the simulator, figure by figure.

use crate::table::ReportTable;
use serde::Serialize;
use weft_scenario::{LinkResult, RunResult, VariantResult};

/// Maximum difference at which two values count as equal, as a fraction of the lab's value.
const SHARE: f64 = 0.1;
/// Difference in ms up to which two gaps between arrivals count as equal, whatever the fraction.
const GAP_MS: f64 = 10.0;
/// Difference in packets up to which two queue lengths count as equal, whatever the fraction.
const QUEUE_PACKETS: f64 = 5.0;

/// One figure of a result as the lab and the simulator measured it, each as the median over the runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ParityRow {
    /// The scenario's name.
    pub scenario: String,
    /// The variant's name.
    pub variant: String,
    /// The name of the figure, with its unit.
    pub figure: String,
    /// The lab's value of the figure.
    pub lab: f64,
    /// The simulator's value of the figure.
    pub sim: f64,
    /// Difference up to which the two values count as equal, whatever the fraction. It is in the unit of the figure.
    slack: f64,
}

impl ParityRow {
    /// Returns the relative difference: the simulator's value divided by the lab's, minus one.
    pub fn difference(&self) -> f64 {
        self.sim / self.lab - 1.0
    }

    /// True if the two values differ by at most a tenth of the lab's value, or by at most the slack of the figure.
    pub fn is_inside(&self) -> bool {
        (self.sim - self.lab).abs() <= (SHARE * self.lab.abs()).max(self.slack)
    }
}

/// Returns one row for each figure that both results contain. The results are of the same scenario.
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
        figures.push((format!("flow {}: RTT p50 ms", flow.name), flow.rtt_ms_p50, 0.0));
        figures.push((format!("flow {}: RTT p95 ms", flow.name), flow.rtt_ms_p95, 0.0));
        figures.push((format!("flow {}: one-way delay p95 ms", flow.name), flow.one_way_ms_p95, 0.0));
    }
    // In the variants that run on one link without weft, nothing divides the rate between VPNs. TCP divides it by
    // chance, so those figures are not compared.
    if !variant.vpns.is_empty() && variant.link.is_none() {
        figures.extend(vpn_figures(variant));
    }
    for event in &variant.events {
        figures.push((
            format!("event {} {}: longest gap ms", event.action, event.direction),
            event.gap_ms_median,
            GAP_MS,
        ));
    }
    figures
}

/// Returns the goodput of each VPN, and the queue lengths of the links in the direction that carries more.
///
/// Each figure has its name and the difference up to which two values count as equal.
fn vpn_figures(variant: &VariantResult) -> Vec<(String, Option<f64>, f64)> {
    let each = variant.vpns.iter();
    let mut figures: Vec<_> =
        each.map(|vpn| (format!("VPN {}: goodput Mbit/s", vpn.name), Some(vpn.goodput_bps / 1e6), 0.0)).collect();
    figures.push(("F of VPNs".to_owned(), variant.vpn_fairness, 0.0));
    let carries_less = |link: &LinkResult| {
        variant.links.iter().any(|other| other.name == link.name && other.sent_bytes > link.sent_bytes)
    };
    for link in variant.links.iter().filter(|link| !carries_less(link)) {
        let name = &link.name;
        figures.push((format!("link {name}: utilisation"), Some(link.utilisation), 0.0));
        figures.push((format!("link {name}: queue mean packets"), link.queue_packets_mean, QUEUE_PACKETS));
        figures.push((format!("link {name}: queue p95 packets"), link.queue_packets_p95, QUEUE_PACKETS));
    }
    figures
}

/// Formats the rows as a table for readers.
pub fn parity_table(rows: &[ParityRow]) -> String {
    let mut table = ReportTable::new(["scenario", "variant", "figure", "lab", "sim", "difference", "inside"]);
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
    let rule = format!(
        "medians of the runs; inside: within {:.0} %, gaps also within {GAP_MS:.0} ms, queues within {QUEUE_PACKETS:.0} packets",
        SHARE * 100.0
    );
    format!("{}\n{inside} of {} figures are inside their limits ({rule})\n", table.render(), rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::{EventSummary, VpnResult};

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
        assert!(table.contains("1 of 2 figures are inside"), "{table}");
    }

    #[test]
    fn vpns_and_the_queue_before_the_bottleneck_are_compared_where_there_are_vpns() {
        let with = |world, queue, link: Option<&str>| {
            let mut result = result(world, 10e6, 1.0);
            let variant = &mut result.variants[0];
            let carried = |direction: &str, sent_bytes| LinkResult {
                name: "core".into(),
                direction: direction.into(),
                sent_bytes,
                queue_packets_mean: Some(queue),
                ..LinkResult::default()
            };
            variant.vpns = vec![VpnResult { name: "blue".into(), goodput_bps: 7e6, ..VpnResult::default() }];
            variant.vpn_fairness = Some(0.99);
            variant.links = vec![carried("up", 9.0), carried("down", 1.0)];
            variant.link = link.map(str::to_owned);
            result
        };
        let names = |lab: &RunResult, sim: &RunResult| {
            let rows = parity(lab, sim);
            rows.iter().map(|row| (row.figure.clone(), row.is_inside())).collect::<Vec<_>>()
        };
        let rows = names(&with("lab", 2.0, None), &with("sim", 7.5, None));
        let figures =
            ["VPN blue: goodput Mbit/s", "F of VPNs", "link core: utilisation", "link core: queue mean packets"];
        assert_eq!(rows[1..5].iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), figures);
        assert_eq!(rows.iter().filter(|(_, inside)| !inside).count(), 1, "5.5 packets are too many: {rows:?}");
        assert_eq!(names(&with("lab", 2.0, Some("core")), &with("sim", 7.5, Some("core"))).len(), 2);
    }
}
