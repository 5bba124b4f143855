//! Who owns which prefix: what an owner tells those that keep it, and what they are asked (paper 001 §II).
//!
//! ```text
//! claim     9 | seq u64 | details | certificate    owner to holder, answered by a verdict
//! withdraw 10 | seq u64                            the same
//! verdict  11 | seq u64 | what
//! renew    12 | key 20                             holder to owner: others hold this key now
//!
//! question  1 | key 20                             who is to hold the key?
//!           2 | key 20 | address                   who owns the address, in the region with this key?
//! reply     1 | count | contacts                   these hold the key; a contact is id 20 | details
//!           2 | seq u64 | details | certificate
//!           3                                      the sender holds the key, and knows of no owner
//! details   length | bytes, as in an introduction
//! address   4 or 6 | bytes
//! ```
//!
//! The first four go straight from node to node, under a session between the two, and go on numbering where [`crate::call`] ends;
//! questions and replies are bodies of calls.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::certificate::MAX_CERTIFICATE_LEN;
use crate::overlay::{Contact, Contacts, MAX_DETAILS, read_details, read_id, write_contacts, write_details};
use core::net::IpAddr;
use weft_units::NodeId;

/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = 1 + 8 + 1 + MAX_DETAILS + MAX_CERTIFICATE_LEN;

const CLAIM: u8 = 9;
const WITHDRAW: u8 = 10;
const VERDICT: u8 = 11;
const RENEW: u8 = 12;

const HOLDERS: u8 = 1;
const OWNER: u8 = 2;
const NOBODY: u8 = 3;

/// One message between an owner and a node that keeps its claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// The sender owns what its certificate says.
    Claim(Claim<'a>),
    /// The sender owns nothing any more.
    Withdraw {
        /// As a claim's.
        seq: u64,
    },
    /// What has become of a claim or a withdrawal.
    Verdict {
        /// The claim's.
        seq: u64,
        /// What the holder made of it.
        verdict: Verdict,
    },
    /// Other nodes than before are to hold what belongs to a key.
    Renew {
        /// The key.
        key: NodeId,
    },
}

/// Where an owner is, and why it is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim<'a> {
    /// Rises from claim to claim: the owner's clock, in seconds since 1970, or one more than before.
    pub seq: u64,
    /// How to reach it, at most [`MAX_DETAILS`] bytes.
    pub details: &'a [u8],
    /// A certificate of [`crate::certificate`], not read here.
    pub certificate: &'a [u8],
}

/// What a holder made of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Kept, or ended.
    Taken,
    /// A newer one is kept.
    Outdated,
    /// The certificate is none that holds, or not the sender's.
    Uncertified,
    /// Every prefix has another owner, whose certificate is older.
    Owned,
    /// There is no room.
    Full,
    /// None of the prefixes belongs here.
    Elsewhere,
}

impl Verdict {
    const ALL: [Verdict; 6] =
        [Verdict::Taken, Verdict::Outdated, Verdict::Uncertified, Verdict::Owned, Verdict::Full, Verdict::Elsewhere];

    fn parse(byte: u8) -> Result<Verdict, WireError> {
        Verdict::ALL.get(usize::from(byte)).copied().ok_or(WireError::Malformed)
    }
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for too long details
    /// and unknown verdicts.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, WireError> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            CLAIM => return read_claim(&mut r).map(Message::Claim),
            WITHDRAW => Message::Withdraw { seq: r.u64()? },
            VERDICT => Message::Verdict { seq: r.u64()?, verdict: Verdict::parse(r.u8()?)? },
            RENEW => Message::Renew { key: read_id(&mut r)? },
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| message)
    }

    /// Writes the message at the start of `out`; gives the length, at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for too long details or certificates.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        match *self {
            Message::Claim(claim) => {
                w.u8(CLAIM)?;
                write_claim(&mut w, claim)?;
            }
            Message::Withdraw { seq } => {
                w.u8(WITHDRAW)?;
                w.put(&seq.to_be_bytes())?;
            }
            Message::Verdict { seq, verdict } => {
                w.u8(VERDICT)?;
                w.put(&seq.to_be_bytes())?;
                w.u8(verdict as u8)?;
            }
            Message::Renew { key } => {
                w.u8(RENEW)?;
                w.put(key.as_bytes())?;
            }
        }
        Ok(w.len())
    }
}

/// Bytes of the longest question.
pub const MAX_QUESTION: usize = 1 + NodeId::LEN + 1 + 16;

/// The body of a call to a key's root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Which nodes are to hold what belongs to this key?
    Holders(NodeId),
    /// Who owns this address?
    Owner {
        /// The key of a region that holds it.
        key: NodeId,
        /// The address.
        address: IpAddr,
    },
}

impl Question {
    /// Reads a question.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`].
    pub fn parse(bytes: &[u8]) -> Result<Question, WireError> {
        let mut r = Reader::new(bytes);
        let question = match r.u8()? {
            HOLDERS => Question::Holders(read_id(&mut r)?),
            OWNER => Question::Owner { key: read_id(&mut r)?, address: read_address(&mut r)? },
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| question)
    }

    /// Writes the question; gives its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        match *self {
            Question::Holders(key) => {
                w.u8(HOLDERS)?;
                w.put(key.as_bytes())?;
            }
            Question::Owner { key, address } => {
                w.u8(OWNER)?;
                w.put(key.as_bytes())?;
                write_address(&mut w, address)?;
            }
        }
        Ok(w.len())
    }
}

/// The body of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// These hold the key, the nearest first; also when somebody else is asked for an owner.
    Holders(Contacts<'a>),
    /// What the owner claims.
    Owner(Claim<'a>),
    /// The sender holds the key, and nobody claims the address.
    Nobody,
}

impl<'a> Reply<'a> {
    /// Reads a reply.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for too many contacts
    /// and too long details.
    pub fn parse(bytes: &'a [u8]) -> Result<Reply<'a>, WireError> {
        let mut r = Reader::new(bytes);
        let reply = match r.u8()? {
            HOLDERS => Reply::Holders(Contacts::parse(&mut r)?),
            OWNER => return read_claim(&mut r).map(Reply::Owner),
            NOBODY => Reply::Nobody,
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| reply)
    }

    /// Writes the reply; gives its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for too long details or certificates.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        match *self {
            Reply::Holders(contacts) => emit_holders(contacts, out),
            Reply::Owner(claim) => {
                let mut w = Writer::new(out);
                w.u8(OWNER)?;
                write_claim(&mut w, claim)?;
                Ok(w.len())
            }
            Reply::Nobody => {
                let mut w = Writer::new(out);
                w.u8(NOBODY)?;
                Ok(w.len())
            }
        }
    }
}

/// Writes a [`Reply::Holders`] of as many of `contacts` as there may be and there is room for; gives its length.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::Malformed`] for too long details.
pub fn emit_holders<'a>(contacts: impl Iterator<Item = Contact<'a>>, out: &mut [u8]) -> Result<usize, WireError> {
    let mut w = Writer::new(out);
    w.u8(HOLDERS)?;
    write_contacts(&mut w, contacts)?;
    Ok(w.len())
}

fn read_address(r: &mut Reader<'_>) -> Result<IpAddr, WireError> {
    match r.u8()? {
        4 => r.array::<4>().map(|octets| IpAddr::from(*octets)),
        6 => r.array::<16>().map(|octets| IpAddr::from(*octets)),
        _ => Err(WireError::UnknownType),
    }
}

fn write_address(w: &mut Writer<'_>, address: IpAddr) -> Result<(), WireError> {
    match address {
        IpAddr::V4(address) => w.u8(4).and_then(|()| w.put(&address.octets())),
        IpAddr::V6(address) => w.u8(6).and_then(|()| w.put(&address.octets())),
    }
}

/// A certificate has no length of its own: it is what is left.
fn read_claim<'a>(r: &mut Reader<'a>) -> Result<Claim<'a>, WireError> {
    let (seq, details, certificate) = (r.u64()?, read_details(r)?, r.rest());
    if certificate.len() > MAX_CERTIFICATE_LEN {
        return Err(WireError::TooLong);
    }
    Ok(Claim { seq, details, certificate })
}

fn write_claim(w: &mut Writer<'_>, claim: Claim<'_>) -> Result<(), WireError> {
    if claim.certificate.len() > MAX_CERTIFICATE_LEN {
        return Err(WireError::Malformed);
    }
    w.put(&claim.seq.to_be_bytes())?;
    write_details(w, claim.details)?;
    w.put(claim.certificate)
}
