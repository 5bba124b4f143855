//! Read-only views of IP packets and of the TCP and UDP headers in them.
//!
//! Every view is checked against the length of the packet. Functions that change a packet also correct its checksums.

mod flow_key;
mod fragment;
mod hop_limit;
mod icmp_error;
pub(crate) mod options;
mod pure_ack;
mod quoted;
mod tcp;
mod tos;

pub use flow_key::FlowKey;
pub use fragment::FragmentPlace;
pub use hop_limit::lower_hop_limit;
pub use icmp_error::{IcmpError, icmp_error};
pub use options::has_options;
pub use pure_ack::{PureAck, pure_ack};
pub use tcp::{L4Checksum, SackBlocks, TcpFlags, TcpOption, TcpOptions, TcpView, clamp_mss};
pub use tos::{Ecn, set_dscp, set_ecn, set_tos, tos};

use crate::WireError;
use crate::bytes::{array_at, u8_at, u16_at};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Upper-layer protocol numbers (IANA "Protocol Numbers").
pub mod protocol {
    /// Protocol number of ICMP.
    pub const ICMP: u8 = 1;
    /// Protocol number of TCP.
    pub const TCP: u8 = 6;
    /// Protocol number of UDP.
    pub const UDP: u8 = 17;
    /// Protocol number of ICMPv6.
    pub const ICMPV6: u8 = 58;
}

/// Length of a UDP header, in bytes.
pub const UDP_HEADER_LEN: usize = 8;

/// Protocol number of the hop-by-hop options header (RFC 8200 §4).
const HOP_BY_HOP: u8 = 0;
/// Protocol number of the routing header (RFC 8200 §4).
const ROUTING: u8 = 43;
/// Protocol number of the fragment header (RFC 8200 §4).
const FRAGMENT: u8 = 44;
/// Protocol number of the authentication header (RFC 4302).
const AUTHENTICATION: u8 = 51;
/// Protocol number of the destination options header (RFC 8200 §4).
const DESTINATION: u8 = 60;
/// Maximum number of extension headers that the parser skips. The header after them counts as the upper-layer header.
const MAX_EXTENSIONS: usize = 8;

/// IP version of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpVersion {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// Fields of a packet's IP header, checked against the packet's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpView<'a> {
    /// IP version of the packet.
    pub version: IpVersion,
    /// Offset of the upper-layer header, in bytes. It includes IPv4 options and IPv6 extension headers.
    pub header_len: usize,
    /// Length of the packet according to its header, in bytes. The parsed slice may be longer.
    pub total_len: usize,
    /// Source address of the packet.
    pub src: IpAddr,
    /// Destination address of the packet.
    pub dst: IpAddr,
    /// Upper-layer protocol number of the packet.
    pub protocol: u8,
    /// True if the packet is a fragment, be it the first or a later one.
    pub is_fragment: bool,
    /// IPv6 flow label, or zero in IPv4.
    pub flow_label: u32,
    /// DSCP and ECN: the TOS byte (IPv4) or the traffic class byte (IPv6).
    pub tos: u8,
    /// TTL (IPv4) or hop limit (IPv6).
    pub hop_limit: u8,
    /// The packet's bytes, `total_len` of them.
    pub bytes: &'a [u8],
}

impl<'a> IpView<'a> {
    /// Parses the IP header at the start of `packet` and the extension headers of IPv6.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if headers or packet exceed the slice, [`WireError::Version`] if it is neither IPv4 nor
    /// IPv6, [`WireError::Malformed`] if lengths contradict each other.
    pub fn parse(packet: &'a [u8]) -> Result<IpView<'a>, WireError> {
        match u8_at(packet, 0)? >> 4 {
            4 => parse_v4(packet),
            6 => parse_v6(packet),
            _ => Err(WireError::Version),
        }
    }

    /// Returns the bytes after the IP headers. In a fragment they are a part of the original payload.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len..).unwrap_or_default()
    }

    /// Returns the TCP header and payload, or `None` for other protocols, fragments and invalid TCP headers.
    pub fn tcp(&self) -> Option<TcpView<'a>> {
        let is_tcp = self.protocol == protocol::TCP && !self.is_fragment;
        is_tcp.then(|| TcpView::parse(self.payload()).ok()).flatten()
    }

    /// Returns the source and destination ports of TCP or UDP.
    ///
    /// For an ICMP echo both values are its identifier. For other packets both are zero.
    pub fn ports(&self) -> (u16, u16) {
        if self.is_fragment {
            return (0, 0);
        }
        let l4 = self.payload();
        match (self.protocol, l4.first()) {
            (protocol::TCP | protocol::UDP, _) => (u16_at(l4, 0).unwrap_or(0), u16_at(l4, 2).unwrap_or(0)),
            (protocol::ICMP, Some(0 | 8)) | (protocol::ICMPV6, Some(128 | 129)) => {
                let identifier = u16_at(l4, 4).unwrap_or(0);
                (identifier, identifier)
            }
            _ => (0, 0),
        }
    }
}

fn parse_v4(packet: &[u8]) -> Result<IpView<'_>, WireError> {
    let header: [u8; 20] = array_at(packet, 0)?;
    let [first, tos, .., s0, s1, s2, s3, d0, d1, d2, d3] = header;
    let header_len = usize::from(first & 0x0f) * 4;
    let total_len = usize::from(u16_at(packet, 2)?);
    if header_len < 20 || total_len < header_len {
        return Err(WireError::Malformed);
    }
    Ok(IpView {
        version: IpVersion::V4,
        header_len,
        total_len,
        src: Ipv4Addr::new(s0, s1, s2, s3).into(),
        dst: Ipv4Addr::new(d0, d1, d2, d3).into(),
        protocol: u8_at(packet, 9)?,
        is_fragment: u16_at(packet, 6)? & 0x3fff != 0,
        flow_label: 0,
        tos,
        hop_limit: u8_at(packet, 8)?,
        bytes: packet.get(..total_len).ok_or(WireError::Truncated)?,
    })
}

fn parse_v6(packet: &[u8]) -> Result<IpView<'_>, WireError> {
    let first = u32::from_be_bytes(array_at(packet, 0)?);
    let total_len = 40 + usize::from(u16_at(packet, 4)?);
    let bytes = packet.get(..total_len).ok_or(WireError::Truncated)?;
    let upper = walk_extensions(bytes, u8_at(packet, 6)?)?;
    Ok(IpView {
        version: IpVersion::V6,
        header_len: upper.at,
        total_len,
        src: Ipv6Addr::from_octets(array_at(packet, 8)?).into(),
        dst: Ipv6Addr::from_octets(array_at(packet, 24)?).into(),
        protocol: upper.protocol,
        is_fragment: upper.is_fragment,
        flow_label: first & 0x000f_ffff,
        tos: (first >> 20) as u8,
        hop_limit: u8_at(packet, 7)?,
        bytes,
    })
}

/// Position and protocol of the upper-layer header behind IPv6 extension headers.
struct UpperLayer {
    /// Offset of the upper-layer header, in bytes.
    at: usize,
    protocol: u8,
    is_fragment: bool,
}

fn walk_extensions(packet: &[u8], first: u8) -> Result<UpperLayer, WireError> {
    let mut upper = UpperLayer { at: 40, protocol: first, is_fragment: false };
    for _ in 0..MAX_EXTENSIONS {
        let units = match upper.protocol {
            HOP_BY_HOP | ROUTING | DESTINATION => 8 * (usize::from(u8_at(packet, upper.at + 1)?) + 1),
            AUTHENTICATION => 4 * (usize::from(u8_at(packet, upper.at + 1)?) + 2),
            FRAGMENT => 8,
            _ => break,
        };
        // A fragment header with zero offset and no more-fragments flag marks a whole packet: an atomic fragment (RFC
        // 6946).
        let fragmented = upper.protocol == FRAGMENT && u16_at(packet, upper.at + 2)? & 0xfff9 != 0;
        upper.is_fragment |= fragmented;
        upper.protocol = u8_at(packet, upper.at)?;
        upper.at += units;
        if upper.at > packet.len() {
            return Err(WireError::Truncated);
        }
        if fragmented {
            break;
        }
    }
    Ok(upper)
}
