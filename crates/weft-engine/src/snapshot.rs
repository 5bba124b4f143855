//! Read-only copies of the engine's state, for status output and metrics.
//!
//! A snapshot copies counters and estimates. Taking one never changes the engine.

use crate::PathState;
use crate::config::Schedule;
use crate::node::Engine;
use crate::path::Path;
use crate::peer::{AddressPairs, Peer};
use crate::vpn::VpnTotals;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use weft_core::control::Phase;
use weft_core::ingress::VpnStatus;
use weft_core::service::Service;
use weft_session::{PublicKey, VpnStanding};
use weft_units::{FlowId, Instant, LinkId, PathId, PeerId, Rate, VpnId};
use weft_wire::frame::Neighbour;
use weft_wire::ip::FlowKey;

/// State that `weft status`, `weft paths` and `weft flows` show.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One entry for each peer.
    pub peers: Vec<PeerSnapshot>,
    /// The inner MTU in bytes.
    pub inner_mtu: u16,
    /// Datagrams dropped before they were authenticated.
    pub rejected_datagrams: u64,
    /// Packets dropped because no peer has a prefix for their destination.
    pub unroutable_packets: u64,
    /// Packets dropped because too few buffers were left to queue them.
    pub no_buffer_packets: u64,
    /// Pool buffers in use now.
    pub buffers_in_use: usize,
    /// Most pool buffers that were in use at one time.
    pub buffers_peak: usize,
}

/// State of one peer.
#[derive(Clone, Debug)]
pub struct PeerSnapshot {
    /// Its name in the configuration.
    pub name: String,
    /// Its public key, as text.
    pub public_key: String,
    /// End of the certificate by which the peer joined, in seconds since 1970. `None` for a configured peer.
    pub certified_until_unix_s: Option<u64>,
    /// Age of the session. `None` if there is no session.
    pub established_for: Option<Duration>,
    /// Time since the last authentic datagram from the peer.
    pub last_heard: Option<Duration>,
    /// The schedule that chooses a path for each unit.
    pub schedule: Schedule,
    /// The peer's paths.
    pub paths: Vec<PathSnapshot>,
    /// Pairs of a local link and an address of the peer. Some pairs may have no path.
    pub address_pairs: AddressPairs,
    /// Packets written to the TUN device.
    pub received_packets: u64,
    /// IP bytes written to the TUN device.
    pub received_bytes: u64,
    /// Units sent, not counting retransmissions.
    pub sent_units: u64,
    /// Bytes of those units, without overhead.
    pub sent_bytes: u64,
    /// Units retransmitted.
    pub repeated_units: u64,
    /// Units given up: their retransmission stopped before they arrived.
    pub abandoned_units: u64,
    /// Packets that the flow queue dropped.
    pub queue_drops: u64,
    /// TCP acknowledgements in the flow queue that a newer one replaced.
    pub replaced_acks: u64,
    /// Bytes in the flow queue.
    pub queue_bytes: u64,
    /// Packets that wait until the peer opens their VPN.
    pub waiting_for_vpns: usize,
    /// Datagrams dropped unopened.
    ///
    /// The node was behind, and the peer had used its share of the processing.
    pub unserved_datagrams: u64,
    /// Units that arrived more than once.
    pub duplicate_units: u64,
    /// Parts of units that were discarded.
    ///
    /// They fit no unit, or the other parts of their unit never arrived.
    pub broken_parts: u64,
    /// Units that the resequencer holds back now.
    pub held_units: usize,
    /// Units that are queued on paths or in flight.
    pub units_in_flight: usize,
    /// Time for which the peer asks this node to wait for a missing unit.
    pub hold: Duration,
    /// Recently used flows.
    pub flows: Vec<FlowSnapshot>,
    /// Nodes to which the peer relays datagrams, as the peer reports.
    pub reaches: Vec<ReachSnapshot>,
}

/// A relay's report about one of its own peers.
#[derive(Clone, Debug)]
pub struct ReachSnapshot {
    /// The reported node: the first 32 bits of its id.
    pub node: u32,
    /// The node's name, if it is a peer of this node.
    pub name: Option<String>,
    /// Round-trip time between the relay and the node.
    pub rtt: Duration,
    /// Share of datagrams lost between the relay and the node, 0…1.
    pub loss: f64,
}

/// State of one path, as this node sees it as the sender.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    /// The path's id within the session.
    pub id: PathId,
    /// The local link.
    pub link: LinkId,
    /// The local link's name.
    pub link_name: String,
    /// The peer's name for its link. `None` if the peer has not sent it.
    pub remote_link: Option<String>,
    /// The remote address.
    pub remote: SocketAddr,
    /// True if the path is in use for data. False if it is only kept as a candidate.
    pub active: bool,
    /// The path's health.
    pub state: PathState,
    /// The reason for that state, as text for people.
    pub cause: &'static str,
    /// True if bulk may use the path now.
    pub in_bundle: bool,
    /// True if the path is spare: it carries no data while another path answers.
    pub standby: bool,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Least round-trip time.
    pub rtt_min: Option<Duration>,
    /// Queueing delay: the one-way delay above the path's least one.
    pub queue_delay: Duration,
    /// Difference between the path's base delay and that of the fastest path, one way.
    pub skew: Duration,
    /// Variation of the one-way delay that the path's own queue does not explain.
    pub jitter: Duration,
    /// Share of datagrams lost, 0…1.
    pub loss: f64,
    /// Estimated capacity.
    pub capacity: Option<Rate>,
    /// Current pacing rate.
    pub pacing: Rate,
    /// Phase of the path-rate algorithm.
    pub mode: &'static str,
    /// Latest delivery rate.
    pub delivery: Rate,
    /// Share of packet bytes in the bytes of bulk that are sent, 0…1. The rest is weft's own headers.
    pub packet_share: f64,
    /// Result of the trains that measured the path while it carried no data.
    pub sensed: Option<SensedSnapshot>,
    /// Weight for weighted schedules.
    pub weight: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// True if no larger packet size is being probed now.
    pub mtu_is_settled: bool,
    /// Datagrams sent.
    pub sent_datagrams: u64,
    /// IP bytes sent.
    pub sent_bytes: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// IP bytes received.
    pub received_bytes: u64,
    /// Datagrams lost.
    pub lost_datagrams: u64,
}

/// Result of the trains on one path.
#[derive(Clone, Debug)]
pub struct SensedSnapshot {
    /// Age of the result.
    pub age: Duration,
    /// Capacity of the path's bottleneck link.
    pub capacity: Option<Rate>,
    /// Rate that cross traffic leaves available on the bottleneck link.
    pub available: Option<Rate>,
    /// Share of the trains' datagrams lost, 0…1.
    pub loss: f64,
    /// Mean queueing delay.
    pub queue: Option<Duration>,
}

/// State of one recently used flow.
#[derive(Clone, Debug)]
pub struct FlowSnapshot {
    /// The flow's number.
    pub id: FlowId,
    /// The flow's VPN.
    pub vpn: VpnId,
    /// The flow's 5-tuple, such as `tcp 10.9.0.1:40000 → 10.9.0.2:5201`.
    pub key: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time since the last packet.
    pub idle: Duration,
}

/// State of one VPN.
#[derive(Clone, Debug)]
pub struct VpnSnapshot {
    /// The VPN's id.
    pub id: VpnId,
    /// The VPN's name in the configuration. Empty for the default VPN.
    pub name: String,
    /// Current weight.
    pub weight: u32,
    /// Service that the VPN is promised now.
    pub service: Service,
    /// The VPN's members.
    pub members: Vec<MemberSnapshot>,
    /// Counters of carried and refused packets.
    pub totals: VpnTotals,
}

/// Membership of one peer in a VPN.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// The peer's name.
    pub peer: String,
    /// True if this node can send packets of the VPN to the peer now.
    ///
    /// A VPN opens on first use and closes after minutes without use.
    pub is_open: bool,
    /// State of the VPN's queue and loop toward the peer.
    ///
    /// `None` for the default VPN, which uses the peer's own queue.
    pub entry: Option<VpnStatus>,
}

/// Most flows that a snapshot lists for each peer.
const FLOWS_SHOWN: usize = 64;

impl Engine {
    /// Returns the current state of all peers.
    ///
    /// The cost grows with their number; [`Engine::peer_snapshot`] reads only one.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let (small, large) = (self.pool.small_usage(), self.pool.large_usage());
        Snapshot {
            peers: self.peers.iter().map(|peer| self.snapshot_of(now, peer)).collect(),
            inner_mtu: self.inner_mtu,
            rejected_datagrams: self.rejected_datagrams,
            unroutable_packets: self.unroutable_packets,
            no_buffer_packets: self.no_buffer_packets,
            buffers_in_use: (small.in_use + large.in_use) as usize,
            buffers_peak: (small.high_water + large.high_water) as usize,
        }
    }

    /// Returns the state of the peer with that name, or `None` if there is no such peer.
    pub fn peer_snapshot(&self, now: Instant, name: &str) -> Option<PeerSnapshot> {
        let peer = self.peers.iter().find(|peer| peer.config.name == name && self.is_present(peer))?;
        Some(self.snapshot_of(now, peer))
    }

    /// Returns the name of a peer, or `None` if no peer ever had that number.
    pub fn peer_name(&self, peer: PeerId) -> Option<&str> {
        self.peers.get(usize::from(peer.0)).map(|peer| peer.config.name.as_str())
    }

    /// Returns the names of all peers.
    pub fn peer_names(&self) -> impl Iterator<Item = &str> {
        self.peers.iter().filter(|peer| self.is_present(peer)).map(|peer| peer.config.name.as_str())
    }

    /// Returns the states of all paths, each with the name of its peer.
    pub fn path_snapshots(&self, now: Instant) -> impl Iterator<Item = (&str, PathSnapshot)> {
        self.peers.iter().flat_map(move |peer| {
            let name = peer.config.name.as_str();
            peer.paths.iter().filter(|path| !path.is_gone()).map(move |path| (name, path.snapshot(now)))
        })
    }

    /// Returns the bytes sent by each flow that [`Snapshot`] lists, with the name of its peer.
    pub fn flow_bytes(&self) -> impl Iterator<Item = (&str, FlowId, u64)> {
        self.peers.iter().flat_map(|peer| {
            let name = peer.config.name.as_str();
            peer.flows.iter().take(FLOWS_SHOWN).map(move |(id, flow)| (name, id, flow.bytes))
        })
    }

    pub(crate) fn snapshot_of(&self, now: Instant, peer: &Peer) -> PeerSnapshot {
        let certificate = self.trust.certificate_of(peer.id);
        PeerSnapshot {
            reaches: self.reaches(now, peer),
            address_pairs: peer.address_pairs(&self.links),
            certified_until_unix_s: certificate.map(|certificate| certificate.claims().not_after_unix_s),
            ..peer.snapshot(now)
        }
    }
}

impl Engine {
    /// Returns all VPNs by id, the default one first. [`Snapshot`] omits them because there may be very many.
    pub fn vpns(&self) -> Vec<VpnSnapshot> {
        let default = self.vpns.get(VpnId::DEFAULT).map(|vpn| (VpnId::DEFAULT, vpn));
        let snapshot = |(id, vpn): (VpnId, &crate::vpn::Vpn)| VpnSnapshot {
            id,
            name: vpn.name.clone(),
            weight: vpn.weight,
            service: vpn.service,
            members: vpn.members.iter().filter_map(|peer| self.member(id, *peer)).collect(),
            totals: vpn.totals,
        };
        default.into_iter().chain(self.vpns.others()).map(snapshot).collect()
    }

    fn member(&self, vpn: VpnId, peer: PeerId) -> Option<MemberSnapshot> {
        let of = self.peers.get(usize::from(peer.0))?;
        let is_open = of.is_established() && self.sessions.vpn_standing(peer, vpn) != VpnStanding::Closed;
        Some(MemberSnapshot { peer: of.config.name.clone(), is_open, entry: of.entry_status(vpn) })
    }
}

/// The rate of inner packets that this node offers to rate-controlled senders toward one peer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PayloadRate<'a> {
    /// The peer's key.
    pub public_key: &'a PublicKey,
    /// Total payload rate of the paths that carry bulk, without weft's headers. `None` if no path carries bulk.
    pub rate: Option<Rate>,
}

impl Engine {
    /// Returns the rate to offer toward each peer.
    ///
    /// It is the paths' estimated capacity, and now and then more. Without the occasional surplus, a growth of the
    /// capacity would never be discovered. The call copies nothing.
    pub fn payload_rates(&self, now: Instant) -> impl Iterator<Item = PayloadRate<'_>> {
        self.peers
            .iter()
            .map(move |peer| PayloadRate { public_key: &peer.config.public_key, rate: peer.payload_rate(now) })
    }
}

impl Engine {
    fn reaches(&self, now: Instant, relay: &Peer) -> Vec<ReachSnapshot> {
        let of = |neighbour: Neighbour| ReachSnapshot {
            node: neighbour.node.0,
            name: self.relaying.name_of(neighbour.node, &self.peers),
            rtt: Duration::from_micros(neighbour.rtt_us.into()),
            loss: f64::from(neighbour.loss) / 256.0,
        };
        relay.reach.iter(now).map(of).collect()
    }
}

impl Peer {
    pub(crate) fn snapshot(&self, now: Instant) -> PeerSnapshot {
        let totals = &self.totals;
        let origin = self.paths.iter().find_map(|p| p.delay().baseline_us());
        let relative = |p: &Path| p.delay().baseline_us().zip(origin).map(|(d, o)| i64::from(d.wrapping_sub(o) as i32));
        let least = self.paths.iter().filter(|p| p.active).filter_map(relative).min().unwrap_or(0);
        PeerSnapshot {
            name: self.config.name.clone(),
            public_key: self.config.public_key.to_string(),
            certified_until_unix_s: None,
            established_for: self.established_at.map(|at| now - at),
            last_heard: self.heard_at.map(|at| now - at),
            schedule: self.config.policy.schedule,
            paths: (self.paths.iter().enumerate())
                .filter(|(_, path)| !path.is_gone())
                .map(|(i, p)| PathSnapshot {
                    skew: Duration::from_micros(relative(p).map_or(0, |d| u64::try_from(d - least).unwrap_or(0))),
                    in_bundle: p.is_usable() && self.scheduler.carries_bulk(i),
                    ..p.snapshot(now)
                })
                .collect(),
            address_pairs: AddressPairs::default(),
            received_packets: totals.received_packets,
            received_bytes: totals.received_bytes,
            sent_units: totals.sent_units,
            sent_bytes: totals.sent_bytes,
            repeated_units: totals.repeated_units,
            abandoned_units: totals.abandoned_units,
            queue_drops: totals.queue_drops,
            replaced_acks: totals.replaced_acks,
            queue_bytes: self.backlog_bytes(),
            waiting_for_vpns: self.openings.waiting(),
            unserved_datagrams: totals.unserved_datagrams,
            duplicate_units: totals.duplicate_units,
            broken_parts: self.broken_parts(),
            held_units: self.held_units(),
            units_in_flight: self.units.len(),
            hold: self.hold_asked,
            flows: self
                .flows
                .iter()
                .take(FLOWS_SHOWN)
                .map(|(id, f)| FlowSnapshot {
                    id,
                    vpn: f.key.vpn,
                    key: describe(&f.key.key),
                    packets: f.packets,
                    bytes: f.bytes,
                    idle: now - f.last_used,
                })
                .collect(),
            reaches: Vec::new(),
        }
    }
}

impl Path {
    fn snapshot(&self, now: Instant) -> PathSnapshot {
        let known = self.rtt().is_known();
        PathSnapshot {
            id: self.id,
            link: self.link,
            link_name: self.link_name.clone(),
            remote: self.remote,
            remote_link: self.remote_link.clone(),
            standby: self.spare,
            active: self.active,
            state: self.health.state(),
            cause: self.health.cause(),
            in_bundle: false,
            rtt: known.then(|| self.rtt().smoothed()),
            rtt_min: known.then(|| self.rtt().min()),
            queue_delay: self.delay().queue(),
            skew: Duration::ZERO,
            jitter: self.rate.noise(),
            loss: self.loss().fraction(),
            capacity: self.rate.capacity(),
            pacing: self.rate.pacing_rate(now),
            mode: phase_name(self.rate.phase()),
            delivery: self.delivery,
            packet_share: self.packet_share(),
            sensed: self.sensing.known().map(|(at, estimate)| SensedSnapshot {
                age: now - *at,
                capacity: estimate.capacity,
                available: estimate.available,
                loss: estimate.loss,
                queue: estimate.queue,
            }),
            weight: self.weight,
            mtu: self.mtu.current(),
            mtu_is_settled: self.mtu.is_settled(),
            sent_datagrams: self.totals.sent_datagrams,
            sent_bytes: self.totals.sent_bytes,
            received_datagrams: self.totals.received_datagrams,
            received_bytes: self.totals.received_bytes,
            lost_datagrams: self.totals.lost_datagrams,
        }
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Startup => "startup",
        Phase::Steady => "steady",
        Phase::Probe => "probe",
        Phase::Plateau => "plateau",
        Phase::Drain => "drain",
        Phase::Compete => "compete",
    }
}

fn describe(key: &FlowKey) -> String {
    let protocol = match key.protocol {
        weft_wire::ip::protocol::TCP => "tcp".to_string(),
        weft_wire::ip::protocol::UDP => "udp".to_string(),
        weft_wire::ip::protocol::ICMP | weft_wire::ip::protocol::ICMPV6 => "icmp".to_string(),
        other => format!("ip/{other}"),
    };
    format!("{protocol} {}:{} → {}:{}", key.src, key.src_port, key.dst, key.dst_port)
}
