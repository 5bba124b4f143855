//! Prefixes that the node learnt from a routing protocol that runs on the same machine.

use super::config::Prefix;
use core::fmt;
use core::net::IpAddr;

/// A route that a routing protocol on this machine added, changed or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LearntChange {
    /// The route's destination. The bits after the prefix length are zero.
    pub prefix: Prefix,
    /// The tunnel address of the peer behind which the prefix lies, or `None` if the route was removed.
    pub next_hop: Option<IpAddr>,
    /// Number of the routing protocol, as the kernel's routing table stores it.
    pub protocol: u8,
}

/// The reason why a prefix of a routing protocol was not adopted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LearntRefusal {
    /// The next hop of the route lies behind no peer of the VPN.
    NoPeer,
    /// Only a learnt prefix contains the next hop, so the route would depend on itself.
    Loop,
}

impl fmt::Display for LearntRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LearntRefusal::NoPeer => "the next hop lies behind no peer: add it to the peer's `prefixes`",
            LearntRefusal::Loop => "routing loop: only a learnt prefix leads to the next hop",
        })
    }
}
