//! Status of the diagnosis of a peer.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A cause that prevents a session with a peer, or impairs the connection.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the cause; docs/use/connecting.md lists them.
    pub cause: String,
    /// Description of what this node tried, and of the reaction of the network or the peer.
    pub found: String,
    /// The likely cause.
    pub likely: String,
    /// Advice to the user on how to remove the cause.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { found, likely, advice, .. } = self;
        write!(f, "{found}: likely cause: {likely}: {advice}")
    }
}

/// A pair of a local link and a remote address to which handshakes were sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TriedPair {
    /// Local link.
    pub link: String,
    /// Remote address.
    pub remote: String,
    /// Handshakes sent on this pair since the last session ended, or since the start.
    pub sent: u32,
    /// Name of the cause that the reaction to the handshakes indicates; absent: there was no reaction.
    pub came_back: Option<String>,
    /// Address of the host that sent the reaction.
    pub reporter: Option<String>,
}

/// A node that recently sent a handshake to this one and is not a peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StrangerSeen {
    /// Address from which the last handshake arrived.
    pub source: String,
    /// Public key whose private key the sender proved to have; absent: it proved none.
    pub public_key: Option<String>,
    /// Number of handshakes that arrived from this node.
    pub times: u32,
    /// Time since the last handshake, in seconds.
    pub last_s_ago: u64,
    /// Likely cause of the handshakes, and advice.
    pub finding: Finding,
}
