//! Formats results as text tables for readers.

use crate::disturbances::disturbances_table;
use crate::drawn::drawn_table;
use std::fmt::Write;
use weft_scenario::{FlowResult, LinkResult, MixResult, RunResult, SweepResult, VariantResult, VpnResult};

/// A table of text columns. The first column is left-aligned, the others are right-aligned.
pub(crate) struct ReportTable {
    rows: Vec<Vec<String>>,
}

impl ReportTable {
    pub fn new<const N: usize>(head: [&str; N]) -> ReportTable {
        ReportTable::with_head(head)
    }

    /// Returns a table with these column headings and no rows.
    ///
    /// The number of columns need not be known at compile time.
    pub fn with_head<'a>(head: impl IntoIterator<Item = &'a str>) -> ReportTable {
        ReportTable { rows: vec![head.into_iter().map(String::from).collect()] }
    }

    pub fn line(&mut self, cells: impl Iterator<Item = String>) {
        self.rows.push(cells.collect());
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    pub fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |column: usize| self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0);
        // A column whose cells are empty in all rows is left out.
        let is_used = |column: usize| column == 0 || self.rows.iter().skip(1).any(|row| !cell(row, column).is_empty());
        let used: Vec<usize> = (0..columns).filter(|column| is_used(*column)).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let padded = used.iter().map(|&column| match column {
                0 => format!("{:<width$}", cell(row, 0), width = width(0)),
                _ => format!("{:>width$}", cell(row, column), width = width(column)),
            });
            text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
            if number == 0 {
                let rule = used.iter().map(|&column| "─".repeat(width(column)));
                text.push_str(&rule.collect::<Vec<_>>().join("  "));
                text.push('\n');
            }
        }
        text
    }
}

pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |v| format!("{v:.digits$}"))
}

/// Returns the greatest of the figures that `value` takes from a variant's flows. `None` if no flow has the figure.
fn over_flows(variant: &VariantResult, value: fn(&FlowResult) -> Option<f64>) -> Option<f64> {
    variant.flows.iter().filter_map(value).max_by(f64::total_cmp)
}

/// Formats the result of a scenario or a network as a table for readers.
pub fn run_table(result: &RunResult) -> String {
    let best =
        result.variants.iter().filter(|v| v.name.starts_with("link:")).map(|v| v.goodput_bps).max_by(f64::total_cmp);
    let best = best.or_else(|| result.variants.iter().find(|v| v.name == "best-link").map(|v| v.goodput_bps));
    // The result of a network of nodes has no upper bound of the goodput.
    let has_bound = result.bound_bps > 0.0;
    let mut text = format!(
        "{}: {} run{} of {:.0} s, the first {:.0} s not counted",
        result.scenario,
        result.repeats,
        if result.repeats == 1 { "" } else { "s (medians)" },
        result.duration_s,
        result.warmup_s,
    );
    if has_bound {
        let _ = write!(text, "; without a tunnel at most {:.1} Mbit/s", result.bound_bps / 1e6);
    }
    text.push_str("\n\n");
    let mut table = ReportTable::new([
        "variant",
        "Mbit/s",
        "efficiency",
        "× best link",
        "predicted",
        "deviation",
        "RTT p50 ms",
        "RTT p95 ms",
        "gap ms",
        "set-up ms",
        "delay p95 ms",
        "DV p99.9 ms",
        "beyond omniscient ms",
        "resets",
        "F of VPNs",
        "F of hosts",
        "port p50 ms",
        "port p95 ms",
    ]);
    for variant in &result.variants {
        let port = variant.ports.first();
        let name = match &variant.link {
            Some(link) if !variant.name.ends_with(link.as_str()) => format!("{} ({link})", variant.name),
            _ => variant.name.clone(),
        };
        table.row([
            name,
            format!("{:.1}", variant.goodput_bps / 1e6),
            number(has_bound.then_some(variant.efficiency), 3),
            best.filter(|b| *b > 0.0).map_or(String::new(), |b| format!("{:.2}", variant.goodput_bps / b)),
            number(variant.prediction.map(|p| p.goodput_bps / 1e6), 1),
            variant.prediction.map_or(String::new(), |p| format!("{:+.1} %", p.deviation * 100.0)),
            number(over_flows(variant, |f| f.rtt_ms_p50), 1),
            number(over_flows(variant, |f| f.rtt_ms_p95), 1),
            number(over_flows(variant, |f| f.longest_gap_ms), 0),
            number(variant.setup_ms, 0),
            number(over_flows(variant, |f| f.one_way_ms_p95), 1),
            number(over_flows(variant, |f| f.delay_variation_ms_p999), 1),
            number(over_flows(variant, |f| f.beyond_omniscient_ms_p95), 1),
            number(over_flows(variant, |f| f.tcp_resets).filter(|n| *n > 0.0), 0),
            number(variant.vpn_fairness, 3),
            number(variant.host_fairness, 4),
            number(port.map(|port| port.queue_ms_p50), 1),
            number(port.map(|port| port.queue_ms_p95), 1),
        ]);
    }
    text.push_str(&table.render());
    text.push_str(&flows_table(result));
    text.push_str(&hosts_table(result));
    text.push_str(&vpns_table(result));
    text.push_str(&queues_table(result));
    text.push_str(&events_table(result));
    text.push_str(&disturbances_table(result));
    for variant in &result.variants {
        let _ = variant.note.as_ref().map(|note| writeln!(text, "{}: {note}", variant.name));
    }
    for skipped in &result.skipped {
        let _ = writeln!(text, "variant {} was skipped: {}", skipped.name, skipped.reason.replace('\n', " / "));
    }
    text
}

/// Returns a table of the links' queues in a scenario with two nodes and VPNs. Otherwise the text is empty.
///
/// For each link it shows the direction that carries more.
fn queues_table(result: &RunResult) -> String {
    let mut table = ReportTable::new([
        "link",
        "utilisation",
        "queue packets mean",
        "p95",
        "most",
        "queue p95 ms",
        "dropped",
        "lost",
    ]);
    for variant in result.variants.iter().filter(|variant| !variant.vpns.is_empty()) {
        let other_way = |link: &LinkResult| {
            let is_other = |other: &&LinkResult| other.name == link.name && other.direction != link.direction;
            variant.links.iter().find(is_other).map_or(0.0, |other| other.sent_bytes)
        };
        for link in variant.links.iter().filter(|link| link.sent_bytes >= other_way(link)) {
            let Some(mean) = link.queue_packets_mean else { continue };
            table.row([
                format!("{}: {} {}", variant.name, link.name, link.direction),
                format!("{:.3}", link.utilisation),
                format!("{mean:.1}"),
                number(link.queue_packets_p95, 0),
                number(link.queue_packets_max, 0),
                format!("{:.1}", link.queue_ms_p95),
                format!("{:.0}", link.dropped),
                format!("{:.0}", link.lost - link.dropped),
            ]);
        }
    }
    if table.rows.len() == 1 { String::new() } else { format!("\n{}", table.render()) }
}

/// Returns a table of the VPNs in each direction: goodput, share, and the state of the loop that controls the rate.
///
/// It leaves out a direction that carries less than a tenth of the other, which is mostly acknowledgments.
fn vpns_table(result: &RunResult) -> String {
    let mut table = ReportTable::new([
        "VPN",
        "weight",
        "promised Mbit/s",
        "Mbit/s",
        "share %",
        "allowed Mbit/s",
        "RTT ms",
        "lost",
        "dropped",
        "queue p50 ms",
        "queue p95 ms",
    ]);
    let mut is_empty = true;
    for variant in &result.variants {
        let back_of = |vpn: &VpnResult| {
            let is_back = |other: &&VpnResult| (&other.name, &other.from, &other.to) == (&vpn.name, &vpn.to, &vpn.from);
            variant.vpns.iter().find(is_back).map_or(0.0, |other| other.goodput_bps)
        };
        for vpn in variant.vpns.iter().filter(|vpn| vpn.goodput_bps >= back_of(vpn) / 10.0) {
            is_empty = false;
            table.row([
                format!("{}: {}, {} → {}", variant.name, vpn.name, vpn.from, vpn.to),
                vpn.weight.to_string(),
                number(vpn.promised_bps.map(|bps| bps / 1e6), 1),
                format!("{:.2}", vpn.goodput_bps / 1e6),
                format!("{:.1}", vpn.share * 100.0),
                number(vpn.rate_bps.map(|bps| bps / 1e6), 2),
                number(vpn.rtt_ms, 1),
                format!("{:.0}", vpn.lost),
                format!("{:.0}", vpn.dropped),
                number(vpn.queue_ms_p50, 1),
                number(vpn.queue_ms_p95, 1),
            ]);
        }
    }
    if is_empty { String::new() } else { format!("\n{}", table.render()) }
}

/// Returns a table of each flow's goodput, if a variant has at least two flows with a goodput.
///
/// It is empty if there are VPNs or hosts, because these have their own tables.
fn flows_table(result: &RunResult) -> String {
    let with_goodput = |variant: &VariantResult| variant.flows.iter().filter(|flow| flow.goodput_bps.is_some()).count();
    let has_groups = |variant: &VariantResult| !variant.vpns.is_empty() || !variant.hosts.is_empty();
    if result.variants.iter().any(has_groups) || result.variants.iter().all(|v| with_goodput(v) < 2) {
        return String::new();
    }
    let mut table = ReportTable::new(["flow", "Mbit/s", "share %"]);
    for variant in &result.variants {
        for flow in &variant.flows {
            let Some(goodput_bps) = flow.goodput_bps else { continue };
            table.row([
                format!("{}: {}", variant.name, flow.name),
                format!("{:.2}", goodput_bps / 1e6),
                format!("{:.1}", goodput_bps / variant.goodput_bps.max(1.0) * 100.0),
            ]);
        }
    }
    format!("\n{}", table.render())
}

/// Returns a table of the goodput of each host that begins flows. Empty if the scenario names no hosts.
fn hosts_table(result: &RunResult) -> String {
    let mut table = ReportTable::new(["host", "flows", "Mbit/s"]);
    for variant in &result.variants {
        for host in &variant.hosts {
            table.row([
                format!("{}: {}", variant.name, host.name),
                host.flows.to_string(),
                format!("{:.2}", host.goodput_bps / 1e6),
            ]);
        }
    }
    if table.rows.len() == 1 { String::new() } else { format!("\n{}", table.render()) }
}

fn events_table(result: &RunResult) -> String {
    let mut table = ReportTable::new([
        "event",
        "times",
        "gap ms median",
        "worst",
        "share back s median",
        "worst",
        "never back",
        "demoted s median",
        "worst",
    ]);
    for variant in &result.variants {
        // A change of a VPN's share is not a fault, so it is left out if no flow measures a gap.
        for event in variant.events.iter().filter(|event| event.action != "share" || event.gap_ms_median.is_some()) {
            table.row([
                format!("{}: {} {}", variant.name, event.action, event.direction),
                event.count.to_string(),
                number(event.gap_ms_median, 1),
                number(event.gap_ms_worst, 1),
                number(event.share_back_s_median, 2),
                number(event.share_back_s_worst, 2),
                if event.share_never_back > 0 { event.share_never_back.to_string() } else { String::new() },
                number(event.demoted_s_median, 2),
                number(event.demoted_s_worst, 2),
            ]);
        }
    }
    if table.rows.len() == 1 { String::new() } else { format!("\n{}", table.render()) }
}

/// Returns the rates of a mix's links. The rate is the first word of a link's description.
fn rates(mix: &MixResult) -> String {
    mix.links.iter().filter_map(|link| link.split(' ').next()).collect::<Vec<_>>().join(" + ")
}

/// Formats the result of a sweep as a table for readers.
pub fn sweep_table(result: &SweepResult) -> String {
    if result.mixes.iter().any(|mix| mix.drawn.is_some()) {
        return drawn_table(result);
    }
    let mut table =
        ReportTable::new(["seed: links", "bonded", "best through weft", "best plain", "× weft", "× plain", "pass"]);
    let mbps = |bps: Option<f64>| number(bps.map(|b| b / 1e6), 1);
    for mix in &result.mixes {
        table.row([
            format!("{}: {}", mix.seed, rates(mix)),
            mbps(mix.bonded_bps),
            mbps(mix.best_link_through_weft_bps),
            mbps(mix.best_link_bps),
            number(mix.of_best_link_through_weft, 2),
            number(mix.of_best_link, 2),
            if mix.pass { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    let passed = result.mixes.iter().filter(|mix| mix.pass).count();
    format!(
        "{}: goodput in Mbit/s\n\n{}\n{passed} of {} mixes passed\n",
        result.sweep,
        table.render(),
        result.mixes.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_scenario::{SCHEMA, VariantRun};

    #[test]
    fn vpns_have_a_table_and_acknowledgements_are_left_out() {
        let vpn = |from: &str, to: &str, goodput_bps| VpnResult {
            name: "lab".into(),
            from: from.into(),
            to: to.into(),
            weight: 2.0,
            goodput_bps,
            share: 0.25,
            ..VpnResult::default()
        };
        let vpns = vec![vpn("west", "east", 5e6), vpn("east", "west", 4e5)];
        let run = VariantRun { vpns, ..VariantRun::default() };
        let result = RunResult { variants: vec![VariantResult::from_runs("plain", None, vec![run])], ..empty() };
        let text = run_table(&result);
        assert!(text.contains("plain: lab, west → east") && text.contains("25.0"), "{text}");
        assert!(!text.contains("east → west") && !text.contains("without a tunnel"), "{text}");
        assert!(!text.contains("queue packets"), "a network's links have no such figures: {text}");
    }

    #[test]
    fn between_two_nodes_the_queue_of_the_way_the_bulk_goes_is_shown() {
        let link = |direction: &str, sent_bytes, max| LinkResult {
            name: "core".into(),
            direction: direction.into(),
            sent_bytes,
            lost: 9.0,
            dropped: 7.0,
            queue_packets_mean: Some(11.5),
            queue_packets_p95: Some(20.0),
            queue_packets_max: Some(max),
            ..LinkResult::default()
        };
        let run = VariantRun {
            links: vec![link("up", 100.0, 37.0), link("down", 9.0, 3.0)],
            vpns: vec![VpnResult::default()],
            vpn_fairness: Some(0.9871),
            ..VariantRun::default()
        };
        let result = RunResult { variants: vec![VariantResult::from_runs("weft", None, vec![run])], ..empty() };
        let text = run_table(&result);
        let line = text.lines().find(|line| line.starts_with("weft: core")).unwrap();
        let figures: Vec<&str> = line.split_whitespace().skip(2).collect();
        assert_eq!(figures, ["up", "0.000", "11.5", "20", "37", "0.0", "7", "2"]);
        assert!(!text.contains("core down") && text.contains("F of VPNs") && text.contains("0.987"), "{text}");
    }

    fn empty() -> RunResult {
        RunResult {
            schema: SCHEMA,
            scenario: "site".into(),
            world: "sim".into(),
            seed: 1,
            duration_s: 10.0,
            warmup_s: 1.0,
            repeats: 1,
            bound_bps: 0.0,
            variants: Vec::new(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = ReportTable::new(["variant", "Mbit/s", "empty"]);
        table.row(["weft".into(), "93.1".into(), String::new()]);
        table.row(["link:fibre".into(), "4.0".into(), String::new()]);
        assert_eq!(table.render(), "variant     Mbit/s\n──────────  ──────\nweft          93.1\nlink:fibre     4.0\n");
    }
}
