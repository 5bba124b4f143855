//! Rules of access to the hosts behind this node: their settings, counters, and the packets that they dropped.

use super::config::Prefix;
use alloc::string::String;
use alloc::vec::Vec;
use weft_flows::allow::{AccessDrop, AccessDrops, AllowRules, NodeGroups};
use weft_session::PublicKey;
use weft_units::{PeerId, VpnId};
use weft_wire::ip::FlowKey;

/// Rules of access to the hosts behind this node. Packets that no rule allows and that answer no flow are dropped.
#[derive(Clone, Debug)]
pub struct AccessConfig {
    /// The rules. Each allows some packets of peers to enter.
    pub rules: AllowRules,
    /// Name and groups of this node.
    pub own: NodeGroups,
    /// Groups of configured peers, by key. A peer that joined by certificate has the groups of its certificate.
    pub groups: Vec<(PublicKey, Vec<String>)>,
    /// Prefixes behind this node in the default VPN. They are not behind a peer, even if a peer has a wider prefix.
    pub local: Vec<Prefix>,
}

/// A packet of a peer that the rules of access dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeniedPacket {
    /// The peer that sent the packet.
    pub peer: PeerId,
    /// VPN of the packet.
    pub vpn: VpnId,
    /// Flow to which the packet belongs.
    pub key: FlowKey,
    /// Reason why the packet was dropped.
    pub why: AccessDrop,
}

/// Counters of the rules of access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessTotals {
    /// Number of rules.
    pub rules: usize,
    /// Number of allowed flows that the rules remember. Packets that answer such a flow are allowed.
    pub flows: usize,
    /// Dropped packets by reason.
    pub drops: AccessDrops,
    /// The last packet that was dropped; `None` if none was.
    pub last: Option<DeniedPacket>,
}
