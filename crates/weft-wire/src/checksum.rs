//! The internet checksum (RFC 1071): complete, partial and incremental (RFC 1624).
//!
//! With a *partial* checksum (Linux: `CHECKSUM_PARTIAL`), the checksum field holds the sum of the pseudo-header. The
//! kernel or the device completes it: it adds the sum of the transport segment and stores the complement.

use crate::WireError;
use crate::bytes::{array_at, put_at, u16_at};
use core::net::IpAddr;

/// A running ones'-complement sum of 16-bit words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds `bytes` to the sum. An odd last byte is the high half of a word.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = words.iter().fold(self.0, |sum, word| sum + u64::from(u32::from_be_bytes(*word)));
        sum += match *rest {
            [a] => u64::from(u16::from_be_bytes([a, 0])),
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c] => u64::from(u32::from_be_bytes([a, b, c, 0])),
            _ => 0,
        };
        Sum(sum)
    }

    /// Adds one 16-bit word to the sum.
    #[must_use]
    pub fn word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word))
    }

    /// Folds the sum to 16 bits without complementing it.
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    /// Returns the checksum: the complement of the folded sum.
    pub fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// Returns the checksum over `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).checksum()
}

/// Returns the sum of the pseudo-header of TCP or UDP.
///
/// The pseudo-header is that of IPv4 (RFC 9293 §3.1) or IPv6 (RFC 8200 §8.1). `transport_len` is the length of the
/// transport header and its payload, in bytes.
pub fn pseudo_header(src: IpAddr, dst: IpAddr, protocol: u8, transport_len: usize) -> Sum {
    let address = |sum: Sum, address| match address {
        IpAddr::V4(v4) => sum.bytes(&v4.octets()),
        IpAddr::V6(v6) => sum.bytes(&v6.octets()),
    };
    let lengths = Sum(transport_len as u64 + u64::from(protocol));
    address(address(lengths, src), dst)
}

/// Returns `checksum`, or all ones if it is zero, as UDP requires.
///
/// A UDP checksum of zero means "no checksum" (RFC 768). All ones is the same number in ones'-complement arithmetic.
pub const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Completes a partial checksum in place.
///
/// Sums `packet[start..]` and stores the checksum at `start + offset`. The arguments are `csum_start` and `csum_offset`
/// of a virtio_net_hdr, in bytes.
///
/// # Errors
/// [`WireError::Truncated`] if the checksum field is outside the packet.
pub fn finish_partial(packet: &mut [u8], start: usize, offset: usize) -> Result<(), WireError> {
    let at = start.checked_add(offset).ok_or(WireError::Truncated)?;
    array_at::<2>(packet, at)?;
    let sum = Sum::default().bytes(packet.get(start..).ok_or(WireError::Truncated)?);
    put_at(packet, at, &never_zero(sum.checksum()).to_be_bytes())
}

/// Returns `checksum` after one covered 16-bit word changed from `old` to `new` (RFC 1624, equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::default().word(!checksum).word(!old).word(new).checksum()
}

/// Writes the 16-bit word `new` at offset `at`, and updates the checksum at offset `checksum_at`.
///
/// The checksum covers 16-bit words from offset `start` on. `at` need not be aligned to these words.
pub(crate) fn replace_word(
    packet: &mut [u8],
    start: usize,
    checksum_at: usize,
    at: usize,
    new: u16,
) -> Result<(), WireError> {
    let aligned = at.wrapping_sub(start).is_multiple_of(2);
    let as_covered = |word: u16| if aligned { word } else { word.swap_bytes() };
    let old = u16_at(packet, at)?;
    let checksum = update(u16_at(packet, checksum_at)?, as_covered(old), as_covered(new));
    put_at(packet, at, &new.to_be_bytes())?;
    put_at(packet, checksum_at, &checksum.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the example of RFC 1071 §3.
    #[test]
    fn agrees_with_the_example_of_the_rfc() {
        assert_eq!(Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).fold(), 0xddf2);
        assert_eq!(checksum(&[0x12, 0x34, 0x56]), !(0x1234 + 0x5600));
    }

    /// Checks the example of RFC 1624 §4: equation 3 yields 0, the formula of RFC 1141 all ones.
    #[test]
    fn updates_as_the_rfc_wants() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn replacing_an_unaligned_word_keeps_the_sum() {
        let mut bytes = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0];
        let sum = checksum(&bytes);
        bytes[6..].copy_from_slice(&sum.to_be_bytes());
        replace_word(&mut bytes, 0, 6, 1, 0xfeed).unwrap();
        assert_eq!(bytes[1..3], [0xfe, 0xed]);
        assert_eq!(checksum(&bytes), 0);
    }
}
