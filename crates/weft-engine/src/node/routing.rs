//! Next hops of packets, and support for routing protocols: learnt prefixes, multicast, and frequent probes.
//!
//! The program passes changes of routes in batches of limited size, so that many routes never hold up packets. Each
//! change costs one step in a trie, whatever the number of prefixes.

use super::Engine;
use crate::api::{Alternate, LearntChange, LearntRefusal};
use crate::flows::Seen;
use core::net::IpAddr;
use weft_core::pool::BufId;
use weft_units::{Duration, Instant, PeerId, VpnId};
use weft_wire::ip::IpView;
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// Random stream that seeds the spreading of flows over next hops.
const ALTERNATES_STREAM: u64 = (u32::MAX as u64) + 2;

impl Engine {
    /// Applies one change of a route by a routing protocol.
    ///
    /// A learnt prefix never replaces one of the same length that is assigned to a peer.
    pub fn learn(&mut self, vpn: VpnId, change: &LearntChange) -> Result<(), LearntRefusal> {
        let vpn = self.vpns.get_mut(vpn).ok_or(LearntRefusal::NoPeer)?;
        match change.next_hop {
            Some(next_hop) => vpn.learn(change.prefix, next_hop, change.protocol),
            None => {
                vpn.unlearn(change.prefix);
                Ok(())
            }
        }
    }

    /// Returns the number of prefixes of a VPN that were learnt from routing protocols.
    pub fn learnt_count(&self, vpn: VpnId) -> usize {
        self.vpns.get(vpn).map_or(0, |vpn| vpn.learnt_count())
    }

    /// Sets whether packets for link-local multicast groups go to all members of their VPN.
    ///
    /// The groups are 224.0.0.0/24 and ff02::/16. If this is off, such a packet follows the prefixes, as any other.
    pub fn set_multicast(&mut self, is_on: bool) {
        self.vpns.floods_multicast = is_on;
    }

    /// Returns the peer behind whose assigned prefixes an address lies. Default routes are ignored.
    pub fn peer_of_address(&self, vpn: VpnId, address: IpAddr) -> Option<PeerId> {
        self.vpns.get(vpn)?.assigned(address)
    }

    /// True if a peer has a session and a path that answers: a path that is neither suspect nor down.
    pub fn is_answering(&self, peer: PeerId) -> bool {
        let of = self.peers.get(usize::from(peer.0));
        of.is_some_and(|of| of.is_established() && of.paths.iter().any(|path| path.carries() && path.health.answers()))
    }

    /// Sets the longest interval between probes of those paths of a peer that are in use; `None`: the usual one.
    ///
    /// This interval determines the time until a silent failure is detected, even while no packets pass.
    pub fn set_probe_pace(&mut self, now: Instant, peer: PeerId, pace: Option<Duration>) {
        self.with_peer(now, peer.0.into(), |peer, _| peer.session.probe_pace = pace);
    }

    /// Sets the further next hops toward prefixes of the default VPN, in place of earlier ones.
    ///
    /// A new flow toward such a prefix takes one of the near-equal peers by hash, or another one if that peer reports
    /// a full port. An alternate whose peer does not exist, or whose prefix no other peer has, is ignored.
    pub fn set_alternates(&mut self, now: Instant, alternates: &[Alternate]) {
        let peer = |of: &Alternate| Some((of.prefix, self.sessions.peer_by_key(&of.peer)?));
        let resolved = alternates.iter().filter_map(peer).collect();
        self.vpns.set_alternates(resolved, self.rng.split(ALTERNATES_STREAM).next_u64());
        self.refresh_next_hops(now);
    }

    /// Updates which next hops toward the same prefix answer.
    pub(super) fn refresh_next_hops(&mut self, now: Instant) {
        let Engine { peers, vpns, .. } = self;
        if let Some(hops) = &mut vpns.next_hops {
            hops.refresh(now, |peer| peers.get(usize::from(peer.0)).and_then(|peer| peer.one_way_delay()));
        }
    }

    /// Returns the next hop of a packet from a host: the owner of its destination, or an alternate.
    pub(super) fn next_hop(
        &mut self,
        now: Instant,
        (vpn, owner): (VpnId, PeerId),
        buf: BufId,
        destination: IpAddr,
    ) -> PeerId {
        if self.vpns.next_hops.is_none() || vpn != VpnId::DEFAULT {
            return owner;
        }
        let packet = self.pool.bytes(buf).get(VNET_HEADER_LEN..).and_then(|bytes| IpView::parse(bytes).ok());
        let Some(packet) = packet else { return owner };
        let key = packet.flow_key();
        let seen = Seen { vpn, key, dscp: packet.tos >> 2, packets: 1, bytes: 0 };
        let flows = &self.hosts.flows;
        self.vpns.next_hop(now, &key, destination, || flows.asks(owner, &seen)).unwrap_or(owner)
    }

    /// Queues a copy of a multicast packet for each member of its VPN that has a session.
    pub(super) fn flood(
        &mut self,
        now: Instant,
        vpn: VpnId,
        to: IpAddr,
        (buf, len): (BufId, usize),
        shape: SuperPacket,
    ) {
        for at in 0.. {
            let Some(peer) = self.vpns.multicast_members(vpn, to).get(at).copied() else { break };
            if !self.peers.get(usize::from(peer.0)).is_some_and(|peer| peer.is_established()) {
                continue;
            }
            match self.copy(now, buf, len) {
                Some(copy) => self.enqueue(now, peer, vpn, copy, shape),
                None => self.hosts.no_buffer_packets += 1,
            }
        }
        self.pool.release(buf);
    }

    fn copy(&mut self, now: Instant, buf: BufId, len: usize) -> Option<BufId> {
        let copy = self.pool.alloc(len)?;
        let memory = self.pool.take(buf);
        let (from, to) = (memory.get(..len), self.pool.bytes_mut(copy).get_mut(..len));
        if let Some((from, to)) = from.zip(to) {
            to.copy_from_slice(from);
        }
        self.pool.put(buf, memory);
        self.may_wait(now, copy)
    }
}
