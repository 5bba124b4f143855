//! Links that the configuration names and that are not in use.

use serde::{Deserialize, Serialize};

/// A name or pattern in the configuration for which no link is in use.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnusedLink {
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Reason why no link is in use.
    pub why: String,
    /// True if the configuration contains exactly this name. The link should therefore be in use.
    ///
    /// It is false for a pattern, which need not match any interface.
    pub is_expected: bool,
}

/// TCP connections that carry the datagrams of a path.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TcpBundle {
    /// The path's link: `NAME/tcp` for a link of this node, `tcp` for connections that it has accepted.
    pub link: String,
    /// Address of the peer.
    pub remote: String,
    /// Reason for the use of TCP; absent: the peer opened the connections.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// Number of connections.
    pub connections: usize,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// Datagrams dropped because no connection could send them in time.
    pub dropped_datagrams: u64,
}
