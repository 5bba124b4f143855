//! Status of a drill.

use serde::{Deserialize, Serialize};

/// The current drill, or the last one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Drill {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Link or node that is cut, such as `link eth0` or `node hub`.
    pub cut: String,
    /// Phase of the drill: `before` the cut, `silent` (during it), `after` it, or `over`.
    pub phase: String,
    /// Duration of the cut, in milliseconds.
    pub time_ms: u64,
    /// Time until the drill ends, in milliseconds.
    pub left_ms: u64,
    /// Peers to which a path crossed the link or node that is cut.
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
    /// Probes without an answer. Unlike a lost packet, a lost probe is not retransmitted.
    pub lost: u32,
    /// Probes that were due while there was no path.
    pub unsent: u32,
    /// Time from the cut until the first path over the target was suspect, in microseconds; absent: none was.
    pub detected_us: Option<u64>,
    /// Time from the cut until the first path over the target was down, in microseconds; absent: none was.
    pub down_us: Option<u64>,
    /// Longest time during the cut between two answers to probes, in microseconds.
    pub gap_us: u64,
    /// Longest time after the cut between two answers to probes, in microseconds.
    pub gap_after_us: u64,
    /// Time from the end of the cut until a path over the target was in use again, in microseconds; absent: none was.
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
    /// True if the path crosses the link or node that is cut.
    pub cut: bool,
    /// Probes sent before, during and after the cut.
    pub sent: [u32; 3],
    /// Answered probes, of those sent before, during and after the cut.
    pub answered: [u32; 3],
}
