//! Relayed datagrams: a datagram within a datagram, and the way it has before and behind it.
//!
//! A relay authenticates the hop, looks at the way and passes the datagram on. What is within is sealed between the ends of the
//! way, or a handshake of theirs; the relay has no key for it.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use crate::hop::{HOP_HEADER_LEN, TAG_LEN};

/// The most relays on a way.
pub const MAX_RELAYS: usize = 6;
/// Bytes of a node's label.
pub const LABEL_LEN: usize = 4;

/// How a node is named on a way: the first 32 bits of its id. A relay looks for it among its own peers only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label(pub u32);

/// The way of a relayed datagram, segment by segment, as in an explicit route: of the nodes after the first relay those still ahead, and in
/// the place of those passed the nodes before the relays. Read from its end by who receives it, it is the way back.
///
/// ```text
/// A → B → C → D     leaves A [C D] at 0, leaves B [A D] at 1, leaves C [A B] at 2: the end; back via C, [B A]
/// ```
///
/// In a datagram: the labels, 4 bytes each, sealed, between what is within and the tag; in the clear, in the place of the hop header's path
/// id, the place on the way (high 4 bits) and the number of labels (low 4 bits). The place only grows, so no datagram goes in circles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way {
    labels: [Label; MAX_RELAYS],
    len: u8,
    at: u8,
}

impl Way {
    /// A way at its begin: the nodes after the first relay, the destination last.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for none, [`WireError::TooLong`] for more than [`MAX_RELAYS`].
    pub fn new(after_first: &[Label]) -> Result<Way, WireError> {
        let mut labels = [Label(0); MAX_RELAYS];
        labels.get_mut(..after_first.len()).ok_or(WireError::TooLong)?.copy_from_slice(after_first);
        if after_first.is_empty() {
            return Err(WireError::Malformed);
        }
        Ok(Way { labels, len: after_first.len() as u8, at: 0 })
    }

    /// Its labels, passed or ahead.
    pub fn labels(&self) -> &[Label] {
        self.labels.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The node to pass the datagram on to; none at the end of the way.
    pub fn next(&self) -> Option<Label> {
        self.labels().get(usize::from(self.at)).copied()
    }

    /// Whether a relay has passed it on.
    pub fn is_begun(&self) -> bool {
        self.at > 0
    }

    /// One segment on, at a relay that had the datagram from `before`.
    #[must_use]
    pub fn passed(mut self, before: Label) -> Way {
        if self.at < self.len
            && let Some(label) = self.labels.get_mut(usize::from(self.at))
        {
            *label = before;
            self.at += 1;
        }
        self
    }

    /// The way back from its end, for the node that is reached before all others: the last relay.
    #[must_use]
    pub fn back(&self) -> Way {
        let mut way = Way { at: 0, ..*self };
        way.labels[..usize::from(self.len)].reverse();
        way
    }

    /// The byte in the hop header: the place on the way, and the number of labels.
    pub const fn code(&self) -> u8 {
        self.at << 4 | self.len
    }

    /// Bytes of the labels of a way with this code.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for no label, too many, or a place beyond them.
    pub const fn labels_len(code: u8) -> Result<usize, WireError> {
        let (at, len) = (code >> 4, code & 0x0f);
        if len == 0 || len as usize > MAX_RELAYS || at > len {
            return Err(WireError::Malformed);
        }
        Ok(len as usize * LABEL_LEN)
    }

    /// Reads the labels of a way with this code at the end of `bytes`, which end before the tag.
    ///
    /// # Errors
    /// [`WireError::Truncated`], and those of [`Way::labels_len`].
    pub fn parse(code: u8, bytes: &[u8]) -> Result<Way, WireError> {
        let from = bytes.len().checked_sub(Way::labels_len(code)?).ok_or(WireError::Truncated)?;
        let (at, len) = (code >> 4, code & 0x0f);
        let mut r = Reader::new(bytes.get(from..).ok_or(WireError::Truncated)?);
        let mut labels = [Label(0); MAX_RELAYS];
        for label in labels.iter_mut().take(len.into()) {
            *label = Label(r.u32()?);
        }
        Ok(Way { labels, len, at })
    }

    /// Writes its labels at the start of `out`; gives their length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        let mut w = Writer::new(out);
        for label in self.labels() {
            w.u32(label.0)?;
        }
        Ok(w.len())
    }
}

/// Bytes that relaying adds to a datagram over so many relays.
pub const fn overhead(relays: usize) -> usize {
    HOP_HEADER_LEN + relays * LABEL_LEN + TAG_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop::DATA_OVERHEAD;

    const A: Label = Label(0xaaaa_0001);
    const B: Label = Label(0xbbbb_0002);
    const C: Label = Label(0xcccc_0003);
    const D: Label = Label(0xdddd_0004);

    #[test]
    fn a_way_turns_into_the_way_back() {
        let way = Way::new(&[C, D]).unwrap();
        let at_end = way.passed(A).passed(B);
        assert_eq!((way.next(), way.passed(A).next(), at_end.next()), (Some(C), Some(D), None));
        assert_eq!(at_end.back(), Way::new(&[B, A]).unwrap());
        assert_eq!(at_end.passed(C), at_end, "there is nothing after the end");
    }

    #[test]
    fn its_labels_are_at_the_end() {
        let way = Way::new(&[C, D]).unwrap().passed(A);
        let mut bytes = [0xee; 16];
        let len = way.emit(&mut bytes[8..]).unwrap();
        assert_eq!((way.code(), len, &bytes[8..]), (0x12, 8, &[0xaa, 0xaa, 0, 1, 0xdd, 0xdd, 0, 4][..]));
        assert_eq!(Way::parse(0x12, &bytes), Ok(way));
        assert_eq!(way.emit(&mut bytes[9..]), Err(WireError::NoRoom));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Way::new(&[]), Err(WireError::Malformed));
        assert_eq!(Way::new(&[A; MAX_RELAYS + 1]), Err(WireError::TooLong));
        assert_eq!(Way::parse(0x01, &[0; 3]), Err(WireError::Truncated));
        for code in [0x00, 0x21, 0x07, 0x0f, 0xff] {
            assert_eq!(Way::parse(code, &[0; 64]), Err(WireError::Malformed), "{code:#x}");
        }
    }

    #[test]
    fn relayed_over_ipv4_a_full_datagram_has_ninety_bytes_beside_the_payload() {
        assert_eq!(20 + 8 + overhead(1) + DATA_OVERHEAD, 90);
    }
}
