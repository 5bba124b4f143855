//! How traffic is sent to a peer. Every strategy is a value here.

use super::diagnose::Report;
use super::read::{At, Section, choice};

choice! {
    /// Which path a unit takes.
    Schedule {
        /// The path on which it will arrive first.
        EarliestDelivery = "earliest-delivery",
        /// One path after the other.
        RoundRobin = "round-robin",
        /// Any path, evenly.
        Random = "random",
        /// One path after the other, in proportion to weights (NATALIE).
        WeightedRoundRobin = "weighted-round-robin",
        /// One path per flow, by hash, in proportion to weights.
        FlowHash = "flow-hash",
        /// Every path.
        Redundant = "redundant",
    }
}
choice! {
    /// In which directions all paths are used.
    Bundle {
        /// Both.
        Both = "both",
        /// From this node to the peer.
        Up = "up",
        /// From the peer to this node.
        Down = "down",
    }
}
choice! {
    /// What happens to a unit that was lost on the hop.
    Recovery {
        /// Selective repeat until its deadline.
        Arq = "arq",
        /// Nothing.
        Off = "off",
    }
}
choice! {
    /// What the receiving edge does about order.
    Reorder {
        /// Each flow in order, waiting for a hole until a deadline.
        Resequence = "resequence",
        /// As it comes.
        Off = "off",
    }
}
choice! {
    /// What happens to duplicate ACKs of packet-level forwarding.
    Ack {
        /// They pass.
        Pass = "pass",
        /// The receiver rule for packet-level multipath, applied at the edge.
        Condition = "condition",
    }
}
choice! {
    /// How the turns of a weighted round robin are laid out.
    WrrOrder {
        /// Interleaved as evenly as possible.
        Smooth = "smooth",
        /// All turns of a path in a row.
        Block = "block",
    }
}
choice! {
    /// What manages the queue of what waits for a path.
    Queue {
        /// Fair queueing with CoDel (RFC 8290).
        FqCodel = "fq-codel",
        /// First in, first out, with an end.
        DropTail = "drop-tail",
    }
}

/// The shares of the weighted schedules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Weights {
    /// In proportion to the measured capacity.
    Measured,
    /// Given per link name.
    Static(Vec<(At<String>, u32)>),
}

/// How traffic is sent to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Which path a unit takes.
    pub schedule: Schedule,
    /// In which directions all paths are used.
    pub bundle: Bundle,
    /// What happens to what was lost.
    pub recovery: Recovery,
    /// What happens to what arrives out of order.
    pub reorder: Reorder,
    /// What happens to duplicate ACKs.
    pub ack: Ack,
    /// Shares of the weighted schedules.
    pub weights: Weights,
    /// Layout of the weighted round robin.
    pub wrr_order: WrrOrder,
    /// Queue discipline.
    pub queue: Queue,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            schedule: Schedule::EarliestDelivery,
            bundle: Bundle::Both,
            recovery: Recovery::Arq,
            reorder: Reorder::Resequence,
            ack: Ack::Pass,
            weights: Weights::Measured,
            wrr_order: WrrOrder::Smooth,
            queue: Queue::FqCodel,
        }
    }
}

impl Policy {
    /// Reads a policy table; what it leaves out is as in `base`.
    pub fn read(mut section: Section<'_, '_>, base: &Policy, report: &Report) -> Policy {
        let policy = Policy {
            schedule: section.choice("schedule").unwrap_or(base.schedule),
            bundle: section.choice("bundle").unwrap_or(base.bundle),
            recovery: section.choice("recovery").unwrap_or(base.recovery),
            reorder: section.choice("reorder").unwrap_or(base.reorder),
            ack: section.choice("ack").unwrap_or(base.ack),
            weights: weights(&mut section).unwrap_or_else(|| base.weights.clone()),
            wrr_order: section.choice("wrr-order").unwrap_or(base.wrr_order),
            queue: section.choice("queue").unwrap_or(base.queue),
        };
        policy.check(&section, report);
        section.finish();
        policy
    }

    fn check(&self, section: &Section<'_, '_>, report: &Report) {
        if self.ack == Ack::Condition && self.reorder == Reorder::Resequence {
            let message = "ack = \"condition\" and reorder = \"resequence\" contradict each other: what the peer puts \
                           back in order makes no duplicate ACKs to condition";
            let help = "set reorder = \"off\" (its default is \"resequence\"), or ack = \"pass\"";
            report.error(section.key_span("ack"), message, Some(help.to_owned()));
        }
        let weighted = matches!(self.schedule, Schedule::WeightedRoundRobin | Schedule::FlowHash);
        if section.has("weights") && !weighted {
            let message = "`weights` has no effect with this schedule";
            let help = "weights are for weighted-round-robin and flow-hash";
            report.warning(section.key_span("weights"), message, Some(help.to_owned()));
        }
        if section.has("wrr-order") && self.schedule != Schedule::WeightedRoundRobin {
            let message = "`wrr-order` has no effect with this schedule";
            report.warning(section.key_span("wrr-order"), message, Some("it is for weighted-round-robin".to_owned()));
        }
    }
}

fn weights(section: &mut Section<'_, '_>) -> Option<Weights> {
    let value = section.value("weights")?;
    if value.get_ref().as_str() == Some("measured") {
        return Some(Weights::Measured);
    }
    if !value.get_ref().is_table() {
        section.complain(value.span(), "`weights` is \"measured\" or a table", "for example { eth0 = 50, wwan0 = 75 }");
        return None;
    }
    let table = section.numbers("weights", 0..1_000_001)?;
    if !table.is_empty() && table.iter().all(|(_, weight)| *weight == 0) {
        section.complain(value.span(), "all weights are 0: nothing could be sent", "give one link a weight");
    }
    Some(Weights::Static(table.into_iter().map(|(name, weight)| (name, weight as u32)).collect()))
}
