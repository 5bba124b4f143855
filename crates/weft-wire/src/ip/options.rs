//! Finds, inserts and removes one option in an IP header: an IPv4 option or an IPv6 hop-by-hop option.
//!
//! All functions keep length fields and the IPv4 header checksum correct. They never change other options.

use crate::WireError;
use crate::bytes::{put_at, u8_at, u16_at};
use crate::checksum::checksum;

/// Length of an IPv4 header without options, in bytes.
const IPV4_HEADER_LEN: usize = 20;
/// Length of the longest IPv4 header, in bytes (RFC 791).
const IPV4_HEADER_MAX: usize = 60;
/// Length of the fixed IPv6 header, in bytes.
const IPV6_HEADER_LEN: usize = 40;
/// Protocol number of the IPv6 hop-by-hop options header (RFC 8200 §4).
const HOP_BY_HOP: u8 = 0;
/// The option type 0: End of Option List in IPv4, Pad1 in IPv6.
const NOTHING: u8 = 0;
/// The option type 1: No Operation in IPv4, PadN in IPv6.
///
/// No Operation is one byte long. PadN has a length field.
const FILLER: u8 = 1;

/// Length of the longest supported option value, in bytes.
const VALUE_MAX: usize = 28;
/// Maximum number of bytes that inserting an option adds to a packet.
const ADDED_MAX: usize = VALUE_MAX + 4;

/// True if a packet may have IP options.
///
/// This is so if its IPv4 header exceeds 20 bytes, or if it has an IPv6 hop-by-hop header.
#[inline]
pub fn has_options(packet: &[u8]) -> bool {
    match packet.first() {
        Some(first) if first >> 4 == 4 => *first != 0x45,
        Some(_) => packet.get(6) == Some(&HOP_BY_HOP),
        None => false,
    }
}

/// An IP option whose value has a fixed length, in its IPv4 and its IPv6 form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpOption {
    /// Option kind in IPv4.
    pub(crate) ipv4: u8,
    /// Option type in IPv6.
    pub(crate) ipv6: u8,
    /// Length of the value, in bytes, at most [`VALUE_MAX`].
    pub(crate) len: usize,
}

impl IpOption {
    /// Returns the offset of the option's value in the packet, or `None` if the packet has no such option.
    ///
    /// The search stops at an invalid option and ignores all options behind it.
    pub(crate) fn locate(&self, packet: &[u8]) -> Result<Option<usize>, WireError> {
        match u8_at(packet, 0)? >> 4 {
            4 => {
                let header_len = ipv4_header_len(packet)?;
                let options = packet.get(IPV4_HEADER_LEN..header_len).ok_or(WireError::Truncated)?;
                Ok(self.find_ipv4(options)?.map(|at| IPV4_HEADER_LEN + at))
            }
            6 => {
                let Some(options_len) = hop_by_hop_len(packet)? else { return Ok(None) };
                let start = IPV6_HEADER_LEN + 2;
                let options = packet.get(start..IPV6_HEADER_LEN + options_len).ok_or(WireError::Truncated)?;
                Ok(self.find_ipv6(options)?.map(|at| start + at))
            }
            _ => Err(WireError::Version),
        }
    }

    /// Writes `packet` with the option to `out` and returns the new length.
    pub(crate) fn insert(&self, packet: &[u8], value: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
        if self.locate(packet)?.is_some() || value.len() != self.len {
            return Err(WireError::Malformed);
        }
        if u8_at(packet, 0)? >> 4 == 4 {
            self.insert_ipv4(packet, value, out)
        } else {
            self.insert_ipv6(packet, value, out)
        }
    }

    /// Removes the option from the packet. The packet then begins at the returned offset.
    ///
    /// If the option cannot be cut out, padding options replace it and the result is 0. It is also 0 without such an
    /// option.
    pub(crate) fn remove(&self, packet: &mut [u8]) -> Result<usize, WireError> {
        let Some(at) = self.locate(packet)? else { return Ok(0) };
        if u8_at(packet, 0)? >> 4 == 4 { self.remove_ipv4(packet, at) } else { self.remove_ipv6(packet, at) }
    }

    /// Replaces the option by padding options. Returns false if the packet had no such option.
    pub(crate) fn blank(&self, packet: &mut [u8]) -> Result<bool, WireError> {
        let Some(at) = self.locate(packet)? else { return Ok(false) };
        let is_ipv4 = u8_at(packet, 0)? >> 4 == 4;
        let place = packet.get_mut(at - 2..at + self.len).ok_or(WireError::Truncated)?;
        if is_ipv4 {
            place.fill(FILLER);
        } else {
            pad_ipv6(place);
        }
        finish_header(packet)?;
        Ok(true)
    }

    fn insert_ipv4(&self, packet: &[u8], value: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
        if u16_at(packet, 6)? & 0x1fff != 0 {
            return Err(WireError::Malformed);
        }
        let added_len = (self.len + 2).next_multiple_of(4);
        let header_len = ipv4_header_len(packet)? + added_len;
        if header_len > IPV4_HEADER_MAX {
            return Err(WireError::NoRoom);
        }
        let total = u16_at(packet, 2)?.checked_add(added_len as u16).ok_or(WireError::TooLong)?;
        // The last existing option may be an End of Option List, after which no option is read. The new option is
        // therefore the first.
        let mut added = [FILLER; ADDED_MAX];
        put_at(&mut added, 0, &[self.ipv4, (self.len + 2) as u8])?;
        put_at(&mut added, 2, value)?;
        let len = splice(packet, IPV4_HEADER_LEN, added.get(..added_len).ok_or(WireError::NoRoom)?, out)?;
        put_at(out, 0, &[0x40 | (header_len / 4) as u8])?;
        put_at(out, 2, &total.to_be_bytes())?;
        finish_ipv4(out)?;
        Ok(len)
    }

    fn insert_ipv6(&self, packet: &[u8], value: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
        let has = hop_by_hop_len(packet)?;
        let begin = if has.is_some() { 0 } else { 2 };
        let added_len = (begin + 2 + self.len).next_multiple_of(8);
        let total = u16_at(packet, 4)?.checked_add(added_len as u16).ok_or(WireError::TooLong)?;
        let mut added = [NOTHING; ADDED_MAX];
        put_at(&mut added, begin, &[self.ipv6, self.len as u8])?;
        put_at(&mut added, begin + 2, value)?;
        let added = added.get_mut(..added_len).ok_or(WireError::NoRoom)?;
        pad_ipv6(added.get_mut(begin + 2 + self.len..).unwrap_or_default());
        let len = if let Some(options_len) = has {
            let units = u8::try_from((options_len + added_len) / 8 - 1).map_err(|_| WireError::NoRoom)?;
            let len = splice(packet, IPV6_HEADER_LEN + 2, added, out)?;
            put_at(out, IPV6_HEADER_LEN + 1, &[units])?;
            len
        } else {
            put_at(added, 0, &[u8_at(packet, 6)?, (added_len / 8 - 1) as u8])?;
            let len = splice(packet, IPV6_HEADER_LEN, added, out)?;
            put_at(out, 6, &[HOP_BY_HOP])?;
            len
        };
        put_at(out, 4, &total.to_be_bytes())?;
        Ok(len)
    }

    fn remove_ipv4(&self, packet: &mut [u8], at: usize) -> Result<usize, WireError> {
        let header_len = ipv4_header_len(packet)?;
        let (start, mut end) = (at - 2, at + self.len);
        while !(end - start).is_multiple_of(4) && end < header_len {
            let is_padding = u8_at(packet, end)? == NOTHING && header_len - end < 4;
            if u8_at(packet, end)? != FILLER && !is_padding {
                break;
            }
            end += 1;
        }
        let taken = end - start;
        if !taken.is_multiple_of(4) {
            packet.get_mut(start..end).ok_or(WireError::Truncated)?.fill(FILLER);
            finish_ipv4(packet)?;
            return Ok(0);
        }
        let total = u16_at(packet, 2)?.checked_sub(taken as u16).ok_or(WireError::Malformed)?;
        packet.copy_within(..start, taken);
        let rest = packet.get_mut(taken..).ok_or(WireError::Truncated)?;
        put_at(rest, 0, &[0x40 | ((header_len - taken) / 4) as u8])?;
        put_at(rest, 2, &total.to_be_bytes())?;
        finish_ipv4(rest)?;
        Ok(taken)
    }

    fn remove_ipv6(&self, packet: &mut [u8], at: usize) -> Result<usize, WireError> {
        let taken = hop_by_hop_len(packet)?.ok_or(WireError::Malformed)?;
        let (start, end) = (at - 2, at + self.len);
        pad_ipv6(packet.get_mut(start..end).ok_or(WireError::Truncated)?);
        let options = packet.get(IPV6_HEADER_LEN + 2..IPV6_HEADER_LEN + taken).ok_or(WireError::Truncated)?;
        if !is_padding_only(options) {
            return Ok(0);
        }
        let total = u16_at(packet, 4)?.checked_sub(taken as u16).ok_or(WireError::Malformed)?;
        let next = u8_at(packet, IPV6_HEADER_LEN)?;
        packet.copy_within(..IPV6_HEADER_LEN, taken);
        let rest = packet.get_mut(taken..).ok_or(WireError::Truncated)?;
        put_at(rest, 4, &total.to_be_bytes())?;
        put_at(rest, 6, &[next])?;
        Ok(taken)
    }

    fn find_ipv4(&self, options: &[u8]) -> Result<Option<usize>, WireError> {
        let mut at = 0;
        while let Some(kind) = options.get(at).copied() {
            match kind {
                NOTHING => return Ok(None),
                FILLER => at += 1,
                _ => {
                    let len = usize::from(u8_at(options, at + 1)?);
                    if len < 2 || at + len > options.len() {
                        return Err(WireError::Malformed);
                    }
                    if kind == self.ipv4 && len == self.len + 2 {
                        return Ok(Some(at + 2));
                    }
                    at += len;
                }
            }
        }
        Ok(None)
    }

    fn find_ipv6(&self, options: &[u8]) -> Result<Option<usize>, WireError> {
        let mut at = 0;
        while let Some(kind) = options.get(at).copied() {
            if kind == NOTHING {
                at += 1;
                continue;
            }
            let len = usize::from(u8_at(options, at + 1)?);
            if at + 2 + len > options.len() {
                return Err(WireError::Malformed);
            }
            if kind == self.ipv6 && len == self.len {
                return Ok(Some(at + 2));
            }
            at += 2 + len;
        }
        Ok(None)
    }
}

/// Fills `place`, a part of the IPv6 options, with padding (Pad1 or PadN).
fn pad_ipv6(place: &mut [u8]) {
    place.fill(NOTHING);
    let len = place.len();
    if let [filler, size, ..] = place {
        (*filler, *size) = (FILLER, (len - 2) as u8);
    }
}

/// True if IPv6 `options` consist of padding only.
fn is_padding_only(options: &[u8]) -> bool {
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        match *kind {
            NOTHING => at += 1,
            FILLER => at += 2 + options.get(at + 1).map_or(0, |len| usize::from(*len)),
            _ => return false,
        }
    }
    true
}

/// Writes to `out` the packet with `added` inserted at offset `at`, and returns the length.
pub(crate) fn splice(packet: &[u8], at: usize, added: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
    let (head, tail) = packet.split_at_checked(at).ok_or(WireError::Truncated)?;
    let len = packet.len() + added.len();
    let mut out = out.get_mut(..len).ok_or(WireError::NoRoom)?;
    for piece in [head, added, tail] {
        let (room, rest) = out.split_at_mut_checked(piece.len()).ok_or(WireError::NoRoom)?;
        room.copy_from_slice(piece);
        out = rest;
    }
    Ok(len)
}

fn ipv4_header_len(packet: &[u8]) -> Result<usize, WireError> {
    let len = usize::from(u8_at(packet, 0)? & 0x0f) * 4;
    if len < IPV4_HEADER_LEN { Err(WireError::Malformed) } else { Ok(len) }
}

/// Returns the length of the hop-by-hop header in bytes, or `None` if there is none.
///
/// The hop-by-hop header is always the first extension header (RFC 8200 §4.1).
fn hop_by_hop_len(packet: &[u8]) -> Result<Option<usize>, WireError> {
    if u8_at(packet, 6)? != HOP_BY_HOP {
        return Ok(None);
    }
    Ok(Some((usize::from(u8_at(packet, IPV6_HEADER_LEN + 1)?) + 1) * 8))
}

/// Corrects the header checksum of an IPv4 packet. IPv6 has no header checksum.
pub(crate) fn finish_header(packet: &mut [u8]) -> Result<(), WireError> {
    if u8_at(packet, 0)? >> 4 == 4 { finish_ipv4(packet) } else { Ok(()) }
}

fn finish_ipv4(packet: &mut [u8]) -> Result<(), WireError> {
    put_at(packet, 10, &[0, 0])?;
    let header_len = ipv4_header_len(packet)?;
    let sum = checksum(packet.get(..header_len).ok_or(WireError::Truncated)?);
    put_at(packet, 10, &sum.to_be_bytes())
}
