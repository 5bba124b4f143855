//! Drills: their targets, the reasons for which one cannot start, and their results.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use weft_units::{Duration, PathId};

/// Longest duration of a drill.
pub const DRILL_MAX: Duration = Duration::from_secs(300);

/// The target of a drill, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrillTarget {
    /// A local link, or a route such as `via hub`.
    Link(String),
    /// A peer, and all routes over it.
    Node(String),
}

impl fmt::Display for DrillTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrillTarget::Link(name) => write!(f, "link {name}"),
            DrillTarget::Node(name) => write!(f, "node {name}"),
        }
    }
}

/// The reason for which a drill cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrillError {
    /// Another drill is running.
    UnderWay,
    /// The duration is zero or longer than [`DRILL_MAX`].
    BadTime,
    /// No peer is reached over the target.
    Unused,
    /// These peers would become unreachable.
    NoOtherPath(Vec<String>),
}

impl fmt::Display for DrillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DrillError::UnderWay => f.write_str("another drill is in progress"),
            DrillError::BadTime => write!(f, "a drill must last between 1 ms and {} s", DRILL_MAX.as_secs()),
            DrillError::Unused => f.write_str("no peer is reached over it"),
            DrillError::NoOtherPath(peers) => write!(f, "no other path would remain to {}", peers.join(", ")),
        }
    }
}

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
    /// The target of the drill, such as `link eth0`.
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
    /// Longest time between two answers to probes during the cut, including a gap still open at its end.
    pub gap: Duration,
    /// Longest time between two answers to probes after the cut, including a gap that began earlier.
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
    /// Answers to the probes sent before, during and after the cut, by the time at which the probe was sent.
    pub answered: [u32; 3],
}
