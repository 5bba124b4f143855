//! Why a packet would go where it would go. Only looked at: nothing on a packet's way changes.

use crate::config::{Prefix, Schedule};
use crate::event::CommandError;
use crate::node::Engine;
use crate::snapshot::PathSnapshot;
use crate::vpn::Vpn;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use weft_core::ingress::VpnStatus;
use weft_session::VpnStanding;
use weft_units::{Duration, FlowId, Instant, PathId, PeerId, VpnId};
use weft_wire::ip::FlowKey;

/// What is asked about. What is left out may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPattern {
    /// Where to.
    pub destination: IpAddr,
    /// Port there.
    pub destination_port: Option<u16>,
    /// Where from.
    pub source: Option<IpAddr>,
    /// Port there.
    pub source_port: Option<u16>,
    /// Upper-layer protocol.
    pub protocol: Option<u8>,
}

impl FlowPattern {
    /// Whether a flow is one of those.
    pub fn holds(&self, key: &FlowKey) -> bool {
        self.destination == key.dst
            && self.destination_port.is_none_or(|port| port == key.dst_port)
            && self.source.is_none_or(|source| source == key.src)
            && self.source_port.is_none_or(|port| port == key.src_port)
            && self.protocol.is_none_or(|protocol| protocol == key.protocol)
    }
}

/// A prefix that holds the destination, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The prefix, with the destination's further bits.
    pub prefix: Prefix,
    /// The peer's name.
    pub peer: String,
}

/// A flow that was seen lately.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownFlow {
    /// Its number toward the peer.
    pub id: FlowId,
    /// What it is.
    pub key: FlowKey,
    /// Units sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time since the last packet.
    pub idle: Duration,
    /// Bytes of it that wait on paths.
    pub committed_bytes: u32,
}

/// A path to the peer, and what it is to the flow.
#[derive(Clone, Debug)]
pub struct PathReason {
    /// The path.
    pub path: PathSnapshot,
    /// A packet of a sparse flow would take it now, or a copy of it.
    pub takes_sparse: bool,
    /// Bulk may take it now.
    pub takes_bulk: bool,
    /// Bytes that wait on it.
    pub waiting_bytes: u64,
    /// Why it is so, for people.
    pub why: &'static str,
    /// How often it went down lately, and how much of its probation is left at least.
    pub falls: u32,
    /// None: it is on none.
    pub probation_left: Option<Duration>,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The VPN.
    pub vpn: VpnId,
    /// Its name; empty for the default one.
    pub vpn_name: String,
    /// Every prefix of the VPN that holds the destination. The last is the longest and decides.
    pub matches: Vec<Match>,
    /// There is a session with the peer.
    pub is_established: bool,
    /// Packets of this VPN can be sent to it now; else they wait until it has opened it.
    pub is_open: bool,
    /// The flow, if it was seen lately; of several the one seen last.
    pub flow: Option<KnownFlow>,
    /// By what a path is chosen.
    pub schedule: Schedule,
    /// Whether more than one path may be used at once.
    pub bundles: bool,
    /// The paths.
    pub paths: Vec<PathReason>,
    /// What a packet of a sparse flow would take if those that now do failed.
    pub next_sparse: Vec<PathId>,
    /// What bulk would take then.
    pub next_bulk: Vec<PathId>,
    /// Bytes that wait for any path.
    pub queued_bytes: u64,
    /// The VPN's own queue and loop toward the peer; none where it has none.
    pub entry: Option<VpnStatus>,
    /// The largest packet that every path carries, if need be in parts, in bytes.
    pub inner_limit: usize,
    /// What TCP's maximum segment size is lowered to, in bytes.
    pub mss: u16,
}

impl Engine {
    /// Why a packet of such a flow would go where it would go. Without a VPN's name the default one is asked first, then the others.
    ///
    /// # Errors
    /// When no VPN has that name, or no prefix holds the destination.
    pub fn explain(&self, now: Instant, vpn: Option<&str>, of: &FlowPattern) -> Result<Explanation, CommandError> {
        let asked = vpn.map(|name| self.vpn_called(name)).transpose()?;
        let (vpn, place) = self.place_of(asked, of.destination).ok_or(CommandError::NoRoute)?;
        let name = |peer: PeerId| self.peers.get(usize::from(peer.0)).map(|peer| peer.config.name.clone());
        let found: Vec<(Prefix, PeerId)> = place.matches(of.destination).collect();
        let (_, id) = *found.last().ok_or(CommandError::NoRoute)?;
        let peer = self.peers.get(usize::from(id.0)).ok_or(CommandError::NoRoute)?;
        let standing = self.sessions.vpn_standing(id, vpn);
        let is_established = peer.is_established();
        Ok(Explanation {
            vpn_name: place.name.clone(),
            matches: found.into_iter().filter_map(|(prefix, peer)| Some(Match { prefix, peer: name(peer)? })).collect(),
            is_established,
            is_open: is_established && (vpn == VpnId::DEFAULT || standing != VpnStanding::Closed),
            ..peer.explain_flow(now, vpn, of)
        })
    }

    fn vpn_called(&self, name: &str) -> Result<VpnId, CommandError> {
        if name == "default" {
            return Ok(VpnId::DEFAULT);
        }
        let known = || self.vpns.others().into_iter().map(|(_, vpn)| vpn.name.clone()).collect();
        self.vpns.by_name(name).ok_or_else(|| CommandError::UnknownVpn(name.into(), known()))
    }

    /// The VPN asked for, or the first that has a prefix for the destination.
    fn place_of(&self, asked: Option<VpnId>, destination: IpAddr) -> Option<(VpnId, &Vpn)> {
        if let Some(id) = asked {
            return self.vpns.get(id).map(|vpn| (id, vpn));
        }
        let default = self.vpns.get(VpnId::DEFAULT).map(|vpn| (VpnId::DEFAULT, vpn));
        default.into_iter().chain(self.vpns.others()).find(|(_, vpn)| vpn.route(destination).is_some())
    }
}
