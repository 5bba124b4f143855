//! Quick-Start (RFC 4782): how fast may a flow begin? A coarse rate in an IP option that routers lower, and its answer in a TCP option.

mod response;

pub use response::{RESPONSE_LEN, Response};

use crate::WireError;
use crate::bytes::{Reader, Writer, array_at, put_at};
use crate::ip::options::{IpOption, finish_header};
use weft_units::Rate;

/// Bytes of the option's value.
const VALUE_LEN: usize = 6;
/// RFC 4782 §3.1: kind 25 in IPv4; in IPv6's hop-by-hop header 0x26, skipped where unknown, may change on the way.
const OPTION: IpOption = IpOption { ipv4: 25, ipv6: 0x26, len: VALUE_LEN };
/// K, in bit/s.
const UNIT_BPS: u64 = 40_000;
const NONCE_BITS: u32 = 30;

/// A rate in 4 bits: 40 kbit/s · 2^N; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct QuickRate(u8);

impl QuickRate {
    /// Nothing.
    pub const ZERO: QuickRate = QuickRate(0);
    /// 1.31072 Gbit/s.
    pub const MOST: QuickRate = QuickRate(15);

    /// N; what is above 15 is 15.
    pub const fn new(n: u8) -> QuickRate {
        if n > 15 { QuickRate::MOST } else { QuickRate(n) }
    }

    /// N.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The greatest that is not above `rate`: what a router grants.
    pub fn floor(rate: Rate) -> QuickRate {
        (rate.bps() / UNIT_BPS).checked_ilog2().map_or(QuickRate::ZERO, |n| QuickRate(n.min(15) as u8))
    }

    /// The least that is not below `rate`: what a sender asks for.
    pub fn ceil(rate: Rate) -> QuickRate {
        let floor = QuickRate::floor(rate);
        if floor.rate() < rate { QuickRate::new(floor.0 + 1) } else { floor }
    }

    /// The rate; it counts IP headers.
    pub const fn rate(self) -> Rate {
        if self.0 == 0 { Rate::ZERO } else { Rate::from_bps(UNIT_BPS << self.0) }
    }
}

/// What the option is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// The sender asks.
    Request = 0,
    /// The sender says what it was granted, for routers to know.
    Report = 8,
}

/// The option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuickStart {
    /// What for.
    pub function: Function,
    /// Asked for, and then granted.
    pub rate: QuickRate,
    /// Drawn by chance, and lowered with the IP TTL by routers that approve. Not used in a report.
    pub ttl: u8,
    /// 30 bits, drawn by chance: two for each step of the rate, which who lowers it draws anew.
    pub nonce: u32,
}

impl QuickStart {
    /// Reads the option's value.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`] for another function.
    pub fn parse(value: &[u8]) -> Result<QuickStart, WireError> {
        let mut r = Reader::new(value);
        let (first, ttl, nonce) = (r.u8()?, r.u8()?, r.u32()?);
        r.end()?;
        let function = match first >> 4 {
            0 => Function::Request,
            8 => Function::Report,
            _ => return Err(WireError::UnknownType),
        };
        Ok(QuickStart { function, rate: QuickRate(first & 0x0f), ttl, nonce: nonce >> 2 })
    }

    /// Its bytes.
    fn to_bytes(self) -> Result<[u8; VALUE_LEN], WireError> {
        let mut bytes = [0; VALUE_LEN];
        let mut w = Writer::new(&mut bytes);
        w.u8((self.function as u8) << 4 | self.rate.0)?;
        w.u8(self.ttl)?;
        w.u32(self.nonce << 2)?;
        Ok(bytes)
    }

    /// A router approves so much: the rate falls to that, never rises, and for each step `random` gives two bits of the nonce (§3.3).
    pub fn lower(&mut self, to: QuickRate, random: u32) {
        let bits_of = |rate: QuickRate| (1u32 << (2 * u32::from(rate.0))) - 1;
        if to < self.rate {
            let drawn = bits_of(self.rate) & !bits_of(to);
            self.nonce = self.nonce & !drawn | random & drawn;
            self.rate = to;
        }
    }

    /// A request passes a router that grants so much and lowers the packet's TTL by `lowered`; with a grant of nothing it does not approve.
    pub fn pass(&mut self, granted: QuickRate, lowered: u8, random: u32) {
        if granted == QuickRate::ZERO {
            return self.refuse();
        }
        self.ttl = self.ttl.wrapping_sub(lowered);
        self.lower(granted, random);
    }

    /// A router does not approve: rate, TTL and nonce are zero.
    pub fn refuse(&mut self) {
        (self.rate, self.ttl, self.nonce) = (QuickRate::ZERO, 0, 0);
    }
}

/// Whether the bits of two nonces that lowering to `rate` leaves alone are the same.
pub const fn nonces_agree(asked: u32, answered: u32, rate: QuickRate) -> bool {
    let bits = 2 * rate.0 as u32;
    debug_assert!(bits <= NONCE_BITS);
    (asked ^ answered) & ((1 << bits) - 1) == 0
}

/// Reads the option of a packet, and where its value begins.
///
/// # Errors
/// [`WireError::Truncated`], [`WireError::Version`], [`WireError::Malformed`] for lengths that contradict each other, and as
/// [`QuickStart::parse`].
pub fn parse(packet: &[u8]) -> Result<Option<(usize, QuickStart)>, WireError> {
    let Some(at) = OPTION.locate(packet)? else { return Ok(None) };
    let value: [u8; VALUE_LEN] = array_at(packet, at)?;
    Ok(Some((at, QuickStart::parse(&value)?)))
}

/// Writes an option over the one whose value begins `at`.
///
/// # Errors
/// [`WireError::Truncated`].
pub fn update(packet: &mut [u8], at: usize, option: QuickStart) -> Result<(), WireError> {
    put_at(packet, at, &option.to_bytes()?)?;
    finish_header(packet)
}

/// Writes the packet with the option to `out`; gives its length.
///
/// # Errors
/// [`WireError::NoRoom`] in `out`, or in an IPv4 header; [`WireError::TooLong`] for a packet that cannot be longer; [`WireError::Malformed`]
/// for one that has the option, or is not a flow's first fragment; [`WireError::Truncated`], [`WireError::Version`].
pub fn insert(packet: &[u8], option: QuickStart, out: &mut [u8]) -> Result<usize, WireError> {
    OPTION.insert(packet, &option.to_bytes()?, out)
}

/// Takes the option out of a packet, which then begins so many bytes later: none if it had none, or if only fillers could take its place.
///
/// # Errors
/// As [`parse`] where the option is looked for.
pub fn remove(packet: &mut [u8]) -> Result<usize, WireError> {
    OPTION.remove(packet)
}

/// Puts fillers in the option's place, which leaves the packet as long as it is; false if it had none.
///
/// # Errors
/// As [`parse`] where the option is looked for.
pub fn blank(packet: &mut [u8]) -> Result<bool, WireError> {
    OPTION.blank(packet)
}
