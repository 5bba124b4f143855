//! Configuration of the engine, given at the start and again at each reload.
//!
//! The program parses its configuration file and builds these types. The engine checks them and never reads a file
//! itself.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::control_loop::LoopConfig;
use weft_core::queue;
use weft_core::service::Service;
use weft_session::{Cipher, Identity, PresharedKey, PublicKey};
use weft_units::{PathUse, Rate, VpnId};

/// Configuration of a whole node.
pub struct EngineConfig {
    /// The node's static key pair.
    pub identity: Identity,
    /// The AEAD cipher that this node prefers.
    pub cipher: Cipher,
    /// Configured adjacent nodes. A peer's position in the list is its [`weft_units::PeerId`].
    pub peers: Vec<PeerConfig>,
    /// VPNs other than the default one. The default VPN consists of the peers' own prefixes.
    pub vpns: Vec<VpnConfig>,
    /// Settings of links, by interface name. A link without an entry uses the defaults.
    pub links: Vec<LinkConfig>,
    /// Highest handshake stamp accepted from each peer before the start.
    ///
    /// The program stores these stamps on disk.
    pub accepted_stamps: Vec<(PublicKey, u64)>,
    /// Wall-clock time when the engine starts, in nanoseconds since 1970.
    ///
    /// Handshake stamps follow it: see [`Engine::set_used_stamp`](crate::Engine::set_used_stamp).
    pub stamp_base: u64,
    /// Upper limit of the inner MTU, in bytes. With `None`, the paths alone determine the inner MTU.
    pub inner_mtu: Option<u16>,
}

/// Settings of one local link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Name of the network interface.
    pub name: String,
    /// Upper limit of the rate at which each path on the link is paced; `None`: no limit.
    pub cap: Option<Rate>,
    /// True if the node may send data on the link.
    pub send: bool,
    /// Traffic for which the link's paths may be used, in both directions.
    pub allowed: PathUse,
}

/// Settings of one peer.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The peer's name in the configuration.
    pub name: String,
    /// The peer's static public key.
    pub public_key: PublicKey,
    /// Optional secret that both nodes mix into the handshake in addition to their static keys.
    pub preshared_key: Option<PresharedKey>,
    /// Addresses to which this node sends handshakes for the peer. Empty if only the peer initiates.
    pub endpoints: Vec<SocketAddr>,
    /// Relayed routes to the peer. Each lists the relays in order, and the first relay is itself a peer.
    pub routes: Vec<Vec<PublicKey>>,
    /// Prefixes behind the peer in the default VPN.
    pub prefixes: Vec<Prefix>,
    /// Rules for sending to the peer.
    pub policy: Policy,
}

/// One VPN: a separate IP network among some of the peers, with its own address space.
#[derive(Clone, Debug, PartialEq)]
pub struct VpnConfig {
    /// The VPN's id, the same at all members. It is never [`VpnId::DEFAULT`].
    pub id: VpnId,
    /// The VPN's name in the configuration.
    pub name: String,
    /// Weight of the VPN relative to the weights of other VPNs, above zero.
    pub weight: u32,
    /// Service that the VPN is promised.
    ///
    /// Leased lines must fit into the rate that their members may lease ([`Policy::leasable`]).
    pub service: Service,
    /// Queue and loop by which the VPN's packets enter the tunnel.
    pub entry: Entry,
    /// Prefixes behind this node in the VPN.
    pub prefixes: Vec<Prefix>,
    /// Peers that are members of the VPN.
    pub members: Vec<MemberConfig>,
}

/// The queue of a VPN's packets toward each member, and the loop that paces it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Queue discipline. The delays of the member's paths set CoDel's target and interval.
    pub queue: queue::QueueKind,
    /// Maximum number of packets that the queue holds.
    pub limit_packets: usize,
    /// Maximum number of bytes that the queue holds.
    pub limit_bytes: u64,
    /// Rate control algorithm of the VPN's loops. With `None`, packets leave as fast as the paths take them.
    ///
    /// The `a` and `b` of a window algorithm apply to the VPN with the highest weight, or to the VPN with the lowest
    /// weight if `b` depends on the weight. Those of the other VPNs follow from the weights.
    pub control: Option<LoopConfig>,
}

impl Default for Entry {
    /// Returns an FQ-CoDel queue of 10,240 packets (RFC 8290 §5.2.2) and 15 MB, without a loop.
    fn default() -> Entry {
        Entry { queue: queue::QueueKind::FqCodel, limit_packets: 10_240, limit_bytes: 15_000_000, control: None }
    }
}

/// Membership of one peer in a VPN.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberConfig {
    /// Public key of the peer.
    pub public_key: PublicKey,
    /// Prefixes behind the peer in this VPN.
    ///
    /// Packets to the peer go to these addresses, and packets from it must come from them. Except for default routes,
    /// they overlap with no other prefix of the VPN.
    pub prefixes: Vec<Prefix>,
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Network address of the prefix.
    pub address: IpAddr,
    /// Length of the prefix, in bits.
    pub length: u8,
}

impl Prefix {
    /// True if `address` lies in this prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(p), IpAddr::V4(a)) => {
                let shift = 32 - u32::from(self.length.min(32));
                u32::from(p).checked_shr(shift) == u32::from(a).checked_shr(shift)
            }
            (IpAddr::V6(p), IpAddr::V6(a)) => {
                let shift = 128 - u32::from(self.length.min(128));
                u128::from(p).checked_shr(shift) == u128::from(a).checked_shr(shift)
            }
            _ => false,
        }
    }

    /// True if one prefix lies within the other. A default route overlaps only with another default route.
    pub fn overlaps(&self, other: Prefix) -> bool {
        let [outer, inner] = if self.length <= other.length { [*self, other] } else { [other, *self] };
        outer.contains(inner.address) && (outer.length > 0 || inner.length == 0)
    }
}

/// Rules for sending to one peer. Each field is one setting of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Algorithm that chooses a path for each unit.
    pub schedule: Schedule,
    /// Directions that use several paths at once instead of only the best one.
    pub bundle: Bundle,
    /// Whether lost units are retransmitted between the two nodes.
    pub recovery: Recovery,
    /// Whether the receiver restores the order of each flow.
    pub reorder: Reorder,
    /// Treatment of TCP acknowledgements in the inner packets.
    pub ack: AckPolicy,
    /// Queue discipline of the flow queue toward the peer, from which the schedule takes units.
    pub queue: PeerQueue,
    /// Order in which a round of the weighted round-robin schedule takes the paths.
    pub wrr_order: WrrOrder,
    /// Source of the paths' weights for the schedules that use weights.
    pub weights: Weights,
    /// Total rate that leased lines of VPNs may take toward the peer. With `None`, no line may be leased.
    pub leasable: Option<Rate>,
    /// DSCP of the outer headers of data datagrams.
    pub dscp: Dscp,
    /// True if routes over relays stand by as spare paths to the peer.
    ///
    /// They carry data when no other path answers.
    pub detours: bool,
    /// True if trains measure those paths to the peer that carry no data. They use at most 1 % of a path's capacity.
    pub sense: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            schedule: Schedule::EarliestDelivery,
            bundle: Bundle::Both,
            recovery: Recovery::Arq,
            reorder: Reorder::Resequence,
            ack: AckPolicy::Filter,
            queue: PeerQueue::FqCodel,
            wrr_order: WrrOrder::Smooth,
            weights: Weights::Measured,
            leasable: None,
            dscp: Dscp::Copy,
            detours: true,
            sense: false,
        }
    }
}

/// `dscp`: the differentiated services code point of outer headers (RFC 2474). The inner packet keeps its own DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dscp {
    /// Copies the inner packet's DSCP (RFC 2983 §3, the uniform model).
    Copy,
    /// Sets this DSCP, 0 to 63, so that routers can give the tunnel's packets a queue of their own.
    Fixed(u8),
}

/// `schedule`: how a path is chosen for each unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Takes the path on which the unit arrives first.
    EarliestDelivery,
    /// Takes each path in turn.
    RoundRobin,
    /// Takes a random path for each unit, with probabilities in proportion to the paths' weights.
    Random,
    /// Takes paths in proportion to the weights (NATALIE, paper 002).
    WeightedRoundRobin,
    /// Takes the path whose range of hash values contains the flow's hash (paper 000). Ranges follow the weights.
    FlowHash,
    /// Sends a copy of each unit on every path.
    Redundant,
}

impl Schedule {
    /// True if weights decide which path a unit takes.
    pub fn uses_weights(self) -> bool {
        matches!(self, Schedule::Random | Schedule::WeightedRoundRobin | Schedule::FlowHash)
    }
}

/// `bundle`: the directions that use several paths at once, as seen from the node with this configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bundle {
    /// Both directions.
    Both,
    /// Only from this node to the peer.
    Up,
    /// Only from the peer to this node.
    Down,
}

/// `recovery`: retransmission of lost units between the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Retransmits only the lost units (selective repeat).
    Arq,
    /// Sends no unit again.
    Off,
}

/// `reorder`: the order in which the receiver delivers units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// Delivers the units of each flow in order, and waits for a missing unit until the hold time has passed.
    Resequence,
    /// Delivers units in the order of arrival.
    Off,
}

/// `ack`: treatment of TCP acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// Replaces an acknowledgement that waits in the flow queue by a newer one of its flow that makes it superfluous.
    Filter,
    /// Leaves TCP acknowledgements unchanged.
    Pass,
    /// Removes some of the duplicate TCP acknowledgements at the egress edge (the receiver rule of paper 000).
    Condition,
}

/// `queue`: the discipline of the flow queue toward a peer, from which the schedule takes units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerQueue {
    /// FQ-CoDel (RFC 8290).
    FqCodel,
    /// One first-in first-out queue that drops new packets when it is full.
    DropTail,
}

/// `wrr-order`: the order in which a round of weighted round-robin takes the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrrOrder {
    /// Interleaves the paths as evenly as possible.
    Smooth,
    /// Sends the units of a path's whole weight one after another, and then those of the next path.
    Block,
}

/// `weights`: the source of the paths' weights.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Follows the measured capacities.
    ///
    /// Now and then, a path's weight exceeds its capacity, to discover whether the path can carry more.
    Measured,
    /// Uses these fixed weights, by link name.
    Static(Vec<(String, u32)>),
}
