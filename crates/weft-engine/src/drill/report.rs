//! Results of a drill.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use weft_units::{Duration, PathId};

/// Phase of a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrillPhase {
    /// Probes are sent, and nothing is cut yet.
    Before,
    /// The target is cut.
    Silent,
    /// The cut has ended, and probes are still sent.
    After,
    /// The drill has ended.
    Over,
}

/// Results of the running drill, or of the last one.
#[derive(Clone, Debug)]
pub struct DrillReport {
    /// The target, such as `link eth0`.
    pub of: String,
    /// The present phase.
    pub phase: DrillPhase,
    /// Duration of the cut.
    pub time: Duration,
    /// Time until the drill ends.
    pub left: Duration,
    /// Probe results for each peer that was reached over the target.
    pub peers: Vec<PeerDrill>,
}

/// Probe results for one peer.
#[derive(Clone, Debug)]
pub struct PeerDrill {
    /// The peer's name.
    pub peer: String,
    /// Probes sent.
    pub sent: u32,
    /// Probes without an answer. Unlike packets, they are not retransmitted.
    pub lost: u32,
    /// Probes that were due while no path could send them.
    pub unsent: u32,
    /// Time from the cut until a path over the target was suspect. From then on other paths carry new traffic.
    pub suspected_after: Option<Duration>,
    /// Time from the cut until a path over the target was down.
    pub down_after: Option<Duration>,
    /// Longest time between two answers during the cut, including a gap still open at its end.
    pub gap: Duration,
    /// Longest time between two answers after the cut, including a gap that began earlier.
    pub gap_after: Duration,
    /// Time from the end of the cut until a probe used the target again.
    pub back_after: Option<Duration>,
    /// Paths that the probes used.
    pub ways: Vec<WayDrill>,
}

/// Probe results on one path.
#[derive(Clone, Debug)]
pub struct WayDrill {
    /// The path.
    pub path: PathId,
    /// The local link.
    pub link_name: String,
    /// The remote address.
    pub remote: SocketAddr,
    /// True if the path leads over the target.
    pub is_cut: bool,
    /// Probes sent on the path before, during and after the cut.
    pub sent: [u32; 3],
    /// Answers to those probes, by the phase in which the probe was sent.
    pub answered: [u32; 3],
}
