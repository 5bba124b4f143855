//! How a drill went.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Duration, PathId};

/// Where a drill stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrillPhase {
    /// Probes pass; nothing is cut yet.
    Before,
    /// Cut.
    Silent,
    /// Nothing is cut any more; probes still pass.
    After,
    /// All is over.
    Over,
}

/// A drill under way, or the last one.
#[derive(Clone, Debug)]
pub struct DrillReport {
    /// What is cut: `link eth0`.
    pub of: String,
    /// Where it stands.
    pub phase: DrillPhase,
    /// How long it is cut.
    pub time: Duration,
    /// Time until all is over.
    pub left: Duration,
    /// What became of the probes to each peer that was reached by what is cut.
    pub peers: Vec<PeerDrill>,
}

/// What became of the probes to a peer.
#[derive(Clone, Debug)]
pub struct PeerDrill {
    /// Its name.
    pub peer: String,
    /// Probes sent.
    pub sent: u32,
    /// Probes without an answer. They are not repeated, as packets would be.
    pub lost: u32,
    /// Probes that were due while no path was there to send them.
    pub unsent: u32,
    /// From the cut until a path by it was under suspicion: from then on others carry what is new.
    pub suspected_after: Option<Duration>,
    /// From the cut until a path by it was down.
    pub down_after: Option<Duration>,
    /// The longest time between two answers that ended while it was cut, or at its end has not ended.
    pub gap: Duration,
    /// The longest time between two answers afterwards, also if it began before.
    pub gap_after: Duration,
    /// From the end of the cut until a probe went by what had been cut again.
    pub back_after: Option<Duration>,
    /// The paths that probes went by.
    pub ways: Vec<WayDrill>,
}

/// What a path carried of the probes.
#[derive(Clone, Debug)]
pub struct WayDrill {
    /// The path.
    pub path: PathId,
    /// The link here.
    pub link_name: String,
    /// The address there.
    pub remote: SocketAddr,
    /// It leads by what was cut.
    pub is_cut: bool,
    /// Probes sent by it before, during and after the cut, and how many of each were answered.
    pub sent: [u32; 3],
    /// The answers.
    pub answered: [u32; 3],
}
