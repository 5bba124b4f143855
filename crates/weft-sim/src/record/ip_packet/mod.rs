//! Converts simulated packets to real IPv4 packets and back.
//!
//! A capture needs only the headers. A TUN device needs the whole packet, or a super-packet with its virtio_net_hdr.
//! Simulated packets have no payload bytes, so the payload is zeros. No-operations stand for TCP options that real
//! hosts would send.

mod super_packet;
mod tcp;
mod udp;

pub use super_packet::SuperSegment;
pub use tcp::{TcpDirection, TcpReader, window_shift};
pub use udp::{read_udp, udp_headers};

use crate::PacketEcn;
use std::net::SocketAddrV4;
use std::ops::Deref;
use weft_wire::WireError;
use weft_wire::checksum::{Sum, checksum, pseudo_header};
use weft_wire::ip::{IpVersion, IpView};

const IPV4_HEADER_LEN: usize = 20;
const MAX_TCP_HEADER_LEN: usize = 60;
const DONT_FRAGMENT: u8 = 0x40;
const HOP_LIMIT: u8 = 64;

/// The fields of the IP header of a packet that the caller sets, besides addresses and lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IpFields {
    /// Identification field.
    ///
    /// It rises from packet to packet where the receiver joins segments to super-packets. Elsewhere it is zero, because
    /// it means nothing in packets that are not fragmented (RFC 6864).
    pub id: u16,
    /// ECN field of the packet.
    pub ecn: PacketEcn,
}

/// The headers of a packet, and the length of the whole packet. All bytes after the headers are zero.
#[derive(Clone, Copy, Debug)]
pub struct PacketHeaders {
    bytes: [u8; IPV4_HEADER_LEN + MAX_TCP_HEADER_LEN],
    len: usize,
    total_len: usize,
}

impl PacketHeaders {
    /// Returns the size of the whole packet in bytes.
    pub fn total_len(&self) -> usize {
        self.total_len
    }

    /// Appends the whole packet to `out`: the headers and the zeros after them.
    pub fn write_whole(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self);
        out.resize(start + self.total_len, 0);
    }

    /// Creates the headers of a packet that begin with an IPv4 header, after which `l4_len` bytes follow.
    fn new(
        fields: IpFields,
        protocol: u8,
        from: SocketAddrV4,
        to: SocketAddrV4,
        l4_len: usize,
    ) -> Result<PacketHeaders, WireError> {
        let total_len = IPV4_HEADER_LEN + l4_len;
        let length = u16::try_from(total_len).map_err(|_| WireError::TooLong)?;
        let mut header = [0; IPV4_HEADER_LEN];
        header[0] = 0x45;
        header[1] = ecn_bits(fields.ecn);
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[4..6].copy_from_slice(&fields.id.to_be_bytes());
        header[6] = DONT_FRAGMENT;
        header[8] = HOP_LIMIT;
        header[9] = protocol;
        header[12..16].copy_from_slice(&from.ip().octets());
        header[16..20].copy_from_slice(&to.ip().octets());
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let mut headers = PacketHeaders { bytes: [0; IPV4_HEADER_LEN + MAX_TCP_HEADER_LEN], len: 0, total_len };
        headers.push(&header);
        Ok(headers)
    }

    /// Appends `bytes` to the headers. The caller guarantees that there is space for them.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn patch(&mut self, at: usize, field: u16) {
        self.bytes[at..at + 2].copy_from_slice(&field.to_be_bytes());
    }

    /// Returns the TCP or UDP checksum over the pseudo-header, the headers and the payload.
    ///
    /// The zeros after the headers do not change the checksum.
    fn transport_checksum(&self, protocol: u8, from: SocketAddrV4, to: SocketAddrV4) -> u16 {
        self.pseudo(protocol, from, to).bytes(&self[IPV4_HEADER_LEN..]).checksum()
    }

    /// Returns the sum over the pseudo-header only.
    ///
    /// A packet for a TUN device has this partial checksum in its checksum field if the device must complete it.
    fn pseudo_sum(&self, protocol: u8, from: SocketAddrV4, to: SocketAddrV4) -> u16 {
        self.pseudo(protocol, from, to).fold()
    }

    fn pseudo(&self, protocol: u8, from: SocketAddrV4, to: SocketAddrV4) -> Sum {
        pseudo_header((*from.ip()).into(), (*to.ip()).into(), protocol, self.total_len - IPV4_HEADER_LEN)
    }
}

impl Deref for PacketHeaders {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn ecn_bits(ecn: PacketEcn) -> u8 {
    match ecn {
        PacketEcn::NotEct => 0b00,
        PacketEcn::Ect => 0b10,
        PacketEcn::Ce => 0b11,
    }
}

fn ecn_of(tos: u8) -> PacketEcn {
    match tos & 0b11 {
        0b00 => PacketEcn::NotEct,
        0b11 => PacketEcn::Ce,
        _ => PacketEcn::Ect,
    }
}

/// Parses an IPv4 packet of this protocol that is not fragmented, and checks its header checksum.
fn parse_ipv4(packet: &[u8], protocol: u8) -> Result<IpView<'_>, WireError> {
    let ip = IpView::parse(packet)?;
    if ip.version != IpVersion::V4 || ip.protocol != protocol || ip.is_fragment {
        return Err(WireError::UnknownType);
    }
    let header = packet.get(..ip.header_len).ok_or(WireError::Truncated)?;
    if checksum(header) == 0 { Ok(ip) } else { Err(WireError::Malformed) }
}

/// Returns true if the TCP or UDP checksum of the packet is right.
fn has_right_checksum(ip: &IpView<'_>) -> bool {
    let l4 = ip.payload();
    pseudo_header(ip.src, ip.dst, ip.protocol, l4.len()).bytes(l4).checksum() == 0
}
