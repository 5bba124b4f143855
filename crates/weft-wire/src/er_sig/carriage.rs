//! Carries a [`Signal`] in the IP header of a packet.
//!
//! In IPv4 the signal is an IP option. In IPv6 it is a hop-by-hop option that nodes skip if they do not support it, and
//! that nodes may change in transit. The option numbers are those reserved for experiments (RFC 4727).

use super::{SIGNAL_LEN, Signal};
use crate::WireError;
use crate::bytes::{array_at, put_at};
use crate::ip::options::{IpOption, finish_header};

/// Number of bytes that a signal adds to a packet.
pub const ADDED_LEN: usize = 32;

/// Numbers of the option that carries a signal: IPv4 kind 30 (RFC 4727 §2.5), IPv6 type 0x3e (RFC 4727 §3.4).
///
/// The IPv4 option is not copied into fragments. In the IPv6 type, the first two bits (00) mean that a node that does
/// not support the option skips it, and the third bit (1) that nodes may change it in transit.
const OPTION: IpOption = IpOption { ipv4: 30, ipv6: 0x3e, len: SIGNAL_LEN };

/// Returns the offset of the signal in a packet, in bytes, or `None` if the packet has none.
///
/// The search stops at an invalid option and ignores all options behind it.
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`], or [`WireError::Malformed`] for contradictory lengths.
pub fn locate(packet: &[u8]) -> Result<Option<usize>, WireError> {
    OPTION.locate(packet)
}

/// Returns the offset of the signal in a packet, in bytes, and the signal. `None` if the packet has none.
///
/// # Errors
/// As [`locate`] and [`Signal::parse`].
pub fn parse(packet: &[u8]) -> Result<Option<(usize, Signal)>, WireError> {
    let Some(at) = locate(packet)? else { return Ok(None) };
    let bytes: [u8; SIGNAL_LEN] = array_at(packet, at)?;
    Ok(Some((at, Signal::parse(&bytes)?)))
}

/// Overwrites the signal at offset `at` of the packet, and corrects the header's checksum.
///
/// # Errors
/// [`WireError::Truncated`], or as [`Signal::emit`].
pub fn update(packet: &mut [u8], at: usize, signal: &Signal) -> Result<(), WireError> {
    let mut bytes = [0; SIGNAL_LEN];
    signal.emit(&mut bytes)?;
    put_at(packet, at, &bytes)?;
    finish_header(packet)
}

/// Writes `packet` with a signal to `out`. Returns the new length, which is [`ADDED_LEN`] bytes greater.
///
/// # Errors
/// [`WireError::NoRoom`] if `out` or the IPv4 header is full. [`WireError::TooLong`] if the packet would exceed the
/// maximum IP length. [`WireError::Malformed`] if it already has a signal or is not the first fragment.
/// [`WireError::Truncated`], [`WireError::Version`].
pub fn insert(packet: &[u8], signal: &Signal, out: &mut [u8]) -> Result<usize, WireError> {
    let mut bytes = [0; SIGNAL_LEN];
    signal.emit(&mut bytes)?;
    OPTION.insert(packet, &bytes, out)
}

/// Removes the signal from the packet. The packet then begins at the returned offset.
///
/// The result is 0 if the packet had no signal. It is also 0 if the option could not be cut out. Padding options then
/// replace the option.
///
/// # Errors
/// As [`locate`].
pub fn remove(packet: &mut [u8]) -> Result<usize, WireError> {
    OPTION.remove(packet)
}

/// Replaces the signal by padding options and keeps the packet's length. Returns false if there was no signal.
///
/// # Errors
/// As [`locate`].
pub fn blank(packet: &mut [u8]) -> Result<bool, WireError> {
    OPTION.blank(packet)
}
