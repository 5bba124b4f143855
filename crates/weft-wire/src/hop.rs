//! Codec of the hop header: the ten unencrypted bytes at the start of every sealed or relayed datagram.
//!
//! This module also defines the first byte of all datagrams: version and type.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::inner::{INNER_LEN, PART_HEADER_LEN};
use weft_units::PathId;

/// Protocol version, in the first four bits of every datagram.
pub const VERSION: u8 = 1;
/// Length of the hop header, in bytes.
pub const HOP_HEADER_LEN: usize = 10;
/// Length of the authentication tag after the ciphertext, in bytes.
pub const TAG_LEN: usize = 16;
/// Length of a data datagram without its payload and without IP and UDP headers, in bytes.
pub const DATA_OVERHEAD: usize = HOP_HEADER_LEN + INNER_LEN + TAG_LEN;
/// Length of a datagram with a part of a unit, without its payload and without IP and UDP headers, in bytes.
pub const PART_OVERHEAD: usize = HOP_HEADER_LEN + PART_HEADER_LEN + TAG_LEN;
/// The largest packet number. Every number up to it fits a varint (RFC 9000 §12.3).
pub const MAX_PACKET_NUMBER: u64 = crate::varint::MAX;

/// Type of a datagram. Receivers drop datagrams whose type is none of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PacketType {
    /// First message of a handshake.
    HandshakeInitiation = 1,
    /// Second message of a handshake.
    HandshakeResponse = 2,
    /// A cookie from a responder under load. The initiator uses it for `mac2` of its next initiation.
    CookieReply = 3,
    /// Sealed (encrypted and authenticated). Carries one unit of a flow.
    Data = 4,
    /// Sealed. Carries control frames.
    Control = 5,
    /// Authenticated for a relay, but not encrypted. Carries another datagram and its route.
    Relayed = 6,
    /// Sealed. Carries a marker of a VPN's loop and a unit.
    LoopData = 7,
    /// Sealed. Carries a part of a unit that is too long for its path.
    DataPart = 8,
    /// Sealed. Carries a report and a unit. Only for nodes that support version 2 of the protocol.
    DataWithReport = 9,
}

impl PacketType {
    /// Returns the type of a complete datagram from its first byte.
    ///
    /// # Errors
    /// [`WireError::Truncated`] for an empty datagram, [`WireError::Version`], [`WireError::UnknownType`].
    pub fn of(datagram: &[u8]) -> Result<PacketType, WireError> {
        PacketType::from_byte(*datagram.first().ok_or(WireError::Truncated)?)
    }

    fn from_byte(byte: u8) -> Result<PacketType, WireError> {
        if byte >> 4 != VERSION {
            return Err(WireError::Version);
        }
        match byte & 0x0f {
            1 => Ok(PacketType::HandshakeInitiation),
            2 => Ok(PacketType::HandshakeResponse),
            3 => Ok(PacketType::CookieReply),
            4 => Ok(PacketType::Data),
            5 => Ok(PacketType::Control),
            6 => Ok(PacketType::Relayed),
            7 => Ok(PacketType::LoopData),
            8 => Ok(PacketType::DataPart),
            9 => Ok(PacketType::DataWithReport),
            _ => Err(WireError::UnknownType),
        }
    }

    /// True if datagrams of this type have a hop header and a tag.
    pub const fn has_hop_header(self) -> bool {
        self.is_sealed() || matches!(self, PacketType::Relayed)
    }

    /// True if datagrams of this type are for the node that receives them, which decrypts them.
    pub const fn is_sealed(self) -> bool {
        !matches!(
            self,
            PacketType::HandshakeInitiation
                | PacketType::HandshakeResponse
                | PacketType::CookieReply
                | PacketType::Relayed
        )
    }

    /// Returns the first byte of a datagram of this type.
    pub const fn byte(self) -> u8 {
        VERSION << 4 | self as u8
    }
}

/// The unencrypted, authenticated header of a sealed or relayed datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HopHeader {
    /// A type for which [`PacketType::has_hop_header`] is true.
    pub packet_type: PacketType,
    /// The path, as the sender numbers it.
    ///
    /// In a relayed datagram it is the code of the route ([`Way::code`](crate::relay::Way::code)).
    pub path: PathId,
    /// The index by which the receiver of the datagram finds the session or VPN.
    pub receiver: u32,
    /// The low 32 bits of the packet number.
    pub packet_number_low: u32,
}

impl HopHeader {
    /// Parses the header of a complete datagram.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if the datagram is shorter than header and tag, [`WireError::Version`], and
    /// [`WireError::UnknownType`] for every type without this header.
    pub fn parse(datagram: &[u8]) -> Result<HopHeader, WireError> {
        let mut r = ByteReader::new(datagram);
        let packet_type = PacketType::from_byte(r.u8()?)?;
        if !packet_type.has_hop_header() {
            return Err(WireError::UnknownType);
        }
        let header = HopHeader { packet_type, path: PathId(r.u8()?), receiver: r.u32()?, packet_number_low: r.u32()? };
        if r.rest().len() < TAG_LEN { Err(WireError::Truncated) } else { Ok(header) }
    }

    /// Writes the header at the start of `out` and returns its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `out` is shorter than [`HOP_HEADER_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        w.u8(self.packet_type.byte())?;
        w.u8(self.path.0)?;
        w.u32(self.receiver)?;
        w.u32(self.packet_number_low)?;
        Ok(w.len())
    }
}

/// Returns the full packet number for its low 32 bits (RFC 9000 appendix A.3).
///
/// The result is the number nearest to `highest_seen + 1` whose low 32 bits are `low`.
pub const fn reconstruct_packet_number(low: u32, highest_seen: u64) -> u64 {
    const WINDOW: u64 = 1 << 32;
    let expected = highest_seen.saturating_add(1);
    let candidate = (expected & !(WINDOW - 1)) | low as u64;
    if candidate.saturating_add(WINDOW / 2) <= expected && candidate <= MAX_PACKET_NUMBER - WINDOW {
        candidate + WINDOW
    } else if candidate > expected.saturating_add(WINDOW / 2) && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_numbers_are_found_across_the_wrap() {
        assert_eq!(reconstruct_packet_number(0, 0), 0);
        assert_eq!(reconstruct_packet_number(1, 0xffff_fffe), 0x1_0000_0001);
        assert_eq!(reconstruct_packet_number(0xffff_ffff, 0x1_0000_0005), 0xffff_ffff);
        assert_eq!(reconstruct_packet_number(0xffff_ffff, 0), 0xffff_ffff);
        assert_eq!(reconstruct_packet_number(0, u64::MAX), 0xffff_ffff_0000_0000);
    }

    #[test]
    fn a_full_data_datagram_over_ipv4_has_sixty_bytes_beside_the_payload() {
        assert_eq!(DATA_OVERHEAD + 20 + 8, 60);
    }
}
