//! Status of a running node: the types behind the JSON of `--json` and behind the tables.
//!
//! Field names end in their units.
//!
//! A change of a field changes the JSON output, which other programs read.

mod access;
mod allow;
mod drill;
mod explain;
mod link_map;
mod links;
mod overlay;
mod prefixes;
mod qos;
mod signal;
mod sockets;
mod vpn;
mod why;

pub use access::{FlowAccess, FlowDecision, FlowWay};
pub use allow::AllowStatus;
pub use drill::{Drill, DrillPath, DrillPeer};
pub use explain::{Explanation, FlowQuestion, Granted, PathReason, PrefixMatch, SeenFlow};
pub use link_map::{LinkMap, MapLink, MapMember, MapRoute};
pub use links::{TcpBundle, UnusedLink};
pub use overlay::{Overlay, OverlayContact, OverlayMember};
pub use prefixes::{Prefix, Prefixes};
pub use qos::{FlowExport, Qos, QosClass, QosFlow, QosHeard, QosLoad, QosPort, QosRule, QosUser};
pub use signal::{Signal, SignalFlow, SignalPeer};
pub use sockets::{LinkSockets, Sockets, TunDevice};
pub use vpn::{Vpn, VpnLoop, VpnMember};
pub use why::{Finding, StrangerSeen, TriedPair};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON format.
pub const SCHEMA: u32 = 1;

/// Status of the node.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    /// Version of the JSON format, [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// Public key of this node.
    pub public_key: String,
    /// Name of the TUN device.
    pub tun: String,
    /// Time since the start, in seconds.
    pub uptime_s: u64,
    /// Inner MTU, in bytes.
    pub inner_mtu: u16,
    /// True if the kill switch is set: nothing leaves this machine in clear but to local networks.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub kill_switch: bool,
    /// Time until a changed configuration is undone, in milliseconds; absent: none is on trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trial_ends_in_ms: Option<u64>,
    /// Links in use.
    pub links: Vec<Link>,
    /// Names and patterns of links in the configuration for which no link is in use.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unused_links: Vec<UnusedLink>,
    /// Bundles of TCP connections that carry datagrams.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tcp: Vec<TcpBundle>,
    /// Peers that the configuration lists, and peers that joined with a certificate.
    pub peers: Vec<Peer>,
    /// VPNs, the default one first.
    pub vpns: Vec<Vpn>,
    /// Congestion control of sockets with an explicit rate; absent: none is configured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_er: Option<TcpEr>,
    /// In-band QoS signalling; absent: it is off.
    #[serde(default)]
    pub signal: Option<Signal>,
    /// The node's TCP proxy; absent: none is configured.
    pub proxy: Option<Proxy>,
    /// Counters of relayed datagrams; absent: this node is no relay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relay: Option<Relay>,
    /// The network's overlay; absent: this node takes no part in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overlay: Option<Overlay>,
    /// Export of flow records; absent: none is configured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flow_export: Option<FlowExport>,
    /// Rules of access; absent: every flow of every peer may enter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allow: Option<AllowStatus>,
    /// Prefixes that are refused because they would take addresses from this machine.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub refused_prefixes: Vec<RefusedPrefix>,
    /// Nodes that recently sent a handshake and are not peers.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub strangers: Vec<StrangerSeen>,
    /// Datagrams dropped before authentication.
    pub rejected_datagrams: u64,
    /// Packets dropped because no peer has a prefix with their destination.
    pub unroutable_packets: u64,
    /// Number of buffers of the packet pool that are in use.
    pub buffers_in_use: usize,
    /// Highest number of buffers of the packet pool that were in use at once since the start.
    pub buffers_peak: usize,
    /// Datagrams dropped because no buffer was free, and packets dropped because only the reserve was free.
    pub no_buffer_drops: u64,
    /// Datagrams that the kernel did not accept because a socket's buffer was full.
    pub socket_full_drops: u64,
    /// Log lines dropped because standard error was too slow.
    #[serde(default)]
    pub dropped_log_lines: u64,
    /// Longest time since the start that one pass of the packet loop took, in microseconds.
    #[serde(default)]
    pub longest_turn_us: u64,
    /// Number of passes of the packet loop since the start that took more than 50 ms.
    #[serde(default)]
    pub long_turns: u64,
}

/// A refused prefix.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RefusedPrefix {
    /// Name of the peer, or the name in the certificate if the node is not in the configuration.
    pub name: String,
    /// Refused prefix, such as 10.9.0.0/24.
    pub prefix: String,
    /// Description of the addresses that the prefix would take.
    pub why: String,
}

/// Quality of the connection between a relay and one of its neighbours, as the relay reports it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reach {
    /// Name by which this node lists the neighbour. Without a name, the first 32 bits of the neighbour's id.
    pub node: String,
    /// Round-trip time between the relay and the neighbour, in microseconds.
    pub rtt_us: u64,
    /// Fraction of datagrams lost between the relay and the neighbour, 0 to 1.
    pub loss: f64,
}

/// Counters of a relay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Relay {
    /// Datagrams relayed.
    pub datagrams: u64,
    /// Bytes of relayed datagrams, without IP and UDP headers.
    pub bytes: u64,
    /// Datagrams not relayed because the next node is not a peer, or is unreachable.
    pub refused_datagrams: u64,
    /// Datagrams dropped from the queue of a link with a rate limit.
    ///
    /// The queue was full, or they had waited too long.
    #[serde(default)]
    pub dropped_datagrams: u64,
    /// Peers for which nothing is relayed because the first 32 bits of their ids are those of another peer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub label_clashes: Vec<String>,
}

/// Congestion control of this machine's TCP sockets that send at an explicit rate.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TcpEr {
    /// Congestion control in use: `weft_er`, `bbr`, or `plain` for the default of the kernel.
    pub congestion: String,
    /// Reason why no better congestion control is in use; absent: the best one is in use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub because: Option<String>,
    /// Number of destinations with a configured rate.
    pub grants: usize,
}

/// A local link in use.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Link {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub index: u32,
    /// MTU in bytes.
    pub mtu: u16,
    /// Local addresses in use.
    pub addresses: Vec<String>,
    /// Maximum rate at which the node sends on the link now, in bits per second; absent: there is no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_rate_up_bps: Option<u64>,
    /// Quota of the link and its use; absent: the link has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quota: Option<LinkQuota>,
}

/// Quota of a link and its use.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkQuota {
    /// Bytes that the interface has carried in the present period, in both directions.
    pub used_bytes: u64,
    /// Bytes that the interface may carry in a period.
    pub limit_bytes: u64,
    /// True if a period is a day, false if it is a month.
    pub is_daily: bool,
}

/// Status of a peer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Peer {
    /// Name in the configuration.
    pub name: String,
    /// Public key of the peer.
    pub public_key: String,
    /// End of the certificate by which the peer joined; absent: the peer is configured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub certified_until_unix_s: Option<u64>,
    /// Age of the session, in seconds; absent: there is none.
    pub established_s: Option<u64>,
    /// Time without a session, in seconds; absent: there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub without_session_s: Option<u64>,
    /// Causes that prevent a session, the likeliest first. With a session: causes that impair the connection.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<Finding>,
    /// Pairs of a local link and a remote address to which handshakes were sent without a session, and the reactions.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tried: Vec<TriedPair>,
    /// Time since the last authentic datagram of the peer, in milliseconds; absent: none has arrived.
    pub last_heard_ms: Option<u64>,
    /// Packets delivered to the TUN device.
    pub received_packets: u64,
    /// IP bytes delivered to the TUN device.
    pub received_bytes: u64,
    /// Units sent, without retransmissions.
    pub sent_units: u64,
    /// Bytes of the units sent, without retransmissions.
    pub sent_bytes: u64,
    /// Units retransmitted.
    pub repeated_units: u64,
    /// Units given up.
    pub abandoned_units: u64,
    /// Packets that the queue of flows toward the peer dropped.
    pub queue_drops: u64,
    /// TCP acknowledgments in the queue toward the peer that a newer one of the same flow replaced.
    pub replaced_acks: u64,
    /// Bytes in the queue of flows toward the peer.
    pub queue_bytes: u64,
    /// Datagrams of the peer that were dropped before decryption.
    ///
    /// The node was overloaded, and the peer had used its share of the node's processing time.
    pub unserved_datagrams: u64,
    /// Units received twice.
    pub duplicate_units: u64,
    /// Invalid parts received, and units dropped because a part of them was missing.
    pub broken_parts: u64,
    /// Units from the peer that wait until missing units before them arrive.
    pub held_units: usize,
    /// Maximum time for which this node waits for a missing unit, as the peer requests it, in microseconds.
    pub hold_us: u64,
    /// Name of the schedule: the algorithm that chooses the path for each unit toward the peer.
    #[serde(default)]
    pub schedule: String,
    /// True if the schedule uses the weights of links.
    #[serde(default)]
    pub weights_count: bool,
    /// Paths to the peer.
    pub paths: Vec<Path>,
    /// Pairs of a local link and a remote address on which no path was tried.
    ///
    /// The field is absent if all are tried and every link has a path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_tried: Option<NotTried>,
    /// Recent flows.
    pub flows: Vec<Flow>,
    /// Neighbours of the peer to which it relays datagrams, as the peer reports them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reaches: Vec<Reach>,
}

/// Numbers of the pairs of a local link and a remote address of the peer, and those that were not tried.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NotTried {
    /// Number of pairs whose link has an address of the remote address's family.
    pub pairs: usize,
    /// Number of pairs not tried so far.
    pub not_tried: usize,
    /// Maximum number of remote addresses that each local link tries at the same time.
    pub at_once: usize,
    /// Links without a path to the peer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub links_without_path: Vec<String>,
    /// Datagrams dropped because the peer sent them on more paths than it may open.
    #[serde(default)]
    pub refused_datagrams: u64,
    /// The other fields of this value, as text for a reader.
    pub text: String,
}

/// Status of a path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Path {
    /// Id of the path within the session.
    pub id: u8,
    /// Local link.
    pub link: String,
    /// The peer's own name of its link at the other end of the path; absent: the peer has not sent it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remote_link: Option<String>,
    /// Remote address.
    pub remote: String,
    /// State: opening, good, degraded, suspect or down.
    pub state: String,
    /// Reason for the state, as text for a reader.
    pub cause: String,
    /// True if bulk may use the path now.
    pub in_bundle: bool,
    /// True if this is a spare path that carries no data now because another path answers.
    #[serde(default)]
    pub standby: bool,
    /// Smoothed round-trip time, in microseconds; absent: not yet measured.
    pub rtt_us: Option<u64>,
    /// Least round-trip time of the last 10 to 15 seconds, in microseconds; absent: not measured.
    pub rtt_min_us: Option<u64>,
    /// Queueing delay: one-way delay above its base, in microseconds.
    pub queue_delay_us: u64,
    /// Difference between the base one-way delay of this path and that of the fastest path, in microseconds.
    pub skew_us: u64,
    /// Variation of the one-way delay that the path's own queue does not explain, in microseconds.
    pub jitter_us: u64,
    /// Fraction of datagrams lost recently, 0 to 1.
    pub loss: f64,
    /// Estimated capacity, in bits per second.
    pub capacity_bps: Option<u64>,
    /// Pacing rate, in bits per second.
    pub pacing_bps: u64,
    /// Phase of the path's rate control, such as `startup` or `steady`.
    pub mode: String,
    /// Last delivery rate, in bits per second.
    pub delivery_bps: u64,
    /// Results of the trains that measured the path while it carried no data.
    #[serde(default)]
    pub sensed: Option<Sensed>,
    /// Weight for the weighted schedules.
    pub weight: u32,
    /// Path MTU (length of an outer IP packet), in bytes.
    pub mtu: u16,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// IP bytes sent.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// IP bytes received.
    pub received_bytes: u64,
    /// Rate sent over the last second, in bits per second; absent: not yet known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sending_bps: Option<u64>,
    /// Rate received over the last second, in bits per second; absent: not yet known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub receiving_bps: Option<u64>,
    /// Datagrams lost.
    pub lost_datagrams: u64,
}

/// Results of trains on a path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sensed {
    /// Age of the results, in milliseconds.
    pub age_ms: u64,
    /// Capacity of the bottleneck, in bits per second.
    pub capacity_bps: Option<u64>,
    /// Capacity that other traffic leaves, in bits per second.
    pub available_bps: Option<u64>,
    /// Fraction of the trains' packets lost, 0 to 1.
    pub loss: f64,
    /// Mean queueing delay of the trains' packets, in microseconds.
    pub queue_us: Option<u64>,
}

impl Sensed {
    /// Returns true if the results are recent enough to describe the present state: less than 5 s old.
    pub fn is_fresh(&self) -> bool {
        self.age_ms < 5_000
    }
}

/// Measurement history of a path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PathHistory {
    /// Local link.
    pub link: String,
    /// Remote address.
    pub remote: String,
    /// The last ten minutes, one point per second, the newest last.
    pub seconds: Vec<Point>,
    /// The last day, one point per minute. Each value is the mean over those of the minute that are known.
    pub minutes: Vec<Point>,
}

/// Measurements of a path at one time.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// Smoothed round-trip time, in microseconds.
    pub rtt_us: Option<f64>,
    /// Fraction of datagrams lost recently, 0 to 1.
    pub loss: Option<f64>,
    /// Capacity, in bits per second: as trains measured it, or without trains, as estimated from data.
    pub capacity_bps: Option<f64>,
    /// Capacity that other traffic left, in bits per second.
    pub available_bps: Option<f64>,
}

/// Status of the node's TCP proxy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proxy {
    /// State of the proxy's process: running, or the way in which it ended.
    pub state: String,
    /// Process id.
    pub pid: u32,
    /// Number of restarts of the proxy's process since the node started.
    pub restarts: u32,
    /// True if a proxy sends data to the next proxy in the first packet of a connection (TCP Fast Open).
    pub early_data: bool,
    /// Congestion control of connections between proxies; empty: the system's default.
    pub congestion: String,
    /// Present connections.
    pub connections: u64,
    /// Maximum number of connections.
    pub capacity: u64,
    /// True if the proxy accepts new connections.
    pub is_open: bool,
    /// Connections accepted.
    pub taken: u64,
    /// Connections whose server could not be reached.
    pub unreachable: u64,
    /// Connections that were reset, or broke.
    pub reset: u64,
    /// Connections that ended in order.
    pub ended: u64,
    /// Bytes from clients to servers.
    pub up_bytes: u64,
    /// Bytes from servers to clients.
    pub down_bytes: u64,
    /// Number of kernel pipes of the proxy that hold bytes on their way from one connection to another.
    pub pipes: u64,
    /// Connections refused by a rule of `[proxies]`, or to an address that no rule may allow.
    #[serde(default)]
    pub refused: u64,
}

/// A recent flow.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Flow {
    /// Number of the flow among the flows toward this peer.
    pub id: u16,
    /// Id of the VPN.
    pub vpn: u32,
    /// Protocol, addresses and ports.
    pub flow: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Rate sent over the last second, in bits per second; absent: not yet known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bps: Option<u64>,
    /// Time since the last packet, in milliseconds.
    pub idle_ms: u64,
}

impl Peer {
    /// Returns the reason why the peer is degraded, or `None` if it is not.
    pub fn trouble(&self) -> Option<String> {
        if self.established_s.is_none() {
            return Some("no session".to_owned());
        }
        let ill: Vec<_> = self.paths.iter().filter(|path| path.is_down()).collect();
        match ill.len() {
            0 if self.paths.is_empty() => Some("no path".to_owned()),
            0 => None,
            n => Some(format!("{n} of {} paths down", self.paths.len())),
        }
    }
}

impl Path {
    /// Returns the path's name: the local link, and the remote link or address.
    pub fn name(&self) -> String {
        match self.remote_link.as_deref().filter(|theirs| *theirs != self.link) {
            Some(theirs) => format!("{} {} → {theirs} {}", self.id, self.link, self.remote),
            None => format!("{} {} → {}", self.id, self.link, self.remote),
        }
    }

    /// Returns true if the path carries no data: it is opening or down.
    pub fn is_down(&self) -> bool {
        self.state == "down" || self.state == "opening"
    }
}

impl Status {
    /// Returns the name of the VPN with this id, or the id as text if there is no such VPN.
    pub fn vpn_name(&self, id: u32) -> String {
        self.vpns.iter().find(|vpn| vpn.id == id).map_or_else(|| id.to_string(), |vpn| vpn.name.clone())
    }

    /// Returns the bytes that the VPNs with a queue of their own together sent to each peer, by the peer's name.
    pub fn sent_by_vpns(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for member in self.vpns.iter().flat_map(|vpn| &vpn.members) {
            *sums.entry(member.peer.as_str()).or_default() += member.sent_bytes;
        }
        sums
    }

    /// Returns true if a peer is degraded, a link named in the configuration is not in use, or no member is reached.
    ///
    /// A peer that joined by certificate may leave again, so its absence is no degradation.
    pub fn is_degraded(&self) -> bool {
        let is_expected = |peer: &&Peer| peer.certified_until_unix_s.is_none() || peer.established_s.is_some();
        let is_alone = self.overlay.as_ref().is_some_and(Overlay::is_alone);
        let is_missing = self.unused_links.iter().any(|link| link.is_expected);
        is_alone || is_missing || self.peers.iter().filter(is_expected).any(|peer| peer.trouble().is_some())
    }
}
