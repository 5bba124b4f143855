//! The links between all members of the overlay, and the routes that this node finds on them.

use serde::{Deserialize, Serialize};

/// The link map that this node stores.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkMap {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Members of the overlay whose certificates this node stores.
    pub members: Vec<MapMember>,
    /// Links that both ends claim to be up, in the order of the names of their ends.
    pub links: Vec<MapLink>,
    /// Number of links that the answer leaves out because there are too many.
    ///
    /// A request for one member leaves out fewer.
    pub left_out: usize,
    /// Routes over relays from this node, the best first for each destination.
    pub routes: Vec<MapRoute>,
    /// Forged claims and certificates that were refused since the start.
    pub forged_claims: u64,
    /// Bytes that this node has sent since the start to exchange the link map, including headers.
    pub sent_bytes: u64,
}

/// A member of the overlay.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MapMember {
    /// Name in the member's certificate.
    pub name: String,
    /// True if the member forwards datagrams between other nodes.
    pub relay: bool,
}

/// A link between two members. Each value is the worse one of those that its two ends claim.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MapLink {
    /// Name of one end.
    pub from: String,
    /// Name of the other end.
    pub to: String,
    /// Round-trip time, in microseconds.
    pub rtt_us: u64,
    /// Mean deviation of the round-trip time, in microseconds.
    pub jitter_us: u64,
    /// Fraction of datagrams lost, 0 to 1.
    pub loss: f64,
    /// Available bandwidth, or else the capacity, in bit/s; absent: both are unknown.
    pub rate_bps: Option<u64>,
}

/// A route over relays.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MapRoute {
    /// Name of the destination.
    pub to: String,
    /// Names of the relays, in order.
    pub relays: Vec<String>,
    /// Round-trip time, computed from the link map, in microseconds.
    pub rtt_us: u64,
    /// Fraction of datagrams lost, computed from the link map, 0 to 1.
    pub loss: f64,
    /// Rate of the narrowest link, in bit/s; absent: the rate of some link is unknown.
    pub rate_bps: Option<u64>,
    /// State: in use, standby, or not answering.
    pub state: String,
}
