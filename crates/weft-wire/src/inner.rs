//! Codec of the inner header: the encrypted bytes before the payload of a data datagram.
//!
//! The inner header identifies the flow, the unit and, in a data part, the part.

use crate::WireError;
use crate::bytes::{ByteReader, Writer};
use weft_units::{FlowId, FlowSeq};

/// Length of the inner header, in bytes.
pub const INNER_LEN: usize = 6;
/// The largest index of a tail slice. A super-packet with its head slice is thus at most 32 units.
pub const MAX_SLICE_INDEX: u8 = 31;

/// Kind of the unit in a data datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum UnitKind {
    /// A complete IP packet with complete checksums.
    Packet = 0,
    /// A complete IP packet with a partial TCP or UDP checksum. The kernel at the egress edge completes the checksum.
    PartialPacket = 1,
    /// The header of a super-packet and its first `gso_size` payload bytes: a head.
    HeadSlice = 2,
    /// The next `gso_size` payload bytes of a super-packet, without a header: a slice.
    TailSlice = 3,
}

/// Encoding of the IP and transport headers at the start of a unit. A tail slice has no such headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum HeaderForm {
    /// The complete header.
    #[default]
    Whole = 0,
    /// The complete header, which the receiver stores as the reference for later differences.
    Reference = 1,
    /// The sequence number of the unit that carried the reference, and the difference from that header.
    Difference = 2,
}

/// Length of the sequence number in [`HeaderForm::Difference`], in bytes.
pub const REFERENCE_LEN: usize = 3;

/// Parses the sequence number of the unit that carried the reference, and returns the bytes after it.
///
/// # Errors
/// [`WireError::Truncated`].
pub fn parse_reference(bytes: &[u8]) -> Result<(FlowSeq, &[u8]), WireError> {
    let mut r = ByteReader::new(bytes);
    Ok((FlowSeq::new(r.u24()?), r.rest()))
}

/// Writes the sequence number of the unit that carried the reference, and returns the rest of `out`.
///
/// # Errors
/// [`WireError::NoRoom`].
pub fn emit_reference(unit: FlowSeq, out: &mut [u8]) -> Result<&mut [u8], WireError> {
    let (name, rest) = out.split_at_mut_checked(REFERENCE_LEN).ok_or(WireError::NoRoom)?;
    Writer::new(name).u24(unit.get())?;
    Ok(rest)
}

/// The inner header of a unit, which is encrypted together with the unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InnerHeader {
    /// Kind of the unit.
    pub kind: UnitKind,
    /// True if no later unit belongs to the same super-packet. True for whole packets, false for head slices.
    pub last: bool,
    /// Number of units by which a tail slice follows its head slice, 1..=31. It is 0 for other kinds.
    pub index: u8,
    /// Encoding of the unit's IP and transport headers.
    pub form: HeaderForm,
    /// Number that the ingress edge assigned to the flow.
    pub flow: FlowId,
    /// Sequence number of the unit in its flow.
    pub seq: FlowSeq,
}

impl InnerHeader {
    /// Returns the inner header of a whole packet.
    pub const fn packet(checksum_partial: bool, flow: FlowId, seq: FlowSeq) -> InnerHeader {
        let kind = if checksum_partial { UnitKind::PartialPacket } else { UnitKind::Packet };
        InnerHeader { kind, last: true, index: 0, form: HeaderForm::Whole, flow, seq }
    }

    /// Returns the inner header of a head slice.
    pub const fn head(flow: FlowId, seq: FlowSeq) -> InnerHeader {
        InnerHeader { kind: UnitKind::HeadSlice, last: false, index: 0, form: HeaderForm::Whole, flow, seq }
    }

    /// Returns the inner header of a tail slice that follows its head by `index` units (1..=31).
    pub const fn tail(index: u8, last: bool, flow: FlowId, seq: FlowSeq) -> InnerHeader {
        InnerHeader { kind: UnitKind::TailSlice, last, index, form: HeaderForm::Whole, flow, seq }
    }

    /// Returns the sequence number of the head slice to which a tail slice belongs.
    ///
    /// For other units it is their own number.
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

    /// Parses the header of a decrypted data payload, and returns the payload after it.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] if kind, last and index contradict each other.
    pub fn parse(plaintext: &[u8]) -> Result<(InnerHeader, &[u8]), WireError> {
        let mut r = ByteReader::new(plaintext);
        let first = r.u8()?;
        let kind = match first >> 6 {
            0 => UnitKind::Packet,
            1 => UnitKind::PartialPacket,
            2 => UnitKind::HeadSlice,
            _ => UnitKind::TailSlice,
        };
        // The same 5 bits hold the index of a tail slice and, for the other kinds, the form of the header.
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

    /// Writes the header at the start of `out` and returns its length.
    ///
    /// # Errors
    /// [`WireError::NoRoom`] if `out` is shorter than [`INNER_LEN`], [`WireError::Malformed`] if kind, last and index
    /// contradict each other.
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

/// Length of the header of a data part: the unit's inner header, and one byte that states the part's position.
pub const PART_HEADER_LEN: usize = INNER_LEN + 1;
/// Size of a granule, in bytes. Parts begin and end at a granule boundary, except the end of a unit's last part.
pub const GRANULE: usize = 128;
/// Maximum number of granules in a unit that is sent in parts.
pub const MAX_GRANULES: u8 = 16;

/// Returns the number of granules of 128 bytes in a unit of `len` bytes.
///
/// `None` means that the unit is empty or too long for parts.
pub fn granules(len: usize) -> Option<u8> {
    u8::try_from(len.div_ceil(GRANULE)).ok().filter(|count| (1..=MAX_GRANULES).contains(count))
}

/// The header of a data part: a piece of a unit that is too long for its path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PartHeader {
    /// The unit's inner header, identical in all its parts.
    pub unit: InnerHeader,
    /// Index of the part's first granule within the unit, from 0.
    pub first: u8,
    /// Number of granules in the unit, 1..=16.
    pub of: u8,
}

impl PartHeader {
    /// Returns the indices of the granules in a part with `len` bytes of payload, or `None` if the part is invalid.
    ///
    /// A part is invalid if it is empty, is the whole unit, or extends beyond the unit's end. It is also invalid if it
    /// ends inside a granule before the unit's end.
    pub fn granules(&self, len: usize) -> Option<core::ops::Range<u8>> {
        let end = self.first.checked_add(granules(len)?)?;
        let ends_well = end == self.of || (end < self.of && len.is_multiple_of(GRANULE));
        (ends_well && self.of <= MAX_GRANULES && end - self.first < self.of).then_some(self.first..end)
    }

    /// Parses the header of a decrypted data part, and returns the payload after it.
    ///
    /// # Errors
    /// [`WireError::Truncated`], or [`WireError::Malformed`] for an invalid part.
    pub fn parse(plaintext: &[u8]) -> Result<(PartHeader, &[u8]), WireError> {
        let (unit, rest) = InnerHeader::parse(plaintext)?;
        let (&place, payload) = rest.split_first().ok_or(WireError::Truncated)?;
        let header = PartHeader { unit, first: place >> 4, of: (place & 0x0f) + 1 };
        // A unit in parts always has its whole header: header compression applies to undivided units only.
        header
            .granules(payload.len())
            .filter(|_| unit.form == HeaderForm::Whole)
            .map(|_| (header, payload))
            .ok_or(WireError::Malformed)
    }

    /// Writes the header at the start of `out` and returns its length.
    ///
    /// # Errors
    /// As [`InnerHeader::emit`]; [`WireError::Malformed`] too if `first` lies outside the unit or `of` outside 1..=16.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, WireError> {
        if self.first >= self.of || self.of > MAX_GRANULES || self.unit.form != HeaderForm::Whole {
            return Err(WireError::Malformed);
        }
        let at = self.unit.emit(out)?;
        *out.get_mut(at).ok_or(WireError::NoRoom)? = self.first << 4 | (self.of - 1);
        Ok(PART_HEADER_LEN)
    }
}
