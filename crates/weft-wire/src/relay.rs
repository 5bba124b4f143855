//! Codec of relayed datagrams, which carry another datagram and its route across relays.
//!
//! A relay checks that the previous node sealed the datagram, reads the next label of the route and forwards the
//! datagram. The inner datagram is sealed between the ends of the route, or is part of a handshake between the ends.
//! The relay has no key for the inner datagram.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use crate::hop::{HOP_HEADER_LEN, TAG_LEN};

/// Maximum number of relays on a route.
pub const MAX_RELAYS: usize = 6;
/// Length of a node's label on a route, in bytes.
pub const LABEL_LEN: usize = 4;

/// Short name of a node on a route: the first 32 bits of its id. A relay compares it with the ids of its peers only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label(pub u32);

/// The route of a relayed datagram: an explicit route, of which each relay replaces one label.
///
/// The labels name the nodes after the first relay. A relay overwrites the label of the next node with the label of the
/// node before itself. The receiver reads the labels in reverse order as the route back.
///
/// ```text
/// A → B → C → D     labels after A: [C D], position 0; after B: [A D], position 1; after C: [A B], position 2, the
///                   end. Route back from D: first C, labels [B A]
/// ```
///
/// In a datagram, the sealed labels, 4 bytes each, lie between the inner datagram and the tag. The hop header's path id
/// field holds the position on the route (high 4 bits) and the number of labels (low 4 bits). The position only grows,
/// so no datagram loops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Way {
    labels: [Label; MAX_RELAYS],
    /// Number of labels.
    len: u8,
    /// Position on the route: the index of the next node's label in `labels`, from 0.
    at: u8,
}

impl Way {
    /// Returns a route at its beginning.
    ///
    /// `after_first` lists the nodes after the first relay, the destination last.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for an empty list, [`WireError::TooLong`] for more than [`MAX_RELAYS`] labels.
    pub fn new(after_first: &[Label]) -> Result<Way, WireError> {
        let mut labels = [Label(0); MAX_RELAYS];
        labels.get_mut(..after_first.len()).ok_or(WireError::TooLong)?.copy_from_slice(after_first);
        if after_first.is_empty() {
            return Err(WireError::Malformed);
        }
        Ok(Way { labels, len: after_first.len() as u8, at: 0 })
    }

    /// Returns all labels of the route: those already replaced and those still ahead.
    pub fn labels(&self) -> &[Label] {
        self.labels.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Returns the label of the node to which the datagram must be forwarded, or `None` at the end of the route.
    pub fn next(&self) -> Option<Label> {
        self.labels().get(usize::from(self.at)).copied()
    }

    /// True if at least one relay has forwarded the datagram.
    pub fn is_begun(&self) -> bool {
        self.at > 0
    }

    /// Returns the route after it has passed one relay.
    ///
    /// `before` is the node from which that relay received the datagram.
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

    /// Returns the route back from the end. Its first node is the last relay, for which it contains no label.
    #[must_use]
    pub fn back(&self) -> Way {
        let mut way = Way { at: 0, ..*self };
        way.labels[..usize::from(self.len)].reverse();
        way
    }

    /// Returns the byte for the hop header: position on the route and number of labels.
    pub const fn code(&self) -> u8 {
        self.at << 4 | self.len
    }

    /// Returns the length of the labels of a route with this code, in bytes.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for no labels, too many labels, or a position beyond the labels.
    pub const fn labels_len(code: u8) -> Result<usize, WireError> {
        let (at, len) = (code >> 4, code & 0x0f);
        if len == 0 || len as usize > MAX_RELAYS || at > len {
            return Err(WireError::Malformed);
        }
        Ok(len as usize * LABEL_LEN)
    }

    /// Parses the labels of a route with this code from the end of `bytes`, which end before the tag.
    ///
    /// # Errors
    /// [`WireError::Truncated`], and the errors of [`Way::labels_len`].
    pub fn parse(code: u8, bytes: &[u8]) -> Result<Way, WireError> {
        let from = bytes.len().checked_sub(Way::labels_len(code)?).ok_or(WireError::Truncated)?;
        let (at, len) = (code >> 4, code & 0x0f);
        let mut r = ByteReader::new(bytes.get(from..).ok_or(WireError::Truncated)?);
        let mut labels = [Label(0); MAX_RELAYS];
        for label in labels.iter_mut().take(len.into()) {
            *label = Label(r.u32()?);
        }
        Ok(Way { labels, len, at })
    }

    /// Writes the labels at the start of `out` and returns their length.
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

/// Returns the number of bytes that relaying over `relays` relays adds to a datagram.
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
