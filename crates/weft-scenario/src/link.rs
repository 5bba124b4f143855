//! Links: what joins the two nodes.

use crate::channel::{Impaired, Impairments};
use std::sync::Arc;
use std::time::Duration;
use weft_units::Rate;

/// Bytes of a full IP packet on a link.
pub const PACKET_BYTES: u64 = 1500;
/// Bytes of TCP payload in a full packet (20 of IPv4, 20 of TCP, 12 of timestamps): the bound's numerator.
pub const PAYLOAD_BYTES: u64 = 1448;

/// What a link direction can carry.
#[derive(Clone, PartialEq, Debug)]
pub enum Capacity {
    /// A constant rate, counting IP bytes.
    Rate(Rate),
    /// A Mahimahi-format trace of packet delivery opportunities, by name.
    Trace(String),
}

/// The length of a drop-tail queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum QueueSize {
    /// A multiple of rate × base round-trip time.
    Bdp(f64),
    /// A number of full packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(u64),
}

impl QueueSize {
    /// What a link has that says nothing else.
    pub const DEFAULT: QueueSize = QueueSize::Bdp(1.5);

    /// This length times `factor`, in the same unit.
    pub fn scaled(self, factor: f64) -> QueueSize {
        match self {
            QueueSize::Bdp(bdp) => QueueSize::Bdp(bdp * factor),
            QueueSize::Packets(packets) => QueueSize::Packets((packets as f64 * factor) as u64),
            QueueSize::Bytes(bytes) => QueueSize::Bytes((bytes as f64 * factor) as u64),
        }
    }

    /// The queue in bytes, at least two full packets.
    pub fn bytes(self, rate: Rate, base_rtt: Duration) -> u64 {
        let bytes = match self {
            QueueSize::Bdp(factor) => rate.scaled(factor).bytes_in(base_rtt),
            QueueSize::Packets(packets) => packets.saturating_mul(PACKET_BYTES),
            QueueSize::Bytes(bytes) => bytes,
        };
        bytes.max(2 * PACKET_BYTES)
    }
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectionSpec {
    /// What it can carry.
    pub capacity: Capacity,
    /// One-way propagation delay.
    pub delay: Duration,
    /// Each packet is delayed by up to this much more, evenly spread, never overtaking.
    pub jitter: Duration,
    /// Probability that a packet is lost, independent of the others.
    pub loss: f64,
    /// The queue before the link; drop-tail unless an impairment manages it.
    pub queue: QueueSize,
    /// What else is wrong with it.
    pub impairments: Impairments,
}

impl DirectionSpec {
    /// What a world's model of this direction of `link` needs beside the plain properties, in a run with this seed; none where nothing is
    /// impaired. With `waits`, what happens by the clock waits until the run begins.
    pub fn impaired(&self, seed: u64, link: &str, waits: bool) -> Option<Arc<Impaired>> {
        if self.impairments.is_none() {
            return None;
        }
        let schedule = Impaired::schedule(seed, link);
        Some(Arc::new(Impaired { impairments: self.impairments.clone(), schedule, waits }))
    }
}

/// A link between the two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// Its name, also that of the network interface in both nodes.
    pub name: String,
    /// From the first node to the second (home to hub).
    pub up: DirectionSpec,
    /// From the second node to the first.
    pub down: DirectionSpec,
    /// How often a NAT gives the first node another address and port on this link.
    pub rebind: Option<Duration>,
    /// What kind of link it is, for results to be grouped by.
    pub class: Option<String>,
}

impl Link {
    /// Round-trip time of an empty link.
    pub fn base_rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }
}

/// One direction of a link, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Up and down.
    Both,
    /// From the first node to the second.
    Up,
    /// From the second node to the first.
    Down,
}

impl Directions {
    /// Whether the up direction is meant.
    pub fn has_up(self) -> bool {
        self != Directions::Down
    }

    /// Whether the down direction is meant.
    pub fn has_down(self) -> bool {
        self != Directions::Up
    }

    /// The word used in files.
    pub fn word(self) -> &'static str {
        match self {
            Directions::Both => "both",
            Directions::Up => "up",
            Directions::Down => "down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bdp_is_rate_times_round_trip() {
        let rtt = Duration::from_millis(16);
        assert_eq!(QueueSize::Bdp(1.5).bytes(Rate::from_mbps(50), rtt), 150_000);
        assert_eq!(QueueSize::Packets(10).bytes(Rate::from_mbps(50), rtt), 15_000);
        assert_eq!(QueueSize::Bytes(1).bytes(Rate::from_mbps(50), rtt), 3_000);
    }
}
