//! Why a peer is not well, as it is shown.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that keeps a peer from its session, or takes something from its connection.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
pub struct Finding {
    /// The cause's name: docs/connecting.md lists them.
    pub cause: String,
    /// What was tried and what came back.
    pub found: String,
    /// The likely cause.
    pub likely: String,
    /// What to do.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { found, likely, advice, .. } = self;
        write!(f, "{found}: likely cause: {likely}: {advice}")
    }
}

/// A link and an address that handshakes were sent by.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct TriedPair {
    /// The link here.
    pub link: String,
    /// The address there.
    pub remote: String,
    /// Handshakes sent since there is no session.
    pub sent: u32,
    /// What came back, by the name of its cause; absent: nothing.
    pub came_back: Option<String>,
    /// Who says so.
    pub reporter: Option<String>,
}

/// Who called this node lately and is no peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct StrangerSeen {
    /// Where the last call came from.
    pub source: String,
    /// The key it proved to have; absent: it proved none.
    pub public_key: Option<String>,
    /// Calls so far.
    pub times: u32,
    /// Time since the last one.
    pub last_s_ago: u64,
    /// What that means.
    pub finding: Finding,
}
