//! Copies the node's state, for status output and metrics.

use super::Engine;
use crate::api::{
    AccessTotals, MemberSnapshot, PathSnapshot, PathState, PayloadRate, PeerConfig, PeerSnapshot, ReachSnapshot,
    Snapshot, VpnSnapshot,
};
use crate::peer::{FLOWS_SHOWN, Peer};
use crate::vpn::Vpn;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;
use weft_session::VpnStanding;
use weft_units::{FlowId, Instant, PeerId, VpnId};
use weft_wire::frame::Neighbour;

impl Engine {
    /// Returns the current state of all peers and of the node's buffers.
    ///
    /// The cost grows with their number; [`Engine::peer_snapshot`] reads only one.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let (small, large) = (self.pool.small_usage(), self.pool.large_usage());
        Snapshot {
            peers: self.peers.iter().map(|peer| self.snapshot_of(now, peer)).collect(),
            inner_mtu: self.inner_mtu(),
            rejected_datagrams: self.wire.rejected_datagrams,
            unroutable_packets: self.hosts.unroutable_packets,
            no_buffer_packets: self.hosts.no_buffer_packets,
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

    /// True if a unit waits in the queue of a path that is down. Such units are moved to other paths at once.
    pub fn has_stranded_units(&self) -> bool {
        let mut paths = self.peers.iter().flat_map(|peer| &peer.paths);
        paths.any(|path| path.state() == PathState::Down && !path.queues.is_empty())
    }

    /// Returns the time for which this node waits for a missing unit of each peer, in the order of peer numbers.
    pub fn hold_times(&self) -> impl Iterator<Item = Duration> {
        self.peers.iter().map(|peer| peer.inbound.hold_asked)
    }

    /// Returns the states of all paths, each with the name of its peer.
    pub fn path_snapshots(&self, now: Instant) -> impl Iterator<Item = (&str, PathSnapshot)> {
        self.peers.iter().flat_map(move |peer| {
            let name = peer.config.name.as_str();
            peer.paths.iter().filter(|path| !path.is_gone()).map(move |path| (name, path.snapshot(now)))
        })
    }

    /// Returns the bytes sent so far by each flow that [`Snapshot`] lists, with the peer's name and flow number.
    pub fn flow_bytes(&self) -> impl Iterator<Item = (&str, FlowId, u64)> {
        self.peers.iter().flat_map(|peer| {
            let name = peer.config.name.as_str();
            peer.ingress.flows.iter().take(FLOWS_SHOWN).map(move |(id, flow)| (name, id, flow.bytes))
        })
    }

    pub(super) fn snapshot_of(&self, now: Instant, peer: &Peer) -> PeerSnapshot {
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
    /// Returns the counters of the rules of access, or `None` if there are no rules.
    pub fn access_totals(&self, now: Instant) -> Option<AccessTotals> {
        let gate = self.hosts.access.0.as_ref()?;
        Some(AccessTotals {
            rules: gate.filter.rules().rules().len(),
            flows: gate.filter.flows(now),
            drops: gate.filter.drops(),
            last: gate.last,
        })
    }

    /// Returns all VPNs in the order of their ids, the default VPN first.
    ///
    /// [`Snapshot`] omits them because there may be very many.
    pub fn vpns(&self) -> Vec<VpnSnapshot> {
        let default = self.vpns.get(VpnId::DEFAULT).map(|vpn| (VpnId::DEFAULT, vpn));
        let snapshot = |(id, vpn): (VpnId, &Vpn)| VpnSnapshot {
            id,
            name: vpn.name.clone(),
            weight: vpn.weight,
            service: vpn.service,
            control: vpn.control().cloned(),
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

impl Engine {
    /// Returns the rate at which the hosts' rate-controlled senders may send toward each peer.
    ///
    /// It is the paths' estimated capacity. For short times it is higher. Without the occasional surplus, a growth of
    /// the capacity would never be discovered. The call copies nothing.
    pub fn payload_rates(&self, now: Instant) -> impl Iterator<Item = PayloadRate<'_>> {
        self.peers.iter().map(move |peer| {
            let PeerConfig { public_key, prefixes, .. } = &peer.config;
            PayloadRate { public_key, prefixes, rate: peer.payload_rate(now) }
        })
    }
}

impl Engine {
    fn reaches(&self, now: Instant, relay: &Peer) -> Vec<ReachSnapshot> {
        let of = |neighbour: Neighbour| ReachSnapshot {
            node: neighbour.node.0,
            name: self
                .relaying
                .labels
                .peer(neighbour.node)
                .and_then(|peer| self.peer_name(peer))
                .map(ToString::to_string),
            rtt: Duration::from_micros(neighbour.rtt_us.into()),
            loss: f64::from(neighbour.loss) / 256.0,
        };
        relay.control.reach.iter(now).map(of).collect()
    }
}
