//! Codec of overlay maintenance messages: probes of neighbours, and queries for other nodes.
//!
//! The protocol follows Chimera, the overlay of paper 001. Each message is the content of one OVERLAY frame. A message
//! has at most [`MAX_CONTACTS`] contacts of [`MAX_DETAILS`] bytes.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use weft_units::NodeId;

/// Maximum number of contacts in one message.
pub const MAX_CONTACTS: usize = 16;
/// Maximum length of a contact's details, in bytes. Derived: a public key and four addresses of either family.
pub const MAX_DETAILS: usize = 32 + 4 * 19;
/// Length of the longest overlay maintenance message, in bytes.
pub const MAX_MESSAGE: usize = FOUND_LEN + MAX_CONTACTS * (NodeId::LEN + 1 + MAX_DETAILS);

/// Length of a [`OverlayMessage::Found`] before its contacts, in bytes.
const FOUND_LEN: usize = 1 + 1 + ROW_LEN + 1 + 1;
/// Length of the body of a [`Query::Row`], in bytes.
const ROW_LEN: usize = NodeId::LEN + 1 + 2;

// Message types. `call::FIRST_TYPE` is the next free one.
const PROBE: u8 = 1;
const INTRODUCTION: u8 = 2;
const ECHO: u8 = 3;
const FIND: u8 = 4;
const FOUND: u8 = 5;
const LEAVE: u8 = 6;

// Kinds of queries.
const NEAR: u8 = 1;
const ROW: u8 = 2;

/// One message to an adjacent node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverlayMessage<'a> {
    /// Requests an echo with the same number.
    Probe {
        /// Number of the probe, counted separately for each neighbour.
        seq: u32,
    },
    /// A probe of a node that may not have the sender's public key and addresses yet.
    Introduction {
        /// Number of the probe, counted for each neighbour together with other probes.
        seq: u32,
        /// The sender's public key and addresses, at most [`MAX_DETAILS`] bytes.
        details: &'a [u8],
    },
    /// Answers a [`OverlayMessage::Probe`] or an [`OverlayMessage::Introduction`].
    Echo {
        /// Number of the probe that is answered.
        seq: u32,
        /// State of the node that sends the echo.
        state: NodeState,
    },
    /// Requests the ids and addresses of nodes from the receiver's tables.
    Find(Query),
    /// Answers a [`OverlayMessage::Find`].
    Found {
        /// The query that is answered.
        query: Query,
        /// Number of changes that the answering node's table had seen when it answered, modulo 256.
        ///
        /// It is [`NodeState::leaf_news`] or [`NodeState::table_news`], depending on the kind of query.
        news: u8,
        /// Nodes from the sender's own tables.
        contacts: Contacts<'a>,
    },
    /// The sender is about to leave the overlay.
    Leave,
}

/// State that a node reports about itself in each echo. Unknown flags are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeState {
    /// True if the node has joined the overlay: it has found its neighbours. Other nodes may then route over it.
    pub is_ready: bool,
    /// Number of changes of its leaf set (the nodes with the nearest ids) since its start, modulo 256.
    pub leaf_news: u8,
    /// Number of changes of its routing table since its start, modulo 256.
    pub table_news: u8,
}

/// Selects the nodes that a query asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// The nodes whose ids are nearest to an id on the ring, on both sides.
    Near(NodeId),
    /// The nodes in certain columns of one row of a node's routing table.
    Row {
        /// The node whose table row is wanted. All matching nodes have the same first `row` digits in their ids.
        of: NodeId,
        /// Row number in the routing table, from 0, below [`NodeId::DIGITS`].
        row: u8,
        /// Bit mask of the wanted values of the next digit: bit n stands for the digit n.
        columns: u16,
    },
}

/// A node's id, and how to reach the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireContact<'a> {
    /// Id of the node.
    pub id: NodeId,
    /// Public key and addresses of the node, at most [`MAX_DETAILS`] bytes. The overlay does not interpret them.
    pub details: &'a [u8],
}

/// Iterator over the contacts in a message, which the parser has checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contacts<'a> {
    /// Number of contacts left in `encoded`.
    left: usize,
    encoded: &'a [u8],
}

impl<'a> Iterator for Contacts<'a> {
    type Item = WireContact<'a>;

    fn next(&mut self) -> Option<WireContact<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut r = ByteReader::new(self.encoded);
        let contact = read_contact(&mut r).ok()?;
        self.encoded = r.rest();
        Some(contact)
    }
}

impl<'a> Contacts<'a> {
    pub(crate) fn parse(r: &mut ByteReader<'a>) -> Result<Contacts<'a>, WireError> {
        let left = usize::from(r.u8()?);
        if left > MAX_CONTACTS {
            return Err(WireError::Malformed);
        }
        let encoded = r.rest();
        for _ in 0..left {
            read_contact(r)?;
        }
        let len = encoded.len() - r.rest().len();
        Ok(Contacts { left, encoded: encoded.get(..len).unwrap_or_default() })
    }
}

impl<'a> OverlayMessage<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for
    /// too many contacts, too long details, or an invalid row.
    pub fn parse(bytes: &'a [u8]) -> Result<OverlayMessage<'a>, WireError> {
        let mut r = ByteReader::new(bytes);
        let message = match r.u8()? {
            PROBE => OverlayMessage::Probe { seq: r.u32()? },
            INTRODUCTION => OverlayMessage::Introduction { seq: r.u32()?, details: read_details(&mut r)? },
            ECHO => {
                let (seq, flags) = (r.u32()?, r.u8()?);
                let state = NodeState { is_ready: flags & 1 != 0, leaf_news: r.u8()?, table_news: r.u8()? };
                OverlayMessage::Echo { seq, state }
            }
            FIND => OverlayMessage::Find(read_query(&mut r)?),
            FOUND => {
                let (query, news) = (read_query(&mut r)?, r.u8()?);
                OverlayMessage::Found { query, news, contacts: Contacts::parse(&mut r)? }
            }
            LEAVE => OverlayMessage::Leave,
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| message)
    }

    /// Writes the message at the start of `out` and returns its length, at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for a message that [`OverlayMessage::parse`] would reject.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        match *self {
            OverlayMessage::Probe { seq } => {
                w.u8(PROBE)?;
                w.u32(seq)?;
            }
            OverlayMessage::Introduction { seq, details } => {
                w.u8(INTRODUCTION)?;
                w.u32(seq)?;
                write_details(&mut w, details)?;
            }
            OverlayMessage::Echo { seq, state } => {
                w.u8(ECHO)?;
                w.u32(seq)?;
                w.put(&[state.is_ready.into(), state.leaf_news, state.table_news])?;
            }
            OverlayMessage::Find(query) => {
                w.u8(FIND)?;
                write_query(&mut w, query)?;
            }
            OverlayMessage::Found { query, news, contacts } => return emit_found(query, news, contacts, out),
            OverlayMessage::Leave => w.u8(LEAVE)?,
        }
        Ok(w.len())
    }
}

/// Writes a [`OverlayMessage::Found`] and returns its length.
///
/// It takes the first [`MAX_CONTACTS`] of `contacts`, or fewer if they do not fit.
///
/// # Errors
/// [`WireError::NoRoom`] if not even the query fits; [`WireError::Malformed`] for too long details or an invalid row.
pub fn emit_found<'a>(
    query: Query,
    news: u8,
    contacts: impl Iterator<Item = WireContact<'a>>,
    out: &mut [u8],
) -> Result<usize, WireError> {
    let mut w = Writer::new(out);
    w.u8(FOUND)?;
    write_query(&mut w, query)?;
    w.u8(news)?;
    write_contacts(&mut w, contacts)?;
    Ok(w.len())
}

/// Writes the number of contacts, and the contacts: at most [`MAX_CONTACTS`], and no more than fit.
pub(crate) fn write_contacts<'a>(
    w: &mut Writer<'_>,
    contacts: impl Iterator<Item = WireContact<'a>>,
) -> Result<(), WireError> {
    let count_at = w.len();
    w.u8(0)?;
    let mut count = 0;
    for contact in contacts.take(MAX_CONTACTS) {
        let before = w.len();
        match w.put(contact.id.as_bytes()).and_then(|()| write_details(w, contact.details)) {
            Ok(()) => count += 1,
            Err(WireError::NoRoom) => {
                w.truncate(before);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    w.patch(count_at, &[count])
}

pub(crate) fn read_id(r: &mut ByteReader<'_>) -> Result<NodeId, WireError> {
    r.array().map(|bytes| NodeId::new(*bytes))
}

fn read_contact<'a>(r: &mut ByteReader<'a>) -> Result<WireContact<'a>, WireError> {
    Ok(WireContact { id: read_id(r)?, details: read_details(r)? })
}

pub(crate) fn read_details<'a>(r: &mut ByteReader<'a>) -> Result<&'a [u8], WireError> {
    let len = usize::from(r.u8()?);
    if len > MAX_DETAILS {
        return Err(WireError::Malformed);
    }
    r.slice(len)
}

pub(crate) fn write_details(w: &mut Writer<'_>, details: &[u8]) -> Result<(), WireError> {
    let len = u8::try_from(details.len()).ok().filter(|len| usize::from(*len) <= MAX_DETAILS);
    w.u8(len.ok_or(WireError::Malformed)?)?;
    w.put(details)
}

fn read_query(r: &mut ByteReader<'_>) -> Result<Query, WireError> {
    match r.u8()? {
        NEAR => Ok(Query::Near(read_id(r)?)),
        ROW => Ok(Query::Row { of: read_id(r)?, row: row(r.u8()?)?, columns: r.u16()? }),
        _ => Err(WireError::UnknownType),
    }
}

fn write_query(w: &mut Writer<'_>, query: Query) -> Result<(), WireError> {
    match query {
        Query::Near(target) => {
            w.u8(NEAR)?;
            w.put(target.as_bytes())
        }
        Query::Row { of, row: number, columns } => {
            w.u8(ROW)?;
            w.put(of.as_bytes())?;
            w.u8(row(number)?)?;
            w.u16(columns)
        }
    }
}

fn row(number: u8) -> Result<u8, WireError> {
    if usize::from(number) < NodeId::DIGITS { Ok(number) } else { Err(WireError::Malformed) }
}
