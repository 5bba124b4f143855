//! Calls: a few bytes to the node that is a key's root, and its answer, handed on from node to node of the overlay.
//!
//! ```text
//! call    7 | header | number u32 | application u16 | body
//! answer  8 | header | number u32 | body
//! header  key 20 | source 20 | run u32 | seq u32 | hops left u8 | flags
//! ```
//!
//! Types go on where those of [`crate::overlay`] end. An answer's key is the caller's identifier: a node is the root of its own.
//! Only neighbours are authenticated to each other: what a header says of its source is what those on the way say.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use weft_units::NodeId;

/// The most bytes of a body.
pub const MAX_BODY: usize = 1_024;
/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = 1 + HEADER_LEN + 4 + 2 + MAX_BODY;

const HEADER_LEN: usize = 2 * NodeId::LEN + 4 + 4 + 1 + 1;
/// The first byte of these messages, and of all that were numbered after them.
pub const FIRST_TYPE: u8 = CALL;
const CALL: u8 = 7;
const ANSWER: u8 = 8;
const WAS_DUPLICATED: u8 = 1;

/// What a packet on its way carries for the overlay. Flags not known are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Where to: to the node nearest to it.
    pub key: NodeId,
    /// The node that made the packet.
    pub source: NodeId,
    /// Which start of the source's program it is of; rises.
    pub run: u32,
    /// Counted by the source.
    pub seq: u32,
    /// How many nodes may still forward it.
    pub hops_left: u8,
    /// It was sent twice on its way, which happens once at most.
    pub was_duplicated: bool,
}

/// A call or its answer, on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// Where it comes from and goes to.
    pub header: Header,
    /// The caller's number of the call.
    pub number: u32,
    /// Which of the two.
    pub kind: Kind,
    /// At most [`MAX_BODY`] bytes.
    pub body: &'a [u8],
}

/// A call, or its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// For the root of the key.
    Call {
        /// Who is to read the body there.
        application: u16,
    },
    /// For the caller.
    Answer,
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::UnknownType`], or [`WireError::TooLong`] for a longer body than there may be.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, WireError> {
        let mut r = Reader::new(bytes);
        let is_call = match r.u8()? {
            CALL => true,
            ANSWER => false,
            _ => return Err(WireError::UnknownType),
        };
        let (header, number) = (read_header(&mut r)?, r.u32()?);
        let kind = if is_call { Kind::Call { application: r.u16()? } } else { Kind::Answer };
        let body = r.rest();
        if body.len() > MAX_BODY { Err(WireError::TooLong) } else { Ok(Message { header, number, kind, body }) }
    }

    /// Writes the message at the start of `out`; gives the length, at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::TooLong`] for a longer body than there may be.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if self.body.len() > MAX_BODY {
            return Err(WireError::TooLong);
        }
        let mut w = Writer::new(out);
        w.u8(if self.kind == Kind::Answer { ANSWER } else { CALL })?;
        write_header(&mut w, &self.header)?;
        w.u32(self.number)?;
        if let Kind::Call { application } = self.kind {
            w.u16(application)?;
        }
        w.put(self.body)?;
        Ok(w.len())
    }
}

fn read_header(r: &mut Reader<'_>) -> Result<Header, WireError> {
    Ok(Header {
        key: NodeId::new(*r.array()?),
        source: NodeId::new(*r.array()?),
        run: r.u32()?,
        seq: r.u32()?,
        hops_left: r.u8()?,
        was_duplicated: r.u8()? & WAS_DUPLICATED != 0,
    })
}

fn write_header(w: &mut Writer<'_>, header: &Header) -> Result<(), WireError> {
    w.put(header.key.as_bytes())?;
    w.put(header.source.as_bytes())?;
    w.u32(header.run)?;
    w.u32(header.seq)?;
    w.put(&[header.hops_left, if header.was_duplicated { WAS_DUPLICATED } else { 0 }])
}
