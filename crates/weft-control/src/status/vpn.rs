use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Status of a VPN.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Vpn {
    /// Id of the VPN.
    pub id: u32,
    /// Name in the configuration.
    pub name: String,
    /// Present weight.
    pub weight: u32,
    /// Service: best-effort, assured or leased.
    pub service: String,
    /// Promised rate, in bits per second.
    pub promised_bps: Option<u64>,
    /// Rate-control algorithm of the VPN's loops, with its parameters; absent: no loops.
    #[serde(rename = "loop")]
    pub control: Option<String>,
    /// Name of the TUN device.
    pub device: String,
    /// Peers that are members of the VPN.
    pub members: Vec<VpnMember>,
    /// Units sent, without retransmissions.
    pub sent_packets: u64,
    /// Bytes of the units sent, without retransmissions.
    pub sent_bytes: u64,
    /// Packets delivered to the device.
    pub received_packets: u64,
    /// IP bytes delivered to the device.
    pub received_bytes: u64,
    /// Packets dropped before they were sent.
    pub dropped_packets: u64,
    /// Units rejected because their source is outside the sender's prefixes, or the sender is no member.
    pub strays: u64,
    /// Packets dropped because no member has a prefix with their destination.
    pub unroutable_packets: u64,
}

/// Membership of a peer in a VPN.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VpnMember {
    /// Name of the peer.
    pub peer: String,
    /// True if packets can be sent to the member now.
    ///
    /// The member must first confirm that it has the VPN, which the first packet causes.
    pub open: bool,
    /// Packets in the VPN's queue toward the member.
    pub queue_packets: usize,
    /// Bytes in the VPN's queue toward the member.
    pub queue_bytes: u64,
    /// Packets that left the queue.
    pub sent_packets: u64,
    /// Bytes that left the queue.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Packets dropped by the AQM.
    pub dropped_aqm: u64,
    /// Packets marked by the AQM.
    pub marked: u64,
    /// The loop toward the member; absent: there is none, or it was never used.
    #[serde(rename = "loop")]
    pub control: Option<VpnLoop>,
}

impl VpnMember {
    /// Returns the VPN's fraction of the bytes that all VPNs with a queue of their own sent to the peer, 0 to 1.
    ///
    /// `sums` contains the bytes that these VPNs together sent to each peer, by the peer's name.
    pub fn share_of(&self, sums: &BTreeMap<&str, u64>) -> Option<f64> {
        let sum = sums.get(self.peer.as_str()).filter(|sum| **sum > 0)?;
        Some(self.sent_bytes as f64 / *sum as f64)
    }
}

/// Status of a loop from this edge to another.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VpnLoop {
    /// Rate at which the loop may send, in bits per second.
    pub rate_bps: u64,
    /// Window of the loop. Without a window: the bytes that it may send in a round trip.
    pub window_bytes: u64,
    /// Recent delivery rate, in bits per second.
    pub delivered_bps: u64,
    /// Smoothed round-trip time between the edges, in microseconds.
    pub rtt_us: u64,
    /// Loss events per packet; absent: none yet, or an algorithm that does not use loss.
    pub loss_event_rate: Option<f64>,
    /// Packets that are lost for good, because recovery did not restore them; modulo 2^32.
    pub lost_packets: u32,
    /// Bytes in flight: sent, and neither received nor lost.
    pub in_flight_bytes: u32,
    /// Bytes of the loop that stand in queues along the route; 0 if the algorithm does not measure them.
    pub accumulation_bytes: u64,
}
