//! Status of a drill.

use serde::{Deserialize, Serialize};

/// The current drill, or the last one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Drill {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Target that is cut: `link eth0`, `node hub`.
    pub cut: String,
    /// Phase: `before`, `silent`, `after` or `over`.
    pub phase: String,
    /// Duration of the cut, in milliseconds.
    pub time_ms: u64,
    /// Time until the drill is over, in milliseconds.
    pub left_ms: u64,
    /// Peers that were reached through the target.
    pub peers: Vec<DrillPeer>,
}

/// Results of the probes to a peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DrillPeer {
    /// Name of the peer.
    pub peer: String,
    /// Probes sent.
    pub sent: u32,
    /// Probes without an answer. The node does not retransmit probes, unlike packets.
    pub lost: u32,
    /// Probes that were due while there was no path.
    pub unsent: u32,
    /// Time from the cut until a path through the target was suspect, in microseconds.
    pub detected_us: Option<u64>,
    /// Time from the cut until a path through the target was down, in microseconds.
    pub down_us: Option<u64>,
    /// Longest time between two answers during the cut, in microseconds.
    pub gap_us: u64,
    /// Longest time between two answers after the cut, in microseconds.
    pub gap_after_us: u64,
    /// Time from the end of the cut until a path through the target was used again, in microseconds.
    pub back_us: Option<u64>,
    /// Paths on which probes were sent.
    pub paths: Vec<DrillPath>,
}

/// Probes of one path before, during and after the cut.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DrillPath {
    /// Id of the path.
    pub id: u8,
    /// Local link.
    pub link: String,
    /// Remote address.
    pub remote: String,
    /// True if the path leads through the target.
    pub cut: bool,
    /// Probes sent before, during and after the cut.
    pub sent: [u32; 3],
    /// Probes of each phase that were answered.
    pub answered: [u32; 3],
}
