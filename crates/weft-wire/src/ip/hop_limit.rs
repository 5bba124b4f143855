//! The hop limit of a packet: TTL in IPv4, hop limit in IPv6.

use crate::WireError;
use crate::bytes::{put_at, u8_at, u16_at};
use crate::checksum;

/// Lowers the hop limit of the packet by one, as a router does. Returns the new value.
///
/// Returns zero and leaves the packet unchanged if the hop limit is used up, so that the packet must not be forwarded
/// (RFC 1812 §5.3.1, RFC 8200 §3).
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`]. The packet is then unchanged.
pub fn lower_hop_limit(packet: &mut [u8]) -> Result<u8, WireError> {
    let is_v4 = match u8_at(packet, 0)? >> 4 {
        4 => true,
        6 => false,
        _ => return Err(WireError::Version),
    };
    let at = if is_v4 { 8 } else { 7 };
    let left = u8_at(packet, at)?.saturating_sub(1);
    if left == 0 {
        return Ok(0);
    }
    if is_v4 {
        let word = u16::from(left) << 8 | u16_at(packet, at)? & 0xff;
        checksum::replace_word(packet, 0, 10, at, word)?;
    } else {
        put_at(packet, at, &[left])?;
    }
    Ok(left)
}
