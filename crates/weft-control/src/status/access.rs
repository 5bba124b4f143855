//! Decision of the rules of access about a flow.

use serde::{Deserialize, Serialize};

/// Decision of this node's rules of access about a flow.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowAccess {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Direction of the flow at this node: `leaving` it, `entering` it or `passing` through it.
    pub way: FlowWay,
    /// Name of the node behind which the source lies; absent: this node, or unknown.
    pub from: Option<String>,
    /// Name of the node behind which the destination lies; absent: this node.
    pub to: Option<String>,
    /// The decision.
    pub decision: FlowDecision,
    /// Name of the `[[allow]]` rule that lets the flow in; absent: none does.
    pub rule: Option<String>,
    /// Number of `[[allow]]` rules at this node.
    pub rules: usize,
    /// Packets of any flow that this node dropped because no rule allows them, since the start.
    pub denied_packets: u64,
    /// True if the packet that this node dropped last for lack of a rule belongs to this flow.
    pub denied_last: bool,
}

/// Direction of a flow, as seen from a node.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FlowWay {
    /// The flow begins behind this node and leaves for a peer, whose rules decide whether it may enter there.
    Leaving,
    /// The flow arrives from a peer, for hosts behind this node.
    Entering,
    /// The flow arrives from a peer, for another peer.
    Passing,
}

/// Decision of the rules of access about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FlowDecision {
    /// The node has no rules, so every flow may enter.
    NoRules,
    /// The flow leaves, and this node's rules apply only to flows that enter.
    NotJudged,
    /// A rule lets the flow in.
    Allowed,
    /// No rule lets the flow in.
    Denied,
    /// No peer has a prefix with the source address, so every packet of the flow is dropped.
    UnknownSource,
    /// The request does not contain the source, the protocol or the port, on which the rules depend.
    Incomplete,
}

impl FlowAccess {
    /// True if this node drops the flow.
    pub fn is_dropped(&self) -> bool {
        matches!(self.decision, FlowDecision::Denied | FlowDecision::UnknownSource)
    }
}
