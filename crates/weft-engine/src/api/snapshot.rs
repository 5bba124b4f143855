//! Read-only copies of the engine's state, for status output and metrics.
//!
//! A snapshot copies counters and estimates. Taking one never changes the engine.

use super::address_pairs::AddressPairs;
use super::config::{Prefix, Schedule};
use super::event::PathState;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_core::control_loop::LoopConfig;
use weft_core::ingress::VpnStatus;
use weft_core::service::Service;
use weft_session::PublicKey;
use weft_units::{Duration, FlowId, LinkId, PathId, Rate, VpnId};

/// State that `weft status`, `weft paths` and `weft flows` show.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One entry for each peer.
    pub peers: Vec<PeerSnapshot>,
    /// The inner MTU in bytes.
    pub inner_mtu: u16,
    /// Datagrams dropped before they were authenticated.
    pub rejected_datagrams: u64,
    /// Packets dropped because no peer has a prefix for their destination.
    pub unroutable_packets: u64,
    /// Packets dropped because too few buffers were left to queue them.
    pub no_buffer_packets: u64,
    /// Number of packet buffers of the engine's pool that are in use now.
    pub buffers_in_use: usize,
    /// Largest number of packet buffers of the pool that were in use at one time, since the start.
    pub buffers_peak: usize,
}

/// State of one peer.
#[derive(Clone, Debug)]
pub struct PeerSnapshot {
    /// Name of the peer in the configuration.
    pub name: String,
    /// Public key of the peer, as text.
    pub public_key: String,
    /// End of the certificate by which the peer joined, in seconds since 1970. `None` for a configured peer.
    pub certified_until_unix_s: Option<u64>,
    /// Age of the session. `None` if there is no session.
    pub established_for: Option<Duration>,
    /// Time since the last authentic datagram from the peer.
    pub last_heard: Option<Duration>,
    /// The schedule that chooses a path for each unit.
    pub schedule: Schedule,
    /// The peer's paths.
    pub paths: Vec<PathSnapshot>,
    /// Pairs of a local link and an address of the peer. Some pairs may have no path.
    pub address_pairs: AddressPairs,
    /// Packets from the peer that were written to the TUN device.
    pub received_packets: u64,
    /// IP bytes from the peer that were written to the TUN device.
    pub received_bytes: u64,
    /// Units sent to the peer, not counting retransmissions.
    pub sent_units: u64,
    /// Bytes of the units sent, without overhead and without retransmissions.
    pub sent_bytes: u64,
    /// Units to the peer that were retransmitted.
    pub repeated_units: u64,
    /// Units given up: their retransmission stopped before they arrived.
    pub abandoned_units: u64,
    /// Packets that the flow queue to the peer dropped.
    pub queue_drops: u64,
    /// TCP acknowledgements in the flow queue that a newer one replaced.
    pub replaced_acks: u64,
    /// Bytes in the flow queue to the peer.
    pub queue_bytes: u64,
    /// Packets that wait until the peer opens their VPN.
    pub waiting_for_vpns: usize,
    /// Datagrams dropped unopened, because the peer had used its share of the processing of an overloaded node.
    pub unserved_datagrams: u64,
    /// Units that arrived more than once.
    pub duplicate_units: u64,
    /// Parts of units that were discarded, because they fit no unit or the unit's other parts never arrived.
    pub broken_parts: u64,
    /// Units that the resequencer holds back now.
    pub held_units: usize,
    /// Units that are queued on paths or in flight.
    pub units_in_flight: usize,
    /// Longest time for which this node waits for a missing unit of the peer, as the peer requests.
    pub hold: Duration,
    /// Recently used flows.
    pub flows: Vec<FlowSnapshot>,
    /// Nodes to which the peer relays datagrams, as the peer reports.
    pub reaches: Vec<ReachSnapshot>,
}

/// A relay's report about one of its own peers.
#[derive(Clone, Debug)]
pub struct ReachSnapshot {
    /// The first 32 bits of the reported node's id.
    pub node: u32,
    /// The node's name, if it is a peer of this node.
    pub name: Option<String>,
    /// Round-trip time between the relay and the node.
    pub rtt: Duration,
    /// Share of datagrams lost between the relay and the node, 0…1.
    pub loss: f64,
}

/// State of one path, as this node sees it as the sender.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    /// The path's number within the session.
    pub id: PathId,
    /// The local link.
    pub link: LinkId,
    /// The local link's name.
    pub link_name: String,
    /// Name of the path's link at the peer. `None` if the peer has not sent it.
    pub remote_link: Option<String>,
    /// The remote address.
    pub remote: SocketAddr,
    /// True if the path is in use for data. False if it is only kept as a candidate.
    pub active: bool,
    /// The path's health: good, degraded, suspect, down or opening.
    pub state: PathState,
    /// The reason for the path's health, as text for people.
    pub cause: &'static str,
    /// True if bulk may use the path now.
    pub in_bundle: bool,
    /// True if the path is spare: it carries no data while another path answers.
    pub standby: bool,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Least round-trip time of the last 10 to 15 seconds.
    pub rtt_min: Option<Duration>,
    /// Queueing delay: the one-way delay above the path's least one.
    pub queue_delay: Duration,
    /// Difference between the path's base delay and that of the fastest path, one way.
    pub skew: Duration,
    /// Variation of the one-way delay that the path's own queue does not explain.
    pub jitter: Duration,
    /// Share of datagrams lost recently, 0…1.
    pub loss: f64,
    /// Estimated capacity of the path.
    pub capacity: Option<Rate>,
    /// Current pacing rate.
    pub pacing: Rate,
    /// Phase of the path-rate algorithm.
    pub mode: &'static str,
    /// Latest delivery rate.
    pub delivery: Rate,
    /// Share of inner packets in the bytes that bulk recently took on the path, 0…1. The rest is weft's own headers.
    pub packet_share: f64,
    /// Result of the trains that measured the path while it carried no data.
    pub sensed: Option<SensedSnapshot>,
    /// The path's weight relative to other paths, for weighted schedules.
    pub weight: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// True if the path MTU is final for now: no larger packet size is being probed.
    pub mtu_is_settled: bool,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// IP bytes sent.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// IP bytes received.
    pub received_bytes: u64,
    /// Datagrams lost.
    pub lost_datagrams: u64,
}

/// Result of the trains on one path.
#[derive(Clone, Debug)]
pub struct SensedSnapshot {
    /// Age of the result.
    pub age: Duration,
    /// Capacity of the path's bottleneck link.
    pub capacity: Option<Rate>,
    /// Rate that cross traffic leaves available on the bottleneck link.
    pub available: Option<Rate>,
    /// Share of the trains' datagrams that were lost, 0…1.
    pub loss: f64,
    /// Mean queueing delay of the trains' datagrams.
    pub queue: Option<Duration>,
}

/// State of one recently used flow.
#[derive(Clone, Debug)]
pub struct FlowSnapshot {
    /// The flow's number among the flows toward the peer.
    pub id: FlowId,
    /// The flow's VPN.
    pub vpn: VpnId,
    /// The flow's 5-tuple, such as `tcp 10.9.0.1:40000 → 10.9.0.2:5201`.
    pub key: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time since the flow's last packet.
    pub idle: Duration,
}

/// State of one VPN.
#[derive(Clone, Debug)]
pub struct VpnSnapshot {
    /// The VPN's id.
    pub id: VpnId,
    /// The VPN's name in the configuration. Empty for the default VPN.
    pub name: String,
    /// Current weight of the VPN relative to other VPNs.
    pub weight: u32,
    /// Service that the VPN is promised now.
    pub service: Service,
    /// Rate control algorithm of the VPN's loops, with its parameters. `None` without loops.
    pub control: Option<LoopConfig>,
    /// The VPN's members.
    pub members: Vec<MemberSnapshot>,
    /// Counters of carried and refused packets.
    pub totals: VpnTotals,
}

/// Membership of one peer in a VPN.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// The peer's name.
    pub peer: String,
    /// True if this node can send packets of the VPN to the peer now.
    ///
    /// A VPN opens on first use and closes after minutes without use.
    pub is_open: bool,
    /// State of the VPN's queue and loop toward the peer.
    ///
    /// `None` for the default VPN, which uses the peer's own queue.
    pub entry: Option<VpnStatus>,
}

/// The rate of inner packets that rate-controlled senders may use toward one peer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PayloadRate<'a> {
    /// The peer's key.
    pub public_key: &'a PublicKey,
    /// Prefixes behind the peer, from the configuration or from its certificate.
    pub prefixes: &'a [Prefix],
    /// Total payload rate of the paths that carry bulk, without weft's headers. `None` if no path carries bulk.
    pub rate: Option<Rate>,
}

/// A prefix by which packets are routed to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPrefix {
    /// The VPN to which the prefix belongs.
    pub vpn: VpnId,
    /// The VPN's name. Empty for the default VPN.
    pub vpn_name: String,
    /// The prefix. The bits behind its length are zero.
    pub prefix: Prefix,
    /// Name of the peer that has the prefix.
    pub peer: String,
    /// End of the certificate that grants the prefix, in seconds since 1970. `None` if the configuration grants it.
    pub certified_until_unix_s: Option<u64>,
    /// Number of the routing protocol from which the prefix was learnt. `None` if it is assigned to the peer.
    pub protocol: Option<u8>,
}

/// Counters of packets that a VPN carried and refused at this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VpnTotals {
    /// Units of the VPN sent, not counting retransmissions.
    pub sent_packets: u64,
    /// IP bytes of the VPN's units sent, not counting retransmissions.
    pub sent_bytes: u64,
    /// Packets of the VPN written to the TUN device.
    pub received_packets: u64,
    /// IP bytes of the VPN's packets written to the TUN device.
    pub received_bytes: u64,
    /// Packets of the VPN dropped before transmission.
    ///
    /// The flow queue dropped these packets, or the peer did not open the VPN.
    pub dropped_packets: u64,
    /// Units of the VPN rejected on arrival: source outside the sender's prefixes, or sender not a member.
    pub strays: u64,
    /// Packets of the VPN from the TUN device for which no member has a prefix.
    pub unroutable_packets: u64,
}
