use super::{Headers, LAST_FLAGS, MAX_HEADER_LEN, Rewrite, Transport};
use crate::WireError;
use crate::bytes::{put_at, u16_at, u32_at};
use crate::inner::UnitKind;
use crate::ip::{IpVersion, IpView, TcpFlags};
use crate::virtio::{GsoType, NEEDS_CSUM, VNET_HEADER_LEN, VnetHeader};
use weft_units::planted::{self, Fault};

/// Length of the longest packet that a TUN device accepts, in bytes.
const MAX_TOTAL_LEN: usize = 65_535;

/// Consecutive units of a flow that are written to a TUN device as one packet or super-packet.
///
/// A run begins with a packet or a head slice. After a missing unit it begins with a tail slice whose head slice is
/// still stored. The TUN write gathers these buffers in order:
/// - the output of [`Run::emit`],
/// - unless the run begins with a tail slice, the first packet from [`Run::header_len`] on,
/// - each tail slice, and each joined packet from [`Run::header_len`] on.
///
/// The argument `first` is always the packet or head slice that began the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Header positions, or `None` for a packet that is written unchanged.
    headers: Option<Headers>,
    /// The virtio_net_hdr of a packet that is written unchanged.
    vnet: VnetHeader,
    /// Payload of every segment but the last, in bytes.
    gso_size: u16,
    /// Payload of `first`, in bytes.
    first_payload_len: u16,
    /// Payload of the whole run, in bytes.
    payload_len: u16,
    /// Number of segments from the head slice to the start of the run. Zero if the run begins with the head slice.
    skip: u8,
    /// Number of segments in the run.
    segments: u16,
    /// FIN and PSH flags of the super-packet to which the run's last unit belongs.
    last_flags: u8,
    /// True if the run's last unit is the last one of its super-packet.
    is_ended: bool,
}

impl Run {
    /// Returns a run that begins with the packet or head slice `first`.
    ///
    /// # Errors
    /// As [`IpView::parse`]. [`WireError::Malformed`] for:
    /// - a tail slice,
    /// - bytes after the packet's end,
    /// - a partial packet or a head slice that is not an unfragmented TCP or UDP packet,
    /// - a head slice without payload or with too long a header.
    pub fn begin(kind: UnitKind, first: &[u8]) -> Result<Run, WireError> {
        let ip = IpView::parse(first)?;
        if ip.total_len != first.len() || kind == UnitKind::TailSlice {
            return Err(WireError::Malformed);
        }
        if kind == UnitKind::Packet {
            return Ok(Run::as_it_is(VnetHeader::default()));
        }
        let headers = Headers::of(&ip).ok_or(WireError::Malformed)?;
        let payload_len = ip.total_len - usize::from(headers.len);
        let can_grow = payload_len > 0 && usize::from(headers.len) <= MAX_HEADER_LEN && ip.total_len <= MAX_TOTAL_LEN;
        match kind {
            UnitKind::HeadSlice if !can_grow => return Err(WireError::Malformed),
            UnitKind::PartialPacket if !can_grow || headers.transport == Transport::Udp => {
                return Ok(Run::as_it_is(checksum_offload(&headers)));
            }
            _ => {}
        }
        Ok(Run {
            headers: Some(headers),
            vnet: VnetHeader::default(),
            gso_size: payload_len as u16,
            first_payload_len: payload_len as u16,
            payload_len: payload_len as u16,
            skip: 0,
            segments: 1,
            last_flags: last_flags(&headers, first)?,
            is_ended: kind == UnitKind::PartialPacket,
        })
    }

    /// Returns a run that begins with the tail slice `index` (1..=31), because a unit before it is missing.
    ///
    /// `head` is the head slice of its super-packet.
    ///
    /// # Errors
    /// As [`Run::begin`] for the head and [`Run::push_tail`] for the tail.
    pub fn begin_with_tail(head: &[u8], index: u8, tail_len: usize, is_last: bool) -> Result<Run, WireError> {
        let empty = Run { skip: index, segments: 0, payload_len: 0, ..Run::begin(UnitKind::HeadSlice, head)? };
        let mut run = empty;
        run.push_tail(tail_len, is_last)?;
        Ok(run)
    }

    fn as_it_is(vnet: VnetHeader) -> Run {
        Run {
            headers: None,
            vnet,
            gso_size: 0,
            first_payload_len: 0,
            payload_len: 0,
            skip: 0,
            segments: 1,
            last_flags: 0,
            is_ended: true,
        }
    }

    /// Returns the number of bytes of the first packet that [`Run::emit`] replaces.
    ///
    /// It is zero for a packet that is written unchanged.
    pub fn header_len(&self) -> usize {
        self.headers.map_or(0, |headers| headers.len.into())
    }

    /// Number of segments in the run.
    pub fn segments(&self) -> usize {
        self.segments.into()
    }

    /// Appends the next tail slice to the run.
    ///
    /// `tail_len` is its length in bytes; `is_last` is true for the last slice of the super-packet.
    ///
    /// # Errors
    /// The run does not change on an error. [`WireError::Malformed`] if the run has its last slice, or if a slice at
    /// this position cannot have this length. [`WireError::TooLong`] if the packet would exceed the maximum length.
    pub fn push_tail(&mut self, tail_len: usize, is_last: bool) -> Result<(), WireError> {
        let gso_size = usize::from(self.gso_size);
        let fits = tail_len == gso_size || (1..gso_size).contains(&tail_len) && is_last;
        if self.is_ended || !fits {
            return Err(WireError::Malformed);
        }
        if self.is_full(tail_len) {
            return Err(WireError::TooLong);
        }
        self.grow(tail_len);
        self.is_ended = is_last;
        Ok(())
    }

    /// True if the packet `next` can be joined to the run, by the rules of generic receive offload (GRO).
    ///
    /// `next` is a partial packet or a head slice. It must be the next segment of the same TCP flow, have equal header
    /// fields, and be no longer than the run's segments. Its IPv4 identification must be the previous one plus one, as
    /// in the kernel's segmentation.
    pub fn continues(&self, first: &[u8], kind: UnitKind, next: &[u8]) -> bool {
        self.joined(first, kind, next).is_some()
    }

    /// Joins `next` to the run and returns true if it [continues](Run::continues) the run.
    pub fn join(&mut self, first: &[u8], kind: UnitKind, next: &[u8]) -> bool {
        let joined = self.joined(first, kind, next);
        *self = joined.unwrap_or(*self);
        joined.is_some()
    }

    fn joined(&self, first: &[u8], kind: UnitKind, next: &[u8]) -> Option<Run> {
        let headers = self.headers.filter(|_| self.may_be_continued())?;
        let other = Run::begin(kind, next).ok().filter(|other| other.headers == self.headers)?;
        let payload_len = usize::from(other.payload_len);
        let fits = match kind {
            UnitKind::HeadSlice => other.gso_size == self.gso_size,
            _ => other.gso_size <= self.gso_size,
        };
        if !fits || self.is_full(payload_len) || !self.is_next(&headers, first, next)? {
            return None;
        }
        let mut joined = Run { last_flags: other.last_flags, is_ended: other.is_ended, ..*self };
        joined.grow(payload_len);
        Some(joined)
    }

    fn may_be_continued(&self) -> bool {
        let is_short = !self.payload_len.is_multiple_of(self.gso_size.max(1));
        self.headers.is_some_and(|h| h.transport == Transport::Tcp)
            && !is_short
            && !(self.is_ended && self.last_flags != 0)
    }

    /// True if `next` has the header that segmentation would produce for the segment after the run.
    ///
    /// `None` if a header is incomplete.
    fn is_next(&self, h: &Headers, first: &[u8], next: &[u8]) -> Option<bool> {
        let tcp = h.transport_at();
        let same = |from: usize, to: usize| first.get(from..to) == next.get(from..to);
        let segments = u16::from(self.skip).wrapping_add(self.segments);
        let same_ip = match h.version {
            IpVersion::V6 => same(0, 4) && same(6, tcp),
            IpVersion::V4 => {
                let id = u16_at(first, 4).ok()?.wrapping_add(segments);
                same(0, 2) && u16_at(next, 4).ok()? == id && same(6, 10) && same(12, tcp)
            }
        };
        let moved = u32::from(self.skip) * u32::from(self.gso_size) + u32::from(self.payload_len);
        let seq = u32_at(first, tcp + 4).ok()?.wrapping_add(moved);
        let flags = |packet| h.tcp_flags(packet).ok().map(|flags| flags & !LAST_FLAGS);
        let joinable = flags(next)? & !TcpFlags::ECE == TcpFlags::ACK && flags(first)? & !TcpFlags::CWR == flags(next)?;
        let same_tcp = same(tcp, tcp + 4) && same(tcp + 8, tcp + 13) && same(tcp + 14, tcp + 16);
        let same_options = same(tcp + 18, h.len.into());
        Some(same_ip && joinable && same_tcp && same_options && u32_at(next, tcp + 4).ok()? == seq)
    }

    fn is_full(&self, more: usize) -> bool {
        self.header_len() + usize::from(self.payload_len) + more > MAX_TOTAL_LEN
    }

    fn grow(&mut self, payload_len: usize) {
        self.payload_len += payload_len as u16;
        self.segments += 1;
    }

    /// Writes the run's virtio_net_hdr and packet header to `out` and returns their length.
    ///
    /// The length is at most [`Run::MAX_EMITTED_LEN`] bytes.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; [`WireError::Truncated`] if `first` is not the packet that began the run.
    pub fn emit(&self, first: &[u8], out: &mut [u8]) -> Result<usize, WireError> {
        let Some(headers) = self.headers else { return self.vnet.emit(out) };
        let (vnet_out, header_out) = out.split_at_mut_checked(VNET_HEADER_LEN).ok_or(WireError::NoRoom)?;
        let header_out = header_out.get_mut(..self.header_len()).ok_or(WireError::NoRoom)?;
        put_at(header_out, 0, first.get(..self.header_len()).ok_or(WireError::Truncated)?)?;
        if headers.transport == Transport::Tcp {
            self.end_flags(&headers, header_out)?;
        }
        let rewrite = Rewrite {
            skip: self.skip.into(),
            gso_size: self.gso_size.into(),
            old_payload_len: self.first_payload_len.into(),
            payload_len: self.payload_len.into(),
            flags: 0xff,
        };
        rewrite.apply(&headers, header_out)?;
        self.vnet_header(&headers, header_out)?.emit(vnet_out)?;
        Ok(VNET_HEADER_LEN + self.header_len())
    }

    /// Maximum number of bytes that [`Run::emit`] writes.
    pub const MAX_EMITTED_LEN: usize = VNET_HEADER_LEN + MAX_HEADER_LEN;

    fn end_flags(&self, h: &Headers, header: &mut [u8]) -> Result<(), WireError> {
        let last_flags = if self.is_ended { self.last_flags } else { 0 };
        let flags = h.tcp_flags(header)? & !LAST_FLAGS | last_flags;
        put_at(header, h.transport_at() + 13, &[flags])
    }

    fn vnet_header(&self, h: &Headers, header: &[u8]) -> Result<VnetHeader, WireError> {
        let offload = checksum_offload(h);
        if self.segments == 1 {
            return Ok(offload);
        }
        let (gso_type, gso_ecn) = match (h.transport, h.version) {
            (Transport::Udp, _) => (GsoType::UdpL4, false),
            (Transport::Tcp, version) => {
                let gso_type = if version == IpVersion::V4 { GsoType::TcpV4 } else { GsoType::TcpV6 };
                (gso_type, h.tcp_flags(header)? & TcpFlags::CWR != 0)
            }
        };
        Ok(VnetHeader { gso_type, gso_ecn, gso_size: self.gso_size, ..offload })
    }
}

fn checksum_offload(h: &Headers) -> VnetHeader {
    VnetHeader {
        flags: if planted::is(Fault::ChecksumNotFinished) { 0 } else { NEEDS_CSUM },
        hdr_len: h.len,
        csum_start: h.transport_at,
        csum_offset: h.transport.checksum_offset(),
        ..VnetHeader::default()
    }
}

fn last_flags(h: &Headers, packet: &[u8]) -> Result<u8, WireError> {
    match h.transport {
        Transport::Tcp => Ok(h.tcp_flags(packet)? & LAST_FLAGS),
        Transport::Udp => Ok(0),
    }
}
