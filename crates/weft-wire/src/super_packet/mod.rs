//! Super-packets: one header and the payload of many segments, as kernels hand them over (TSO, USO) and take them back.
//!
//! [`SuperPacket`] is the ingress side: it cuts. [`Run`] is the egress side: it joins what arrived without a hole.
//! Both give what the kernel's own segmentation gives for each segment: IPv4 identification and TCP sequence move on,
//! FIN and PSH belong to the last segment, CWR to the first. In one thing the cut does better than the kernel: the urgent
//! pointer stays on its byte, where the kernel copies it into every segment and so moves the byte that it points at.

mod run;
mod segment;

pub use run::Run;
pub use segment::{SegmentRole, SuperPacket};

use crate::WireError;
use crate::bytes::{put_at, u8_at, u16_at, u32_at};
use crate::checksum::{self, Sum};
use crate::ip::{IpVersion, IpView, TcpFlags, UDP_HEADER_LEN, protocol};

/// The longest header of a super-packet that may travel as slices: 60 bytes of IPv4 and 60 of TCP fit.
pub const MAX_HEADER_LEN: usize = 128;

/// Flags that belong to the last segment.
const LAST_FLAGS: u8 = TcpFlags::FIN | TcpFlags::PSH;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Where the checksum is in the transport header (`csum_offset`).
    const fn checksum_offset(self) -> u16 {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// Where things are in the headers of a TCP or UDP packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Headers {
    version: IpVersion,
    transport: Transport,
    /// Offset of the transport header.
    transport_at: u16,
    /// All headers.
    len: u16,
}

impl Headers {
    /// `None` unless the packet is a whole TCP segment or UDP datagram.
    fn of(ip: &IpView<'_>) -> Option<Headers> {
        if ip.is_fragment {
            return None;
        }
        let (transport, len) = match ip.protocol {
            protocol::TCP => (Transport::Tcp, ip.tcp()?.header_len),
            protocol::UDP => (Transport::Udp, UDP_HEADER_LEN),
            _ => return None,
        };
        let len = ip.header_len + len;
        (len <= ip.total_len).then_some(Headers {
            version: ip.version,
            transport,
            transport_at: u16::try_from(ip.header_len).ok()?,
            len: u16::try_from(len).ok()?,
        })
    }

    fn checksum_at(&self) -> usize {
        usize::from(self.transport_at) + usize::from(self.transport.checksum_offset())
    }

    fn transport_at(&self) -> usize {
        usize::from(self.transport_at)
    }

    fn tcp_flags(&self, header: &[u8]) -> Result<u8, WireError> {
        u8_at(header, self.transport_at() + 13)
    }
}

/// Turns the header of a packet into that of another part of the same super-packet.
#[derive(Clone, Copy, Debug)]
struct Rewrite {
    /// Segments the new packet begins after the old.
    skip: usize,
    /// Payload bytes of each of them.
    gso_size: usize,
    /// Payload bytes the old header counts.
    old_payload_len: usize,
    /// Payload bytes the new header is to count.
    payload_len: usize,
    /// TCP flags to keep.
    flags: u8,
}

impl Rewrite {
    /// Works on a copy of the header, whose transport checksum is partial before and after.
    fn apply(&self, h: &Headers, header: &mut [u8]) -> Result<(), WireError> {
        self.rewrite_ip(h, header)?;
        match h.transport {
            Transport::Tcp => self.rewrite_tcp(h, header)?,
            Transport::Udp => {
                let len = length_field(UDP_HEADER_LEN + self.payload_len)?;
                put_at(header, h.transport_at() + 4, &len.to_be_bytes())?;
            }
        }
        // Only the length differs in the pseudo-header. A subtraction is the addition of the complement.
        let transport_len = |payload_len: usize| length_field(usize::from(h.len - h.transport_at) + payload_len);
        let sum = Sum::default().word(u16_at(header, h.checksum_at())?);
        let sum = sum.word(!transport_len(self.old_payload_len)?).word(transport_len(self.payload_len)?);
        put_at(header, h.checksum_at(), &sum.fold().to_be_bytes())
    }

    fn rewrite_ip(&self, h: &Headers, header: &mut [u8]) -> Result<(), WireError> {
        let total_len = usize::from(h.len) + self.payload_len;
        match h.version {
            IpVersion::V6 => put_at(header, 4, &length_field(total_len - 40)?.to_be_bytes()),
            IpVersion::V4 => {
                let id = u16_at(header, 4)?.wrapping_add(self.skip as u16);
                put_at(header, 2, &length_field(total_len)?.to_be_bytes())?;
                put_at(header, 4, &id.to_be_bytes())?;
                put_at(header, 10, &[0, 0])?;
                let ip_header = header.get(..h.transport_at()).ok_or(WireError::Truncated)?;
                let sum = checksum::checksum(ip_header);
                put_at(header, 10, &sum.to_be_bytes())
            }
        }
    }

    fn rewrite_tcp(&self, h: &Headers, header: &mut [u8]) -> Result<(), WireError> {
        let moved = (self.skip as u32).wrapping_mul(self.gso_size as u32);
        let seq = u32_at(header, h.transport_at() + 4)?.wrapping_add(moved);
        put_at(header, h.transport_at() + 4, &seq.to_be_bytes())?;
        let first_flags = if self.skip == 0 { 0xff } else { !TcpFlags::CWR };
        let urgent_flags = self.rewrite_urgent_pointer(h, header, moved)?;
        let flags = h.tcp_flags(header)? & self.flags & first_flags & urgent_flags;
        put_at(header, h.transport_at() + 13, &[flags])
    }

    /// The pointer counts from the segment's own sequence number (RFC 9293 §3.1). Gives the flags to keep: a segment
    /// that begins after the urgent data has no URG.
    fn rewrite_urgent_pointer(&self, h: &Headers, header: &mut [u8], moved: u32) -> Result<u8, WireError> {
        if h.tcp_flags(header)? & TcpFlags::URG == 0 {
            return Ok(0xff);
        }
        let pointer = u32::from(u16_at(header, h.transport_at() + 18)?).saturating_sub(moved);
        put_at(header, h.transport_at() + 18, &(pointer as u16).to_be_bytes())?;
        Ok(if pointer == 0 { !TcpFlags::URG } else { 0xff })
    }
}

fn length_field(len: usize) -> Result<u16, WireError> {
    u16::try_from(len).map_err(|_| WireError::TooLong)
}

/// The partial transport checksum of a TCP or UDP packet: what the checksum field holds until someone finishes it.
///
/// # Errors
/// As [`IpView::parse`]; [`WireError::Malformed`] for fragments and other protocols.
pub fn partial_l4_checksum(packet: &[u8]) -> Result<u16, WireError> {
    let ip = IpView::parse(packet)?;
    Headers::of(&ip).ok_or(WireError::Malformed)?;
    Ok(checksum::pseudo_header(ip.src, ip.dst, ip.protocol, ip.total_len - ip.header_len).fold())
}
