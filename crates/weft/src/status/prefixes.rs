//! Who has which prefix.

use serde::{Deserialize, Serialize};

/// The prefixes of this node and its peers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Prefixes {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// By VPN, and in a VPN by address.
    pub prefixes: Vec<Prefix>,
    /// How many more there are. A peer or a VPN asked for leaves fewer out.
    pub left_out: usize,
}

/// A prefix and whose it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Prefix {
    /// The VPN's name.
    pub vpn: String,
    /// The prefix.
    pub prefix: String,
    /// The name of the peer that has it; absent: this node.
    pub peer: Option<String>,
    /// Where that is known from.
    pub learnt: String,
    /// A certificate says so, until then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub certified_until_unix_s: Option<u64>,
}
