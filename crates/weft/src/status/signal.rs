//! How in-band QoS signalling stands.

use serde::{Deserialize, Serialize};

/// Signalling.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Signal {
    /// Flows this node asked for.
    pub asked: u64,
    /// Grants told, renewals with another rate too.
    pub granted: u64,
    /// Requests that were rejected, and grants that were taken back.
    pub refused: u64,
    /// Flows for which no answer came.
    pub given_up: u64,
    /// Signals whose tag was wrong.
    pub forged_tags: u64,
    /// Quick-Start requests granted.
    pub quick_start_granted: u64,
    /// Quick-Start requests refused.
    pub quick_start_refused: u64,
    /// Quick-Start requests answered for hosts here.
    pub quick_start_answered: u64,
    /// Flows signalled on behalf of hosts here,
    pub flow_count: usize,
    /// and 64 of them at most.
    pub flows: Vec<SignalFlow>,
    /// The peers.
    pub peers: Vec<SignalPeer>,
}

/// A flow that is signalled on behalf of a host here.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SignalFlow {
    /// Protocol, addresses and ports.
    pub flow: String,
    /// The peer it goes to.
    pub peer: String,
    /// The rule this node asks for it by; absent: the other end asked.
    pub rule: Option<String>,
    /// What is granted; absent: nothing.
    pub rate_bps: Option<u64>,
    /// When that ends unless it is renewed.
    pub ends_in_ms: Option<u64>,
}

/// What the paths toward a peer have granted.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SignalPeer {
    /// Its name in the configuration.
    pub name: String,
    /// What is granted from; 0 before anything is known of its paths.
    pub capacity_bps: u64,
    /// Granted in all to flows that are signalled here.
    pub granted_bps: u64,
    /// Guaranteed in all.
    pub guaranteed_bps: u64,
}
