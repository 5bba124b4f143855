//! Super-packets: one header and the payload of several segments.
//!
//! Kernels send super-packets (TSO, USO) and accept them (GRO). [`SuperPacket`] cuts super-packets at the ingress edge.
//! [`Run`] joins consecutive units at the egress edge.
//! The resulting segments are those of the kernel's segmentation: the IPv4 identification and the TCP sequence number
//! advance, FIN and PSH belong to the last segment, CWR to the first. The urgent pointer is an exception: here it keeps
//! pointing at the same byte. The kernel copies the pointer into every segment, so it points at different bytes.

mod run;
mod segment;

pub use run::Run;
pub use segment::{SegmentRole, SuperPacket};

use crate::WireError;
use crate::bytes::{put_at, u8_at, u16_at, u32_at};
use crate::checksum::{self, Sum};
use crate::ip::{IpVersion, IpView, TcpFlags, UDP_HEADER_LEN, protocol};

/// Length of the longest header of a super-packet that may be sent as a head and slices, in bytes.
///
/// Derived: 60 bytes of IPv4 and 60 of TCP fit.
pub const MAX_HEADER_LEN: usize = 128;

/// TCP flags that belong to the last segment of a super-packet.
const LAST_FLAGS: u8 = TcpFlags::FIN | TcpFlags::PSH;

/// Transport protocol of a super-packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Returns the offset of the checksum within the transport header, in bytes (`csum_offset` of virtio).
    const fn checksum_offset(self) -> u16 {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// Positions of the fields in the headers of a TCP or UDP packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Headers {
    version: IpVersion,
    transport: Transport,
    /// Offset of the transport header, in bytes.
    transport_at: u16,
    /// Length of all headers together, in bytes.
    len: u16,
}

impl Headers {
    /// Returns the header positions of an unfragmented TCP segment or UDP datagram, or `None` for other packets.
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

/// Computes the header of a packet that is cut from a super-packet or joined, from the header of another such packet.
#[derive(Clone, Copy, Debug)]
struct Rewrite {
    /// Number of segments between the start of the old packet and the start of the new packet.
    skip: usize,
    /// Payload of each of these segments, in bytes.
    gso_size: usize,
    /// Payload length that the old header states, in bytes.
    old_payload_len: usize,
    /// Payload length that the new header must state, in bytes.
    payload_len: usize,
    /// Mask of the TCP flags that the new header takes from the old one.
    flags: u8,
}

impl Rewrite {
    /// Changes `header`, a copy of the old packet's header, into the header of the new packet.
    ///
    /// Before and after, its transport checksum is partial: the sum of the pseudo-header only.
    fn apply(&self, h: &Headers, header: &mut [u8]) -> Result<(), WireError> {
        self.rewrite_ip(h, header)?;
        match h.transport {
            Transport::Tcp => self.rewrite_tcp(h, header)?,
            Transport::Udp => {
                let len = length_field(UDP_HEADER_LEN + self.payload_len)?;
                put_at(header, h.transport_at() + 4, &len.to_be_bytes())?;
            }
        }
        // Only the length changes in the pseudo-header. Adding the complement subtracts the old length.
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

    /// Adjusts the urgent pointer, which is relative to the segment's own sequence number (RFC 9293 §3.1).
    ///
    /// `moved` is the distance from the old sequence number to the new one. Returns the mask of flags to keep: a
    /// segment that begins after the urgent data has no URG.
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

/// Returns the partial transport checksum of a TCP or UDP packet: the folded sum of its pseudo-header.
///
/// # Errors
/// As [`IpView::parse`]; [`WireError::Malformed`] for fragments and other protocols.
pub fn partial_l4_checksum(packet: &[u8]) -> Result<u16, WireError> {
    let ip = IpView::parse(packet)?;
    Headers::of(&ip).ok_or(WireError::Malformed)?;
    Ok(checksum::pseudo_header(ip.src, ip.dst, ip.protocol, ip.total_len - ip.header_len).fold())
}
