//! Codec of Quick-Start (RFC 4782), by which a TCP sender asks routers for its initial rate.
//!
//! The sender puts a coarse rate into an IP option, and routers may lower the rate. The receiver returns the resulting
//! rate in a TCP option ([`QuickStartResponse`]). This module keeps no state and chooses no rate.

mod response;

pub use response::{QuickStartResponse, RESPONSE_LEN};

use crate::WireError;
use crate::bytes::{ByteReader, Writer, array_at, put_at};
use crate::ip::options::{IpOption, finish_header};
use weft_units::Rate;

/// Length of the value of the Quick-Start option, in bytes.
const VALUE_LEN: usize = 6;
/// Numbers of the Quick-Start option (RFC 4782 §3.1): IPv4 kind 25, IPv6 hop-by-hop type 0x26.
///
/// The IPv6 type means that a node that does not support the option skips it, and that nodes may change it in transit.
const OPTION: IpOption = IpOption { ipv4: 25, ipv6: 0x26, len: VALUE_LEN };
/// The constant K of RFC 4782 §3.1, in bit/s. A rate is K · 2^N.
const UNIT_BPS: u64 = 40_000;
/// Number of bits in the nonce (RFC 4782 §3.1).
const NONCE_BITS: u32 = 30;

/// A rate in 4 bits: 40 kbit/s · 2^N. N = 0 means no rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QuickRate(u8);

impl QuickRate {
    /// The rate zero.
    pub const ZERO: QuickRate = QuickRate(0);
    /// The highest rate, 1.31072 Gbit/s.
    pub const MOST: QuickRate = QuickRate(15);

    /// Returns the rate 40 kbit/s · 2^`n`, or no rate for 0. Values above 15 become 15.
    pub const fn new(n: u8) -> QuickRate {
        if n > 15 { QuickRate::MOST } else { QuickRate(n) }
    }

    /// Returns the exponent N of the rate 40 kbit/s · 2^N; 0 means no rate.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns the greatest encodable rate that does not exceed `rate`. Routers round a grant in this way.
    pub fn floor(rate: Rate) -> QuickRate {
        (rate.bps() / UNIT_BPS).checked_ilog2().map_or(QuickRate::ZERO, |n| QuickRate(n.min(15) as u8))
    }

    /// Returns the least encodable rate that is not below `rate`. Senders round a request in this way.
    pub fn ceil(rate: Rate) -> QuickRate {
        let floor = QuickRate::floor(rate);
        if floor.rate() < rate { QuickRate::new(floor.0 + 1) } else { floor }
    }

    /// Returns the rate in bits per second, which include the IP headers.
    pub const fn rate(self) -> Rate {
        if self.0 == 0 { Rate::ZERO } else { Rate::from_bps(UNIT_BPS << self.0) }
    }
}

/// Purpose of a Quick-Start option (the field "Func." of RFC 4782 §3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// The sender requests a rate.
    Request = 0,
    /// The sender reports the granted rate to the routers.
    Report = 8,
}

/// The value of a Quick-Start IP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuickStart {
    /// Purpose of the option: request or report.
    pub function: Function,
    /// The requested rate, which routers may lower, or the rate that was granted.
    pub rate: QuickRate,
    /// Random start value in a request, which routers that approve it decrement along with the IP TTL.
    ///
    /// It is not used in a report.
    pub ttl: u8,
    /// Random nonce of 30 bits: two bits per step of the rate.
    ///
    /// A router that lowers the rate by some steps replaces the nonce bits of these steps.
    pub nonce: u32,
}

impl QuickStart {
    /// Parses the option's value.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`] for an unknown function.
    pub fn parse(value: &[u8]) -> Result<QuickStart, WireError> {
        let mut r = ByteReader::new(value);
        let (first, ttl, nonce) = (r.u8()?, r.u8()?, r.u32()?);
        r.end()?;
        let function = match first >> 4 {
            0 => Function::Request,
            8 => Function::Report,
            _ => return Err(WireError::UnknownType),
        };
        Ok(QuickStart { function, rate: QuickRate(first & 0x0f), ttl, nonce: nonce >> 2 })
    }

    /// Returns the encoded value.
    fn to_bytes(self) -> Result<[u8; VALUE_LEN], WireError> {
        let mut bytes = [0; VALUE_LEN];
        let mut w = Writer::new(&mut bytes);
        w.u8((self.function as u8) << 4 | self.rate.0)?;
        w.u8(self.ttl)?;
        w.u32(self.nonce << 2)?;
        Ok(bytes)
    }

    /// Lowers the rate to at most `to`. Takes two new nonce bits from `random` for each step down (RFC 4782 §3.3).
    pub fn lower(&mut self, to: QuickRate, random: u32) {
        let bits_of = |rate: QuickRate| (1u32 << (2 * u32::from(rate.0))) - 1;
        if to < self.rate {
            let drawn = bits_of(self.rate) & !bits_of(to);
            self.nonce = self.nonce & !drawn | random & drawn;
            self.rate = to;
        }
    }

    /// Applies a router's decision about a request.
    ///
    /// `lowered` is the number by which the router decrements the IP TTL. A grant of zero means that the router does
    /// not approve the request. The new bits of the nonce come from `random`.
    pub fn pass(&mut self, granted: QuickRate, lowered: u8, random: u32) {
        if granted == QuickRate::ZERO {
            return self.refuse();
        }
        self.ttl = self.ttl.wrapping_sub(lowered);
        self.lower(granted, random);
    }

    /// Marks the request as not approved: rate, TTL and nonce become zero.
    pub fn refuse(&mut self) {
        (self.rate, self.ttl, self.nonce) = (QuickRate::ZERO, 0, 0);
    }
}

/// True if two nonces agree in the bits that routers keep when they lower the rate to `rate`.
///
/// `asked` is the nonce of the request, `answered` that of the response.
pub const fn nonces_agree(asked: u32, answered: u32, rate: QuickRate) -> bool {
    let bits = 2 * rate.0 as u32;
    debug_assert!(bits <= NONCE_BITS);
    (asked ^ answered) & ((1 << bits) - 1) == 0
}

/// Returns the offset of the option's value in the packet, and the parsed option. `None` if the packet has none.
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`], [`WireError::Malformed`] for contradictory lengths, and as
/// [`QuickStart::parse`].
pub fn parse(packet: &[u8]) -> Result<Option<(usize, QuickStart)>, WireError> {
    let Some(at) = OPTION.locate(packet)? else { return Ok(None) };
    let value: [u8; VALUE_LEN] = array_at(packet, at)?;
    Ok(Some((at, QuickStart::parse(&value)?)))
}

/// Overwrites the option whose value begins at offset `at` of the packet, and corrects the header's checksum.
///
/// # Errors
/// [`WireError::Truncated`].
pub fn update(packet: &mut [u8], at: usize, option: QuickStart) -> Result<(), WireError> {
    put_at(packet, at, &option.to_bytes()?)?;
    finish_header(packet)
}

/// Writes `packet` with the option to `out` and returns the new length.
///
/// # Errors
/// [`WireError::NoRoom`] if `out` or the IPv4 header is full. [`WireError::TooLong`] if the packet would exceed the
/// maximum IP length. [`WireError::Malformed`] if it already has the option or is not the first fragment.
/// [`WireError::Truncated`], [`WireError::Version`].
pub fn insert(packet: &[u8], option: QuickStart, out: &mut [u8]) -> Result<usize, WireError> {
    OPTION.insert(packet, &option.to_bytes()?, out)
}

/// Removes the option from the packet. The packet then begins at the returned offset.
///
/// The result is 0 if the packet had no Quick-Start option. It is also 0 if the option could not be cut out. Padding
/// options then replace the option.
///
/// # Errors
/// As [`parse`] while it searches the option.
pub fn remove(packet: &mut [u8]) -> Result<usize, WireError> {
    OPTION.remove(packet)
}

/// Replaces the option by padding options and keeps the packet's length. Returns false if it had no such option.
///
/// # Errors
/// As [`parse`] while it searches the option.
pub fn blank(packet: &mut [u8]) -> Result<bool, WireError> {
    OPTION.blank(packet)
}
