//! ER-SIG version 1: signals for explicit rates inside a flow's own packets, in an encoding of weft.
//!
//! The procedure is that of paper 001 §II-B and Figure 2, after TIA-1039. A packet of a flow carries one structure of
//! fixed layout. The sender requests rates. Each node on the route lowers the rates to the rate that it grants. The
//! receiver returns the granted rates. The sender confirms them. Each node then releases the part of its grant that
//! another node did not grant.
//!
//! [`carriage`] inserts the structure into IPv4 and IPv6 packets. This module is a codec and keeps no reservation.

pub mod carriage;
mod rate16;
mod tag;

pub use rate16::Rate16;
pub use tag::{KEY_LEN, SignalKey};

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use weft_units::Duration;

/// Length of a signal, in bytes.
pub const SIGNAL_LEN: usize = 28;

/// Version of the format. It stands in the high 12 bits of the 16-bit word at offset 24 of a signal.
const VERSION: u16 = 1;
/// Flag bit of [`Signal::must_be_met`].
const MUST_BE_MET: u16 = 1;
/// Flag bit of [`Signal::is_overlay`].
const OVERLAY: u16 = 2;
/// Mask of the flags in the 16-bit word at offset 24 of a signal.
const FLAGS: u16 = 0x000f;
/// Bit of [`Signal::receiver_pays`] in the first byte of a signal.
const RECEIVER_PAYS: u8 = 2;
/// Bit of [`Signal::is_lowered`] in the first byte of a signal.
const IS_LOWERED: u8 = 1;

/// What a signal asks for or answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The sender requests rates. Nodes reserve the rates that they grant for a limited time.
    Request = 1,
    /// The receiver returns the rates that arrived.
    Response = 2,
    /// The sender accepts the rates. Nodes keep the reservation of the accepted rates and release the rest.
    Confirm = 3,
    /// The sender renews its request while it sends.
    Update = 4,
    /// The sender no longer needs the rates.
    Release = 5,
    /// A node cannot grant the full rate, and the request does not permit a lower one.
    Reject = 6,
}

/// Kind of the requested rate: one of the four services of TIA-1039.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalService {
    /// AR, available rate: the rate that the network can carry at present. The sender renews it while it sends.
    Available = 0,
    /// GR, guaranteed rate: reserved.
    Guaranteed = 1,
    /// MR, maximum rate: an upper limit that is not reserved.
    Maximum = 2,
    /// VR, variable rate: the sum of MR and AR.
    Variable = 3,
}

/// A pair of rates: the available rate (AR), and the guaranteed rate (GR) or maximum rate (MR).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// Available rate (AR).
    pub available: Rate16,
    /// Guaranteed rate (GR) or maximum rate (MR).
    pub guaranteed: Rate16,
}

/// One of the two directions of a flow, seen from the host that sent the first request: the initiator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the initiator.
    Forward,
    /// Toward the initiator.
    Reverse,
}

/// Burst tolerance in 8 bits: 4-bit exponent E, 4-bit mantissa M. The value is (1 + M/16) · 2^E · 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BurstTolerance(pub u8);

impl BurstTolerance {
    /// Returns the tolerance in bytes.
    pub const fn bytes(self) -> u32 {
        e4m4(self.0) * 16
    }
}

/// Bound on the delay variance in 8 bits: a 4-bit exponent E, and a 4-bit mantissa M.
///
/// The value is (1 + M/16) · 2^E · 10 µs. The byte 0 means that the sender requests no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelayVariance(pub u8);

impl DelayVariance {
    /// Returns the requested bound, or `None` if there is none.
    pub const fn bound(self) -> Option<Duration> {
        match self.0 {
            0 => None,
            bits => Some(Duration::from_nanos(e4m4(bits) as u64 * 625)),
        }
    }
}

/// Returns (16 + M) · 2^E, where the high 4 bits of `bits` are the exponent E and the low 4 bits the mantissa M.
const fn e4m4(bits: u8) -> u32 {
    (16 + (bits & 0x0f) as u32) << (bits >> 4)
}

/// A signal: the structure of fixed layout that a flow's packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// What the signal asks for or answers.
    pub message: Message,
    /// Kind of the requested rate.
    pub service: SignalService,
    /// CH: true if the receiver pays, false if the sender pays.
    pub receiver_pays: bool,
    /// CHG: true if a node on the route lowered a rate.
    pub is_lowered: bool,
    /// PP, pre-emption priority: at too little capacity, flows with a higher value keep their rate. Range 0 to 15.
    pub preemption: u8,
    /// DP, delay priority: 0 is best effort, 15 is the tightest bound.
    pub delay_priority: u8,
    /// BT: the burst, in excess of the rate, that a policer tolerates.
    pub burst: BurstTolerance,
    /// DV: the requested bound on delay variance.
    pub delay_variance: DelayVariance,
    /// Rates in the direction from the initiator. Nodes lower the requested values to the granted ones.
    pub forward: Rates,
    /// Rates in the direction toward the initiator. Zero means that the signal concerns the forward direction only.
    pub reverse: Rates,
    /// In a response, the rates that arrived in the request. In a confirmation, the rates that the sender accepts.
    pub echoed: Rates,
    /// Random number of the request. Answers repeat it.
    pub nonce: u32,
    /// Number of nodes on the route that processed the signal.
    pub hops: u8,
    /// Random start value that each participating node decrements along with the IP TTL (RFC 4782 §3.2).
    ///
    /// A router that does not process signals decrements only the TTL, so the difference of TTL and QTTL changes.
    pub qttl: u8,
    /// BNODE: hash of the node that last lowered an available rate, or 0 if none did.
    pub lowered_by: u16,
    /// True if a node that cannot grant the full rates must reject the request instead of lowering the rates.
    pub must_be_met: bool,
    /// True if the signal crosses an overlay link.
    pub is_overlay: bool,
    /// Truncated keyed MAC over the fields that no node may change; 0 means no MAC.
    pub tag: u16,
}

impl Signal {
    /// Parses the bytes of a signal.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`]; [`WireError::Version`] for another version,
    /// [`WireError::UnknownType`] for an unknown message, [`WireError::Malformed`] for unknown flags.
    pub fn parse(bytes: &[u8]) -> Result<Signal, WireError> {
        let mut r = ByteReader::new(bytes);
        let (kind, priorities) = (r.u8()?, r.u8()?);
        let (burst, delay_variance) = (BurstTolerance(r.u8()?), DelayVariance(r.u8()?));
        let (forward, reverse, echoed) = (rates(&mut r)?, rates(&mut r)?, rates(&mut r)?);
        let (nonce, hops, qttl, lowered_by) = (r.u32()?, r.u8()?, r.u8()?, r.u16()?);
        let (version, tag) = (r.u16()?, r.u16()?);
        r.end()?;
        if version >> 4 != VERSION {
            return Err(WireError::Version);
        }
        if version & FLAGS & !(MUST_BE_MET | OVERLAY) != 0 {
            return Err(WireError::Malformed);
        }
        Ok(Signal {
            message: message(kind >> 4)?,
            service: service(kind),
            receiver_pays: kind & RECEIVER_PAYS != 0,
            is_lowered: kind & IS_LOWERED != 0,
            preemption: priorities >> 4,
            delay_priority: priorities & 0x0f,
            burst,
            delay_variance,
            forward,
            reverse,
            echoed,
            nonce,
            hops,
            qttl,
            lowered_by,
            must_be_met: version & MUST_BE_MET != 0,
            is_overlay: version & OVERLAY != 0,
            tag,
        })
    }

    /// Writes the signal at the start of `out` and returns its length, [`SIGNAL_LEN`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for a priority above 15.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if self.preemption > 15 || self.delay_priority > 15 {
            return Err(WireError::Malformed);
        }
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let mut w = Writer::new(out);
        w.u8((self.message as u8) << 4
            | (self.service as u8) << 2
            | flag(self.receiver_pays, RECEIVER_PAYS)
            | flag(self.is_lowered, IS_LOWERED))?;
        w.u8(self.preemption << 4 | self.delay_priority)?;
        w.u8(self.burst.0)?;
        w.u8(self.delay_variance.0)?;
        for Rates { available, guaranteed } in [self.forward, self.reverse, self.echoed] {
            w.u16(available.0)?;
            w.u16(guaranteed.0)?;
        }
        w.u32(self.nonce)?;
        w.u8(self.hops)?;
        w.u8(self.qttl)?;
        w.u16(self.lowered_by)?;
        let flags = u16::from(flag(self.must_be_met, MUST_BE_MET as u8) | flag(self.is_overlay, OVERLAY as u8));
        w.u16(VERSION << 4 | flags)?;
        w.u16(self.tag)?;
        Ok(w.len())
    }

    /// Applies the grant of a node that the signal passes: the rates of `direction` are lowered to at most `grant`.
    ///
    /// `node` is the hash of that node and must not be 0.
    pub fn pass(&mut self, direction: Direction, grant: Rates, node: u16) {
        let rates = match direction {
            Direction::Forward => &mut self.forward,
            Direction::Reverse => &mut self.reverse,
        };
        let asked = *rates;
        rates.available = asked.available.min(grant.available);
        rates.guaranteed = asked.guaranteed.min(grant.guaranteed);
        if rates.available < asked.available {
            self.lowered_by = node;
        }
        self.is_lowered |= *rates != asked;
        self.hops = self.hops.saturating_add(1);
        self.qttl = self.qttl.wrapping_sub(1);
    }

    /// Returns the fields that no node may change in transit, as input of [`Signal::tag`].
    pub fn immutable(&self) -> [u8; 8] {
        let [a, b, c, d] = self.nonce.to_be_bytes();
        let kind = (self.service as u8) << 2 | if self.receiver_pays { RECEIVER_PAYS } else { 0 };
        [kind, self.preemption << 4 | self.delay_priority & 0x0f, a, b, c, d, VERSION as u8, 0]
    }
}

/// Returns the difference of IP TTL and QTTL, modulo 256 (RFC 4782 §3.2).
///
/// It stays constant from sender to receiver if every router decremented TTL and QTTL.
pub const fn ttl_difference(ttl: u8, qttl: u8) -> u8 {
    ttl.wrapping_sub(qttl)
}

fn rates(r: &mut ByteReader<'_>) -> Result<Rates, WireError> {
    Ok(Rates { available: Rate16(r.u16()?), guaranteed: Rate16(r.u16()?) })
}

fn message(bits: u8) -> Result<Message, WireError> {
    Ok(match bits {
        1 => Message::Request,
        2 => Message::Response,
        3 => Message::Confirm,
        4 => Message::Update,
        5 => Message::Release,
        6 => Message::Reject,
        _ => return Err(WireError::UnknownType),
    })
}

fn service(kind: u8) -> SignalService {
    match kind >> 2 & 3 {
        0 => SignalService::Available,
        1 => SignalService::Guaranteed,
        2 => SignalService::Maximum,
        _ => SignalService::Variable,
    }
}
