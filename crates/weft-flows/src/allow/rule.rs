//! The parts of a rule of access.

use crate::rules::FlowPrefix;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use weft_units::VpnId;

/// Maximum number of terms of all rules: senders times destinations times ranges of ports.
///
/// *Derived*: as many as the classifier of flows has rules, which bounds the memory in the same way.
pub const MAX_TERMS: usize = 4_096;

/// One end of a flow, as a rule names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Party {
    /// Every node and address.
    Any,
    /// The node whose certificate or `[[peer]]` table has this name.
    Node(String),
    /// Each node that belongs to the group with this name.
    Group(String),
    /// Hosts with an address in the prefix, behind any node.
    Prefix(FlowPrefix),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Any => f.write_str("any"),
            Party::Node(name) => write!(f, "node:{name}"),
            Party::Group(name) => write!(f, "group:{name}"),
            Party::Prefix(prefix) => write!(f, "{prefix}"),
        }
    }
}

/// A rule: flows with these properties may enter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowRule {
    /// Name of the rule, for readers of output.
    pub name: String,
    /// Senders. One of them must match.
    pub from: Vec<Party>,
    /// Destinations. One of them must match.
    pub to: Vec<Party>,
    /// Protocol number (IANA); `None` matches every protocol.
    pub protocol: Option<u8>,
    /// Destination ports. One of the ranges must match. Empty for every port.
    pub ports: Vec<RangeInclusive<u16>>,
    /// VPN of the flow; `None` matches every VPN.
    pub vpn: Option<VpnId>,
}

/// A node with the groups that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeGroups {
    /// Name of the node, or empty for a node without a name.
    pub name: String,
    /// Groups of the node.
    pub groups: Vec<String>,
}

impl NodeGroups {
    /// Returns true if the node is this party, or if the party does not name nodes.
    pub fn may_be(&self, party: &Party) -> bool {
        match party {
            Party::Any | Party::Prefix(_) => true,
            Party::Node(name) => *name == self.name,
            Party::Group(group) => self.groups.contains(group),
        }
    }
}
