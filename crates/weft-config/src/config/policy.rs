//! Parsing of `[policy]` and `[peer.policy]`: how the node sends to a peer.
//!
//! This module has the names that each setting of a policy can have in the file.

use super::diagnose::Report;
use super::dscp;
use super::read::{At, Section, names};
use weft_engine::{AckPolicy, Bundle, PeerQueue, Policy, Recovery, Reorder, Schedule, Weights, WrrOrder};
use weft_units::parse_rate;

names!(Schedule {
    EarliestDelivery = "earliest-delivery",
    RoundRobin = "round-robin",
    Random = "random",
    WeightedRoundRobin = "weighted-round-robin",
    FlowHash = "flow-hash",
    Redundant = "redundant",
});
names!(Bundle { Both = "both", Up = "up", Down = "down" });
names!(Recovery { Arq = "arq", Off = "off" });
names!(Reorder { Resequence = "resequence", Off = "off" });
names!(AckPolicy { Filter = "filter", Pass = "pass", Condition = "condition" });
names!(WrrOrder { Smooth = "smooth", Block = "block" });
names!(PeerQueue { FqCodel = "fq-codel", DropTail = "drop-tail" });

/// Maximum weight of a link or a VPN.
pub const MAX_WEIGHT: i64 = 1_000_000;

/// Parses a policy table. A missing key has its value from `base`.
///
/// Adds the names of the links for which the table sets a weight to `links`.
pub fn read(mut section: Section<'_, '_>, base: &Policy, links: &mut Vec<At<String>>, report: &Report) -> Policy {
    let policy = Policy {
        schedule: section.choice("schedule").unwrap_or(base.schedule),
        bundle: section.choice("bundle").unwrap_or(base.bundle),
        recovery: section.choice("recovery").unwrap_or(base.recovery),
        reorder: section.choice("reorder").unwrap_or(base.reorder),
        ack: section.choice("ack").unwrap_or(base.ack),
        weights: weights(&mut section, links).unwrap_or_else(|| base.weights.clone()),
        wrr_order: section.choice("wrr-order").unwrap_or(base.wrr_order),
        queue: section.choice("queue").unwrap_or(base.queue),
        dscp: section.value("dscp").map_or(base.dscp, |value| dscp::read(value, report).unwrap_or(base.dscp)),
        detours: section.flag("detours").unwrap_or(base.detours),
        sense: section.flag("sense").unwrap_or(base.sense),
        leasable: section.parsed("leasable", "\"90 Mbit/s\"", parse_rate).map(|at| at.value).or(base.leasable),
    };
    check(&policy, &section, report);
    section.finish();
    policy
}

fn check(policy: &Policy, section: &Section<'_, '_>, report: &Report) {
    if policy.ack == AckPolicy::Condition && policy.reorder == Reorder::Resequence {
        let message = "ack = \"condition\" and reorder = \"resequence\" contradict each other: the peer resequences, \
            so there are no duplicate ACKs to condition";
        let help = "set reorder = \"off\" (its default is \"resequence\"), or ack = \"pass\"";
        let key = if section.has("ack") { "ack" } else { "reorder" };
        report.error(section.key_span(key), message, Some(help.to_owned()));
    }
    let weighted = matches!(policy.schedule, Schedule::WeightedRoundRobin | Schedule::FlowHash | Schedule::Random);
    if section.has("weights") && !weighted {
        let help = "use `weights` with weighted-round-robin, random or flow-hash";
        report.warning(
            section.key_span("weights"),
            "`weights` has no effect with this schedule",
            Some(help.to_owned()),
        );
    }
    if section.has("wrr-order") && policy.schedule != Schedule::WeightedRoundRobin {
        let help = "use `wrr-order` with weighted-round-robin";
        let message = "`wrr-order` has no effect with this schedule";
        report.warning(section.key_span("wrr-order"), message, Some(help.to_owned()));
    }
}

fn weights(section: &mut Section<'_, '_>, links: &mut Vec<At<String>>) -> Option<Weights> {
    let value = section.value("weights")?;
    if value.get_ref().as_str() == Some("measured") {
        return Some(Weights::Measured);
    }
    if !value.get_ref().is_table() {
        section.complain(value.span(), "`weights` is \"measured\" or a table", "for example { eth0 = 50, wwan0 = 75 }");
        return None;
    }
    let table = section.numbers("weights", 0..MAX_WEIGHT + 1)?;
    if table.iter().all(|(_, weight)| *weight == 0) {
        section.complain(
            value.span(),
            "all weights are 0: no link could carry traffic",
            "give one link a weight above 0",
        );
    }
    let weights = table.iter().map(|(name, weight)| (name.value.clone(), *weight as u32)).collect();
    links.extend(table.into_iter().map(|(name, _)| name));
    Some(Weights::Static(weights))
}
