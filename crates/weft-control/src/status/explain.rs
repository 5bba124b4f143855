//! Explanation how the node forwards a flow.

use super::{FlowAccess, Path, VpnMember};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Description of a flow. An absent field matches any value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlowQuestion {
    /// Name of the VPN; absent: the node searches the default VPN first, then all other VPNs.
    pub vpn: Option<String>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Source port.
    pub source_port: Option<u16>,
    /// Number of the upper-layer protocol.
    pub protocol: Option<u8>,
}

/// Description of how the node forwards a flow.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Name of the VPN.
    pub vpn: String,
    /// Name of the peer behind which the destination lies.
    pub peer: String,
    /// Every prefix that contains the destination, the longest last. The last one determines the peer.
    pub prefixes: Vec<PrefixMatch>,
    /// True if there is a session with the peer.
    pub session: bool,
    /// True if packets of the VPN can be sent to the peer now.
    ///
    /// The peer must first confirm that it has the VPN, which the first packet causes.
    pub open: bool,
    /// The flow as it was last seen; absent: not recently.
    pub flow: Option<SeenFlow>,
    /// Name of the schedule: the algorithm that chooses the path for each unit.
    pub schedule: String,
    /// True if the node may use more than one path to the peer at the same time.
    pub bundle: bool,
    /// All paths to the peer.
    pub paths: Vec<PathReason>,
    /// Ids of the paths that sparse flows would use if the paths that they use now failed.
    pub next_sparse: Vec<u8>,
    /// Ids of the paths that bulk would use if the paths that it uses now failed.
    pub next_bulk: Vec<u8>,
    /// Bytes in the queue toward the peer that are not yet assigned to a path.
    pub queue_bytes: u64,
    /// The VPN's queue and loop toward the peer; absent: the VPN shares the peer's queue.
    pub vpn_entry: Option<VpnMember>,
    /// Explicit rate that is granted to the flow; absent: none is.
    pub grant: Option<Granted>,
    /// Treatment of the flow by the proxy; absent: the flow does not pass through a proxy.
    pub proxy: Option<String>,
    /// Length of the longest inner packet that every path to the peer carries, in bytes.
    pub mtu: usize,
    /// Highest MSS that TCP connections may announce, in bytes. The node lowers a higher one.
    pub mss: u16,
    /// Decision of the rules of access about the flow; absent: the node's version does not report it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub access: Option<FlowAccess>,
}

/// A prefix and its owner.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PrefixMatch {
    /// A prefix that contains the destination.
    pub prefix: String,
    /// Name of the peer.
    pub peer: String,
}

/// A recent flow.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SeenFlow {
    /// Protocol, addresses and ports.
    pub flow: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes of the units sent.
    pub bytes: u64,
    /// Time since the last packet, in milliseconds.
    pub idle_ms: u64,
    /// Bytes of the flow that wait in the queues of paths.
    pub waiting_bytes: u32,
}

/// A path, and whether and why the flow's packets take it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathReason {
    /// Status of the path.
    #[serde(flatten)]
    pub path: Path,
    /// True if a packet of a sparse flow would take the path now.
    pub takes_sparse: bool,
    /// True if bulk may take the path now.
    pub takes_bulk: bool,
    /// Bytes that wait in the queues of the path.
    pub waiting_bytes: u64,
    /// Reason why the flow's packets take the path, or do not take it.
    pub why: String,
    /// Number of recent failures of the path. Ten minutes without a failure reduce it by one.
    pub falls: u32,
    /// Least remaining time of the probation, in milliseconds; absent: the path is not on probation.
    pub probation_left_ms: Option<u64>,
}

/// A granted explicit rate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Granted {
    /// The rate, in bits per second of IP packets.
    pub rate_bps: u64,
    /// Source of the grant: `signalled` for in-band signalling, or the prefix in `[tcp-er]`.
    pub by: String,
    /// Time until the grant ends unless it is renewed, in milliseconds.
    ///
    /// The field is absent for a grant of `[tcp-er]`, which lasts as long as the configuration.
    pub ends_in_ms: Option<u64>,
}
