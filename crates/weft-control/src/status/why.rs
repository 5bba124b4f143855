//! Status of the diagnosis of a peer.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A cause that prevents a session with a peer, or impairs the connection.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Name of the cause; docs/use/connecting.md lists them.
    pub cause: String,
    /// Description of what was tried, and of the reaction.
    pub found: String,
    /// The likely cause.
    pub likely: String,
    /// Advice to the user how to remove the cause.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { found, likely, advice, .. } = self;
        write!(f, "{found}: likely cause: {likely}: {advice}")
    }
}

/// A pair of a link and an address by which handshakes were sent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TriedPair {
    /// Local link.
    pub link: String,
    /// Remote address.
    pub remote: String,
    /// Handshakes sent by this pair since there has been no session.
    pub sent: u32,
    /// Reaction to the handshakes, by the name of its cause; absent: there was none.
    pub came_back: Option<String>,
    /// Address of the host that sent the reaction.
    pub reporter: Option<String>,
}

/// A node that recently sent a handshake to this one and is not a peer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StrangerSeen {
    /// Source of the last handshake.
    pub source: String,
    /// Public key whose private key the sender proved to have; absent: it proved none.
    pub public_key: Option<String>,
    /// Number of handshakes so far.
    pub times: u32,
    /// Time since the last handshake, in seconds.
    pub last_s_ago: u64,
    /// Interpretation of the handshakes.
    pub finding: Finding,
}
