//! How a drill goes.

use serde::{Deserialize, Serialize};

/// A drill under way, or the last one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Drill {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// What is cut: `link eth0`, `node hub`.
    pub cut: String,
    /// `before`, `silent`, `after` or `over`.
    pub phase: String,
    /// How long it is cut.
    pub time_ms: u64,
    /// Time until all is over.
    pub left_ms: u64,
    /// The peers that were reached by what is cut.
    pub peers: Vec<DrillPeer>,
}

/// What became of the probes to a peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct DrillPeer {
    /// Its name.
    pub peer: String,
    /// Probes sent.
    pub sent: u32,
    /// Probes without an answer. They are not repeated, as packets would be.
    pub lost: u32,
    /// Probes that were due while there was no path.
    pub unsent: u32,
    /// From the cut until a path by it was under suspicion.
    pub detected_us: Option<u64>,
    /// From the cut until a path by it was down.
    pub down_us: Option<u64>,
    /// The longest time between two answers during the cut.
    pub gap_us: u64,
    /// The longest time between two answers afterwards.
    pub gap_after_us: u64,
    /// From the end of the cut until what had been cut was used again.
    pub back_us: Option<u64>,
    /// The paths that probes went by.
    pub paths: Vec<DrillPath>,
}

/// What a path carried of the probes before, during and after the cut.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct DrillPath {
    /// Its number.
    pub id: u8,
    /// The link here.
    pub link: String,
    /// The address there.
    pub remote: String,
    /// It leads by what was cut.
    pub cut: bool,
    /// Probes sent.
    pub sent: [u32; 3],
    /// Of those, answered.
    pub answered: [u32; 3],
}
