//! Transit: settings and counters of a node that forwards packets from peer to peer.

use super::config::Prefix;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_session::PublicKey;
use weft_units::{Duration, Rate};

/// Settings of transit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransitConfig {
    /// Prefixes behind this node. Packets for them go to the TUN device.
    pub local: Vec<Prefix>,
    /// Inner addresses of this node. ICMP errors have the first address of the packet's IP version as their source.
    pub addresses: Vec<IpAddr>,
}

/// A further next hop toward a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// The prefix, exactly as it is assigned to its owner, another peer.
    pub prefix: Prefix,
    /// Key of the peer that forwards toward the prefix as well.
    pub peer: PublicKey,
}

/// The load of a port as a peer reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeardLoadView {
    /// Name of the peer.
    pub peer: String,
    /// Prefix toward which the peer forwards by this port.
    pub prefix: Prefix,
    /// Moving average of the rate at which packets arrive at the port.
    pub rate: Rate,
    /// Number of flows with packets in the last 20 ms before the report.
    pub flows: u32,
    /// Queueing delay that 95 % of the port's packets did not exceed.
    pub queue_delay: Duration,
    /// Rate that flows of each class could still be granted, with the name of the class.
    pub headroom: Vec<(String, Rate)>,
    /// Time since the report arrived.
    pub age: Duration,
    /// False if the report is too old to count.
    pub counts: bool,
    /// True if new flows without a guarantee avoid the port.
    pub is_full: bool,
}

/// Counters of transit since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransitTotals {
    /// Packets forwarded from peer to peer. A super-packet counts as one.
    pub packets: u64,
    /// IP bytes of the packets forwarded from peer to peer.
    pub bytes: u64,
    /// Packets dropped because their hop limit would have reached zero at this node.
    pub expired: u64,
    /// Packets dropped because they were longer than the inner MTU.
    pub too_big: u64,
    /// ICMP errors that this node sent about dropped packets.
    pub errors: u64,
}
