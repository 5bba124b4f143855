//! The engine's state as a reader sees it.

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

/// Everything `weft status`, `paths` and `flows` show.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One per configured peer.
    pub peers: Vec<PeerSnapshot>,
    /// The inner MTU in bytes.
    pub inner_mtu: u16,
    /// Datagrams dropped before authentication.
    pub rejected_datagrams: u64,
    /// Packets for which no peer has a prefix.
    pub unroutable_packets: u64,
    /// Packets dropped because too few buffers were left for them to wait in.
    pub no_buffer_packets: u64,
    /// Pool buffers in use and the most there have been.
    pub buffers_in_use: usize,
    /// High-water mark of the above.
    pub buffers_peak: usize,
}

/// One peer.
#[derive(Clone, Debug)]
pub struct PeerSnapshot {
    /// Its name in the configuration.
    pub name: String,
    /// Its public key, as text.
    pub public_key: String,
    /// It came by certificate, which holds until then, in seconds since 1970; none for a configured peer.
    pub certified_until_unix_s: Option<u64>,
    /// A session stands, and since when.
    pub established_for: Option<Duration>,
    /// Time since something authentic came from it.
    pub last_heard: Option<Duration>,
    /// By what a path is chosen.
    pub schedule: Schedule,
    /// Its paths.
    pub paths: Vec<PathSnapshot>,
    /// Pairs of a local link and an address of the peer. Some may have no path.
    pub address_pairs: AddressPairs,
    /// Packets given to the TUN device, and IP bytes.
    pub received_packets: u64,
    /// IP bytes given to the TUN device.
    pub received_bytes: u64,
    /// Units sent first time.
    pub sent_units: u64,
    /// Bytes of those, without overhead.
    pub sent_bytes: u64,
    /// Units repeated.
    pub repeated_units: u64,
    /// Units given up.
    pub abandoned_units: u64,
    /// Packets dropped by the flow queue.
    pub queue_drops: u64,
    /// TCP acknowledgments that a newer one replaced in the flow queue.
    pub replaced_acks: u64,
    /// Bytes waiting in the flow queue.
    pub queue_bytes: u64,
    /// Packets that wait until the peer opens their VPN.
    pub waiting_for_vpns: usize,
    /// Datagrams dropped because the node was behind and the peer had had its share of the work.
    pub unserved_datagrams: u64,
    /// Units that came twice.
    pub duplicate_units: u64,
    /// Parts of units that came and were of no use: they fit no unit, or the rest of theirs never came.
    pub broken_parts: u64,
    /// Units held for order now.
    pub held_units: usize,
    /// Units queued on paths or in flight.
    pub units_in_flight: usize,
    /// How long the peer asks us to wait for a hole.
    pub hold: Duration,
    /// Flows seen lately.
    pub flows: Vec<FlowSnapshot>,
    /// Whom it passes datagrams on to, as it says.
    pub reaches: Vec<ReachSnapshot>,
}

/// What a relay says of a node beside it.
#[derive(Clone, Debug)]
pub struct ReachSnapshot {
    /// The node: the first 32 bits of its id.
    pub node: u32,
    /// What it is called here, if it is a peer.
    pub name: Option<String>,
    /// Round-trip time from the relay.
    pub rtt: Duration,
    /// What is lost on the way there, 0…1.
    pub loss: f64,
}

/// One path, as the sender here sees it.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    /// Its id within the session.
    pub id: PathId,
    /// The link here.
    pub link: LinkId,
    /// The link's name.
    pub link_name: String,
    /// What the peer calls its link; none: it has not said.
    pub remote_link: Option<String>,
    /// The address there.
    pub remote: SocketAddr,
    /// In use for data, not only tried.
    pub active: bool,
    /// Its health.
    pub state: PathState,
    /// Why, for people.
    pub cause: &'static str,
    /// Bulk may use it now.
    pub in_bundle: bool,
    /// It carries data only when no other path answers, and one does.
    pub standby: bool,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Least round-trip time.
    pub rtt_min: Option<Duration>,
    /// Queueing delay beyond the path's least one-way delay.
    pub queue_delay: Duration,
    /// One-way delay beyond the fastest path's.
    pub skew: Duration,
    /// Jitter of the one-way delay.
    pub jitter: Duration,
    /// Share of datagrams lost, 0…1.
    pub loss: f64,
    /// Learnt capacity.
    pub capacity: Option<Rate>,
    /// Pacing rate now.
    pub pacing: Rate,
    /// What the rate control is doing.
    pub mode: &'static str,
    /// Delivery rate last seen.
    pub delivery: Rate,
    /// Bytes of packets in each byte that bulk sends, between 0 and 1. The rest are headers of weft's.
    pub packet_share: f64,
    /// What trains found, while it carried no data.
    pub sensed: Option<SensedSnapshot>,
    /// Weight of weighted schedules.
    pub weight: u32,
    /// Path MTU in bytes.
    pub mtu: u16,
    /// No longer packet is being tried now.
    pub mtu_is_settled: bool,
    /// Datagrams and bytes (IP) sent and received on it.
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

/// What trains found of a path.
#[derive(Clone, Debug)]
pub struct SensedSnapshot {
    /// How long ago.
    pub age: Duration,
    /// The capacity of its narrow link.
    pub capacity: Option<Rate>,
    /// What others leave of it.
    pub available: Option<Rate>,
    /// Share of the trains' packets lost, 0…1.
    pub loss: f64,
    /// The mean queue.
    pub queue: Option<Duration>,
}

/// One flow sent lately.
#[derive(Clone, Debug)]
pub struct FlowSnapshot {
    /// Its number.
    pub id: FlowId,
    /// Its VPN.
    pub vpn: VpnId,
    /// `tcp 10.9.0.1:40000 → 10.9.0.2:5201`.
    pub key: String,
    /// Units sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Time since the last packet.
    pub idle: Duration,
}

/// One VPN.
#[derive(Clone, Debug)]
pub struct VpnSnapshot {
    /// Its number.
    pub id: VpnId,
    /// Its name in the configuration; empty for the default one.
    pub name: String,
    /// Its weight now.
    pub weight: u32,
    /// What it is promised now.
    pub service: Service,
    /// The peers that have part in it.
    pub members: Vec<MemberSnapshot>,
    /// What it has carried and refused.
    pub totals: VpnTotals,
}

/// A peer's part in a VPN.
#[derive(Clone, Debug)]
pub struct MemberSnapshot {
    /// The peer's name.
    pub peer: String,
    /// Packets can be sent to it now. A VPN opens when it is used, and closes some minutes after.
    pub is_open: bool,
    /// How its queue and its loop toward the peer stand; none for the default VPN, which has the peer's own queue.
    pub entry: Option<VpnStatus>,
}

/// Flows listed per peer at most.
const FLOWS_SHOWN: usize = 64;

impl Engine {
    /// The state now, for people and machines. Its cost grows with the peers; look a single one up by [`Engine::peer_snapshot`].
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

    /// The state of the peer of that name; `None` where there is none.
    pub fn peer_snapshot(&self, now: Instant, name: &str) -> Option<PeerSnapshot> {
        let peer = self.peers.iter().find(|peer| peer.config.name == name && self.is_present(peer))?;
        Some(self.snapshot_of(now, peer))
    }

    /// What a peer is called; `None` where there never was one.
    pub fn peer_name(&self, peer: PeerId) -> Option<&str> {
        self.peers.get(usize::from(peer.0)).map(|peer| peer.config.name.as_str())
    }

    /// What the peers are called.
    pub fn peer_names(&self) -> impl Iterator<Item = &str> {
        self.peers.iter().filter(|peer| self.is_present(peer)).map(|peer| peer.config.name.as_str())
    }

    /// The states of all paths, each with the name of its peer.
    pub fn path_snapshots(&self, now: Instant) -> impl Iterator<Item = (&str, PathSnapshot)> {
        self.peers.iter().flat_map(move |peer| {
            let name = peer.config.name.as_str();
            peer.paths.iter().filter(|path| !path.is_gone()).map(move |path| (name, path.snapshot(now)))
        })
    }

    /// The bytes sent of each flow that [`Snapshot`] shows, with the name of its peer.
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
    /// All VPNs, by number, the default one first. Not in [`Snapshot`], for there may be very many.
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

/// What to offer senders that go as fast as they are told, of inner packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PayloadRate<'a> {
    /// The peer.
    pub public_key: &'a PublicKey,
    /// Of the paths together that carry bulk, without what they put around packets; `None` while there is none.
    pub rate: Option<Rate>,
}

impl Engine {
    /// What to offer toward each peer: what the paths carry, as far as is known, and now and then more, or it would never be known. Cheap:
    /// nothing is copied.
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
