//! Defines the result format, schema 1, which `--json` prints.
//!
//! The lab and the simulator fill it in. This module also computes the medians over runs.

use crate::disturbance::{self, DisturbanceResult};
use crate::stats::median;
use serde::{Deserialize, Serialize};

/// Version of the result format.
pub const SCHEMA: u32 = 1;

/// The result of running all variants of a scenario or a network.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Name of the scenario or network.
    pub scenario: String,
    /// The world in which the scenario ran: `lab` or `sim`.
    pub world: String,
    /// Seed of the scenario, from which random numbers derive.
    pub seed: u64,
    /// Length of a run in seconds.
    pub duration_s: f64,
    /// Time at the start of a run that the results leave out, in seconds.
    pub warmup_s: f64,
    /// Number of runs of each variant.
    pub repeats: u32,
    /// Upper bound of goodput in bit/s, in the direction of the first bulk flow; 0 for a network.
    ///
    /// It is the sum over links of rate × 1448/1500, or of opportunities × 1448 bytes for traces.
    pub bound_bps: f64,
    /// The result of each variant that ran.
    pub variants: Vec<VariantResult>,
    /// The variants that could not run, each with the reason.
    pub skipped: Vec<Skipped>,
}

/// A variant that was not run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Skipped {
    /// Name of the variant.
    pub name: String,
    /// Reason why the variant did not run.
    pub reason: String,
}

/// The result of one variant: its runs and the medians over them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VariantResult {
    /// Name of the variant.
    pub name: String,
    /// Name of the link, if the variant used only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Name of the model that replaces the real program, in a simulator that has no such program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// Median goodput in bit/s of all flows with the direction of the first bulk flow.
    pub goodput_bps: f64,
    /// Goodput divided by the upper bound of goodput, [`RunResult::bound_bps`].
    pub efficiency: f64,
    /// Median time until OpenVPN's client was connected, in milliseconds. `None` without OpenVPN.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub setup_ms: Option<f64>,
    /// Goodput that theory predicts for a weft variant whose links have static weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// The result of each flow: medians over the runs.
    pub flows: Vec<FlowResult>,
    /// The result of each link in each direction: medians over the runs.
    pub links: Vec<LinkResult>,
    /// Median over the runs of the fairness index between VPNs, [`VariantRun::vpn_fairness`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vpn_fairness: Option<f64>,
    /// The result of each VPN from each ingress edge to each egress edge: medians over the runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vpns: Vec<VpnResult>,
    /// Median over the runs of the fairness index between hosts, [`VariantRun::host_fairness`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_fairness: Option<f64>,
    /// The result of each host behind the first node: medians over the runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hosts: Vec<HostResult>,
    /// The queueing delay at the port of each node to the other node: medians over the runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ports: Vec<PortResult>,
    /// Summaries of the events over repetitions and runs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventSummary>,
    /// Median goodput of flows during each disturbance (the effect of an event), in a network with events.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub disturbances: Vec<DisturbanceResult>,
    /// The results of the single runs, of which the other fields are the medians.
    pub runs: Vec<VariantRun>,
}

/// The goodput that static link weights allow: the minimum over links of Cᵢ·Σw/wᵢ.
///
/// Cᵢ is the goodput of weft over link i alone in the same run, and wᵢ is the link's weight.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prediction {
    /// Goodput that theory predicts, in bit/s.
    pub goodput_bps: f64,
    /// Measured goodput divided by predicted goodput, minus 1.
    pub deviation: f64,
}

/// One run of one variant.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct VariantRun {
    /// Goodput in bit/s of all flows with the direction of the first bulk flow.
    pub goodput_bps: f64,
    /// Goodput divided by the upper bound of goodput, [`RunResult::bound_bps`].
    pub efficiency: f64,
    /// Time until OpenVPN's client was connected, in milliseconds. `None` without OpenVPN.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub setup_ms: Option<f64>,
    /// The result of each flow in this run.
    pub flows: Vec<FlowResult>,
    /// The result of each link in each direction in this run.
    pub links: Vec<LinkResult>,
    /// Jain's fairness index between VPNs in the direction of the first bulk flow, in a scenario with two nodes.
    ///
    /// It compares each VPN's goodput with its fair share: the promised rate plus a part of the remaining goodput, in
    /// proportion to the VPN's weight.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub vpn_fairness: Option<f64>,
    /// The result of each VPN from each ingress edge to each egress edge.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vpns: Vec<VpnResult>,
    /// Jain's fairness index between the goodputs of hosts behind the first node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_fairness: Option<f64>,
    /// Result of each host behind the first node that begins flows.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub hosts: Vec<HostResult>,
    /// Queueing delay at each node's port to the other node, if the node has flow state (`weft qos`); simulator only.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ports: Vec<PortResult>,
    /// The effect of each event in this run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventResult>,
    /// Goodput of flows during each disturbance (the effect of an event), in a network with events.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub disturbances: Vec<DisturbanceResult>,
    /// 99.9th percentile of the emulator's lateness in this run, in milliseconds.
    ///
    /// It is 0 in the simulator.
    pub lateness_ms_p999: f64,
}

/// The result of one flow.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FlowResult {
    /// Name of the flow.
    pub name: String,
    /// Application payload received after the warm-up, in bit/s.
    pub goodput_bps: Option<f64>,
    /// Median round-trip time after the warm-up in milliseconds. `None` unless the flow measures it.
    pub rtt_ms_p50: Option<f64>,
    /// 95th percentile of the round-trip time after the warm-up, in milliseconds.
    pub rtt_ms_p95: Option<f64>,
    /// Longest time without an arrival after the warm-up, in milliseconds.
    pub longest_gap_ms: Option<f64>,
    /// Median one-way delay after the warm-up in milliseconds. `None` unless the flow measures it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub one_way_ms_p50: Option<f64>,
    /// 95th percentile of the one-way delay after the warm-up, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub one_way_ms_p95: Option<f64>,
    /// 99th percentile of the one-way delay after the warm-up, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub one_way_ms_p99: Option<f64>,
    /// 99.9th percentile of the one-way delay above the least one, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_variation_ms_p999: Option<f64>,
    /// 95th percentile of the newest arrival's age, less that of an omniscient sender's, in milliseconds.
    ///
    /// An omniscient sender uses all links perfectly. The method is that of Sprout (Winstein et al., NSDI 2013).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub beyond_omniscient_ms_p95: Option<f64>,
    /// Number of packets (ping, probe and, in the simulator, cbr) or transfers (http) that never arrived.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<f64>,
    /// Number of TCP connections that were reset or timed out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_resets: Option<f64>,
}

/// The result of one direction of one link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LinkResult {
    /// Name of the link.
    pub name: String,
    /// Direction of the link: `up` or `down`.
    pub direction: String,
    /// IP bytes that the link transmitted after the warm-up.
    pub sent_bytes: f64,
    /// Packets that the link lost, in transit or at its queue.
    pub lost: f64,
    /// Packets among the lost ones that the link's queue dropped.
    #[serde(default)]
    pub dropped: f64,
    /// 95th percentile of the time that packets waited in the link's queue, in milliseconds.
    pub queue_ms_p95: f64,
    /// Mean number of packets in the queue when a packet left it, in a scenario with two nodes.
    ///
    /// The count includes the departing packet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_packets_mean: Option<f64>,
    /// 95th percentile of the number of packets in the queue when a packet left it, in a scenario with two nodes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_packets_p95: Option<f64>,
    /// Maximum number of packets in the queue when a packet left it, in a scenario with two nodes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_packets_max: Option<f64>,
    /// Sent bytes divided by the bytes that the link could have carried.
    pub utilisation: f64,
    /// The packet lengths of at least 600 bytes that the link sent most often, the most frequent first.
    ///
    /// Only in a network.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub packet_sizes: Vec<PacketSizeCount>,
}

/// The number of packets of one length that a link sent.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PacketSizeCount {
    /// Length of the packets with their IP headers, in bytes.
    pub bytes: u32,
    /// Number of packets of this length.
    pub packets: u64,
}

/// The result of a VPN's traffic from one edge to another.
///
/// Between two nodes it also exists for VPNs without a loop.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct VpnResult {
    /// Name of the VPN.
    pub name: String,
    /// Name of the ingress edge.
    pub from: String,
    /// Name of the egress edge.
    pub to: String,
    /// Weight of the VPN at the end of the run.
    pub weight: f64,
    /// Rate that the VPN is promised at the end of the run, in bit/s. `None` without a promise.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub promised_bps: Option<f64>,
    /// IP bytes that left the egress edge after the warm-up, in bit/s.
    ///
    /// Between two nodes it is the payload that the receivers of the VPN's flows got.
    pub goodput_bps: f64,
    /// Goodput divided by that of all VPNs in the same direction.
    ///
    /// In a network, loops from an edge to a later edge of the file have one direction, and all others the other.
    pub share: f64,
    /// Rate that the VPN's loop allowed at the end of the run, in bit/s. `None` without a loop.
    pub rate_bps: Option<f64>,
    /// Bytes that the VPN's loop allowed in flight at the end of the run. `None` without a loop.
    ///
    /// For a loop with a rate it is the rate times the round-trip time.
    pub window_bytes: Option<f64>,
    /// Smoothed round-trip time of the VPN's loop at the end of the run, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Bytes of the VPN in queues along the route at the end of the run. `None` unless the loop measures them.
    pub accumulation_bytes: Option<f64>,
    /// Packets that were lost along the route after the warm-up.
    pub lost: f64,
    /// Packets that the VPN's own queue dropped after the warm-up.
    pub dropped: f64,
    /// Median time in the VPN's own queue in milliseconds, in a network.
    pub queue_ms_p50: Option<f64>,
    /// 95th percentile of the time in the VPN's own queue in milliseconds, in a network.
    pub queue_ms_p95: Option<f64>,
}

/// The result of one host behind the first node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct HostResult {
    /// Name of the host.
    pub name: String,
    /// Number of flows that the host begins.
    pub flows: usize,
    /// Goodput of the host's flows together, averaged over the measured time, in bit/s.
    pub goodput_bps: f64,
}

/// The queueing delay at the port of one node to the other node, as the node's flow state (`weft qos`) measures it.
///
/// The port reports intervals of 20 ms. The delay of an interval is the one that 95 % of its packets did not exceed,
/// rounded up by at most 25 %.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PortResult {
    /// Name of the node that has the port.
    pub node: String,
    /// Median over the 20 ms intervals of the delay that 95 % of an interval's packets did not exceed.
    ///
    /// In milliseconds.
    pub queue_ms_p50: f64,
    /// 95th percentile over the 20 ms intervals of the delay that 95 % of an interval's packets did not exceed.
    ///
    /// In milliseconds.
    pub queue_ms_p95: f64,
}

/// The effect of one event, which happened once in one run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EventResult {
    /// Index of the event's `[[event]]` entry in the file, from 0.
    pub group: usize,
    /// Time of the event, in seconds since the start of the run.
    pub at_s: f64,
    /// Action of the event, such as `cut` or `loss`.
    pub action: String,
    /// Name of the link that the event changed. `None` if it changed no single link.
    pub link: Option<String>,
    /// Direction of the change: `up`, `down` or `both`.
    pub direction: String,
    /// Longest time without an arrival of a probe between this event and the next, in milliseconds.
    pub gap_ms: Option<f64>,
    /// Time from the link's restoration until it carried its former share of all links' bytes again, in seconds.
    pub share_back_s: Option<f64>,
    /// Time from the event until weft rated the link's path worse (good, degraded, suspect, down), in seconds.
    pub demoted_s: Option<f64>,
}

/// The effects of one `[[event]]`, over its repetitions and all runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct EventSummary {
    /// Index of the `[[event]]` entry in the file, from 0.
    pub group: usize,
    /// Action of the event, such as `cut` or `loss`.
    pub action: String,
    /// Direction of the change: `up`, `down` or `both`.
    pub direction: String,
    /// Number of times that the event happened in all runs together.
    pub count: usize,
    /// Median over all these times of the longest gap between arrivals of probes, in milliseconds.
    pub gap_ms_median: Option<f64>,
    /// Longest gap between arrivals of probes over all these times, in milliseconds.
    pub gap_ms_worst: Option<f64>,
    /// Median time from a link's restoration until it carried its former share of all links' bytes, in seconds.
    pub share_back_s_median: Option<f64>,
    /// Longest time from a link's restoration until it carried its former share of all links' bytes, in seconds.
    pub share_back_s_worst: Option<f64>,
    /// Number of restorations after which the link did not carry its former share again before the next event.
    pub share_never_back: usize,
    /// Median time from the event until weft rated the link's path worse than before, in seconds.
    pub demoted_s_median: Option<f64>,
    /// Longest time from the event until weft rated the link's path worse than before, in seconds.
    pub demoted_s_worst: Option<f64>,
}

impl VariantResult {
    /// Combines runs into the result of a variant, with the medians over the runs.
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
            host_fairness: median(runs.iter().filter_map(|run| run.host_fairness)),
            hosts: median_hosts(&runs),
            ports: median_ports(&runs),
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
            delay_variation_ms_p999: middle(|f| f.delay_variation_ms_p999),
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
            packet_sizes: sum_sizes(same.iter().flat_map(|l| &l.packet_sizes)),
        }
    };
    first.links.iter().map(one).collect()
}

/// Returns the sums of all runs' packet counts by length, the most frequent length first.
fn sum_sizes<'a>(counts: impl Iterator<Item = &'a PacketSizeCount>) -> Vec<PacketSizeCount> {
    let mut sums: Vec<PacketSizeCount> = Vec::new();
    for count in counts {
        match sums.iter_mut().find(|sum| sum.bytes == count.bytes) {
            Some(sum) => sum.packets += count.packets,
            None => sums.push(*count),
        }
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.packets));
    sums
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

fn median_hosts(runs: &[VariantRun]) -> Vec<HostResult> {
    let Some(first) = runs.first() else { return Vec::new() };
    let one = |host: &HostResult| {
        let same = runs.iter().flat_map(|run| &run.hosts).filter(|other| other.name == host.name);
        HostResult { goodput_bps: median(same.map(|host| host.goodput_bps)).unwrap_or(0.0), ..host.clone() }
    };
    first.hosts.iter().map(one).collect()
}

fn median_ports(runs: &[VariantRun]) -> Vec<PortResult> {
    let Some(first) = runs.first() else { return Vec::new() };
    let one = |port: &PortResult| {
        let same = || runs.iter().flat_map(|run| &run.ports).filter(|other| other.node == port.node);
        let middle = |value: fn(&PortResult) -> f64| median(same().map(value)).unwrap_or(0.0);
        PortResult {
            node: port.node.clone(),
            queue_ms_p50: middle(|port| port.queue_ms_p50),
            queue_ms_p95: middle(|port| port.queue_ms_p95),
        }
    };
    first.ports.iter().map(one).collect()
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
