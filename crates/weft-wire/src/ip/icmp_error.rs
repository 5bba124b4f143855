//! ICMP errors that a router sends about a packet that it cannot forward (RFC 792, RFC 4443).

use super::{IpVersion, IpView, protocol};
use crate::checksum::{self, Sum};
use core::net::IpAddr;

/// Maximum length of an IPv4 packet with an ICMP error, in bytes (RFC 1812 §4.3.2.3).
const MOST_V4: usize = 576;
/// Maximum length of an IPv6 packet with an ICMP error, in bytes: the least IPv6 MTU (RFC 4443 §2.4 c).
const MOST_V6: usize = 1_280;
/// Length of the error's own ICMP header, in bytes.
const ICMP_LEN: usize = 8;
/// Hop limit of a packet with an ICMP error. *Standard*: IANA's default TTL.
const HOP_LIMIT: u8 = 64;

/// Reason why a packet was not forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpError {
    /// The packet's hop limit was used up at this node.
    TimeExceeded,
    /// The packet is longer than the next link can carry, and must not be fragmented.
    TooBig {
        /// Largest packet that the next link carries, in bytes.
        mtu: u16,
    },
}

impl IcmpError {
    /// Returns the ICMP type, the ICMP code and the four header bytes after the checksum.
    fn header(self, version: IpVersion) -> (u8, u8, [u8; 4]) {
        match (version, self) {
            (IpVersion::V4, IcmpError::TimeExceeded) => (11, 0, [0; 4]),
            (IpVersion::V4, IcmpError::TooBig { mtu }) => (3, 4, u32::from(mtu).to_be_bytes()),
            (IpVersion::V6, IcmpError::TimeExceeded) => (3, 0, [0; 4]),
            (IpVersion::V6, IcmpError::TooBig { mtu }) => (2, 0, u32::from(mtu).to_be_bytes()),
        }
    }
}

/// Writes the ICMP error about `packet`, from `source` to the packet's sender, into `out`.
///
/// Returns the error's length. Returns `None` if no error may be sent about the packet (RFC 1122 §3.2.2, RFC 4443
/// §2.4), if `source` is of the other IP version, or if `out` is too short. 1,280 bytes always suffice.
pub fn icmp_error(packet: &IpView<'_>, error: IcmpError, source: IpAddr, out: &mut [u8]) -> Option<usize> {
    if !may_answer(packet) || source.is_ipv4() != (packet.version == IpVersion::V4) {
        return None;
    }
    let (header_len, most) = if packet.version == IpVersion::V4 { (20, MOST_V4) } else { (40, MOST_V6) };
    let quoted = packet.bytes.get(..packet.bytes.len().min(most - header_len - ICMP_LEN))?;
    let len = header_len + ICMP_LEN + quoted.len();
    let out = out.get_mut(..len)?;
    let (ip, icmp) = out.split_at_mut(header_len);
    let (kind, code, rest) = error.header(packet.version);
    icmp[..4].copy_from_slice(&[kind, code, 0, 0]);
    icmp[4..ICMP_LEN].copy_from_slice(&rest);
    icmp[ICMP_LEN..].copy_from_slice(quoted);
    let pseudo = match packet.version {
        IpVersion::V4 => Sum::default(),
        IpVersion::V6 => checksum::pseudo_header(source, packet.src, protocol::ICMPV6, icmp.len()),
    };
    let sum = pseudo.bytes(icmp).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    write_ip(ip, source, packet.src, (len - header_len) as u16);
    Some(len)
}

/// True if the RFCs allow an ICMP error about the packet.
fn may_answer(packet: &IpView<'_>) -> bool {
    let is_one_host = match packet.src {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_multicast() && !v6.is_loopback(),
    };
    let is_to_one_host = match packet.dst {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_multicast(),
    };
    // A later fragment has no ICMP header, so it is not known whether it belongs to an ICMP error. In IPv6 the offset
    // is in an extension header, which is not read here, so every fragment counts as a later one.
    let is_later_fragment = match packet.version {
        IpVersion::V4 => packet.bytes.get(6..8).is_some_and(|at| (at[0] & 0x1f, at[1]) != (0, 0)),
        IpVersion::V6 => packet.is_fragment,
    };
    let kind = packet.payload().first().copied();
    let is_error = match packet.protocol {
        protocol::ICMP => !matches!(kind, Some(0 | 8 | 13 | 14)),
        protocol::ICMPV6 => kind.is_none_or(|kind| kind < 128),
        _ => false,
    };
    is_one_host && is_to_one_host && !is_later_fragment && !is_error
}

/// Writes an IP header for `payload_len` bytes of ICMP into `ip`, which has the length of the version's header.
fn write_ip(ip: &mut [u8], source: IpAddr, destination: IpAddr, payload_len: u16) {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total = (20 + payload_len).to_be_bytes();
            ip[..12].copy_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0, 0, HOP_LIMIT, protocol::ICMP, 0, 0]);
            ip[12..16].copy_from_slice(&source.octets());
            ip[16..20].copy_from_slice(&destination.octets());
            let sum = checksum::checksum(ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let len = payload_len.to_be_bytes();
            ip[..8].copy_from_slice(&[0x60, 0, 0, 0, len[0], len[1], protocol::ICMPV6, HOP_LIMIT]);
            ip[8..24].copy_from_slice(&source.octets());
            ip[24..40].copy_from_slice(&destination.octets());
        }
        // Cannot occur: the caller has checked that `source` and the packet have the same IP version.
        _ => {}
    }
}
