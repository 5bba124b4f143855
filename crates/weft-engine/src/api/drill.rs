//! Drills: their targets, the reasons for which one cannot start, and their results.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use weft_units::{Duration, PathId};

/// Longest duration of the cut of a drill.
pub const DRILL_MAX: Duration = Duration::from_secs(300);

/// The link or node that a drill cuts, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrillTarget {
    /// A local link by name, or a relayed route by its name, such as `via hub`.
    Link(String),
    /// A peer by name, and all routes that lead over it.
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
    /// The duration of the cut is zero or longer than [`DRILL_MAX`].
    BadTime,
    /// No peer is reached over the target at present.
    Unused,
    /// These peers would become unreachable, because no path to them avoids the target. Holds their names.
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
    /// The present phase of the drill.
    pub phase: DrillPhase,
    /// Duration of the cut.
    pub time: Duration,
    /// Time from now until the drill ends.
    pub left: Duration,
    /// Probe results for each peer that was reached over the target.
    pub peers: Vec<PeerDrill>,
}

/// Probe results of a drill for one peer.
#[derive(Clone, Debug)]
pub struct PeerDrill {
    /// The peer's name.
    pub peer: String,
    /// Probes sent to the peer since the drill began.
    pub sent: u32,
    /// Probes to the peer without an answer. Unlike packets, probes are not retransmitted.
    pub lost: u32,
    /// Probes that were due while no path could send them.
    pub unsent: u32,
    /// Time from the cut until a path over the target was suspect; `None` before.
    ///
    /// From then on other paths carry new traffic.
    pub suspected_after: Option<Duration>,
    /// Time from the cut until a path over the target was down; `None` before.
    pub down_after: Option<Duration>,
    /// Longest time without an answer to a probe during the cut, including one that lasts until its end.
    pub gap: Duration,
    /// Longest time without an answer to a probe after the cut, including one that began earlier.
    pub gap_after: Duration,
    /// Time from the end of the cut until a probe used a path over the target again; `None` before.
    pub back_after: Option<Duration>,
    /// Results for each path that the probes to the peer used.
    pub ways: Vec<WayDrill>,
}

/// Probe results of a drill on one path.
#[derive(Clone, Debug)]
pub struct WayDrill {
    /// Number of the path.
    pub path: PathId,
    /// Name of the path's local link.
    pub link_name: String,
    /// Remote address of the path.
    pub remote: SocketAddr,
    /// True if the path leads over the target, so that the drill cuts it.
    pub is_cut: bool,
    /// Numbers of probes sent on the path: before, during and after the cut.
    pub sent: [u32; 3],
    /// Answers to the probes sent before, during and after the cut, by the time at which the probe was sent.
    pub answered: [u32; 3],
}
