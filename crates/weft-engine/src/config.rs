//! What the engine is told at the start and at a reload. Parsing it is the program's work.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_core::control_loop::LoopConfig;
use weft_core::queue;
use weft_core::service::Service;
use weft_session::{Cipher, Identity, PresharedKey, PublicKey};
use weft_units::{Rate, VpnId};

/// Everything a node needs to know.
pub struct EngineConfig {
    /// The node's static key pair.
    pub identity: Identity,
    /// The AEAD this node prefers.
    pub cipher: Cipher,
    /// Adjacent nodes; a peer's position is its [`weft_units::PeerId`].
    pub peers: Vec<PeerConfig>,
    /// VPNs beside the default one, which is of the peers' own prefixes.
    pub vpns: Vec<VpnConfig>,
    /// Settings of links by name; links not named have none.
    pub links: Vec<LinkConfig>,
    /// The highest handshake stamp accepted from each peer, as persisted.
    pub accepted_stamps: Vec<(PublicKey, u64)>,
    /// The wall clock at the start, in nanoseconds since 1970. Handshake stamps follow it: see [`Engine::set_used_stamp`](crate::Engine::set_used_stamp).
    pub stamp_base: u64,
    /// The inner MTU to use at most, in bytes; `None` leaves it to the paths.
    pub inner_mtu: Option<u16>,
}

/// One link's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// The interface's name.
    pub name: String,
    /// Never pace faster than this.
    pub cap: Option<Rate>,
    /// May data be sent on it.
    pub send: bool,
}

/// One peer's settings.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// What people call it.
    pub name: String,
    /// Its static key.
    pub public_key: PublicKey,
    /// A secret shared with it beside the static keys, if there is one.
    pub preshared_key: Option<PresharedKey>,
    /// Addresses to reach it at; empty for a peer that only calls in.
    pub endpoints: Vec<SocketAddr>,
    /// Ways to reach it over relays: the nodes between, the first of which is a peer.
    pub routes: Vec<Vec<PublicKey>>,
    /// Destinations behind it in the default VPN.
    pub prefixes: Vec<Prefix>,
    /// How to send to it.
    pub policy: Policy,
}

/// One VPN: a network of its own among some of the peers, whose addresses mean nothing in others.
#[derive(Clone, Debug, PartialEq)]
pub struct VpnConfig {
    /// Its number, the same at all members; not [`VpnId::DEFAULT`].
    pub id: VpnId,
    /// What people call it.
    pub name: String,
    /// Its share beside other VPNs; above zero.
    pub weight: u32,
    /// What it is promised. Leased lines must fit what their peers have to lease ([`Policy::leasable`]).
    pub service: Service,
    /// How its packets enter the tunnel.
    pub entry: Entry,
    /// Addresses behind this node.
    pub prefixes: Vec<Prefix>,
    /// The peers that have part in it.
    pub members: Vec<MemberConfig>,
}

/// How packets of a VPN enter the tunnel toward each of its members: the queue, and the loop that lets them go.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What the queue does. CoDel's times follow the paths.
    pub queue: queue::QueueKind,
    /// Packets it holds at most.
    pub limit_packets: usize,
    /// Bytes it holds at most.
    pub limit_bytes: u64,
    /// The law of its loops; without one its packets leave as fast as the paths take them. Of a window, a and b are those of the
    /// heaviest VPN.
    pub control: Option<LoopConfig>,
}

impl Default for Entry {
    /// FQ-CoDel, 10,240 packets (RFC 8290 §5.2.2), no loop.
    fn default() -> Entry {
        Entry { queue: queue::QueueKind::FqCodel, limit_packets: 10_240, limit_bytes: 15_000_000, control: None }
    }
}

/// A peer's part in a VPN.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberConfig {
    /// The peer.
    pub public_key: PublicKey,
    /// Addresses behind it: packets to them go there, packets from them may come from there. They overlap with no other prefix of
    /// the VPN, but for default routes.
    pub prefixes: Vec<Prefix>,
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The network address.
    pub address: IpAddr,
    /// How many leading bits count.
    pub length: u8,
}

impl Prefix {
    /// Whether `address` lies in this prefix.
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

    /// Whether one lies within the other. Default routes, which lie around all others, overlap with themselves only.
    pub fn overlaps(&self, other: Prefix) -> bool {
        let [outer, inner] = if self.length <= other.length { [*self, other] } else { [other, *self] };
        outer.contains(inner.address) && (outer.length > 0 || inner.length == 0)
    }
}

/// How to send to a peer. Each field is one setting of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Which path a unit takes.
    pub schedule: Schedule,
    /// Which directions use more than the best path.
    pub bundle: Bundle,
    /// Whether lost units are repeated on the hop.
    pub recovery: Recovery,
    /// Whether the receiver puts flows back in order.
    pub reorder: Reorder,
    /// What happens to duplicate ACKs at the egress edge.
    pub ack: AckPolicy,
    /// The queue in front of the paths.
    pub queue: QueueKind,
    /// Order inside a weighted round.
    pub wrr_order: WrrOrder,
    /// Weights of weighted schedules.
    pub weights: Weights,
    /// What leased lines of VPNs toward it may take together; without it none may be leased.
    pub leasable: Option<Rate>,
    /// What data datagrams say of their class on the way.
    pub dscp: Dscp,
    /// Whether relays that reach the peer stand by for when no other path answers.
    pub detours: bool,
    /// Whether paths that carry no data are sensed by trains, up to a hundredth of what they can carry.
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
            queue: QueueKind::FqCodel,
            wrr_order: WrrOrder::Smooth,
            weights: Weights::Measured,
            leasable: None,
            dscp: Dscp::Copy,
            detours: true,
            sense: false,
        }
    }
}

/// `dscp`: the differentiated services code point of outer headers (RFC 2474). What is inside keeps its own either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dscp {
    /// That of the packet inside (RFC 2983 §3, the uniform model).
    Copy,
    /// This one, 0 to 63, so that routers can keep the tunnel's packets in a queue of their own.
    Fixed(u8),
}

/// `schedule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// The path on which the unit arrives first.
    EarliestDelivery,
    /// Each path in turn.
    RoundRobin,
    /// A path at random, by weight.
    Random,
    /// In proportion to weights (NATALIE, paper 002).
    WeightedRoundRobin,
    /// By the flow's hash, in weighted ranges (paper 000).
    FlowHash,
    /// A copy on every path.
    Redundant,
}

impl Schedule {
    /// Whether weights decide which path a unit takes.
    pub fn uses_weights(self) -> bool {
        matches!(self, Schedule::Random | Schedule::WeightedRoundRobin | Schedule::FlowHash)
    }
}

/// `bundle`: which directions, seen from the node that says so, use several paths at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bundle {
    /// Both.
    Both,
    /// From here to the peer.
    Up,
    /// From the peer to here.
    Down,
}

/// `recovery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Selective repeat.
    Arq,
    /// None.
    Off,
}

/// `reorder`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reorder {
    /// Per-flow resequencing with a deadline.
    Resequence,
    /// Deliver as it comes.
    Off,
}

/// `ack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// Where acknowledgments wait, a newer one takes the place of the last that it makes superfluous.
    Filter,
    /// Leave them alone.
    Pass,
    /// The paper-000 receiver rule.
    Condition,
}

/// `queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// RFC 8290.
    FqCodel,
    /// One first-in first-out queue.
    DropTail,
}

/// `wrr-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrrOrder {
    /// Spread evenly.
    Smooth,
    /// A path's whole weight at once.
    Block,
}

/// `weights`, by link name.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// In proportion to the measured capacities, and now and then to more, to see whether there is more.
    Measured,
    /// As given.
    Static(Vec<(String, u32)>),
}
