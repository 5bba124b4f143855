//! A query for the route, the queue and the paths that a packet would take, and the answer.

use super::config::{Prefix, Schedule};
use super::snapshot::PathSnapshot;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_core::ingress::VpnStatus;
use weft_units::{Duration, FlowId, PathId, VpnId};
use weft_wire::ip::FlowKey;

/// A pattern of flows. A field that is `None` matches any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPattern {
    /// Destination address of the flows.
    pub destination: IpAddr,
    /// Destination port of the flows.
    pub destination_port: Option<u16>,
    /// Source address of the flows.
    pub source: Option<IpAddr>,
    /// Source port of the flows.
    pub source_port: Option<u16>,
    /// IP protocol number of the flow, such as 6 for TCP.
    pub protocol: Option<u8>,
}

impl FlowPattern {
    /// True if the flow matches the pattern.
    pub fn holds(&self, key: &FlowKey) -> bool {
        self.destination == key.dst
            && self.destination_port.is_none_or(|port| port == key.dst_port)
            && self.source.is_none_or(|source| source == key.src)
            && self.source_port.is_none_or(|port| port == key.src_port)
            && self.protocol.is_none_or(|protocol| protocol == key.protocol)
    }
}

/// A prefix that contains the packet's destination, and the peer behind which the prefix lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The prefix. The bits of its address after the prefix length are those of the destination.
    pub prefix: Prefix,
    /// Name of the peer behind which the prefix lies.
    pub peer: String,
}

/// A recently seen flow that matches the query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownFlow {
    /// The flow's number among the flows toward the peer.
    pub id: FlowId,
    /// The flow's 5-tuple.
    pub key: FlowKey,
    /// Number of the flow's units sent so far.
    pub packets: u64,
    /// Bytes of the flow's units sent so far.
    pub bytes: u64,
    /// Time since the flow's last packet.
    pub idle: Duration,
    /// Bytes of the flow that are assigned to paths and wait in the path queues.
    pub committed_bytes: u32,
}

/// A path to the peer, and whether the flow uses it.
#[derive(Clone, Debug)]
pub struct PathReason {
    /// State of the path.
    pub path: PathSnapshot,
    /// True if the path would now carry a packet of a sparse flow, or a duplicate of such a packet.
    pub takes_sparse: bool,
    /// True if bulk may take the path now.
    pub takes_bulk: bool,
    /// Bytes of all flows that wait in the path's queues.
    pub waiting_bytes: u64,
    /// The reason why the flow uses the path or not, as text for people.
    pub why: &'static str,
    /// Number of the path's recent failures. One of them is forgotten after each ten minutes without a failure.
    pub falls: u32,
    /// Least time until the path's probation ends. `None` if it is not on probation.
    pub probation_left: Option<Duration>,
}

/// The answer to an explain query.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The VPN of the packet.
    pub vpn: VpnId,
    /// The VPN's name. Empty for the default VPN.
    pub vpn_name: String,
    /// All prefixes of the VPN that contain the destination, the shortest first. The last one determines the peer.
    pub matches: Vec<Match>,
    /// True if there is a session with the peer that has the last of `matches`.
    pub is_established: bool,
    /// True if packets of this VPN can be sent to the peer now. Otherwise they wait until the peer opens the VPN.
    pub is_open: bool,
    /// The most recent flow that matches, if any was seen recently.
    pub flow: Option<KnownFlow>,
    /// The schedule that chooses a path for each unit to the peer.
    pub schedule: Schedule,
    /// True if bulk to the peer may use more than one path at once.
    pub bundles: bool,
    /// The paths to the peer.
    pub paths: Vec<PathReason>,
    /// Paths that a sparse flow would take if the paths that it takes now failed.
    pub next_sparse: Vec<PathId>,
    /// Paths that bulk would take if the paths that sparse flows take now failed.
    pub next_bulk: Vec<PathId>,
    /// Bytes in the flow queue to the peer that are not assigned to a path yet.
    pub queued_bytes: u64,
    /// State of the VPN's own queue and loop toward the peer, or `None` if the VPN has none.
    pub entry: Option<VpnStatus>,
    /// Length of the largest packet that every path to the peer carries, whole or in parts, in bytes.
    pub inner_limit: usize,
    /// Value to which this node lowers the maximum segment size in TCP's SYN, in bytes.
    pub mss: u16,
}
