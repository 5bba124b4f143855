//! A [`Signal`] in the IP header of a packet: an IPv4 option, or an IPv6 hop-by-hop option that who does not know it passes over and
//! nodes may change. Their numbers are those for experiments (RFC 4727).

use super::{SIGNAL_LEN, Signal};
use crate::WireError;
use crate::bytes::{array_at, put_at};
use crate::ip::options::{IpOption, finish_header};

/// Bytes a signal adds to a packet.
pub const ADDED_LEN: usize = 32;

/// RFC 4727 §2.5: not copied into fragments; §3.4: 00, skipped where unknown, 1, may change on the way.
const OPTION: IpOption = IpOption { ipv4: 30, ipv6: 0x3e, len: SIGNAL_LEN };

/// Where a packet's signal begins; `None` if it has none. Options behind one that makes no sense are not looked at.
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`], or [`WireError::Malformed`] for lengths that contradict each other.
pub fn locate(packet: &[u8]) -> Result<Option<usize>, WireError> {
    OPTION.locate(packet)
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
    finish_header(packet)
}

/// Writes the packet with a signal to `out`; gives its length, [`ADDED_LEN`] more.
///
/// # Errors
/// [`WireError::NoRoom`] in `out`, or in an IPv4 header; [`WireError::TooLong`] for a packet that cannot be longer; [`WireError::Malformed`]
/// for one that has a signal, or is not a flow's first fragment; [`WireError::Truncated`], [`WireError::Version`].
pub fn insert(packet: &[u8], signal: &Signal, out: &mut [u8]) -> Result<usize, WireError> {
    let mut bytes = [0; SIGNAL_LEN];
    signal.emit(&mut bytes)?;
    OPTION.insert(packet, &bytes, out)
}

/// Takes the signal out of a packet, which then begins so many bytes later: none if it had no signal, or if only fillers could take its
/// place.
///
/// # Errors
/// As [`locate`].
pub fn remove(packet: &mut [u8]) -> Result<usize, WireError> {
    OPTION.remove(packet)
}

/// Puts fillers in the signal's place, which leaves the packet as long as it is; false if it had none.
///
/// # Errors
/// As [`locate`].
pub fn blank(packet: &mut [u8]) -> Result<bool, WireError> {
    OPTION.blank(packet)
}
