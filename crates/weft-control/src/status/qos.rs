//! The treatment of flows, users and ports: the answer to `weft qos`.

use serde::{Deserialize, Serialize};

/// State of the part of the node that classifies flows and shares ports between users.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Qos {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Number of flows in the table.
    pub flow_count: u64,
    /// Flows that began since the node started.
    pub began: u64,
    /// Flows that were removed from the table to make room for new ones.
    pub evicted: u64,
    /// New flows without an entry in the table, because the table or the user's part of it was full.
    pub refused: u64,
    /// Records of flows that were lost because no exporter fetched them in time.
    pub lost_records: u64,
    /// Flows with the highest rates, the highest first.
    pub flows: Vec<QosFlow>,
    /// Users that have flows, those with the highest rates first.
    pub users: Vec<QosUser>,
    /// The ports, one to each peer.
    pub ports: Vec<QosPort>,
    /// The last reports about their ports that peers have sent.
    #[serde(default)]
    pub heard: Vec<QosHeard>,
    /// Classes, in the order of their numbers.
    pub classes: Vec<QosClass>,
    /// Rules, in the order in which they are tried.
    pub rules: Vec<QosRule>,
}

/// A flow.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosFlow {
    /// Protocol, addresses and ports of the packets that the initiator sends.
    pub flow: String,
    /// Id of the VPN, 0 for the default one.
    pub vpn: u32,
    /// Peer behind which an end of the flow lies.
    pub peer: Option<String>,
    /// User to which the flow belongs.
    pub user: String,
    /// Class of the flow.
    pub class: String,
    /// Rule that gave the flow its class; absent: no rule matched, so the flow has the default class.
    pub rule: Option<String>,
    /// Precedence, 0 to 15: a flow with a higher one keeps its guarantee longer when capacity is short.
    pub precedence: u8,
    /// Guaranteed rate that the flow requests, in bit/s.
    pub asked_bps: u64,
    /// Guaranteed rate that admission has given the flow, in bit/s.
    pub granted_bps: u64,
    /// Rate of the initiator's packets, in bit/s.
    pub sent_bps: u64,
    /// Rate of the packets in the other direction, in bit/s.
    pub returned_bps: u64,
    /// Bytes of the initiator's packets.
    pub sent_bytes: u64,
    /// Bytes in the other direction.
    pub returned_bytes: u64,
    /// Packets of the flow that this node marked because of congestion (ECN).
    pub marked: u32,
    /// Packets of the flow that this node dropped.
    pub dropped: u32,
    /// Decision of admission: `nothing-asked`, `granted`, `waits`, `preempted`, `capacity-lost` or `refused`.
    pub verdict: String,
    /// Reason for the class and the rate of the flow, in a sentence.
    pub why: String,
    /// Age of the flow in milliseconds.
    pub age_ms: u64,
}

/// A user.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosUser {
    /// Address, prefix or name of the user.
    pub name: String,
    /// Weight of the user in the fair sharing of ports.
    pub weight: u16,
    /// Number of the user's flows.
    pub flows: u32,
    /// Rate of all the user's flows in both directions, in bit/s.
    pub bps: u64,
    /// Bytes of the user's present flows in both directions.
    pub bytes: u64,
}

/// The port to a peer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosPort {
    /// Name of the peer.
    pub peer: String,
    /// Rate that the paths to the peer can carry now, in bit/s.
    pub capacity_bps: u64,
    /// Rate that may be guaranteed to flows in total, in bit/s.
    pub reservable_bps: u64,
    /// Rate that is guaranteed to flows in total, in bit/s.
    pub guaranteed_bps: u64,
    /// Packets that were marked or dropped because their flow exceeded its ceiling.
    pub policed: u64,
    /// Load of all classes together.
    pub load: QosLoad,
    /// Load of each class.
    pub classes: Vec<(String, QosLoad)>,
}

/// Load of a port or of one of its classes in the last measurement interval.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosLoad {
    /// Rate at which packets arrived, in bit/s.
    pub arrived_bps: u64,
    /// Rate at which packets left, in bit/s.
    pub left_bps: u64,
    /// Bytes that wait to leave through the port.
    pub waiting_bytes: u64,
    /// Flows that sent in the interval.
    pub flows: u32,
    /// Queueing delay that 95 % of the packets did not exceed, in milliseconds.
    pub delay_ms: f64,
    /// Rate that the port could still carry up to its target, in bit/s.
    ///
    /// The target is a fraction of the port's capacity.
    pub headroom_bps: u64,
}

/// The last report that a peer has sent about one of its ports.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosHeard {
    /// Name of the peer.
    pub peer: String,
    /// Prefix toward which the peer forwards by this port.
    pub prefix: String,
    /// Rate at which packets arrive at the port, in bit/s.
    pub arrived_bps: u64,
    /// Flows that sent in the 20 ms before the report.
    pub flows: u32,
    /// Queueing delay that 95 % of the packets did not exceed, in milliseconds.
    pub delay_ms: f64,
    /// Rate that flows of each class could still be granted, in bit/s.
    pub headroom_bps: Vec<(String, u64)>,
    /// Time since the report arrived, in milliseconds.
    pub age_ms: u64,
    /// `free`: new flows may take the port; `full`: they avoid it; `too-old`: the report counts for nothing.
    pub state: String,
}

/// A class.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosClass {
    /// Name of the class.
    pub name: String,
    /// Service: `available` (a fair share), `guaranteed` (a reserved rate), `maximum` (a ceiling) or `variable`.
    ///
    /// A flow of service `variable` gets a reserved rate and a fair share.
    pub service: String,
    /// Guaranteed rate in bit/s; 0: none.
    pub guaranteed_bps: u64,
    /// Ceiling in bit/s; absent: none.
    pub maximum_bps: Option<u64>,
    /// Burst tolerance: number of bytes that a flow may send at once above its rate.
    pub burst_bytes: u32,
    /// Largest variation of the delay that is acceptable, in milliseconds; absent: it is not limited.
    pub delay_variance_ms: Option<f64>,
    /// Precedence, 0 to 15: a flow with a higher one keeps its guarantee longer when capacity is short.
    pub precedence: u8,
    /// Delay priority, 0 to 15: among flows without a guarantee, a higher one is served earlier.
    pub delay_priority: u8,
    /// True if a flow is refused where its guarantee cannot be met.
    pub must_be_met: bool,
}

/// A rule.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QosRule {
    /// Name of the rule.
    pub name: String,
    /// Properties that a flow's first packet must have, as in the configuration.
    pub matches: String,
    /// Class of the flows.
    pub class: String,
}

/// Export of flow records.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowExport {
    /// Address and port of the collector.
    pub collector: String,
    /// True if the collector accepts messages, as far as this node can detect it without an answer.
    pub is_reachable: bool,
    /// Records in messages that were sent, and that the collector did not refuse.
    pub sent_records: u64,
    /// Records that wait to be sent, or whose message the collector may still refuse.
    pub waiting_records: u64,
    /// Records dropped because the export queue was full. The exporter reports their number to the collector.
    pub not_sent_records: u64,
}
