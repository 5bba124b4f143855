//! A [`Signal`] in the IP header of a packet: an IPv4 option, or an IPv6 hop-by-hop option that who does not know it passes over and
//! nodes may change. Their numbers are those for experiments (RFC 4727).

use super::{SIGNAL_LEN, Signal};
use crate::WireError;
use crate::bytes::{array_at, put_at, u8_at, u16_at};
use crate::checksum::checksum;

/// Bytes a signal adds to a packet.
pub const ADDED_LEN: usize = 32;

/// RFC 4727 §2.5: not copied into fragments.
const IPV4_OPTION: u8 = 30;
/// RFC 4727 §3.4: 00, skipped where unknown; 1, may change on the way.
const IPV6_OPTION: u8 = 0x3e;

const IPV4_HEADER_LEN: usize = 20;
const IPV4_HEADER_MAX: usize = 60;
const IPV6_HEADER_LEN: usize = 40;
const HOP_BY_HOP: u8 = 0;
/// Both the end of IPv4's options and IPv6's Pad1.
const NOTHING: u8 = 0;
/// IPv4's no-operation, one byte too; IPv6's PadN, which has a length.
const FILLER: u8 = 1;

/// Where a packet's signal begins; `None` if it has none. Options behind one that makes no sense are not looked at.
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`], or [`WireError::Malformed`] for lengths that contradict each other.
pub fn locate(packet: &[u8]) -> Result<Option<usize>, WireError> {
    match u8_at(packet, 0)? >> 4 {
        4 => {
            let header_len = ipv4_header_len(packet)?;
            let options = packet.get(IPV4_HEADER_LEN..header_len).ok_or(WireError::Truncated)?;
            Ok(find(options, IPV4_OPTION, Some(FILLER), 2)?.map(|at| IPV4_HEADER_LEN + at))
        }
        6 => {
            let Some(options_len) = hop_by_hop_len(packet)? else { return Ok(None) };
            let start = IPV6_HEADER_LEN + 2;
            let options = packet.get(start..IPV6_HEADER_LEN + options_len).ok_or(WireError::Truncated)?;
            Ok(find(options, IPV6_OPTION, None, 0)?.map(|at| start + at))
        }
        _ => Err(WireError::Version),
    }
}

/// Reads the signal of a packet, and where it begins.
///
/// # Errors
/// As [`locate`] and [`Signal::parse`].
pub fn parse(packet: &[u8]) -> Result<Option<(usize, Signal)>, WireError> {
    let Some(at) = locate(packet)? else { return Ok(None) };
    let bytes: [u8; SIGNAL_LEN] = array_at(packet, at)?;
    Ok(Some((at, Signal::parse(&bytes)?)))
}

/// Writes a signal over the one that begins `at`.
///
/// # Errors
/// [`WireError::Truncated`], or as [`Signal::emit`].
pub fn update(packet: &mut [u8], at: usize, signal: &Signal) -> Result<(), WireError> {
    let mut bytes = [0; SIGNAL_LEN];
    signal.emit(&mut bytes)?;
    put_at(packet, at, &bytes)?;
    if u8_at(packet, 0)? >> 4 == 4 { finish_ipv4(packet) } else { Ok(()) }
}

/// Writes the packet with a signal to `out`; gives its length, [`ADDED_LEN`] more.
///
/// # Errors
/// [`WireError::NoRoom`] in `out`, or in an IPv4 header; [`WireError::TooLong`] for a packet that cannot be longer; [`WireError::Malformed`]
/// for one that has a signal, or is not a flow's first fragment; [`WireError::Truncated`], [`WireError::Version`].
pub fn insert(packet: &[u8], signal: &Signal, out: &mut [u8]) -> Result<usize, WireError> {
    if locate(packet)?.is_some() {
        return Err(WireError::Malformed);
    }
    if u8_at(packet, 0)? >> 4 == 4 { insert_ipv4(packet, signal, out) } else { insert_ipv6(packet, signal, out) }
}

fn insert_ipv4(packet: &[u8], signal: &Signal, out: &mut [u8]) -> Result<usize, WireError> {
    if u16_at(packet, 6)? & 0x1fff != 0 {
        return Err(WireError::Malformed);
    }
    let header_len = ipv4_header_len(packet)? + ADDED_LEN;
    if header_len > IPV4_HEADER_MAX {
        return Err(WireError::NoRoom);
    }
    let total = u16_at(packet, 2)?.checked_add(ADDED_LEN as u16).ok_or(WireError::TooLong)?;
    let mut option = [NOTHING; ADDED_LEN];
    option[..2].copy_from_slice(&[IPV4_OPTION, (SIGNAL_LEN + 2) as u8]);
    signal.emit(&mut option[2..])?;
    // Before the others, of which the last may end the list.
    option[ADDED_LEN - 2..].fill(FILLER);
    let len = splice(packet, IPV4_HEADER_LEN, &option, out)?;
    put_at(out, 0, &[0x40 | (header_len / 4) as u8])?;
    put_at(out, 2, &total.to_be_bytes())?;
    finish_ipv4(out)?;
    Ok(len)
}

fn insert_ipv6(packet: &[u8], signal: &Signal, out: &mut [u8]) -> Result<usize, WireError> {
    let total = u16_at(packet, 4)?.checked_add(ADDED_LEN as u16).ok_or(WireError::TooLong)?;
    let mut added = [NOTHING; ADDED_LEN];
    let header = [u8_at(packet, 6)?, (ADDED_LEN / 8 - 1) as u8];
    let option = [IPV6_OPTION, SIGNAL_LEN as u8];
    let len = if let Some(options_len) = hop_by_hop_len(packet)? {
        let units = u8::try_from((options_len + ADDED_LEN) / 8 - 1).map_err(|_| WireError::NoRoom)?;
        added[..2].copy_from_slice(&option);
        signal.emit(&mut added[2..])?;
        added[ADDED_LEN - 2..].copy_from_slice(&[FILLER, 0]);
        let len = splice(packet, IPV6_HEADER_LEN + 2, &added, out)?;
        put_at(out, IPV6_HEADER_LEN + 1, &[units])?;
        len
    } else {
        added[..2].copy_from_slice(&header);
        added[2..4].copy_from_slice(&option);
        signal.emit(&mut added[4..])?;
        let len = splice(packet, IPV6_HEADER_LEN, &added, out)?;
        put_at(out, 6, &[HOP_BY_HOP])?;
        len
    };
    put_at(out, 4, &total.to_be_bytes())?;
    Ok(len)
}

/// Writes `packet` with `added` before its byte `at`.
fn splice(packet: &[u8], at: usize, added: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
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

/// Bytes of the hop-by-hop header, which comes first where it comes at all (RFC 8200 §4.1).
fn hop_by_hop_len(packet: &[u8]) -> Result<Option<usize>, WireError> {
    if u8_at(packet, 6)? != HOP_BY_HOP {
        return Ok(None);
    }
    Ok(Some((usize::from(u8_at(packet, IPV6_HEADER_LEN + 1)?) + 1) * 8))
}

/// Where the value of an option of a signal's length begins. Lengths count `own` bytes besides the value; `single`, and [`NOTHING`] in
/// IPv6, have none; in IPv4 the latter ends the list.
fn find(options: &[u8], wanted: u8, single: Option<u8>, own: usize) -> Result<Option<usize>, WireError> {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied() {
        if kind == NOTHING && single.is_some() {
            return Ok(None);
        }
        if kind == NOTHING || Some(kind) == single {
            at += 1;
            continue;
        }
        let value_len = usize::from(u8_at(options, at + 1)?).checked_sub(own).ok_or(WireError::Malformed)?;
        let end = at + 2 + value_len;
        if end > options.len() {
            return Err(WireError::Malformed);
        }
        if kind == wanted && value_len == SIGNAL_LEN {
            return Ok(Some(at + 2));
        }
        at = end;
    }
    Ok(None)
}

fn finish_ipv4(packet: &mut [u8]) -> Result<(), WireError> {
    put_at(packet, 10, &[0, 0])?;
    let header_len = ipv4_header_len(packet)?;
    let sum = checksum(packet.get(..header_len).ok_or(WireError::Truncated)?);
    put_at(packet, 10, &sum.to_be_bytes())
}
