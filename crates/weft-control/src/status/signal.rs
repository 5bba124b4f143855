//! Status of in-band QoS signalling.

use serde::{Deserialize, Serialize};

/// State and counters of signalling.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Signal {
    /// Flows for which this node requested a rate.
    pub asked: u64,
    /// Grants that this node reported to flows. A renewal counts if the rate changed.
    pub granted: u64,
    /// Requests that were rejected, and grants that were withdrawn.
    pub refused: u64,
    /// Flows for which this node stopped requesting, because no answer arrived.
    pub given_up: u64,
    /// Signals with a wrong authentication tag.
    pub forged_tags: u64,
    /// Quick-Start requests granted.
    pub quick_start_granted: u64,
    /// Quick-Start requests refused.
    pub quick_start_refused: u64,
    /// Quick-Start requests answered for hosts behind this node.
    pub quick_start_answered: u64,
    /// Number of flows that this node signals for hosts behind it.
    pub flow_count: usize,
    /// The flows counted in `flow_count`, at most 64 of them.
    pub flows: Vec<SignalFlow>,
    /// Grants by peer.
    pub peers: Vec<SignalPeer>,
}

/// A flow that this node signals for a host behind it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SignalFlow {
    /// Protocol, addresses and ports.
    pub flow: String,
    /// Name of the peer toward the destination.
    pub peer: String,
    /// `[[signal.rule]]` by which this node requests a rate; absent: the other end of the flow requested it.
    pub rule: Option<String>,
    /// Granted rate, in bits per second; absent: none.
    pub rate_bps: Option<u64>,
    /// Time until the grant ends unless it is renewed, in milliseconds.
    pub ends_in_ms: Option<u64>,
}

/// Grants on the paths toward a peer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SignalPeer {
    /// Name of the peer in the configuration.
    pub name: String,
    /// Capacity from which rates are granted, in bits per second; 0 before it is known.
    pub capacity_bps: u64,
    /// Sum of the rates granted to the flows for which this node signals, in bits per second.
    pub granted_bps: u64,
    /// Sum of the guaranteed rates of these flows, in bits per second.
    pub guaranteed_bps: u64,
}
