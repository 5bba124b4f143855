//! Codec of the report before the unit of a [`PacketType::DataWithReport`](crate::hop::PacketType::DataWithReport)
//! datagram.
//!
//! A report needs fewer bytes than the headers of a datagram. It is cheaper beside a unit than alone.

use crate::WireError;
use crate::frame::{Frame, Frames};
use crate::inner::INNER_LEN;

/// Number of bytes that state the length of the report.
pub const LENGTH_LEN: usize = 1;

/// Splits the plaintext of a datagram into a REPORT frame, and the unit with its inner header.
///
/// # Errors
/// [`WireError::Truncated`], or [`WireError::Malformed`] if the first frame is no REPORT frame.
pub fn parse(plaintext: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let (&len, rest) = plaintext.split_first().ok_or(WireError::Truncated)?;
    let (report, unit) = rest.split_at_checked(len.into()).ok_or(WireError::Truncated)?;
    if unit.len() < INNER_LEN {
        return Err(WireError::Truncated);
    }
    match Frames::new(report).next() {
        Some(Ok(Frame::Report(_))) => Ok((report, unit)),
        _ => Err(WireError::Malformed),
    }
}

/// Writes a REPORT frame of 1 to 255 bytes at the start of `out`. Returns the rest of `out`, where the unit belongs.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::Malformed`] for another length.
pub fn emit<'a>(report: &[u8], out: &'a mut [u8]) -> Result<&'a mut [u8], WireError> {
    let len = u8::try_from(report.len()).ok().filter(|len| *len > 0).ok_or(WireError::Malformed)?;
    let (head, rest) = out.split_at_mut_checked(LENGTH_LEN + report.len()).ok_or(WireError::NoRoom)?;
    let (length, body) = head.split_at_mut(LENGTH_LEN);
    length.fill(len);
    body.copy_from_slice(report);
    Ok(rest)
}
