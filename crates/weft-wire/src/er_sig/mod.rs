//! ER-SIG v1: explicit rates signalled in band (paper 001 §II-B and Figure 2, after TIA-1039), in an encoding of weft's own.
//!
//! A packet of a flow carries one structure of fixed layout. The sender asks for rates, each node on the way lowers them to what it
//! grants, the receiver reflects them, and the sender confirms, so that nodes release what others did not grant. [`carriage`] puts it
//! into IPv4 and IPv6 packets.

pub mod carriage;
mod rate16;
mod tag;

pub use rate16::Rate16;
pub use tag::{KEY_LEN, SignalKey};

use crate::WireError;
use crate::bytes::{Reader, Writer};
use weft_units::Duration;

/// Bytes of the structure.
pub const SIGNAL_LEN: usize = 28;

const VERSION: u16 = 1;
const MUST_BE_MET: u16 = 1;
const OVERLAY: u16 = 2;
const FLAGS: u16 = 0x000f;
const RECEIVER_PAYS: u8 = 2;
const IS_LOWERED: u8 = 1;

/// What a signal does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// The sender asks; nodes book for a while what they grant.
    Request = 1,
    /// The receiver reflects what arrived.
    Response = 2,
    /// The sender accepts; nodes book that and release the rest.
    Confirm = 3,
    /// The sender asks again while it sends.
    Update = 4,
    /// The sender needs it no longer.
    Release = 5,
    /// A node cannot meet what must be met.
    Reject = 6,
}

/// What kind of rate is asked for (TIA-1039's four services).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// AR: what the network can carry, renewed while it sends.
    Available = 0,
    /// GR: reserved.
    Guaranteed = 1,
    /// MR: a ceiling, not reserved.
    Maximum = 2,
    /// VR: MR and AR.
    Variable = 3,
}

/// An available rate (AR), and a guaranteed or maximum one (GR).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// AR.
    pub available: Rate16,
    /// GR, or MR.
    pub guaranteed: Rate16,
}

/// Of the two directions of a flow, as its first sender sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From it.
    Forward,
    /// Toward it.
    Reverse,
}

/// Burst tolerance in 8 bits: 4 of exponent E, 4 of mantissa M, (1 + M/16) · 2^E · 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BurstTolerance(pub u8);

impl BurstTolerance {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        e4m4(self.0) * 16
    }
}

/// Delay variance in 8 bits: 4 of exponent E, 4 of mantissa M, (1 + M/16) · 2^E · 10 µs; zero: none is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelayVariance(pub u8);

impl DelayVariance {
    /// The bound asked for.
    pub const fn bound(self) -> Option<Duration> {
        match self.0 {
            0 => None,
            bits => Some(Duration::from_nanos(e4m4(bits) as u64 * 625)),
        }
    }
}

/// (16 + M) · 2^E.
const fn e4m4(bits: u8) -> u32 {
    (16 + (bits & 0x0f) as u32) << (bits >> 4)
}

/// The structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// What it does.
    pub message: Message,
    /// The kind of rate.
    pub service: Service,
    /// CH: the receiver pays, not the sender.
    pub receiver_pays: bool,
    /// CHG: a node lowered a rate.
    pub is_lowered: bool,
    /// PP: who keeps its rate when it is short; 0 lowest, at most 15.
    pub preemption: u8,
    /// DP: 0 best effort, 15 tightest.
    pub delay_priority: u8,
    /// BT: how far over the rate before policing.
    pub burst: BurstTolerance,
    /// DV.
    pub delay_variance: DelayVariance,
    /// Asked for, and then granted, from the sender.
    pub forward: Rates,
    /// The same toward it; zero: one direction only.
    pub reverse: Rates,
    /// What a response says arrived, or a confirmation accepts.
    pub echoed: Rates,
    /// The request's number, drawn by chance; answers repeat it.
    pub nonce: u32,
    /// Nodes that took part.
    pub hops: u8,
    /// Drawn by chance, and lowered with the IP TTL by the nodes that take part: unless all do, the difference of the two changes
    /// (RFC 4782 §3.2).
    pub qttl: u8,
    /// BNODE: a hash of the node that last lowered an available rate; 0: none.
    pub lowered_by: u16,
    /// Reject what cannot be met, do not lower it.
    pub must_be_met: bool,
    /// It goes over an overlay link.
    pub is_overlay: bool,
    /// A keyed MAC over what nobody may change, cut short; 0: none.
    pub tag: u16,
}

impl Signal {
    /// Reads a structure.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`]; [`WireError::Version`] for another version, [`WireError::UnknownType`] for an
    /// unknown message, [`WireError::Malformed`] for unknown flags.
    pub fn parse(bytes: &[u8]) -> Result<Signal, WireError> {
        let mut r = Reader::new(bytes);
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

    /// Writes it to the front of `out`; gives its length, [`SIGNAL_LEN`].
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

    /// A node takes part whose link in `direction` grants so much: rates fall to that, and never rise. `node` is its hash, not 0.
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

    /// What no node on the way may change, for the tag.
    pub fn immutable(&self) -> [u8; 8] {
        let [a, b, c, d] = self.nonce.to_be_bytes();
        let kind = (self.service as u8) << 2 | if self.receiver_pays { RECEIVER_PAYS } else { 0 };
        [kind, self.preemption << 4 | self.delay_priority & 0x0f, a, b, c, d, VERSION as u8, 0]
    }
}

/// What stays the same, from sender to receiver, if every router lowered both (RFC 4782 §3.2).
pub const fn ttl_difference(ttl: u8, qttl: u8) -> u8 {
    ttl.wrapping_sub(qttl)
}

fn rates(r: &mut Reader<'_>) -> Result<Rates, WireError> {
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

fn service(kind: u8) -> Service {
    match kind >> 2 & 3 {
        0 => Service::Available,
        1 => Service::Guaranteed,
        2 => Service::Maximum,
        _ => Service::Variable,
    }
}
