use super::{IpView, protocol};
use crate::WireError;
use crate::bytes::{array_at, put_at, u8_at, u16_at, u32_at};
use crate::checksum;

// Option kinds as assigned by IANA ("TCP Option Kind Numbers").
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_SACK: u8 = 5;
pub(super) const OPTION_TIMESTAMPS: u8 = 8;

/// The flags of a TCP header (RFC 9293 §3.1), the fourteenth byte of the header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// The sender has no more data.
    pub const FIN: u8 = 0x01;
    /// SYN: synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// RST: reset the connection.
    pub const RST: u8 = 0x04;
    /// PSH: push data to the receiving application.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// ECE: ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// CWR: congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;

    /// True if at least one of `flags` is set.
    pub const fn any(self, flags: u8) -> bool {
        self.0 & flags != 0
    }
}

/// Fields of a TCP header, checked against the segment's length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpView<'a> {
    /// Source port of the segment.
    pub src_port: u16,
    /// Destination port of the segment.
    pub dst_port: u16,
    /// Sequence number of the segment.
    pub seq: u32,
    /// Acknowledgement number of the segment.
    pub ack: u32,
    /// TCP flags of the segment.
    pub flags: TcpFlags,
    /// The receive window in the header, without scaling.
    pub window: u16,
    /// Length of the header with its options, in bytes.
    pub header_len: usize,
    /// The whole segment.
    bytes: &'a [u8],
}

impl<'a> TcpView<'a> {
    /// Length of a header without options, in bytes.
    pub const MIN_HEADER_LEN: usize = 20;

    /// Parses a TCP segment: header and payload.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the header exceeds the slice, [`WireError::Malformed`] for a data offset below five
    /// words.
    pub fn parse(segment: &'a [u8]) -> Result<TcpView<'a>, WireError> {
        let header_len = usize::from(u8_at(segment, 12)? >> 4) * 4;
        if header_len < Self::MIN_HEADER_LEN {
            return Err(WireError::Malformed);
        }
        if segment.len() < header_len {
            return Err(WireError::Truncated);
        }
        Ok(TcpView {
            src_port: u16_at(segment, 0)?,
            dst_port: u16_at(segment, 2)?,
            seq: u32_at(segment, 4)?,
            ack: u32_at(segment, 8)?,
            flags: TcpFlags(u8_at(segment, 13)?),
            window: u16_at(segment, 14)?,
            header_len,
            bytes: segment,
        })
    }

    /// Returns the payload: the bytes after the header.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len..).unwrap_or_default()
    }

    /// Returns the options in order. The iterator ends at the first malformed option.
    pub fn options(&self) -> TcpOptions<'a> {
        TcpOptions { bytes: self.bytes.get(..self.header_len).unwrap_or_default(), at: Self::MIN_HEADER_LEN }
    }
}

/// One TCP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// Maximum segment size in bytes (RFC 9293 §3.2).
    Mss(u16),
    /// Selective acknowledgement (RFC 2018).
    Sack(SackBlocks<'a>),
    /// An option of any other kind.
    Other {
        /// Option kind as assigned by IANA.
        kind: u8,
        /// The bytes after the kind and length fields.
        data: &'a [u8],
    },
}

/// Iterator over a TCP header's options. It skips No-Operation options.
#[derive(Clone, Debug)]
pub struct TcpOptions<'a> {
    /// The header with its options.
    bytes: &'a [u8],
    /// Offset of the next option from the start of the header, in bytes.
    at: usize,
}

impl<'a> TcpOptions<'a> {
    /// Returns the next option: its offset from the start of the segment, its kind and its data.
    ///
    /// Returns `None` after the last option and at a malformed one.
    fn next_raw(&mut self) -> Option<(usize, u8, &'a [u8])> {
        loop {
            let at = self.at;
            match *self.bytes.get(at)? {
                OPTION_END => return None,
                OPTION_NOP => self.at += 1,
                kind => {
                    let len = usize::from(*self.bytes.get(at + 1)?);
                    let data = self.bytes.get(at + 2..at + len)?;
                    self.at += len;
                    return Some((at, kind, data));
                }
            }
        }
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = TcpOption<'a>;

    fn next(&mut self) -> Option<TcpOption<'a>> {
        let (_, kind, data) = self.next_raw()?;
        Some(match (kind, data) {
            (OPTION_MSS, &[high, low]) => TcpOption::Mss(u16::from_be_bytes([high, low])),
            (OPTION_SACK, data) if data.len() % 8 == 0 => TcpOption::Sack(SackBlocks(data)),
            _ => TcpOption::Other { kind, data },
        })
    }
}

/// Iterator over the blocks of a SACK option.
///
/// Each item is the first sequence number of a block and the number after its last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SackBlocks<'a>(&'a [u8]);

impl Iterator for SackBlocks<'_> {
    type Item = (u32, u32);

    fn next(&mut self) -> Option<(u32, u32)> {
        let (block, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some((u32_at(block, 0).ok()?, u32_at(block, 4).ok()?))
    }
}

/// State of the checksum field in a TCP or UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum L4Checksum {
    /// The complete checksum over pseudo-header and segment.
    Complete,
    /// The sum of the pseudo-header, to be completed later. Changes of the segment's content do not affect it.
    Partial,
}

/// Lowers the MSS option of a TCP SYN to `max_mss` in the packet and corrects the checksum (RFC 1624).
///
/// `checksum` is the state of the packet's checksum field. The function changes only an unfragmented
/// SYN with a larger MSS. It returns true if it changed the packet.
pub fn clamp_mss(packet: &mut [u8], max_mss: u16, checksum: L4Checksum) -> bool {
    let Some((l4, at)) = larger_mss_at(packet, max_mss) else { return false };
    let written = match checksum {
        L4Checksum::Partial => put_at(packet, at, &max_mss.to_be_bytes()),
        L4Checksum::Complete => checksum::replace_word(packet, l4, l4 + 16, at, max_mss),
    };
    written.is_ok()
}

/// Returns the offsets of the TCP header and of the MSS value in a SYN whose MSS exceeds `max_mss`.
///
/// Returns `None` for every other packet.
fn larger_mss_at(packet: &[u8], max_mss: u16) -> Option<(usize, usize)> {
    let ip = IpView::parse(packet).ok().filter(|ip| ip.protocol == protocol::TCP)?;
    let tcp = ip.tcp().filter(|tcp| tcp.flags.any(TcpFlags::SYN))?;
    let mut options = tcp.options();
    loop {
        let (at, kind, data) = options.next_raw()?;
        if kind == OPTION_MSS && data.len() == 2 {
            let value = u16::from_be_bytes(array_at(data, 0).ok()?);
            return (value > max_mss).then_some((ip.header_len, ip.header_len + at + 2));
        }
    }
}
