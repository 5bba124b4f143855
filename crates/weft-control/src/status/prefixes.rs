//! Prefixes and their owners.

use serde::{Deserialize, Serialize};

/// The prefixes of this node and its peers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prefixes {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Prefixes by VPN, and within a VPN by address.
    pub prefixes: Vec<Prefix>,
    /// Number of prefixes that the answer leaves out because there are too many.
    ///
    /// A request for one peer or VPN leaves out fewer.
    pub left_out: usize,
    /// Number of prefixes learnt from routing protocols.
    #[serde(default)]
    pub learnt: usize,
    /// Number of learnt prefixes that are kept for a time although their routing daemon has ended.
    #[serde(default)]
    pub held: usize,
    /// Some of the routes that this node refused to learn, each with the reason.
    #[serde(default)]
    pub refused: Vec<super::RefusedPrefix>,
    /// Number of all routes that this node refused to learn.
    #[serde(default)]
    pub refused_count: usize,
}

/// A prefix and its owner.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prefix {
    /// Name of the VPN.
    pub vpn: String,
    /// Prefix, such as 10.9.0.0/24.
    pub prefix: String,
    /// Name of the peer that has the prefix; absent: this node.
    pub peer: Option<String>,
    /// Source of the prefix: the configuration, a certificate, or a routing protocol.
    pub learnt: String,
    /// End of the certificate that contains the prefix.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub certified_until_unix_s: Option<u64>,
}
