//! The packet that an ICMP error quotes (RFC 792, RFC 4443 §3).

use super::{FlowKey, IpView, protocol};
use crate::bytes::{array_at, u8_at, u16_at};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the ICMP header before the quoted packet, in bytes.
const ICMP_LEN: usize = 8;

impl IpView<'_> {
    /// Returns the flow of the packet that this ICMP error quotes, without flow label.
    ///
    /// Errors are: destination unreachable, packet too big, time exceeded and parameter problem. Returns `None` for
    /// other packets, for a quoted fragment other than the first, and if the quoted packet is cut before its ports.
    /// Ports behind IPv6 extension headers are not read.
    pub fn quoted_flow(&self) -> Option<FlowKey> {
        let icmp = self.payload();
        let is_error = match (self.protocol, icmp.first()?) {
            (protocol::ICMP, 3 | 11 | 12) => self.src.is_ipv4(),
            (protocol::ICMPV6, 1..=4) => self.src.is_ipv6(),
            _ => false,
        };
        let quoted = icmp.get(ICMP_LEN..).filter(|_| is_error && !self.is_fragment)?;
        let (src, dst, protocol, l4) = match u8_at(quoted, 0).ok()? >> 4 {
            4 if self.src.is_ipv4() => quoted_v4(quoted)?,
            6 if self.src.is_ipv6() => quoted_v6(quoted)?,
            _ => return None,
        };
        let (src_port, dst_port) = ports(protocol, l4)?;
        Some(FlowKey { src, dst, protocol, src_port, dst_port, flow_label: 0 })
    }
}

/// Source, destination, upper-layer protocol and upper-layer bytes of the quoted packet.
type Quoted<'a> = (IpAddr, IpAddr, u8, &'a [u8]);

fn quoted_v4(packet: &[u8]) -> Option<Quoted<'_>> {
    let header_len = usize::from(u8_at(packet, 0).ok()? & 0x0f) * 4;
    let is_later_fragment = u16_at(packet, 6).ok()? & 0x1fff != 0;
    let address = |at| Some(IpAddr::V4(Ipv4Addr::from_octets(array_at(packet, at).ok()?)));
    let l4 = packet.get(header_len..).filter(|_| header_len >= 20 && !is_later_fragment)?;
    Some((address(12)?, address(16)?, u8_at(packet, 9).ok()?, l4))
}

fn quoted_v6(packet: &[u8]) -> Option<Quoted<'_>> {
    let address = |at| Some(IpAddr::V6(Ipv6Addr::from_octets(array_at(packet, at).ok()?)));
    Some((address(8)?, address(24)?, u8_at(packet, 6).ok()?, packet.get(40..)?))
}

/// Returns the ports as [`IpView::ports`] does, or `None` if `l4` ends before them.
fn ports(protocol: u8, l4: &[u8]) -> Option<(u16, u16)> {
    match (protocol, l4.first()) {
        (protocol::TCP | protocol::UDP, _) => Some((u16_at(l4, 0).ok()?, u16_at(l4, 2).ok()?)),
        (protocol::ICMP, Some(0 | 8)) | (protocol::ICMPV6, Some(128 | 129)) => {
            let identifier = u16_at(l4, 4).ok()?;
            Some((identifier, identifier))
        }
        _ => Some((0, 0)),
    }
}
