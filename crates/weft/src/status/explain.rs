//! Why a flow goes where it goes.

use super::{Path, VpnMember};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What is asked about. What is left out may be anything.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct FlowQuestion {
    /// The VPN's name; absent: the default one first, then the others.
    pub vpn: Option<String>,
    /// Where to.
    pub destination: IpAddr,
    /// Port there.
    pub destination_port: Option<u16>,
    /// Where from.
    pub source: Option<IpAddr>,
    /// Port there.
    pub source_port: Option<u16>,
    /// Number of the upper-layer protocol.
    pub protocol: Option<u8>,
}

/// The answer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Explanation {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// The VPN.
    pub vpn: String,
    /// The peer the destination lies behind.
    pub peer: String,
    /// Every prefix that holds the destination. The last is the longest and decides.
    pub prefixes: Vec<PrefixMatch>,
    /// Whether there is a session with the peer.
    pub session: bool,
    /// Whether packets of the VPN can be sent to it now; a VPN opens when it is used.
    pub open: bool,
    /// The flow as it was last seen; absent: not lately.
    pub flow: Option<SeenFlow>,
    /// By what a path is chosen.
    pub schedule: String,
    /// Whether more than one path may be used at once.
    pub bundle: bool,
    /// All paths to the peer.
    pub paths: Vec<PathReason>,
    /// Numbers of the paths that packets of sparse flows would take if those that now do failed,
    pub next_sparse: Vec<u8>,
    /// and of those that bulk would take then.
    pub next_bulk: Vec<u8>,
    /// Bytes that wait for any path to the peer.
    pub queue_bytes: u64,
    /// The VPN's queue and loop toward the peer; absent: it has the peer's queue.
    pub vpn_entry: Option<VpnMember>,
    /// An explicit rate; absent: none is granted.
    pub grant: Option<Granted>,
    /// What the proxy does with it; absent: nothing, it goes plain.
    pub proxy: Option<String>,
    /// The largest packet that every path carries, in bytes.
    pub mtu: usize,
    /// What TCP's maximum segment size is lowered to, in bytes.
    pub mss: u16,
}

/// A prefix and whose it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct PrefixMatch {
    /// The prefix.
    pub prefix: String,
    /// The peer's name.
    pub peer: String,
}

/// A flow that was seen lately.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct SeenFlow {
    /// Protocol, addresses and ports.
    pub flow: String,
    /// Units sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time since the last packet.
    pub idle_ms: u64,
    /// Bytes of it that wait on paths.
    pub waiting_bytes: u32,
}

/// A path, and what it is to the flow.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PathReason {
    /// The path.
    #[serde(flatten)]
    pub path: Path,
    /// A packet of a sparse flow would take it now.
    pub takes_sparse: bool,
    /// Bulk may take it now.
    pub takes_bulk: bool,
    /// Bytes that wait on it.
    pub waiting_bytes: u64,
    /// Why it is so.
    pub why: String,
    /// How often it fell lately: for each ten minutes since, one is forgotten.
    pub falls: u32,
    /// How much of its probation is left at least; absent: it is on none.
    pub probation_left_ms: Option<u64>,
}

/// An explicit rate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Granted {
    /// The rate in IP bits per second.
    pub rate_bps: u64,
    /// Who granted it: `signalled`, or the prefix in `[tcp-er]`.
    pub by: String,
    /// When it ends unless it is renewed; absent: with the configuration.
    pub ends_in_ms: Option<u64>,
}
