//! The encrypted bytes in front of a payload: which unit of which flow it is and, in a data part, which part.

use crate::WireError;
use crate::bytes::{Reader, Writer};
use weft_units::{FlowId, FlowSeq};

/// Bytes of the inner header.
pub const INNER_LEN: usize = 6;
/// The largest index of a tail slice: a head and its tails are at most 32 units.
pub const MAX_SLICE_INDEX: u8 = 31;

/// What a data payload holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum UnitKind {
    /// A whole IP packet, checksums complete.
    Packet = 0,
    /// A whole IP packet whose TCP or UDP checksum is the pseudo-header sum, for the egress kernel to finish.
    PartialPacket = 1,
    /// A super-packet's header and its first `gso_size` bytes.
    HeadSlice = 2,
    /// The next `gso_size` bytes of a super-packet, without a header.
    TailSlice = 3,
}

/// How the packet's own header is sent. A tail slice has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum HeaderForm {
    /// As it is.
    #[default]
    Whole = 0,
    /// As it is. The receiver keeps it for differences from it.
    Reference = 1,
    /// The sequence number of the flow's unit that carried the reference, and the difference from that.
    Difference = 2,
}

/// Bytes that name a reference.
pub const REFERENCE_LEN: usize = 3;

/// Reads which unit carried the reference of a difference; gives what follows too.
///
/// # Errors
/// [`WireError::Truncated`].
pub fn parse_reference(bytes: &[u8]) -> Result<(FlowSeq, &[u8]), WireError> {
    let mut r = Reader::new(bytes);
    Ok((FlowSeq::new(r.u24()?), r.rest()))
}

/// Writes the same at the start of `out`; gives the rest of it.
///
/// # Errors
/// [`WireError::NoRoom`].
pub fn emit_reference(unit: FlowSeq, out: &mut [u8]) -> Result<&mut [u8], WireError> {
    let (name, rest) = out.split_at_mut_checked(REFERENCE_LEN).ok_or(WireError::NoRoom)?;
    Writer::new(name).u24(unit.get())?;
    Ok(rest)
}

/// The inner header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InnerHeader {
    /// What the payload is.
    pub kind: UnitKind,
    /// Nothing of the same super-packet follows. True for whole packets, false for head slices.
    pub last: bool,
    /// The slice's place after its head, 1..=31 for tail slices, otherwise 0.
    pub index: u8,
    /// How the packet's own header is sent.
    pub form: HeaderForm,
    /// The ingress edge's number for the flow.
    pub flow: FlowId,
    /// The unit's number in the flow.
    pub seq: FlowSeq,
}

impl InnerHeader {
    /// The header of a whole packet.
    pub const fn packet(checksum_partial: bool, flow: FlowId, seq: FlowSeq) -> InnerHeader {
        let kind = if checksum_partial { UnitKind::PartialPacket } else { UnitKind::Packet };
        InnerHeader { kind, last: true, index: 0, form: HeaderForm::Whole, flow, seq }
    }

    /// The header of a head slice.
    pub const fn head(flow: FlowId, seq: FlowSeq) -> InnerHeader {
        InnerHeader { kind: UnitKind::HeadSlice, last: false, index: 0, form: HeaderForm::Whole, flow, seq }
    }

    /// The header of the tail slice `index` (1..=31) units after its head.
    pub const fn tail(index: u8, last: bool, flow: FlowId, seq: FlowSeq) -> InnerHeader {
        InnerHeader { kind: UnitKind::TailSlice, last, index, form: HeaderForm::Whole, flow, seq }
    }

    /// The sequence number of the head this unit needs: its own, unless it is a tail.
    pub const fn head_seq(&self) -> FlowSeq {
        self.seq.plus(-(self.index as i32))
    }

    fn is_valid(&self) -> bool {
        match self.kind {
            UnitKind::Packet | UnitKind::PartialPacket => self.last && self.index == 0,
            UnitKind::HeadSlice => !self.last && self.index == 0,
            UnitKind::TailSlice => (1..=MAX_SLICE_INDEX).contains(&self.index) && self.form == HeaderForm::Whole,
        }
    }

    /// Reads the header at the start of a decrypted data payload; gives the payload after it too.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] when kind, last and index contradict each other.
    pub fn parse(plaintext: &[u8]) -> Result<(InnerHeader, &[u8]), WireError> {
        let mut r = Reader::new(plaintext);
        let first = r.u8()?;
        let kind = match first >> 6 {
            0 => UnitKind::Packet,
            1 => UnitKind::PartialPacket,
            2 => UnitKind::HeadSlice,
            _ => UnitKind::TailSlice,
        };
        // Only a tail slice has an index, and only it has no header that could have a form.
        let (index, form) = match (kind, first & 0x1f) {
            (UnitKind::TailSlice, index) => (index, HeaderForm::Whole),
            (_, 0) => (0, HeaderForm::Whole),
            (_, 1) => (0, HeaderForm::Reference),
            (_, 2) => (0, HeaderForm::Difference),
            _ => return Err(WireError::Malformed),
        };
        let header = InnerHeader {
            kind,
            last: first & 0x20 != 0,
            index,
            form,
            flow: FlowId(r.u16()?),
            seq: FlowSeq::new(r.u24()?),
        };
        if header.is_valid() { Ok((header, r.rest())) } else { Err(WireError::Malformed) }
    }

    /// Writes the header at the start of `out`; gives its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] when `out` is shorter than [`INNER_LEN`], [`WireError::Malformed`] when kind, last and
    /// index contradict each other.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if !self.is_valid() {
            return Err(WireError::Malformed);
        }
        let mut w = Writer::new(out);
        w.u8((self.kind as u8) << 6 | u8::from(self.last) << 5 | self.index | self.form as u8)?;
        w.u16(self.flow.0)?;
        w.u24(self.seq.get())?;
        Ok(w.len())
    }
}

/// Bytes of the part header: the unit's inner header, and one byte that says which part.
pub const PART_HEADER_LEN: usize = INNER_LEN + 1;
/// Parts begin and, but for a unit's last, end at a multiple of so many bytes.
pub const GRANULE: usize = 128;
/// Granules of the longest unit that can be sent in parts.
pub const MAX_GRANULES: u8 = 16;

/// Granules of a unit of `len` bytes; `None` if it cannot be sent in parts: it is empty or too long.
pub fn granules(len: usize) -> Option<u8> {
    u8::try_from(len.div_ceil(GRANULE)).ok().filter(|count| (1..=MAX_GRANULES).contains(count))
}

/// The header of a data part: a piece of a unit that is too long for its path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PartHeader {
    /// The unit's own header, the same in all its parts.
    pub unit: InnerHeader,
    /// The granule of the unit that the part begins with.
    pub first: u8,
    /// Granules of the unit, 1..=16.
    pub of: u8,
}

impl PartHeader {
    /// The granules that a part with `len` bytes of payload holds; `None` if there is no such part: it would reach behind the
    /// unit's end, end inside a granule before it, be empty, or be the whole unit.
    pub fn granules(&self, len: usize) -> Option<core::ops::Range<u8>> {
        let end = self.first.checked_add(granules(len)?)?;
        let ends_well = end == self.of || (end < self.of && len.is_multiple_of(GRANULE));
        (ends_well && self.of <= MAX_GRANULES && end - self.first < self.of).then_some(self.first..end)
    }

    /// Reads the header at the start of a decrypted data part; gives the payload after it too.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] for a part that no unit has.
    pub fn parse(plaintext: &[u8]) -> Result<(PartHeader, &[u8]), WireError> {
        let (unit, rest) = InnerHeader::parse(plaintext)?;
        let (&place, payload) = rest.split_first().ok_or(WireError::Truncated)?;
        let header = PartHeader { unit, first: place >> 4, of: (place & 0x0f) + 1 };
        // Parts join to a unit with its whole header.
        header
            .granules(payload.len())
            .filter(|_| unit.form == HeaderForm::Whole)
            .map(|_| (header, payload))
            .ok_or(WireError::Malformed)
    }

    /// Writes the header at the start of `out`; gives its length.
    ///
    /// # Errors
    /// As [`InnerHeader::emit`]; [`WireError::Malformed`] too when `first` lies outside the unit, or `of` outside 1..=16.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if self.first >= self.of || self.of > MAX_GRANULES || self.unit.form != HeaderForm::Whole {
            return Err(WireError::Malformed);
        }
        let at = self.unit.emit(out)?;
        *out.get_mut(at).ok_or(WireError::NoRoom)? = self.first << 4 | (self.of - 1);
        Ok(PART_HEADER_LEN)
    }
}
