use crate::WireError;
use crate::bytes::{put_at, u8_at, u16_at};
use crate::checksum;

/// Value of the ECN field in an IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not support ECN.
    NotEct = 0,
    /// ECT(1): ECN-capable transport with L4S (RFC 9331).
    Ect1 = 1,
    /// ECT(0): ECN-capable transport, classic.
    Ect0 = 2,
    /// CE, congestion experienced: a queue has marked the packet because of congestion.
    Ce = 3,
}

impl Ecn {
    /// Returns the ECN field of a TOS or traffic class byte.
    pub const fn of(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns `tos` with its ECN field replaced by this one.
    pub const fn set_in(self, tos: u8) -> u8 {
        tos & !3 | self as u8
    }

    /// True if the packet's transport supports ECN, so that a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }
}

/// Returns the TOS or traffic class byte of a packet.
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`].
pub fn tos(packet: &[u8]) -> Result<u8, WireError> {
    match u8_at(packet, 0)? >> 4 {
        4 => u8_at(packet, 1),
        6 => Ok((u16_at(packet, 0)? >> 4) as u8),
        _ => Err(WireError::Version),
    }
}

/// Writes the TOS or traffic class byte of the packet and corrects an IPv4 header checksum (RFC 1624).
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`]. The packet is then unchanged.
pub fn set_tos(packet: &mut [u8], tos: u8) -> Result<(), WireError> {
    let first = u16_at(packet, 0)?;
    match first >> 12 {
        4 => checksum::replace_word(packet, 0, 10, 0, first & 0xff00 | u16::from(tos)),
        6 => put_at(packet, 0, &(first & 0xf00f | u16::from(tos) << 4).to_be_bytes()),
        _ => Err(WireError::Version),
    }
}

/// Writes the ECN field of the packet, as [`set_tos`] does.
///
/// # Errors
/// As [`set_tos`].
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) -> Result<(), WireError> {
    set_tos(packet, ecn.set_in(tos(packet)?))
}

/// Writes the low six bits of `dscp` as the DSCP of the packet, as [`set_tos`] does.
///
/// # Errors
/// As [`set_tos`].
pub fn set_dscp(packet: &mut [u8], dscp: u8) -> Result<(), WireError> {
    set_tos(packet, dscp << 2 | tos(packet)? & 3)
}
