//! The engine's state as a reader sees it.

use crate::PathState;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use weft_units::{FlowId, LinkId, PathId, Rate};

/// Everything `weft status`, `paths` and `flows` show.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One per configured peer.
    pub peers: Vec<PeerSnapshot>,
    /// The inner MTU in bytes.
    pub inner_mtu: u16,
    /// Datagrams dropped before authentication.
    pub rejected_datagrams: u64,
    /// Packets for which no peer has a prefix.
    pub unroutable_packets: u64,
    /// Pool buffers in use and the most there have been.
    pub buffers_in_use: usize,
    /// High-water mark of the above.
    pub buffers_peak: usize,
}

/// One peer.
#[derive(Clone, Debug)]
pub struct PeerSnapshot {
    /// Its name in the configuration.
    pub name: String,
    /// Its public key, as text.
    pub public_key: String,
    /// A session stands, and since when.
    pub established_for: Option<Duration>,
    /// Time since something authentic came from it.
    pub last_heard: Option<Duration>,
    /// Its paths.
    pub paths: Vec<PathSnapshot>,
    /// Packets given to the TUN device, and IP bytes.
    pub received_packets: u64,
    /// IP bytes given to the TUN device.
    pub received_bytes: u64,
    /// Units sent first time.
    pub sent_units: u64,
    /// Bytes of those, without overhead.
    pub sent_bytes: u64,
    /// Units repeated.
    pub repeated_units: u64,
    /// Units given up.
    pub abandoned_units: u64,
    /// Packets dropped by the flow queue.
    pub queue_drops: u64,
    /// Bytes waiting in the flow queue.
    pub queue_bytes: u64,
    /// Units that came twice.
    pub duplicate_units: u64,
    /// Units held for order now.
    pub held_units: usize,
    /// How long the peer asks us to wait for a hole.
    pub hold: Duration,
    /// Flows seen lately.
    pub flows: Vec<FlowSnapshot>,
}

/// One path, as the sender here sees it.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    /// Its id within the session.
    pub id: PathId,
    /// The link here.
    pub link: LinkId,
    /// The link's name.
    pub link_name: String,
    /// The address there.
    pub remote: SocketAddr,
    /// Its health.
    pub state: PathState,
    /// Why, for people.
    pub cause: &'static str,
    /// Bulk may use it now.
    pub in_bundle: bool,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Least round-trip time.
    pub rtt_min: Option<Duration>,
    /// Queueing delay beyond the path's least one-way delay.
    pub queue_delay: Duration,
    /// One-way delay beyond the fastest path's.
    pub skew: Duration,
    /// Jitter of the one-way delay.
    pub jitter: Duration,
    /// Share of datagrams lost, 0…1.
    pub loss: f64,
    /// Learnt capacity.
    pub capacity: Option<Rate>,
    /// Pacing rate now.
    pub pacing: Rate,
    /// What the rate control is doing.
    pub mode: &'static str,
    /// Delivery rate last seen.
    pub delivery: Rate,
    /// Weight of weighted schedules.
    pub weight: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// Datagrams and bytes (IP) sent and received on it.
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

/// One flow sent lately.
#[derive(Clone, Debug)]
pub struct FlowSnapshot {
    /// Its number.
    pub id: FlowId,
    /// `tcp 10.9.0.1:40000 → 10.9.0.2:5201`.
    pub key: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time since the last packet.
    pub idle: Duration,
}
