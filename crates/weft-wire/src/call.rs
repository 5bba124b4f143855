//! Codec of overlay calls: small requests that nodes forward to a key's root, and the answers.
//!
//! ```text
//! call    7 | header | number u32 | application u16 | body
//! answer  8 | header | number u32 | body
//! header  key 20 | source 20 | run u32 | seq u32 | hops left u8 | flags
//! ```
//!
//! The root of a key is the node with the nearest id. Type numbers continue those of [`crate::overlay`].
//! The key of an answer is the caller's node id, because each node is the root of its own id.
//! Only adjacent nodes authenticate each other. Every forwarding node can change the `source` of a header, so a
//! receiver must not trust the `source`.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use weft_units::NodeId;

/// Maximum length of the body of a call or answer, in bytes.
pub const MAX_BODY: usize = 1_024;
/// Length of the longest call or answer, in bytes.
pub const MAX_MESSAGE: usize = 1 + HEADER_LEN + 4 + 2 + MAX_BODY;

/// Length of the header of a call or answer, in bytes.
const HEADER_LEN: usize = 2 * NodeId::LEN + 4 + 4 + 1 + 1;
/// Lowest message type of this codec. All types that were assigned later are higher.
pub const FIRST_TYPE: u8 = CALL;
/// Message type of a call.
const CALL: u8 = 7;
/// Message type of an answer.
const ANSWER: u8 = 8;
/// Flag bit of [`Header::was_duplicated`].
const WAS_DUPLICATED: u8 = 1;

/// Header of a call or an answer, by which nodes forward the message. The parser ignores unknown flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Destination: nodes forward the message to the node whose id is nearest to this key.
    pub key: NodeId,
    /// The node that created the message.
    pub source: NodeId,
    /// Number of the run of the source's program. It rises with each start of that program.
    pub run: u32,
    /// Number of the message in that run, which the source assigns.
    pub seq: u32,
    /// Number of nodes that may still forward the message.
    pub hops_left: u8,
    /// True if a node on the route has sent the message twice. This happens at most once per message.
    pub was_duplicated: bool,
}

/// A call or an answer in transit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallMessage<'a> {
    /// The header, by which nodes forward the message.
    pub header: Header,
    /// Number that the caller assigned to the call. The answer repeats it.
    pub number: u32,
    /// Call or answer.
    pub kind: CallKind,
    /// Application data, at most [`MAX_BODY`] bytes.
    pub body: &'a [u8],
}

/// Distinguishes a call from an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// A request to the root of the key: the overlay node whose id is nearest to the key.
    Call {
        /// Number of the application at the root that receives the body.
        application: u16,
    },
    /// A reply to the caller.
    Answer,
}

impl<'a> CallMessage<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::UnknownType`], or [`WireError::TooLong`] if the body exceeds
    /// [`MAX_BODY`].
    pub fn parse(bytes: &'a [u8]) -> Result<CallMessage<'a>, WireError> {
        let mut r = ByteReader::new(bytes);
        let is_call = match r.u8()? {
            CALL => true,
            ANSWER => false,
            _ => return Err(WireError::UnknownType),
        };
        let (header, number) = (read_header(&mut r)?, r.u32()?);
        let kind = if is_call { CallKind::Call { application: r.u16()? } } else { CallKind::Answer };
        let body = r.rest();
        if body.len() > MAX_BODY { Err(WireError::TooLong) } else { Ok(CallMessage { header, number, kind, body }) }
    }

    /// Writes the message at the start of `out` and returns its length, at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::TooLong`] if the body exceeds [`MAX_BODY`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if self.body.len() > MAX_BODY {
            return Err(WireError::TooLong);
        }
        let mut w = Writer::new(out);
        w.u8(if self.kind == CallKind::Answer { ANSWER } else { CALL })?;
        write_header(&mut w, &self.header)?;
        w.u32(self.number)?;
        if let CallKind::Call { application } = self.kind {
            w.u16(application)?;
        }
        w.put(self.body)?;
        Ok(w.len())
    }
}

fn read_header(r: &mut ByteReader<'_>) -> Result<Header, WireError> {
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
