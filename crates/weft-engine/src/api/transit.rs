//! Transit: settings and counters of a node that forwards packets from peer to peer.

use super::config::Prefix;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Settings of transit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransitConfig {
    /// Prefixes behind this node. Packets for them go to the TUN device.
    pub local: Vec<Prefix>,
    /// Inner addresses of this node. ICMP errors have the first address of the packet's IP version as their source.
    pub addresses: Vec<IpAddr>,
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
