//! What nodes of the overlay tell each other about it: probes, and questions for other nodes (SPECS §6, after Chimera).
//!
//! A message fills its datagram's payload. What it is about is bounded: [`MAX_CONTACTS`] contacts of [`MAX_DETAILS`] bytes.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use weft_units::NodeId;

/// The most contacts in one message.
pub const MAX_CONTACTS: usize = 16;
/// The most bytes of a contact's details: a public key and four addresses of either family.
pub const MAX_DETAILS: usize = 32 + 4 * 19;
/// Bytes of the longest message.
pub const MAX_MESSAGE: usize = FOUND_LEN + MAX_CONTACTS * (NodeId::LEN + 1 + MAX_DETAILS);

const FOUND_LEN: usize = 1 + 1 + ROW_LEN + 1 + 1;
const ROW_LEN: usize = NodeId::LEN + 1 + 2;

const PROBE: u8 = 1;
const INTRODUCTION: u8 = 2;
const ECHO: u8 = 3;
const FIND: u8 = 4;
const FOUND: u8 = 5;
const LEAVE: u8 = 6;

const NEAR: u8 = 1;
const ROW: u8 = 2;

/// One message to an adjacent node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Asks for an echo with the same number.
    Probe {
        /// Counted per neighbour.
        seq: u32,
    },
    /// A probe of a node that may not know the sender yet.
    Introduction {
        /// As a probe's.
        seq: u32,
        /// How the sender can be reached, at most [`MAX_DETAILS`] bytes.
        details: &'a [u8],
    },
    /// Answers a probe.
    Echo {
        /// The probe's number.
        seq: u32,
        /// What has become of the sender.
        state: NodeState,
    },
    /// Asks which nodes the receiver uses itself.
    Find(Query),
    /// Answers a question.
    Found {
        /// The question.
        query: Query,
        /// [`NodeState::leaf_news`] or [`NodeState::table_news`] when it was answered, by the question's kind.
        news: u8,
        /// Nodes the sender uses itself.
        contacts: Contacts<'a>,
    },
    /// The sender goes away.
    Leave,
}

/// What a node says about itself with each echo. Flags not known are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeState {
    /// It knows its place: packets may be routed by it.
    pub is_ready: bool,
    /// Counts the changes of its leaf set.
    pub leaf_news: u8,
    /// Counts the changes of its table.
    pub table_news: u8,
}

/// Which nodes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// Those nearest to a place on the ring, on either side.
    Near(NodeId),
    /// Those of some columns of a row of a node's table.
    Row {
        /// Whose table: nodes that begin with its first `row` digits are asked for.
        of: NodeId,
        /// Below [`NodeId::DIGITS`].
        row: u8,
        /// The wanted values of the next digit: bit n for n.
        columns: u16,
    },
}

/// A node, and how it can be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contact<'a> {
    /// The node.
    pub id: NodeId,
    /// Its public key and addresses, for the layer below; at most [`MAX_DETAILS`] bytes.
    pub details: &'a [u8],
}

/// Contacts that were checked when they were parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contacts<'a> {
    left: usize,
    encoded: &'a [u8],
}

impl<'a> Iterator for Contacts<'a> {
    type Item = Contact<'a>;

    fn next(&mut self) -> Option<Contact<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut r = Reader::new(self.encoded);
        let contact = read_contact(&mut r).ok()?;
        self.encoded = r.rest();
        Some(contact)
    }
}

impl<'a> Contacts<'a> {
    pub(crate) fn parse(r: &mut Reader<'a>) -> Result<Contacts<'a>, WireError> {
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

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::TooLong`], [`WireError::UnknownType`], or [`WireError::Malformed`] for too many contacts,
    /// too long details, or a row that is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, WireError> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            PROBE => Message::Probe { seq: r.u32()? },
            INTRODUCTION => Message::Introduction { seq: r.u32()?, details: read_details(&mut r)? },
            ECHO => {
                let (seq, flags) = (r.u32()?, r.u8()?);
                let state = NodeState { is_ready: flags & 1 != 0, leaf_news: r.u8()?, table_news: r.u8()? };
                Message::Echo { seq, state }
            }
            FIND => Message::Find(read_query(&mut r)?),
            FOUND => {
                let (query, news) = (read_query(&mut r)?, r.u8()?);
                Message::Found { query, news, contacts: Contacts::parse(&mut r)? }
            }
            LEAVE => Message::Leave,
            _ => return Err(WireError::UnknownType),
        };
        r.end().map(|()| message)
    }

    /// Writes the message at the start of `out`; gives the length, at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`WireError::NoRoom`], or [`WireError::Malformed`] for what [`Message::parse`] would refuse.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        match *self {
            Message::Probe { seq } => {
                w.u8(PROBE)?;
                w.u32(seq)?;
            }
            Message::Introduction { seq, details } => {
                w.u8(INTRODUCTION)?;
                w.u32(seq)?;
                write_details(&mut w, details)?;
            }
            Message::Echo { seq, state } => {
                w.u8(ECHO)?;
                w.u32(seq)?;
                w.put(&[state.is_ready.into(), state.leaf_news, state.table_news])?;
            }
            Message::Find(query) => {
                w.u8(FIND)?;
                write_query(&mut w, query)?;
            }
            Message::Found { query, news, contacts } => return emit_found(query, news, contacts, out),
            Message::Leave => w.u8(LEAVE)?,
        }
        Ok(w.len())
    }
}

/// Writes a [`Message::Found`] of the first [`MAX_CONTACTS`] of `contacts`, or as many as there is room for; gives the length.
///
/// # Errors
/// [`WireError::NoRoom`] when not even the question fits; [`WireError::Malformed`] for too long details or a row that is none.
pub fn emit_found<'a>(
    query: Query,
    news: u8,
    contacts: impl Iterator<Item = Contact<'a>>,
    out: &mut [u8],
) -> Result<usize, WireError> {
    let mut w = Writer::new(out);
    w.u8(FOUND)?;
    write_query(&mut w, query)?;
    w.u8(news)?;
    write_contacts(&mut w, contacts)?;
    Ok(w.len())
}

/// Writes how many contacts follow, and the contacts: as many as there may be and there is room for.
pub(crate) fn write_contacts<'a>(
    w: &mut Writer<'_>,
    contacts: impl Iterator<Item = Contact<'a>>,
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

pub(crate) fn read_id(r: &mut Reader<'_>) -> Result<NodeId, WireError> {
    r.array().map(|bytes| NodeId::new(*bytes))
}

fn read_contact<'a>(r: &mut Reader<'a>) -> Result<Contact<'a>, WireError> {
    Ok(Contact { id: read_id(r)?, details: read_details(r)? })
}

pub(crate) fn read_details<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], WireError> {
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

fn read_query(r: &mut Reader<'_>) -> Result<Query, WireError> {
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
