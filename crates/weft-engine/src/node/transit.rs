//! Transit: forwards packets from peer to peer in user space, by longest prefix.
//!
//! A packet that arrived from a peer is examined when it would be written to a TUN device. If its destination lies
//! behind another peer of the same VPN, it is queued for that peer instead. Joined segments stay joined.

use super::Engine;
use super::tun::parse_tun;
use crate::api::{HeardLoadView, Prefix, TransitConfig, TransitTotals};
use crate::peer::inbound::egress::Front;
use crate::units::{Origin, Whole};
use crate::vpn::Transit;
use alloc::vec::Vec;
use weft_core::pool::BufId;
use weft_flows::Classes;
use weft_flows::load::{LOAD_LIFETIME, TransitLoad};
use weft_units::{Instant, PeerId, VpnId};
use weft_wire::er_sig::Rate16;
use weft_wire::ip::{IcmpError, IpVersion, IpView, icmp_error, lower_hop_limit};
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::VNET_HEADER_LEN;

/// Maximum length of an ICMP error, in bytes. *Standard*: the least MTU of IPv6 (RFC 4443 §2.4 c).
const ERROR_ROOM: usize = 1_280;
/// Bit of the IPv4 flags that forbids fragments (RFC 791 §3.1).
const DONT_FRAGMENT: u8 = 0x40;

impl Engine {
    /// Starts, changes or stops (`None`) transit: the forwarding of packets from peer to peer.
    pub fn set_transit(&mut self, now: Instant, config: Option<TransitConfig>) {
        let (totals, loads) =
            self.vpns.transit.take().map(|transit| (transit.totals, transit.loads)).unwrap_or_default();
        self.vpns.transit = config.map(|config| Transit::new(now, config, totals, loads));
    }

    /// Returns the counters of transit, or `None` if it is off.
    pub fn transit_totals(&self) -> Option<TransitTotals> {
        self.vpns.transit.as_ref().map(|transit| transit.totals)
    }

    /// Takes at most `most` packets of a peer's output, and forwards each to another peer or passes it to `write`.
    ///
    /// Returns the number of packets taken, and the number of those that were forwarded.
    pub(super) fn forward_or_write(
        &mut self,
        now: Instant,
        index: usize,
        most: usize,
        write: &mut impl FnMut(VpnId, &[&[u8]]),
    ) -> (usize, usize) {
        let mut forwarded = 0;
        for done in 0..most {
            let Some(front) = self.peers.output_mut(index).and_then(|output| output.front(&self.pool)) else {
                return (done, forwarded);
            };
            let from = PeerId(index as u16);
            match front.destination.and_then(|destination| self.vpns.onward(front.vpn, from, destination)) {
                Some(next) => {
                    self.forward(now, (from, next), &front);
                    forwarded += 1;
                }
                None => self.write_one(index, write),
            }
        }
        (most, forwarded)
    }

    fn write_one(&mut self, index: usize, write: &mut impl FnMut(VpnId, &[&[u8]])) {
        if let Some(output) = self.peers.output_mut(index) {
            output.drain(1, &mut self.pool, write);
        }
    }

    /// Moves the next packet of one peer's output to the queue of another peer.
    fn forward(&mut self, now: Instant, (from, next): (PeerId, PeerId), front: &Front) {
        let (vpn, len) = (front.vpn, front.len);
        let Some(buf) = self.take_out(from, len) else { return };
        let Some((shape, _)) = self.pool.bytes_mut(buf).get_mut(..len).and_then(parse_tun) else {
            self.pool.release(buf);
            return;
        };
        if let Some(error) = self.obstacle(buf, &shape) {
            self.refuse_transit(now, from, vpn, buf, error);
            self.pool.release(buf);
            return;
        }
        if let Some(packet) = self.pool.bytes_mut(buf).get_mut(VNET_HEADER_LEN..len) {
            // The packet was parsed and has hops left, so this cannot fail.
            let _ = lower_hop_limit(packet);
        }
        if let Some(transit) = &mut self.vpns.transit {
            transit.totals.packets += 1;
            transit.totals.bytes += (len - VNET_HEADER_LEN) as u64;
        }
        if let Some(destination) = front.destination {
            self.vpns.on_forwarded(now, (from, next), vpn, destination);
        }
        match self.may_wait(now, buf) {
            Some(buf) => self.enqueue_from(now, Origin::Peer(from), next, Whole { vpn, buf, shape }),
            None => self.hosts.no_buffer_packets += 1,
        }
    }

    /// Copies the next packet of a peer's output, which has `len` bytes, into one buffer.
    ///
    /// The packet is dropped if there is no buffer.
    fn take_out(&mut self, from: PeerId, len: usize) -> Option<BufId> {
        let Some(buf) = self.pool.alloc(len) else {
            self.hosts.no_buffer_packets += 1;
            self.write_one(from.0.into(), &mut |_, _| {});
            return None;
        };
        let mut memory = self.pool.take(buf);
        let mut at = 0;
        self.write_one(from.0.into(), &mut |_, pieces| {
            for piece in pieces {
                if let Some(room) = memory.get_mut(at..at + piece.len()) {
                    room.copy_from_slice(piece);
                    at += piece.len();
                }
            }
        });
        self.pool.put(buf, memory);
        Some(buf)
    }

    /// Measures the ports that transit uses, and tells their loads to the peers that send through them.
    pub(super) fn tell_loads(&mut self, now: Instant) {
        if !self.vpns.transit.as_mut().is_some_and(|transit| transit.loads.begin_look(now)) {
            return;
        }
        let (mut port, mut receiver) = (0, None);
        while let Some(at) = self.vpns.transit.as_ref().and_then(|transit| transit.loads.next_port(now, port)) {
            self.with_peer(now, at, |p, cx| p.look_at_port(cx));
            port = at + 1;
        }
        while let Some(peer) = self.vpns.transit.as_ref().and_then(|transit| transit.loads.next_receiver(receiver)) {
            receiver = Some(peer);
            let index = usize::from(peer.0);
            let link = self.peers.get(index).and_then(|peer| peer.slowest_link());
            let Some((transit, link)) = self.vpns.transit.as_mut().zip(link) else { continue };
            if let Some(load) = transit.loads.next_report(now, peer, link) {
                self.with_peer(now, index, |p, _| p.tell_load(load));
            }
        }
        if let Some(transit) = &mut self.vpns.transit {
            transit.loads.end_look(now);
        }
    }

    /// Returns the reports about their ports that peers have sent, with their ages.
    pub fn heard_loads(&self, now: Instant) -> Vec<HeardLoadView> {
        let built_in = Classes::built_in();
        let classes = self.hosts.flows.router.as_deref().map_or(&built_in, |router| router.classes());
        let rate = |rate: Rate16| rate.rate().unwrap_or_default();
        let heard = self.vpns.heard.iter(now).filter_map(|(peer, load, age, is_full)| {
            let TransitLoad { network: address, length, report } = *load;
            let headroom = classes.names().zip(report.headroom).take(report.classes.into());
            Some(HeardLoadView {
                peer: self.peer_name(peer)?.into(),
                prefix: Prefix { address, length },
                rate: rate(report.rate),
                flows: report.flows,
                queue_delay: report.queue_delay,
                headroom: headroom.map(|(name, left)| (name.into(), rate(left))).collect(),
                age,
                counts: age < LOAD_LIFETIME,
                is_full,
            })
        });
        heard.collect()
    }

    /// Returns the ICMP error that says why a packet cannot be forwarded, or `None` if it can.
    fn obstacle(&self, buf: BufId, shape: &SuperPacket) -> Option<IcmpError> {
        let packet = IpView::parse(self.pool.bytes(buf).get(VNET_HEADER_LEN..)?).ok()?;
        if packet.hop_limit <= 1 {
            return Some(IcmpError::TimeExceeded);
        }
        let may_not_split = packet.version == IpVersion::V6 || packet.bytes.get(6)? & DONT_FRAGMENT != 0;
        let longest = shape.header_len() + shape.payload(0).len();
        let mtu = self.inner_mtu();
        (may_not_split && longest > usize::from(mtu)).then_some(IcmpError::TooBig { mtu })
    }

    /// Counts a packet that cannot be forwarded, and sends an ICMP error about it to the peer that sent the packet.
    fn refuse_transit(&mut self, now: Instant, from: PeerId, vpn: VpnId, buf: BufId, error: IcmpError) {
        let Some(transit) = &mut self.vpns.transit else { return };
        match error {
            IcmpError::TimeExceeded => transit.totals.expired += 1,
            IcmpError::TooBig { .. } => transit.totals.too_big += 1,
        }
        let packet = self.pool.bytes(buf).get(VNET_HEADER_LEN..).and_then(|bytes| IpView::parse(bytes).ok());
        let Some(packet) = packet else { return };
        let Some(source) = transit.error_source(now, packet.src) else { return };
        let mut room = [0; VNET_HEADER_LEN + ERROR_ROOM];
        let Some(len) = icmp_error(&packet, error, source, &mut room[VNET_HEADER_LEN..]) else { return };
        transit.totals.errors += 1;
        let whole = &mut room[..VNET_HEADER_LEN + len];
        let Some((shape, _)) = parse_tun(whole) else { return };
        let Some(answer) = self.pool.alloc_small() else { return };
        self.pool.bytes_mut(answer)[..whole.len()].copy_from_slice(whole);
        self.enqueue(now, from, vpn, answer, shape);
    }
}
