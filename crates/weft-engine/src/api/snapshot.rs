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

/// The engine's state that `weft status`, `weft paths` and `weft flows` show.
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
    /// Time at which the certificate by which the peer joined expires, in seconds since 1970. `None` if configured.
    pub certified_until_unix_s: Option<u64>,
    /// Age of the session. `None` if there is no session.
    pub established_for: Option<Duration>,
    /// Time since the last authentic datagram from the peer.
    pub last_heard: Option<Duration>,
    /// The schedule that chooses a path to the peer for each unit.
    pub schedule: Schedule,
    /// The paths to the peer.
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
    /// Datagrams of the peer dropped unopened, because this node was overloaded and the peer had used its share.
    pub unserved_datagrams: u64,
    /// Units from the peer that arrived more than once.
    pub duplicate_units: u64,
    /// Parts of units from the peer that were discarded: they fit no unit, or other parts of the unit never arrived.
    pub broken_parts: u64,
    /// Units from the peer that the resequencer holds now until an earlier unit arrives.
    pub held_units: usize,
    /// Units to the peer that are queued on paths or in flight now.
    pub units_in_flight: usize,
    /// Longest time for which this node waits for a missing unit of the peer, as the peer requests.
    pub hold: Duration,
    /// Recently used flows toward the peer.
    pub flows: Vec<FlowSnapshot>,
    /// Nodes to which the peer relays datagrams, as the peer reports.
    pub reaches: Vec<ReachSnapshot>,
}

/// A relay's report about its connection to one of its own peers.
#[derive(Clone, Debug)]
pub struct ReachSnapshot {
    /// The first 32 bits of the reported node's id.
    pub node: u32,
    /// The node's name, if it is a peer of this node.
    pub name: Option<String>,
    /// Round-trip time between the relay and the node.
    pub rtt: Duration,
    /// Fraction of the datagrams lost between the relay and the node, 0…1.
    pub loss: f64,
}

/// State of one path, as measured by this node as the sender on it.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    /// The path's number within the session.
    pub id: PathId,
    /// The local link of the path.
    pub link: LinkId,
    /// Name of the path's local link.
    pub link_name: String,
    /// Name of the path's link at the peer. `None` if the peer has not sent it.
    pub remote_link: Option<String>,
    /// The remote address of the path.
    pub remote: SocketAddr,
    /// True if the path is in use for data. False if it is only kept as a candidate.
    pub active: bool,
    /// The path's state: good, degraded, suspect, down or opening.
    pub state: PathState,
    /// The reason for the path's state, as text for people.
    pub cause: &'static str,
    /// True if bulk may use the path now.
    pub in_bundle: bool,
    /// True if the path is spare: it carries no data while another path answers.
    pub standby: bool,
    /// Smoothed round-trip time of the path; `None` before the first measurement.
    pub rtt: Option<Duration>,
    /// Least round-trip time of the last 10 to 15 seconds; `None` before the first measurement.
    pub rtt_min: Option<Duration>,
    /// Queueing delay of the path: the last one-way delay above the least one.
    pub queue_delay: Duration,
    /// Difference between the path's one-way base delay and that of the fastest path to the peer.
    pub skew: Duration,
    /// Variation of the one-way delay that the path's own queue does not explain.
    pub jitter: Duration,
    /// Fraction of the datagrams sent recently on the path that were lost, 0…1.
    pub loss: f64,
    /// Estimated capacity of the path; `None` while it is unknown.
    pub capacity: Option<Rate>,
    /// Rate at which the path is paced now.
    pub pacing: Rate,
    /// Phase of the algorithm that sets the path rate, such as `steady`.
    pub mode: &'static str,
    /// Latest delivery rate of the path.
    pub delivery: Rate,
    /// Fraction of inner packets in the bytes that bulk recently took on the path, 0…1. The rest is weft's headers.
    pub packet_share: f64,
    /// Result of the trains that measured the path while it carried no data. `None` without a result.
    pub sensed: Option<SensedSnapshot>,
    /// The path's weight relative to other paths, for weighted schedules.
    pub weight: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// True if the path MTU is settled: at present no larger packet size is probed.
    pub mtu_is_settled: bool,
    /// Number of datagrams sent on the path.
    pub sent_datagrams: u64,
    /// IP bytes of the datagrams sent on the path.
    pub sent_bytes: u64,
    /// Number of datagrams received on the path.
    pub received_datagrams: u64,
    /// IP bytes of the datagrams received on the path.
    pub received_bytes: u64,
    /// Number of datagrams sent on the path that were lost.
    pub lost_datagrams: u64,
}

/// Result of the trains on one path.
#[derive(Clone, Debug)]
pub struct SensedSnapshot {
    /// Time since the measurement.
    pub age: Duration,
    /// Capacity of the path's bottleneck link; `None` if it was not measured.
    pub capacity: Option<Rate>,
    /// Rate that cross traffic leaves available on the path; `None` if it was not measured.
    pub available: Option<Rate>,
    /// Fraction of the trains' datagrams that were lost, 0…1.
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
    /// Number of the flow's units sent.
    pub packets: u64,
    /// Bytes of the flow's units sent.
    pub bytes: u64,
    /// Time since the flow's last packet.
    pub idle: Duration,
}

/// State of one VPN at this node.
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
    /// The peers that are members of the VPN.
    pub members: Vec<MemberSnapshot>,
    /// Counters of the VPN's packets that this node carried and refused.
    pub totals: VpnTotals,
}

/// Membership of one peer in a VPN.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// Name of the peer that is a member.
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
    /// Public key of the peer.
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
    /// Time at which the certificate that grants the prefix expires, in seconds since 1970. `None` if configured.
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
