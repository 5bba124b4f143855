//! The one result format, schema 1: what `--json` prints.

use crate::disturbance::{self, DisturbanceResult};
use crate::stats::median;
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// The result of a scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The scenario's name.
    pub scenario: String,
    /// `lab` or `sim`.
    pub world: String,
    /// The scenario's seed.
    pub seed: u64,
    /// Length of a run in seconds.
    pub duration_s: f64,
    /// The beginning of a run, in seconds, that does not count.
    pub warmup_s: f64,
    /// Runs of each variant.
    pub repeats: u32,
    /// Sum over links of rate × 1448/1500, and of opportunities × 1448 bytes for traces, in bit/s.
    pub bound_bps: f64,
    /// What was compared.
    pub variants: Vec<VariantResult>,
    /// What could not be run, and why.
    pub skipped: Vec<Skipped>,
}

/// A variant that was not run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Skipped {
    /// The variant's name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// One variant: medians over its runs, and the runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VariantResult {
    /// The variant's name.
    pub name: String,
    /// The single link used, where it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// What stands in for the real thing, where a world only has a model of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// Median goodput in bit/s of all flows together whose data goes the way of the first bulk flow.
    pub goodput_bps: f64,
    /// Goodput / bound.
    pub efficiency: f64,
    /// Median time in milliseconds until OpenVPN's client had its connection, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub setup_ms: Option<f64>,
    /// What theory says, for static weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// Medians per flow.
    pub flows: Vec<FlowResult>,
    /// Medians per link and direction.
    pub links: Vec<LinkResult>,
    /// Median of the fairness between VPNs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vpn_fairness: Option<f64>,
    /// Medians per loop.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vpns: Vec<VpnResult>,
    /// Events, summed up over repetitions and runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventSummary>,
    /// In a network with events, medians of what flows got meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub disturbances: Vec<DisturbanceResult>,
    /// The single runs.
    pub runs: Vec<VariantRun>,
}

/// Strict weighted round robin's law: min over links of Cᵢ·Σw/wᵢ.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prediction {
    /// The law's goodput in bit/s, Cᵢ being each link alone through weft in the same run.
    pub goodput_bps: f64,
    /// measured / predicted − 1.
    pub deviation: f64,
}

/// One run of one variant.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct VariantRun {
    /// Goodput in bit/s of all flows together whose data goes the way of the first bulk flow.
    pub goodput_bps: f64,
    /// Goodput / bound.
    pub efficiency: f64,
    /// Time in milliseconds until OpenVPN's client had its connection, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub setup_ms: Option<f64>,
    /// Per flow.
    pub flows: Vec<FlowResult>,
    /// Per link and direction.
    pub links: Vec<LinkResult>,
    /// Between two nodes, Jain's index over what VPNs got in the bound's direction, of what was theirs: the promised rate, and of
    /// the rest a part by weight.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vpn_fairness: Option<f64>,
    /// Per loop: a VPN from one edge to another.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vpns: Vec<VpnResult>,
    /// Per event.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventResult>,
    /// In a network with events, what flows got meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub disturbances: Vec<DisturbanceResult>,
    /// The emulator's p99.9 lateness in this run, in milliseconds (0 in the simulator).
    pub lateness_ms_p999: f64,
}

/// One flow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FlowResult {
    /// The flow's name.
    pub name: String,
    /// Application payload received after the warm-up, in bit/s.
    pub goodput_bps: Option<f64>,
    /// Median round-trip time in milliseconds.
    pub rtt_ms_p50: Option<f64>,
    /// 95th percentile of the round-trip time in milliseconds.
    pub rtt_ms_p95: Option<f64>,
    /// The longest time without an arrival, in milliseconds.
    pub longest_gap_ms: Option<f64>,
    /// Median one-way delay in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub one_way_ms_p50: Option<f64>,
    /// 95th percentile of the one-way delay in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub one_way_ms_p95: Option<f64>,
    /// 99th percentile of the one-way delay in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub one_way_ms_p99: Option<f64>,
    /// 95th percentile of the age of the newest arrival, less that of an omniscient sender (Winstein et al., Sprout, NSDI 2013), in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beyond_omniscient_ms_p95: Option<f64>,
    /// Packets (ping, probe) or transfers (http) that never arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<f64>,
    /// TCP connections that were reset or gave up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_resets: Option<f64>,
}

/// One direction of one link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LinkResult {
    /// The link's name.
    pub name: String,
    /// `up` or `down`.
    pub direction: String,
    /// IP bytes that were put on the link.
    pub sent_bytes: f64,
    /// Packets that the link lost, on the way or at its queue.
    pub lost: f64,
    /// Those of them that its queue dropped.
    #[serde(default)]
    pub dropped: f64,
    /// 95th percentile of the time in the link's queue, in milliseconds.
    pub queue_ms_p95: f64,
    /// Between two nodes, how many packets were in the queue when one left it, that one included: the mean,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_packets_mean: Option<f64>,
    /// the 95th percentile,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_packets_p95: Option<f64>,
    /// and the most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_packets_max: Option<f64>,
    /// Sent bytes / what the link could have carried.
    pub utilisation: f64,
}

/// One loop: what a VPN sends from one edge to another; between two nodes also where there is no loop.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct VpnResult {
    /// The VPN's name.
    pub name: String,
    /// The edge where its packets enter.
    pub from: String,
    /// The edge where they leave.
    pub to: String,
    /// Its weight, at the end.
    pub weight: f64,
    /// The rate it is promised, at the end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub promised_bps: Option<f64>,
    /// IP bytes that left at the far edge after the warm-up, in bit/s; between two nodes what its flows' receivers got.
    pub goodput_bps: f64,
    /// That over what all loops had that lead the same way: from earlier to later edges of the file, or back.
    pub share: f64,
    /// What the loop allowed at the end, in bit/s.
    pub rate_bps: Option<f64>,
    /// Its window at the end, or what its rate sends in a round trip, in bytes.
    pub window_bytes: Option<f64>,
    /// Its smoothed round trip at the end, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Bytes in queues on the way at the end, of a law that measures them.
    pub accumulation_bytes: Option<f64>,
    /// Packets that the way lost after the warm-up.
    pub lost: f64,
    /// Packets that the VPN's own queue dropped after the warm-up.
    pub dropped: f64,
    /// In a network, median time in the VPN's own queue, in milliseconds.
    pub queue_ms_p50: Option<f64>,
    /// In a network, 95th percentile of the time in the VPN's own queue, in milliseconds.
    pub queue_ms_p95: Option<f64>,
}

/// What one event did.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EventResult {
    /// Which `[[event]]` of the file, from 0.
    pub group: usize,
    /// When, in seconds from the run's beginning.
    pub at_s: f64,
    /// What: `cut`, `loss` …
    pub action: String,
    /// The link it happened to.
    pub link: Option<String>,
    /// `up`, `down` or `both`.
    pub direction: String,
    /// The longest time without a probe's arrival between this event and the next, in milliseconds.
    pub gap_ms: Option<f64>,
    /// Time from the restoration until the link carried its former share of the bytes again, in seconds.
    pub share_back_s: Option<f64>,
    /// Time until weft took the path for worse than before (good, degraded, suspect, down), in seconds.
    pub demoted_s: Option<f64>,
}

/// The repetitions of one `[[event]]`, over all runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EventSummary {
    /// Which `[[event]]` of the file, from 0.
    pub group: usize,
    /// What: `cut`, `loss` …
    pub action: String,
    /// `up`, `down` or `both`.
    pub direction: String,
    /// How often it happened.
    pub count: usize,
    /// Median of the longest gaps, in milliseconds.
    pub gap_ms_median: Option<f64>,
    /// The worst gap, in milliseconds.
    pub gap_ms_worst: Option<f64>,
    /// Median time until the restored link carried its share again, in seconds.
    pub share_back_s_median: Option<f64>,
    /// The worst of these.
    pub share_back_s_worst: Option<f64>,
    /// How many restored links had not carried their share again before the next event.
    pub share_never_back: usize,
    /// Median time to demotion, in seconds.
    pub demoted_s_median: Option<f64>,
    /// The worst of these.
    pub demoted_s_worst: Option<f64>,
}

impl VariantResult {
    /// Sums runs up by their medians.
    pub fn from_runs(name: impl Into<String>, link: Option<String>, runs: Vec<VariantRun>) -> VariantResult {
        let middle = |value: fn(&VariantRun) -> f64| median(runs.iter().map(value)).unwrap_or(0.0);
        VariantResult {
            name: name.into(),
            link,
            note: None,
            goodput_bps: middle(|run| run.goodput_bps),
            efficiency: middle(|run| run.efficiency),
            setup_ms: median(runs.iter().filter_map(|run| run.setup_ms)),
            prediction: None,
            flows: median_flows(&runs),
            links: median_links(&runs),
            vpn_fairness: median(runs.iter().filter_map(|run| run.vpn_fairness)),
            vpns: median_vpns(&runs),
            events: summarise_events(&runs),
            disturbances: disturbance::medians(&runs),
            runs,
        }
    }
}

fn median_flows(runs: &[VariantRun]) -> Vec<FlowResult> {
    let Some(first) = runs.first() else { return Vec::new() };
    let one = |flow: &FlowResult| {
        let same: Vec<&FlowResult> = runs.iter().flat_map(|run| &run.flows).filter(|f| f.name == flow.name).collect();
        let middle = |value: fn(&FlowResult) -> Option<f64>| median(same.iter().filter_map(|f| value(f)));
        FlowResult {
            name: flow.name.clone(),
            goodput_bps: middle(|f| f.goodput_bps),
            rtt_ms_p50: middle(|f| f.rtt_ms_p50),
            rtt_ms_p95: middle(|f| f.rtt_ms_p95),
            longest_gap_ms: middle(|f| f.longest_gap_ms),
            one_way_ms_p50: middle(|f| f.one_way_ms_p50),
            one_way_ms_p95: middle(|f| f.one_way_ms_p95),
            one_way_ms_p99: middle(|f| f.one_way_ms_p99),
            beyond_omniscient_ms_p95: middle(|f| f.beyond_omniscient_ms_p95),
            lost: middle(|f| f.lost),
            tcp_resets: middle(|f| f.tcp_resets),
        }
    };
    first.flows.iter().map(one).collect()
}

fn median_links(runs: &[VariantRun]) -> Vec<LinkResult> {
    let Some(first) = runs.first() else { return Vec::new() };
    let one = |link: &LinkResult| {
        let is_same = |l: &&LinkResult| l.name == link.name && l.direction == link.direction;
        let same: Vec<&LinkResult> = runs.iter().flat_map(|run| &run.links).filter(is_same).collect();
        let middle = |value: fn(&LinkResult) -> f64| median(same.iter().map(|l| value(l))).unwrap_or(0.0);
        let some = |value: fn(&LinkResult) -> Option<f64>| median(same.iter().filter_map(|l| value(l)));
        LinkResult {
            name: link.name.clone(),
            direction: link.direction.clone(),
            sent_bytes: middle(|l| l.sent_bytes),
            lost: middle(|l| l.lost),
            dropped: middle(|l| l.dropped),
            queue_ms_p95: middle(|l| l.queue_ms_p95),
            queue_packets_mean: some(|l| l.queue_packets_mean),
            queue_packets_p95: some(|l| l.queue_packets_p95),
            queue_packets_max: some(|l| l.queue_packets_max),
            utilisation: middle(|l| l.utilisation),
        }
    };
    first.links.iter().map(one).collect()
}

fn median_vpns(runs: &[VariantRun]) -> Vec<VpnResult> {
    let Some(first) = runs.first() else { return Vec::new() };
    let one = |vpn: &VpnResult| {
        let is_same = |v: &&VpnResult| (&v.name, &v.from, &v.to) == (&vpn.name, &vpn.from, &vpn.to);
        let same: Vec<&VpnResult> = runs.iter().flat_map(|run| &run.vpns).filter(is_same).collect();
        let middle = |value: fn(&VpnResult) -> f64| median(same.iter().map(|v| value(v))).unwrap_or(0.0);
        let some = |value: fn(&VpnResult) -> Option<f64>| median(same.iter().filter_map(|v| value(v)));
        VpnResult {
            name: vpn.name.clone(),
            from: vpn.from.clone(),
            to: vpn.to.clone(),
            weight: vpn.weight,
            promised_bps: vpn.promised_bps,
            goodput_bps: middle(|v| v.goodput_bps),
            share: middle(|v| v.share),
            rate_bps: some(|v| v.rate_bps),
            window_bytes: some(|v| v.window_bytes),
            rtt_ms: some(|v| v.rtt_ms),
            accumulation_bytes: some(|v| v.accumulation_bytes),
            lost: middle(|v| v.lost),
            dropped: middle(|v| v.dropped),
            queue_ms_p50: some(|v| v.queue_ms_p50),
            queue_ms_p95: some(|v| v.queue_ms_p95),
        }
    };
    first.vpns.iter().map(one).collect()
}

fn summarise_events(runs: &[VariantRun]) -> Vec<EventSummary> {
    let all: Vec<&EventResult> = runs.iter().flat_map(|run| &run.events).collect();
    let mut groups: Vec<usize> = all.iter().map(|event| event.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
        .into_iter()
        .filter_map(|group| summarise_group(group, all.iter().copied().filter(|event| event.group == group).collect()))
        .collect()
}

fn summarise_group(group: usize, events: Vec<&EventResult>) -> Option<EventSummary> {
    let first = *events.first()?;
    let values = |value: fn(&EventResult) -> Option<f64>| -> Vec<f64> {
        events.iter().filter_map(|event| value(event)).collect()
    };
    let worst = |values: &[f64]| values.iter().copied().max_by(f64::total_cmp);
    let (gaps, shares, demotions) = (values(|e| e.gap_ms), values(|e| e.share_back_s), values(|e| e.demoted_s));
    Some(EventSummary {
        group,
        action: first.action.clone(),
        direction: first.direction.clone(),
        count: events.len(),
        gap_ms_worst: worst(&gaps),
        gap_ms_median: median(gaps),
        share_never_back: if first.action == "cut" { events.len() - shares.len() } else { 0 },
        share_back_s_worst: worst(&shares),
        share_back_s_median: median(shares),
        demoted_s_worst: worst(&demotions),
        demoted_s_median: median(demotions),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(goodput_bps: f64, gap_ms: f64) -> VariantRun {
        let flow = FlowResult { name: "bulk".into(), goodput_bps: Some(goodput_bps), ..FlowResult::default() };
        let event = EventResult { action: "cut".into(), gap_ms: Some(gap_ms), ..EventResult::default() };
        VariantRun {
            goodput_bps,
            efficiency: goodput_bps / 100.0,
            flows: vec![flow],
            events: vec![event],
            ..VariantRun::default()
        }
    }

    #[test]
    fn a_variant_is_the_median_of_its_runs() {
        let result = VariantResult::from_runs("weft", None, vec![run(30.0, 1.0), run(10.0, 9.0), run(20.0, 2.0)]);
        assert_eq!((result.goodput_bps, result.efficiency), (20.0, 0.2));
        assert_eq!(result.flows[0].goodput_bps, Some(20.0));
        assert_eq!((result.events[0].gap_ms_median, result.events[0].gap_ms_worst), (Some(2.0), Some(9.0)));
        assert_eq!(result.events[0].share_never_back, 3);
    }

    #[test]
    fn the_json_reads_back() {
        let result = VariantResult::from_runs("weft", None, vec![run(30.0, 1.0)]);
        let json = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<VariantResult>(&json).unwrap(), result);
        assert!(json.contains("\"rtt_ms_p95\":null"));
    }
}
