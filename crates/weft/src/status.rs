//! What a running node shows: the JSON of `--json`, and what the tables are made of. Units are in the names.

mod drill;
mod explain;
mod links;
mod overlay;
mod prefixes;
mod signal;
mod why;

pub use drill::{Drill, DrillPath, DrillPeer};
pub use explain::{Explanation, FlowQuestion, Granted, PathReason, PrefixMatch, SeenFlow};
pub use links::UnusedLink;
pub use overlay::{Overlay, OverlayContact, OverlayMember};
pub use prefixes::{Prefix, Prefixes};
pub use signal::{Signal, SignalFlow, SignalPeer};
pub use why::{Finding, StrangerSeen, TriedPair};

use serde::{Deserialize, Serialize};

/// Version of this format.
pub const SCHEMA: u32 = 1;

/// The node.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program.
    pub version: String,
    /// This node's public key.
    pub public_key: String,
    /// The TUN device.
    pub tun: String,
    /// Time since the start.
    pub uptime_s: u64,
    /// Inner MTU in bytes.
    pub inner_mtu: u16,
    /// Links in use.
    pub links: Vec<Link>,
    /// Links that the configuration names and that are not in use.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unused_links: Vec<UnusedLink>,
    /// One per peer that is configured or came by certificate.
    pub peers: Vec<Peer>,
    /// VPNs, the default one first.
    pub vpns: Vec<Vpn>,
    /// The congestion control for explicit rates; absent: none was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp_er: Option<TcpEr>,
    /// In-band QoS signalling; absent: it is off.
    #[serde(default)]
    pub signal: Option<Signal>,
    /// The proxy beside the node; absent: none is configured.
    pub proxy: Option<Proxy>,
    /// What is passed on between other nodes; absent: this node is no relay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub relay: Option<Relay>,
    /// The network's overlay; absent: this node takes no part in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overlay: Option<Overlay>,
    /// Prefixes that are not used, because they would take something away from this machine.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub refused_prefixes: Vec<RefusedPrefix>,
    /// Who called lately and is no peer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub strangers: Vec<StrangerSeen>,
    /// Datagrams dropped before authentication.
    pub rejected_datagrams: u64,
    /// Packets for which no peer has a prefix.
    pub unroutable_packets: u64,
    /// Pool buffers in use.
    pub buffers_in_use: usize,
    /// The most there have been.
    pub buffers_peak: usize,
    /// Datagrams that came while no buffer was left, and packets while there were too few for them to wait in.
    pub no_buffer_drops: u64,
    /// Datagrams the kernel did not take because a socket's buffer was full.
    pub socket_full_drops: u64,
    /// Lines of the log that were dropped because nobody read it in time.
    #[serde(default)]
    pub dropped_log_lines: u64,
    /// The longest turn of the packet loop since the start, in microseconds.
    #[serde(default)]
    pub longest_turn_us: u64,
    /// Turns of more than 50 ms.
    #[serde(default)]
    pub long_turns: u64,
}

/// A prefix that is not used.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct RefusedPrefix {
    /// The name of the peer or certificate.
    pub name: String,
    /// The prefix.
    pub prefix: String,
    /// What it would take away.
    pub why: String,
}

/// What a relay says of a node beside it.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Reach {
    /// The node's name here, or the first 32 bits of its id.
    pub node: String,
    /// Round-trip time from the relay.
    pub rtt_us: u64,
    /// What is lost on the way there, 0…1.
    pub loss: f64,
}

/// What a relay has passed on.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Relay {
    /// Datagrams passed on.
    pub datagrams: u64,
    /// Their bytes, without IP and UDP headers.
    pub bytes: u64,
    /// Datagrams not passed on: the next node is no peer, or cannot be reached.
    pub refused_datagrams: u64,
    /// Datagrams that were dropped from the queue of a link with a limit: too many waited, or they waited too long.
    #[serde(default)]
    pub dropped_datagrams: u64,
    /// Peers that are not relayed, because their relay label is another's.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub label_clashes: Vec<String>,
}

/// What sockets with an explicit rate get.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct TcpEr {
    /// `weft_er`, `bbr`, or `plain`: the kernel's own.
    pub congestion: String,
    /// Why nothing better; absent: it is the best.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub because: Option<String>,
    /// Destinations with a rate.
    pub grants: usize,
}

/// A local link in use.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Link {
    /// Interface name.
    pub name: String,
    /// Interface index.
    pub index: u32,
    /// MTU in bytes.
    pub mtu: u16,
    /// Local addresses used.
    pub addresses: Vec<String>,
}

/// A peer.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Peer {
    /// Name in the configuration.
    pub name: String,
    /// Public key.
    pub public_key: String,
    /// It came by certificate, which holds until then; absent: it is configured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub certified_until_unix_s: Option<u64>,
    /// Age of the session; absent: there is none.
    pub established_s: Option<u64>,
    /// How long there has been no session; absent: there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub without_session_s: Option<u64>,
    /// What keeps it from its session, the likeliest first, or takes something from its connection.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<Finding>,
    /// What was tried without a session, and what came back.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tried: Vec<TriedPair>,
    /// Time since something authentic came from it.
    pub last_heard_ms: Option<u64>,
    /// Packets given to the TUN device.
    pub received_packets: u64,
    /// IP bytes given to the TUN device.
    pub received_bytes: u64,
    /// Units sent for the first time.
    pub sent_units: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Units repeated.
    pub repeated_units: u64,
    /// Units given up.
    pub abandoned_units: u64,
    /// Packets the flow queue dropped.
    pub queue_drops: u64,
    /// TCP acknowledgments that a newer one replaced in the flow queue.
    pub replaced_acks: u64,
    /// Bytes in the flow queue.
    pub queue_bytes: u64,
    /// Datagrams of the peer that were dropped unopened. The node was behind, and the peer had used its share of the work.
    pub unserved_datagrams: u64,
    /// Units that came twice.
    pub duplicate_units: u64,
    /// Parts of units that came and were of no use.
    pub broken_parts: u64,
    /// Units held for order.
    pub held_units: usize,
    /// Wait for a hole the peer asks for.
    pub hold_us: u64,
    /// By what a path is chosen toward it.
    #[serde(default)]
    pub schedule: String,
    /// Whether that schedule goes by weights.
    #[serde(default)]
    pub weights_count: bool,
    /// Its paths.
    pub paths: Vec<Path>,
    /// Which pairs of a link here and an address there are not tried; absent: all are, and every link has a path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_tried: Option<NotTried>,
    /// Flows seen lately.
    pub flows: Vec<Flow>,
    /// Whom it passes datagrams on to, as it says.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reaches: Vec<Reach>,
}

/// Pairs of a link here and an address there of which not all have a path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct NotTried {
    /// All pairs of one address family.
    pub pairs: usize,
    /// Those not tried so far.
    pub not_tried: usize,
    /// Addresses each link tries at a time.
    pub at_once: usize,
    /// Links without a path to the peer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub links_without_path: Vec<String>,
    /// Datagrams dropped because the peer sent them on more paths than it may open.
    #[serde(default)]
    pub refused_datagrams: u64,
    /// The same for people.
    pub text: String,
}

/// A path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Path {
    /// Number within the session.
    pub id: u8,
    /// The link here.
    pub link: String,
    /// What the peer calls its link; absent: it has not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remote_link: Option<String>,
    /// The address there.
    pub remote: String,
    /// opening, good, degraded, suspect or down.
    pub state: String,
    /// Why.
    pub cause: String,
    /// Whether bulk may use it now.
    pub in_bundle: bool,
    /// It carries data only when no other path answers, and one does.
    #[serde(default)]
    pub standby: bool,
    /// Smoothed round-trip time.
    pub rtt_us: Option<u64>,
    /// Least round-trip time.
    pub rtt_min_us: Option<u64>,
    /// Delay beyond the least one-way delay.
    pub queue_delay_us: u64,
    /// One-way delay beyond the fastest path's.
    pub skew_us: u64,
    /// Jitter of the one-way delay.
    pub jitter_us: u64,
    /// Share of datagrams lost, 0…1.
    pub loss: f64,
    /// Learnt capacity.
    pub capacity_bps: Option<u64>,
    /// Pacing rate.
    pub pacing_bps: u64,
    /// What the rate control does.
    pub mode: String,
    /// Delivery rate last seen.
    pub delivery_bps: u64,
    /// What trains found, while it carried no data.
    #[serde(default)]
    pub sensed: Option<Sensed>,
    /// Weight of weighted schedules.
    pub weight: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// IP bytes sent.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// IP bytes received.
    pub received_bytes: u64,
    /// What was sent in the last second; absent: not known yet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sending_bps: Option<u64>,
    /// What was received in the last second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub receiving_bps: Option<u64>,
    /// Datagrams lost.
    pub lost_datagrams: u64,
}

/// What trains found of a path.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Sensed {
    /// How long ago.
    pub age_ms: u64,
    /// The capacity of its narrow link.
    pub capacity_bps: Option<u64>,
    /// What others leave of it.
    pub available_bps: Option<u64>,
    /// Share of the trains' packets lost, 0…1.
    pub loss: f64,
    /// The mean queue.
    pub queue_us: Option<u64>,
}

impl Sensed {
    /// Found so lately that it says how things are.
    pub fn is_fresh(&self) -> bool {
        self.age_ms < 5_000
    }
}

/// What a path was like.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct PathHistory {
    /// The link here.
    pub link: String,
    /// The address there.
    pub remote: String,
    /// The last ten minutes, a point a second, the newest last.
    pub seconds: Vec<Point>,
    /// The last day, a point a minute: the means of what is known.
    pub minutes: Vec<Point>,
}

/// What a path was like at a time.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Point {
    /// Smoothed round-trip time.
    pub rtt_us: Option<f64>,
    /// Share of datagrams lost, 0…1.
    pub loss: Option<f64>,
    /// Capacity, sensed or else learnt.
    pub capacity_bps: Option<f64>,
    /// What others left of it.
    pub available_bps: Option<f64>,
}

/// A VPN.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Vpn {
    /// Its number.
    pub id: u32,
    /// Name in the configuration.
    pub name: String,
    /// Its weight now.
    pub weight: u32,
    /// best-effort, assured or leased.
    pub service: String,
    /// The rate it is promised.
    pub promised_bps: Option<u64>,
    /// Its TUN device.
    pub device: String,
    /// The peers that have part in it.
    pub members: Vec<VpnMember>,
    /// Units sent for the first time.
    pub sent_packets: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Packets given to the device.
    pub received_packets: u64,
    /// IP bytes given to the device.
    pub received_bytes: u64,
    /// Packets dropped before they were sent.
    pub dropped_packets: u64,
    /// Units refused: the source is not behind who sent them, or he is no member.
    pub strays: u64,
    /// Packets for which no member has a prefix.
    pub unroutable_packets: u64,
}

/// A peer's part in a VPN.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct VpnMember {
    /// The peer's name.
    pub peer: String,
    /// Whether packets can be sent to it now; a VPN opens when it is used.
    pub open: bool,
    /// Packets that wait in the VPN's queue toward it.
    pub queue_packets: usize,
    /// Bytes that wait.
    pub queue_bytes: u64,
    /// Packets that left the queue.
    pub sent_packets: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Packets the full queue dropped.
    pub dropped_full: u64,
    /// Packets the AQM dropped.
    pub dropped_aqm: u64,
    /// Packets the AQM marked.
    pub marked: u64,
    /// The loop toward it; absent: there is none, or it was never used.
    #[serde(rename = "loop")]
    pub control: Option<VpnLoop>,
}

/// A loop from this edge to another.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct VpnLoop {
    /// What it may send.
    pub rate_bps: u64,
    /// Its window, or what the rate sends in a round trip.
    pub window_bytes: u64,
    /// What arrived lately.
    pub delivered_bps: u64,
    /// Smoothed round-trip time between the edges.
    pub rtt_us: u64,
    /// Loss events a packet; absent: none, or a law that does not go by loss.
    pub loss_event_rate: Option<f64>,
    /// Packets finally lost, modulo 2^32.
    pub lost_packets: u32,
    /// Bytes sent, neither received nor lost.
    pub in_flight_bytes: u32,
    /// Bytes in queues on the way, of a law that measures them.
    pub accumulation_bytes: u64,
}

/// The proxy beside the node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Proxy {
    /// running, or how it ended.
    pub state: String,
    /// Its process.
    pub pid: u32,
    /// How often it was started again.
    pub restarts: u32,
    /// Whether data may go with the first packet between proxies.
    pub early_data: bool,
    /// The congestion control of legs between proxies; empty: the system's.
    pub congestion: String,
    /// Connections now.
    pub connections: u64,
    /// The most there may be.
    pub capacity: u64,
    /// Whether it takes new connections in.
    pub is_open: bool,
    /// Connections taken in.
    pub taken: u64,
    /// Those whose server could not be reached.
    pub unreachable: u64,
    /// Those that were reset, or broke.
    pub reset: u64,
    /// Those that ended in order.
    pub ended: u64,
    /// Bytes from clients to servers.
    pub up_bytes: u64,
    /// Bytes from servers to clients.
    pub down_bytes: u64,
    /// Pipes with bytes in them.
    pub pipes: u64,
    /// Connections that were not made: a rule of `[proxies]` denies them, or no rule may open the address.
    #[serde(default)]
    pub refused: u64,
}

impl Proxy {
    /// Takes over what it says of itself.
    pub fn set(&mut self, status: &weft_tcp_er::proxy::Status) {
        let ours = (self.state.clone(), self.pid, self.restarts, self.early_data);
        let (state, pid, restarts, early_data) = ours;
        let counts = &status.counts;
        *self = Proxy {
            state,
            pid,
            restarts,
            early_data,
            congestion: status.congestion.clone(),
            connections: counts.connections,
            capacity: status.capacity,
            is_open: status.is_open,
            taken: counts.taken,
            unreachable: counts.unreachable,
            reset: counts.reset,
            ended: counts.ended,
            up_bytes: counts.up_bytes,
            down_bytes: counts.down_bytes,
            pipes: counts.pipes,
            refused: counts.refused,
        };
    }
}

/// A flow sent lately.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Flow {
    /// Number toward this peer.
    pub id: u16,
    /// Number of its VPN.
    pub vpn: u32,
    /// Protocol, addresses and ports.
    pub flow: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// What was sent in the last second; absent: not known yet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_bps: Option<u64>,
    /// Time since the last packet.
    pub idle_ms: u64,
}

impl Peer {
    /// Why this peer is less than well, if it is.
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
    /// Its name for people: the link here, and the link or address there.
    pub fn name(&self) -> String {
        match self.remote_link.as_deref().filter(|theirs| *theirs != self.link) {
            Some(theirs) => format!("{} {} → {theirs} {}", self.id, self.link, self.remote),
            None => format!("{} {} → {}", self.id, self.link, self.remote),
        }
    }

    /// Whether it carries nothing.
    pub fn is_down(&self) -> bool {
        self.state == "down" || self.state == "opening"
    }
}

impl Status {
    /// What people call the VPN of this number.
    pub fn vpn_name(&self, id: u32) -> String {
        self.vpns.iter().find(|vpn| vpn.id == id).map_or_else(|| id.to_string(), |vpn| vpn.name.clone())
    }

    /// A VPN's part of what all VPNs with queues of their own sent to a peer, 0 to 1.
    pub fn vpn_share(&self, of: &VpnMember) -> Option<f64> {
        let members = self.vpns.iter().flat_map(|vpn| &vpn.members).filter(|member| member.peer == of.peer);
        let sum: u64 = members.map(|member| member.sent_bytes).sum();
        (sum > 0).then(|| of.sent_bytes as f64 / sum as f64)
    }

    /// Whether a peer is less than well, or a link that the configuration names is not in use. A peer that came by certificate may go as it
    /// came.
    pub fn is_degraded(&self) -> bool {
        let is_expected = |peer: &&Peer| peer.certified_until_unix_s.is_none() || peer.established_s.is_some();
        let is_alone = self.overlay.as_ref().is_some_and(Overlay::is_alone);
        let is_missing = self.unused_links.iter().any(|link| link.is_expected);
        is_alone || is_missing || self.peers.iter().filter(is_expected).any(|peer| peer.trouble().is_some())
    }
}
