//! Codec of prefix ownership: claims of owners, and queries for owners (paper 001 §II).
//!
//! An *owner* is the node with the hosts of a prefix. It sends its claim to the *holders*: the nodes that store claims
//! for a key. A *region* is a prefix of one of four lengths. It has a key, under which the claims for the prefixes that
//! belong to it are stored.
//!
//! ```text
//! claim     9 | seq u64 | details | certificate    owner to holder, answered by a verdict
//! withdraw 10 | seq u64                            owner to holder, answered by a verdict
//! verdict  11 | seq u64 | result                   holder to owner
//! renew    12 | key 20                             holder to owner: other nodes are the holders of this key now
//!
//! question  1 | key 20                             which nodes should be the holders of the key?
//!           2 | key 20 | address                   who owns the address, in the region with this key?
//! reply     1 | count | contacts                   holders of the key; a contact is id 20 | details
//!           2 | seq u64 | details | certificate    the owner's claim
//!           3                                      the sender is a holder of the key without a claim for the address
//! details   length | bytes, as in an introduction
//! address   4 or 6 | bytes
//! ```
//!
//! Claims, withdrawals, verdicts and renewals travel directly between two nodes that have a session. Their type numbers
//! continue those of [`crate::call`].
//! Questions and replies are the bodies of overlay calls.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::certificate::MAX_CERTIFICATE_LEN;
use crate::overlay::{Contacts, MAX_DETAILS, WireContact, read_details, read_id, write_contacts, write_details};
use core::net::IpAddr;
use weft_units::NodeId;

/// Length of the longest message between owner and holder, a claim, in bytes.
pub const MAX_MESSAGE: usize = 1 + 8 + 1 + MAX_DETAILS + MAX_CERTIFICATE_LEN;

// Message types. They continue those of `call`.
const CLAIM: u8 = 9;
const WITHDRAW: u8 = 10;
const VERDICT: u8 = 11;
const RENEW: u8 = 12;

// Kinds of questions and replies.
const HOLDERS: u8 = 1;
const OWNER: u8 = 2;
const NOBODY: u8 = 3;

/// One message between an owner and a holder: a node that stores the owner's claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimMessage<'a> {
    /// The sender owns the prefixes in its certificate.
    Claim(Claim<'a>),
    /// The sender no longer owns any prefix, so its claim must be removed.
    Withdraw {
        /// Sequence number, which is higher than that of the last claim.
        seq: u64,
    },
    /// A holder's decision about a claim or a withdrawal of the receiver.
    Verdict {
        /// Sequence number of the claim or withdrawal about which the holder decided.
        seq: u64,
        /// Decision of the holder.
        verdict: ClaimVerdict,
    },
    /// Informs the owner that other nodes now store the claims that belong to a key.
    Renew {
        /// The key whose claims other nodes now store.
        key: NodeId,
    },
}

/// An owner's address details, and the certificate that proves which prefixes it owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim<'a> {
    /// Sequence number, which rises from claim to claim.
    ///
    /// It is the owner's clock in seconds since 1970, or the previous number plus one.
    pub seq: u64,
    /// The owner's public key and addresses, at most [`MAX_DETAILS`] bytes.
    pub details: &'a [u8],
    /// The owner's encoded certificate ([`crate::certificate`]), not parsed here.
    pub certificate: &'a [u8],
}

/// A holder's decision about a claim or a withdrawal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ClaimVerdict {
    /// The holder has stored the claim, or has removed it after a withdrawal.
    Taken,
    /// The holder already stores a newer claim of this owner.
    Outdated,
    /// The certificate is invalid, or belongs to another node.
    Uncertified,
    /// Each prefix of the claim already has another owner, whose certificate is older.
    Owned,
    /// The holder's table of claims is full.
    Full,
    /// The holder is not responsible for the keys to which the claim's prefixes belong.
    Elsewhere,
}

impl ClaimVerdict {
    const ALL: [ClaimVerdict; 6] = [
        ClaimVerdict::Taken,
        ClaimVerdict::Outdated,
        ClaimVerdict::Uncertified,
        ClaimVerdict::Owned,
        ClaimVerdict::Full,
        ClaimVerdict::Elsewhere,
    ];

    fn parse(byte: u8) -> Result<ClaimVerdict, WireError> {
        ClaimVerdict::ALL.get(usize::from(byte)).copied().ok_or(WireError::Malformed)
    }
}

impl<'a> ClaimMessage<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for
    /// too long details and unknown verdicts.
    pub fn parse(bytes: &'a [u8]) -> Result<ClaimMessage<'a>, WireError> {
        let mut r = ByteReader::new(bytes);
        let message = match r.u8()? {
            CLAIM => return read_claim(&mut r).map(ClaimMessage::Claim),
            WITHDRAW => ClaimMessage::Withdraw { seq: r.u64()? },
            VERDICT => ClaimMessage::Verdict { seq: r.u64()?, verdict: ClaimVerdict::parse(r.u8()?)? },
            RENEW => ClaimMessage::Renew { key: read_id(&mut r)? },
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| message)
    }

    /// Writes the message at the start of `out` and returns its length, at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for too long details or certificates.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        match *self {
            ClaimMessage::Claim(claim) => {
                w.u8(CLAIM)?;
                write_claim(&mut w, claim)?;
            }
            ClaimMessage::Withdraw { seq } => {
                w.u8(WITHDRAW)?;
                w.put(&seq.to_be_bytes())?;
            }
            ClaimMessage::Verdict { seq, verdict } => {
                w.u8(VERDICT)?;
                w.put(&seq.to_be_bytes())?;
                w.u8(verdict as u8)?;
            }
            ClaimMessage::Renew { key } => {
                w.u8(RENEW)?;
                w.put(key.as_bytes())?;
            }
        }
        Ok(w.len())
    }
}

/// Length of the longest question, in bytes.
pub const MAX_QUESTION: usize = 1 + NodeId::LEN + 1 + 16;

/// A question to the root of a key, sent as the body of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnershipQuestion {
    /// Asks which nodes should store the claims that belong to this key.
    Holders(NodeId),
    /// Asks for the owner of an address.
    Owner {
        /// Key of the region in which the address lies, for example of its /24, under which claims are stored.
        key: NodeId,
        /// The address for which the owner is wanted.
        address: IpAddr,
    },
}

impl OwnershipQuestion {
    /// Parses a question.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`].
    pub fn parse(bytes: &[u8]) -> Result<OwnershipQuestion, WireError> {
        let mut r = ByteReader::new(bytes);
        let question = match r.u8()? {
            HOLDERS => OwnershipQuestion::Holders(read_id(&mut r)?),
            OWNER => OwnershipQuestion::Owner { key: read_id(&mut r)?, address: read_address(&mut r)? },
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| question)
    }

    /// Writes the question and returns its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        match *self {
            OwnershipQuestion::Holders(key) => {
                w.u8(HOLDERS)?;
                w.put(key.as_bytes())?;
            }
            OwnershipQuestion::Owner { key, address } => {
                w.u8(OWNER)?;
                w.put(key.as_bytes())?;
                write_address(&mut w, address)?;
            }
        }
        Ok(w.len())
    }
}

/// A reply to an [`OwnershipQuestion`], sent as the body of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// The nodes that store the claims that belong to the key, nearest first.
    ///
    /// A node that does not store these claims also sends this reply to a query for an owner.
    Holders(Contacts<'a>),
    /// The claim of the address's owner.
    Owner(Claim<'a>),
    /// The sender is a holder of the key, but stores no claim for the address.
    Nobody,
}

impl<'a> Reply<'a> {
    /// Parses a reply.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for
    /// too many contacts and too long details.
    pub fn parse(bytes: &'a [u8]) -> Result<Reply<'a>, WireError> {
        let mut r = ByteReader::new(bytes);
        let reply = match r.u8()? {
            HOLDERS => Reply::Holders(Contacts::parse(&mut r)?),
            OWNER => return read_claim(&mut r).map(Reply::Owner),
            NOBODY => Reply::Nobody,
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| reply)
    }

    /// Writes the reply and returns its length.
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

/// Writes a [`Reply::Holders`] and returns its length.
///
/// It takes the first [`MAX_CONTACTS`](crate::overlay::MAX_CONTACTS) of `contacts`, or fewer if they do not fit.
///
/// # Errors
/// [`WireError::NoRoom`], or [`WireError::Malformed`] for too long details.
pub fn emit_holders<'a>(contacts: impl Iterator<Item = WireContact<'a>>, out: &mut [u8]) -> Result<usize, WireError> {
    let mut w = Writer::new(out);
    w.u8(HOLDERS)?;
    write_contacts(&mut w, contacts)?;
    Ok(w.len())
}

fn read_address(r: &mut ByteReader<'_>) -> Result<IpAddr, WireError> {
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

/// Parses a claim. The certificate has no length field: it fills the rest of the message.
fn read_claim<'a>(r: &mut ByteReader<'a>) -> Result<Claim<'a>, WireError> {
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
