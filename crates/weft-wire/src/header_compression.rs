//! Header compression: sends a header as its difference from a *reference*, an earlier header that both ends keep.
//!
//! The idea is that of RFC 1144: headers of one flow differ in few bytes. Unlike RFC 1144, the reference does not
//! change with each packet, so a lost packet makes no other packet undecodable.
//!
//! A difference holds a bit mask with one bit per byte of the reference, and then the bytes of the header at each set
//! bit. The sender omits lengths and checksums that the receiver can derive from the rest of the packet.

use crate::WireError;
use crate::bytes::{ByteReader, array_at, put_at, u8_at};
use crate::checksum;
use crate::ip::{UDP_HEADER_LEN, protocol};
use crate::super_packet::MAX_HEADER_LEN;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the longest difference, in bytes. Derived: the mask and all bytes of the longest header.
pub const MAX_DIFFERENCE_LEN: usize = MAX_HEADER_LEN / 8 + MAX_HEADER_LEN;

/// Transport protocol of a packet, as far as header compression distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CompressedTransport {
    Tcp,
    Udp,
    Other,
}

/// Positions of the fields in the headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    is_v6: bool,
    transport: CompressedTransport,
    /// Protocol number after the IP header.
    protocol: u8,
    /// Length of the IP header, in bytes.
    transport_at: usize,
    /// Length of all headers together, in bytes.
    len: usize,
}

impl Layout {
    /// Returns the layout of a packet's headers.
    ///
    /// Returns `None` for a non-IP packet, for incomplete headers, and for headers longer than [`MAX_HEADER_LEN`].
    fn of(packet: &[u8]) -> Option<Layout> {
        let first = u8_at(packet, 0).ok()?;
        let (is_v6, transport_at, protocol, is_fragment) = match first >> 4 {
            4 => {
                let [flags, offset] = array_at(packet, 6).ok()?;
                let is_fragment = flags & 0x3f != 0 || offset != 0;
                (false, usize::from(first & 0x0f) * 4, u8_at(packet, 9).ok()?, is_fragment)
            }
            6 => (true, 40, u8_at(packet, 6).ok()?, false),
            _ => return None,
        };
        let (transport, transport_len) = match protocol {
            protocol::TCP if !is_fragment => {
                (CompressedTransport::Tcp, usize::from(u8_at(packet, transport_at + 12).ok()? >> 4) * 4)
            }
            protocol::UDP if !is_fragment => (CompressedTransport::Udp, UDP_HEADER_LEN),
            _ => (CompressedTransport::Other, 0),
        };
        let is_whole = transport_at >= 20 && (transport != CompressedTransport::Tcp || transport_len >= 20);
        let len = transport_at + transport_len;
        (is_whole && len <= packet.len().min(MAX_HEADER_LEN)).then_some(Layout {
            is_v6,
            transport,
            protocol,
            transport_at,
            len,
        })
    }

    fn checksum_at(&self) -> Option<usize> {
        match self.transport {
            CompressedTransport::Tcp => Some(self.transport_at + 16),
            CompressedTransport::Udp => Some(self.transport_at + 6),
            CompressedTransport::Other => None,
        }
    }

    /// Returns a bit mask of the header bytes that the receiver derives from the rest of the packet.
    ///
    /// If `is_partial` is true, the transport checksum is one of them: it is then only the sum of the pseudo-header.
    fn derived(&self, is_partial: bool) -> u128 {
        let two_at = |at: usize| 3u128 << at;
        let ip = if self.is_v6 { two_at(4) } else { two_at(2) | two_at(10) };
        let udp = if self.transport == CompressedTransport::Udp { two_at(self.transport_at + 4) } else { 0 };
        let checksum = self.checksum_at().filter(|_| is_partial).map_or(0, two_at);
        ip | udp | checksum
    }

    /// Computes the lengths and checksums that were not sent, and writes them into `header`.
    fn derive(&self, header: &mut [u8], payload_len: usize, is_partial: bool) -> Result<(), WireError> {
        let field = |len: usize| u16::try_from(len).map(u16::to_be_bytes).map_err(|_| WireError::TooLong);
        let after_ip = self.len - self.transport_at + payload_len;
        if self.is_v6 {
            put_at(header, 4, &field(after_ip)?)?;
        } else {
            put_at(header, 2, &field(self.len + payload_len)?)?;
            put_at(header, 10, &[0, 0])?;
            let sum = checksum::checksum(header.get(..self.transport_at).ok_or(WireError::Truncated)?);
            put_at(header, 10, &sum.to_be_bytes())?;
        }
        if self.transport == CompressedTransport::Udp {
            put_at(header, self.transport_at + 4, &field(after_ip)?)?;
        }
        if let Some(at) = self.checksum_at().filter(|_| is_partial) {
            let (src, dst) = self.addresses(header)?;
            let sum = checksum::pseudo_header(src, dst, self.protocol, after_ip).fold();
            put_at(header, at, &sum.to_be_bytes())?;
        }
        Ok(())
    }

    fn addresses(&self, header: &[u8]) -> Result<(IpAddr, IpAddr), WireError> {
        if self.is_v6 {
            let address = |at| array_at(header, at).map(|bytes: [u8; 16]| IpAddr::V6(Ipv6Addr::from(bytes)));
            Ok((address(8)?, address(24)?))
        } else {
            let address = |at| array_at(header, at).map(|bytes: [u8; 4]| IpAddr::V4(Ipv4Addr::from(bytes)));
            Ok((address(12)?, address(16)?))
        }
    }
}

/// Returns the length of a packet's IP header plus its TCP or UDP header, in bytes.
///
/// Returns `None` for a non-IP packet, for incomplete headers, and for headers longer than [`MAX_HEADER_LEN`].
pub fn header_len(packet: &[u8]) -> Option<usize> {
    Layout::of(packet).map(|layout| layout.len)
}

/// A header that both ends keep, and from which later headers are sent as differences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    layout: Layout,
    bytes: [u8; MAX_HEADER_LEN],
}

impl Reference {
    /// Copies the header at the start of `packet`. Returns `None` if [`header_len`] returns `None`.
    pub fn of(packet: &[u8]) -> Option<Reference> {
        let layout = Layout::of(packet)?;
        let mut bytes = [0; MAX_HEADER_LEN];
        bytes[..layout.len].copy_from_slice(packet.get(..layout.len)?);
        Some(Reference { layout, bytes })
    }

    /// Returns the header's bytes.
    pub fn header(&self) -> &[u8] {
        &self.bytes[..self.layout.len]
    }

    /// Writes the difference of `header` from the reference to `out` and returns its length.
    ///
    /// If `is_partial` is true, the transport checksum is the pseudo-header's sum and is not sent. Returns `None` if
    /// [`Reference::restore`] would not yield `header`, or if the difference is longer than half the header. The flow
    /// then needs a new reference.
    pub fn difference(&self, header: &[u8], payload_len: usize, is_partial: bool, out: &mut [u8]) -> Option<usize> {
        if header.len() != self.layout.len {
            return None;
        }
        let derived = self.layout.derived(is_partial);
        let changed = header.iter().zip(self.header()).enumerate();
        let changed = changed.fold(0u128, |set, (at, (new, old))| set | u128::from(new != old) << at) & !derived;
        let mask_len = header.len().div_ceil(8);
        let len = mask_len + changed.count_ones() as usize;
        if len > header.len() / 2 || len > out.len() {
            return None;
        }
        let (mask, values) = out.split_at_mut(mask_len);
        mask.copy_from_slice(&changed.to_le_bytes()[..mask_len]);
        values.iter_mut().zip(ones(changed)).for_each(|(value, at)| *value = header[at]);
        let mut restored = [0; MAX_HEADER_LEN];
        let is_same = self.rebuild(changed, &values[..len - mask_len], payload_len, is_partial, &mut restored).is_ok()
            && restored[..header.len()] == *header;
        is_same.then_some(len)
    }

    /// Parses a difference and writes the packet's header to `out`.
    ///
    /// Returns the length of the header, and the payload behind the difference.
    ///
    /// # Errors
    /// [`WireError::Truncated`]; [`WireError::Malformed`] if the mask marks a byte beyond the header or a derived byte;
    /// [`WireError::TooLong`] if the packet's length exceeds its length field; [`WireError::NoRoom`].
    pub fn restore<'a>(
        &self,
        difference: &'a [u8],
        is_partial: bool,
        out: &mut [u8],
    ) -> Result<(usize, &'a [u8]), WireError> {
        let mut r = ByteReader::new(difference);
        let mask = r.slice(self.layout.len.div_ceil(8))?;
        let mut bits = [0; 16];
        bits[..mask.len()].copy_from_slice(mask);
        let changed = u128::from_le_bytes(bits);
        let beyond = changed.checked_shr(self.layout.len as u32).unwrap_or(0);
        if beyond != 0 || changed & self.layout.derived(is_partial) != 0 {
            return Err(WireError::Malformed);
        }
        let values = r.slice(changed.count_ones() as usize)?;
        self.rebuild(changed, values, r.rest().len(), is_partial, out)?;
        Ok((self.layout.len, r.rest()))
    }

    fn rebuild(
        &self,
        changed: u128,
        values: &[u8],
        payload_len: usize,
        is_partial: bool,
        out: &mut [u8],
    ) -> Result<(), WireError> {
        let out = out.get_mut(..self.layout.len).ok_or(WireError::NoRoom)?;
        out.copy_from_slice(self.header());
        for (at, value) in ones(changed).zip(values) {
            put_at(out, at, &[*value])?;
        }
        self.layout.derive(out, payload_len, is_partial)
    }
}

/// Returns the positions of the set bits, from the lowest on.
fn ones(mut set: u128) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let at = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(at)
    })
}
