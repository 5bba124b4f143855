//! Status of the rules of access.

use serde::{Deserialize, Serialize};

/// Number of rules of access, and counters of dropped packets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AllowStatus {
    /// Number of rules.
    pub rules: usize,
    /// Number of flows that a rule let in, or that began behind this node. Their packets may pass without a rule.
    pub flows: usize,
    /// Packets dropped because no rule allows them and they do not belong to a flow that may pass.
    pub denied_packets: u64,
    /// Later fragments dropped because the first fragment of their packet was not let in.
    pub denied_fragments: u64,
    /// Fragments dropped because they hide the ports.
    ///
    /// They are first fragments that are too short, and later ones that overlap the transport header.
    pub hidden_ports: u64,
    /// The last packet that was dropped, as text; absent: there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_denied: Option<String>,
}
