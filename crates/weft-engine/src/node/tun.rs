//! Packets from and to the TUN devices.
//!
//! A packet is routed by VPN and prefix to a peer's queue. If buffers are short, packets of the peer that holds most
//! buffers are dropped. Arrived packets are written in turns by peer.

use super::Engine;
use crate::units::{Origin, Whole};
use core::net::IpAddr;
use weft_core::pool::{BufId, SMALL_BYTES};
use weft_units::planted::{self, Fault};
use weft_units::{Instant, PeerId, VpnId};
use weft_wire::ip::IpView;
use weft_wire::super_packet::SuperPacket;
use weft_wire::virtio::{VNET_HEADER_LEN, VnetHeader};

/// Maximum number of packets of one peer that are written to TUN devices before the next peer's turn.
///
/// A round of eight peers is a quarter of the daemon's writes in one turn.
const WRITES_AT_A_TIME: usize = 32;

impl Engine {
    /// Accepts a packet from the TUN device of `vpn`.
    ///
    /// The packet has `len` bytes in `buf`, which begin with a virtio-net header. The engine takes ownership of the
    /// buffer.
    pub fn handle_packet(&mut self, now: Instant, vpn: VpnId, buf: BufId, len: usize) {
        let parsed = self.pool.bytes_mut(buf).get_mut(..len).and_then(parse_tun);
        let Some((shape, destination)) = parsed else {
            self.pool.release(buf);
            return;
        };
        if destination.is_multicast() && !self.vpns.multicast_members(vpn, destination).is_empty() {
            return self.flood(now, vpn, destination, (buf, len), shape);
        }
        let peer = self.vpns.get(vpn).and_then(|vpn| vpn.route(destination));
        let Some(buf) = self.shrink(buf, len).and_then(|buf| self.may_wait(now, buf)) else {
            self.hosts.no_buffer_packets += 1;
            return;
        };
        let peer = peer.map(|owner| self.next_hop(now, (vpn, owner), buf, destination));
        match peer {
            Some(peer) if planted::is(Fault::VpnNotChecked) => self.enqueue(now, peer, VpnId::DEFAULT, buf, shape),
            Some(peer) => self.enqueue(now, peer, vpn, buf, shape),
            None => {
                if let Some(buf) = self.seek(now, vpn, destination, buf, shape) {
                    self.count_unroutable(vpn);
                    self.pool.release(buf);
                }
            }
        }
    }

    /// Hands a packet of a host to the peer behind which its destination lies.
    pub(super) fn enqueue(&mut self, now: Instant, peer: PeerId, vpn: VpnId, buf: BufId, shape: SuperPacket) {
        self.enqueue_from(now, Origin::Host, peer, Whole { vpn, buf, shape });
    }

    /// Hands a packet of `origin`, a host here or another peer, to the peer behind which its destination lies.
    pub(super) fn enqueue_from(&mut self, now: Instant, origin: Origin, peer: PeerId, packet: Whole) {
        self.hosts.serial = self.hosts.serial.wrapping_add(1);
        let serial = self.hosts.serial;
        self.with_peer(now, peer.0.into(), |p, cx| p.enqueue(cx, origin, packet, serial));
    }

    /// Counts a packet whose destination lies behind no peer.
    pub(super) fn count_unroutable(&mut self, vpn: VpnId) {
        self.hosts.unroutable_packets += 1;
        if let Some(vpn) = self.vpns.get_mut(vpn) {
            vpn.totals.unroutable_packets += 1;
        }
    }

    /// Moves a packet that fits into a small buffer to a small buffer, so that few large buffers are in use.
    fn shrink(&mut self, buf: BufId, len: usize) -> Option<BufId> {
        if len > SMALL_BYTES || !buf.is_large() {
            return Some(buf);
        }
        let small = self.pool.alloc_small();
        if let Some(small) = small {
            let memory = self.pool.take(buf);
            self.pool.bytes_mut(small)[..len].copy_from_slice(&memory[..len]);
            self.pool.put(buf, memory);
        }
        self.pool.release(buf);
        small
    }

    /// Returns the buffer of a packet if enough buffers are left to queue the packet. Otherwise releases the buffer.
    pub(super) fn may_wait(&mut self, now: Instant, buf: BufId) -> Option<BufId> {
        self.make_room(now, buf);
        if self.pool.is_scarce(buf) {
            self.pool.release(buf);
            return None;
        }
        Some(buf)
    }

    /// Drops queued packets of the peer that holds the most buffers, if buffers of this size are short.
    ///
    /// The method is buffer stealing (McKenney 1991). A peer that is unreachable or has missing units therefore
    /// cannot take the buffers of other peers.
    pub(super) fn make_room(&mut self, now: Instant, buf: BufId) {
        if self.pool.is_scarce(buf)
            && let Some(index) = self.peers.with_most_buffers()
        {
            self.with_peer(now, index, |p, cx| p.give_way(cx));
        }
    }

    /// Passes every packet for a TUN device to `write`: its VPN, and the pieces that form the packet.
    ///
    /// Returns true if packets were forwarded to other peers, which may then be ready to send.
    pub fn deliver(&mut self, now: Instant, write: impl FnMut(VpnId, &[&[u8]])) -> bool {
        self.deliver_some(now, usize::MAX, write)
    }

    /// Works as [`Engine::deliver`] with at most `most` packets, in turns by peer.
    ///
    /// Returns true if more packets may remain, or if packets were forwarded to other peers.
    pub fn deliver_some(&mut self, now: Instant, most: usize, mut write: impl FnMut(VpnId, &[&[u8]])) -> bool {
        let (mut left, mut forwarded) = (most, 0);
        while left > 0 {
            let part = left.min(WRITES_AT_A_TIME);
            let Some((index, output)) = self.peers.next_output(self.hosts.written) else { return forwarded > 0 };
            let (done, onward) = match &self.vpns.transit {
                None => (output.drain(part, &mut self.pool, &mut write), 0),
                Some(_) => self.forward_or_write(now, index, part, &mut write),
            };
            if done < part {
                self.peers.all_written(index);
            }
            (left, forwarded) = (left - done, forwarded + onward);
            self.hosts.written = index + 1;
        }
        true
    }
}

/// Returns the layout and the destination of a packet read from a TUN device, or `None` if it is malformed.
pub(super) fn parse_tun(bytes: &mut [u8]) -> Option<(SuperPacket, IpAddr)> {
    let (header, _) = VnetHeader::parse(bytes).ok()?;
    let packet = bytes.get_mut(VNET_HEADER_LEN..)?;
    let shape = SuperPacket::parse(&header, packet).ok()?;
    let view = IpView::parse(packet).ok()?;
    Some((shape, view.dst))
}
