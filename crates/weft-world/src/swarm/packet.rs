//! Makes packets in which every byte is computed from the packet's flow and number.
//!
//! The packets have the form in which a TUN device exchanges them. This module has its own code for segmentation,
//! checksums and comparison, so it checks `weft-wire` independently.

use std::net::Ipv4Addr;
use weft_units::{Rng, VpnId};

/// Length of the virtio-net header, in bytes.
pub(super) const VNET: usize = 10;
const NEEDS_CSUM: u8 = 1;
const TCP_V4: u8 = 1;
const UDP_L4: u8 = 5;
const PUSH: u8 = 8;
const ACK: u8 = 16;
/// Length of an IPv4 header without options, in bytes.
const IP: usize = 20;
/// VPNs of all nodes, in plans with VPNs. All VPNs use the same addresses.
pub(super) const VPNS: [VpnId; 2] = [VpnId(1), VpnId(2)];
/// A VPN that only nodes that initiate handshakes have configured. Their peers must not accept its packets.
pub(super) const ONE_SIDED: VpnId = VpnId(3);
/// Minimum length of a UDP payload, in bytes. The payload begins with the packet's number.
pub(super) const LEAST_PAYLOAD: u16 = 8;

/// The properties that all packets of a flow share.
#[derive(Clone, Debug)]
pub(super) struct SwarmFlow {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) vpn: VpnId,
    /// Source port: 1000 plus the flow's number. A flow with equal addresses in another VPN has the same port.
    pub(super) port: u16,
    pub(super) tcp: bool,
    /// Length of TCP options, in bytes: 0 or 12.
    pub(super) options: usize,
    pub(super) tos: u8,
    /// True if the source address is not the sender's. Then no node may accept the packet.
    pub(super) forged: bool,
    /// First TCP sequence number. It is also the seed of the payload.
    pub(super) start: u32,
}

/// One packet of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwarmSegment {
    pub(super) number: u32,
    /// Position of the segment's payload in the flow's stream of bytes.
    pub(super) offset: u64,
    pub(super) len: u16,
    pub(super) push: bool,
}

/// Form in which the packets of a flow are read from a node's TUN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offload {
    /// Each packet is read alone, with complete checksums.
    None,
    /// Each packet is read alone, with a partial transport checksum.
    Checksum,
    /// Several segments are read as one super-packet.
    Segmentation,
}

/// Returns the address of the host behind a node.
pub(super) fn host(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, node as u8, 1)
}

/// Returns a short UDP packet that no flow has sent.
pub(super) fn invented(rng: &mut Rng, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let payload = LEAST_PAYLOAD + rng.below(40) as u16;
    let flow = SwarmFlow {
        from: from.octets()[2].into(),
        to: to.octets()[2].into(),
        vpn: VpnId::DEFAULT,
        port: 40_000 + rng.below(50) as u16,
        tcp: false,
        options: 0,
        tos: 0,
        forged: false,
        start: rng.next_u64() as u32,
    };
    let segment = SwarmSegment { number: rng.next_u64() as u32, offset: 0, len: payload, push: false };
    flow.reads(&[segment], Offload::None).pop().map_or_else(Vec::new, |read| read[VNET..].to_vec())
}

impl SwarmFlow {
    /// Returns the length of all headers, in bytes.
    pub(super) fn header_len(&self) -> usize {
        IP + self.transport_len()
    }

    fn transport_len(&self) -> usize {
        if self.tcp { 20 + self.options } else { 8 }
    }

    fn checksum_at(&self) -> usize {
        IP + if self.tcp { 16 } else { 6 }
    }

    fn source(&self) -> Ipv4Addr {
        if self.forged { Ipv4Addr::new(192, 0, 2, self.from as u8) } else { host(self.from) }
    }

    /// Returns one packet with the payload of all `segments`. Its transport checksum is zero.
    fn packet(&self, segments: &[SwarmSegment]) -> Vec<u8> {
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Vec::new() };
        let payload: usize = segments.iter().map(|s| usize::from(s.len)).sum();
        let total = self.header_len() + payload;
        let mut packet = Vec::with_capacity(VNET + total);
        packet.extend([0x45, self.tos]);
        packet.extend((total as u16).to_be_bytes());
        packet.extend((first.number as u16).to_be_bytes());
        packet.extend([0x40, 0, 64, if self.tcp { 6 } else { 17 }, 0, 0]);
        packet.extend(self.source().octets());
        packet.extend(host(self.to).octets());
        packet.extend(self.port.to_be_bytes());
        packet.extend(7u16.to_be_bytes());
        if self.tcp {
            packet.extend(self.start.wrapping_add(first.offset as u32).to_be_bytes());
            packet.extend(self.start.to_be_bytes());
            let flags = ACK | if last.push { PUSH } else { 0 };
            packet.extend([(((20 + self.options) / 4) << 4) as u8, flags, 0x10, 0, 0, 0, 0, 0]);
            packet.extend([1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 9].get(..self.options).unwrap_or_default());
        } else {
            packet.extend(((8 + payload) as u16).to_be_bytes());
            packet.extend([0, 0]);
        }
        for segment in segments {
            self.push_payload(segment, &mut packet);
        }
        finish_ip(&mut packet);
        packet
    }

    fn push_payload(&self, segment: &SwarmSegment, out: &mut Vec<u8>) {
        let mut at = segment.offset;
        let mut left = usize::from(segment.len);
        if !self.tcp {
            out.extend(u64::from(segment.number).to_be_bytes());
            at += u64::from(LEAST_PAYLOAD);
            left = left.saturating_sub(LEAST_PAYLOAD.into());
        }
        // The payload is a stream of 8-byte words. It may begin and end within a word.
        let skip = (at % 8) as usize;
        let end = out.len() + left;
        let mut word_at = at / 8;
        let mut skipped = skip;
        while out.len() < end {
            let word = (word_at ^ u64::from(self.start) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let take = (8 - skipped).min(end - out.len());
            out.extend_from_slice(word.get(skipped..skipped + take).unwrap_or_default());
            (word_at, skipped) = (word_at + 1, 0);
        }
    }

    /// Returns the packets as one or more reads from a TUN device. A read is a virtio-net header and a packet.
    pub(super) fn reads(&self, segments: &[SwarmSegment], offload: Offload) -> Vec<Vec<u8>> {
        match offload {
            Offload::Segmentation if segments.len() > 1 => vec![self.super_packet(segments)],
            _ => segments.iter().map(|s| self.read(s, offload)).collect(),
        }
    }

    fn read(&self, segment: &SwarmSegment, offload: Offload) -> Vec<u8> {
        let mut packet = self.packet(&[*segment]);
        if offload == Offload::None {
            self.complete(&mut packet);
            return [&[0; VNET][..], &packet].concat();
        }
        self.offloaded(packet, 0, 0)
    }

    fn super_packet(&self, segments: &[SwarmSegment]) -> Vec<u8> {
        let gso_size = segments.first().map_or(0, |s| s.len);
        self.offloaded(self.packet(segments), if self.tcp { TCP_V4 } else { UDP_L4 }, gso_size)
    }

    fn offloaded(&self, mut packet: Vec<u8>, gso_type: u8, gso_size: u16) -> Vec<u8> {
        let partial = self.pseudo_header(packet.len());
        put(&mut packet, self.checksum_at(), &fold(partial).to_be_bytes());
        let mut read = vec![NEEDS_CSUM, gso_type];
        let offset = self.checksum_at() - IP;
        for field in [self.header_len() as u16, gso_size, IP as u16, offset as u16] {
            read.extend(field.to_ne_bytes());
        }
        read.extend(packet);
        read
    }

    fn pseudo_header(&self, total: usize) -> u32 {
        let words = |a: Ipv4Addr| sum(&a.octets());
        words(self.source()) + words(host(self.to)) + if self.tcp { 6 } else { 17 } + (total - IP) as u32
    }

    fn complete(&self, packet: &mut [u8]) {
        put(packet, self.checksum_at(), &[0, 0]);
        let all = self.pseudo_header(packet.len()) + packet.get(IP..).map_or(0, sum);
        let checksum = match !fold(all) {
            0 if !self.tcp => 0xffff,
            checksum => checksum,
        };
        put(packet, self.checksum_at(), &checksum.to_be_bytes());
    }

    /// Returns the packet that a host must receive. `marked` is true if a router marked congestion.
    pub(super) fn expected(&self, segment: &SwarmSegment, marked: bool) -> Vec<u8> {
        let mut packet = self.packet(&[*segment]);
        if marked && self.tos & 3 != 0 {
            packet[1] |= 3;
            finish_ip(&mut packet);
        }
        self.complete(&mut packet);
        packet
    }

    /// Splits a packet that a node writes to its TUN device into single segments, as a kernel would.
    ///
    /// The function completes a partial checksum.
    ///
    /// # Errors
    /// Returns an error if a kernel would refuse the packet or a host would drop it.
    pub(super) fn cut(&self, written: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let (Some(vnet), Some(packet)) = (written.get(..VNET), written.get(VNET..)) else {
            return Err("shorter than its virtio-net header".into());
        };
        let gso_size = usize::from(u16::from_ne_bytes([vnet[4], vnet[5]]));
        let (needs_csum, gso_type) = (vnet[0] & NEEDS_CSUM != 0, vnet[1] & 0x7f);
        let header_len = self.header_len();
        if packet.len() <= header_len {
            return Err(format!("{} bytes are not a packet of this flow", packet.len()));
        }
        if needs_csum && u16_at(packet, self.checksum_at()) != fold(self.pseudo_header(packet.len())) {
            return Err("a wrong partial checksum".into());
        }
        if gso_type == 0 {
            let mut whole = packet.to_vec();
            if needs_csum {
                self.complete(&mut whole);
            }
            return Ok(vec![whole]);
        }
        if !needs_csum || gso_size == 0 || gso_type != if self.tcp { TCP_V4 } else { UDP_L4 } {
            return Err(format!("GSO type {gso_type}, size {gso_size}, checksum flag {needs_csum}"));
        }
        let (header, payload) = packet.split_at(header_len);
        let count = payload.len().div_ceil(gso_size);
        Ok(payload
            .chunks(gso_size)
            .enumerate()
            .map(|(n, piece)| self.piece(header, n, gso_size, n + 1 == count, piece))
            .collect())
    }

    fn piece(&self, header: &[u8], n: usize, gso_size: usize, is_last: bool, payload: &[u8]) -> Vec<u8> {
        let mut packet = [header, payload].concat();
        let total = packet.len() as u16;
        put(&mut packet, 2, &total.to_be_bytes());
        let id = u16_at(header, 4).wrapping_add(n as u16);
        put(&mut packet, 4, &id.to_be_bytes());
        if self.tcp {
            let seq = u32::from(u16_at(header, 24)) << 16 | u32::from(u16_at(header, 26));
            put(&mut packet, 24, &seq.wrapping_add((n * gso_size) as u32).to_be_bytes());
            packet[33] &= if is_last { 0xff } else { !(PUSH | 1) };
        } else {
            put(&mut packet, 24, &(total - IP as u16).to_be_bytes());
        }
        finish_ip(&mut packet);
        self.complete(&mut packet);
        packet
    }

    /// Returns the number that the packet seems to have in its flow: a TCP offset or a UDP number.
    ///
    /// Returns `None` if the packet is too short for such a number.
    pub(super) fn name_of(&self, packet: &[u8]) -> Option<PacketName> {
        if self.tcp {
            let seq = u32::from_be_bytes(packet.get(24..28)?.try_into().ok()?);
            return Some(PacketName::Offset(seq.wrapping_sub(self.start)));
        }
        Some(PacketName::Number(u64::from_be_bytes(packet.get(28..36)?.try_into().ok()?)))
    }
}

/// The number that identifies a packet within its flow.
#[derive(Clone, Copy, Debug)]
pub(super) enum PacketName {
    Offset(u32),
    Number(u64),
}

/// Returns the source port of a delivered packet. Port and VPN identify the flow.
pub(super) fn port_of(written: &[u8]) -> Option<u16> {
    written.get(VNET..).map(|packet| u16_at(packet, IP))
}

/// Returns bytes that are no valid packet, made from a valid one.
pub(super) fn garbage(rng: &mut Rng, good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    match rng.below(3) {
        0 => bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize),
        1 => (0..rng.below(60)).for_each(|_| bytes.push(rng.next_u64() as u8)),
        _ => {}
    }
    let reach = bytes.len().min(60) as u64;
    for _ in 0..1 + rng.below(6) {
        if let Some(byte) = bytes.get_mut(rng.below(reach) as usize) {
            *byte = rng.next_u64() as u8;
        }
    }
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
}

fn sum(bytes: &[u8]) -> u32 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    pairs.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum::<u32>()
        + odd.first().map_or(0, |b| u32::from(*b) << 8)
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

fn finish_ip(packet: &mut [u8]) {
    put(packet, 10, &[0, 0]);
    let checksum = !fold(packet.get(..IP).map_or(0, sum));
    put(packet, 10, &checksum.to_be_bytes());
}
