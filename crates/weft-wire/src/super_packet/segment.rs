use super::{Headers, LAST_FLAGS, MAX_HEADER_LEN, Rewrite, Transport, partial_l4_checksum};
use crate::WireError;
use crate::bytes::put_at;
use crate::checksum;
use crate::inner::UnitKind;
use crate::ip::{IpVersion, IpView, TcpFlags};
use crate::virtio::{GsoType, VnetHeader};
use core::ops::Range;

/// How the segment with a header is sent: as a packet of its own, or as a head.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SegmentRole {
    /// The segment is a packet of its own. Only the last segment of the super-packet keeps FIN and PSH.
    Alone,
    /// Tail slices may follow the segment. FIN and PSH stay, and the egress edge decides whether they apply.
    Head,
}

/// Positions and lengths by which a packet from a TUN device can be cut. It is stored next to the packet's buffer.
///
/// Every packet consists of a header and one or more segments: `segment_header(k)` and `payload(k)`. A segment is sent
/// with or without the header. A packet that needs no cutting consists of the header only, and has one empty segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SuperPacket {
    /// Positions of the header's fields; `None` if the transport checksum is complete.
    headers: Option<Headers>,
    /// Length of all headers together, in bytes.
    header_len: u32,
    /// Length of the whole packet, in bytes.
    total_len: u32,
    /// Payload of every segment but the last, in bytes. Zero for a packet that needs no cutting.
    gso_size: u16,
    /// True if the packet is a TCP super-packet with urgent data (URG set).
    is_urgent: bool,
}

impl SuperPacket {
    /// Parses a packet as a TUN device delivers it.
    ///
    /// A partial checksum that is not in a plain TCP or UDP header is completed in place, because the egress edge could
    /// not find the position of the checksum field.
    ///
    /// # Errors
    /// As [`IpView::parse`]; [`WireError::Malformed`] if the virtio_net_hdr does not match the packet.
    pub fn parse(vnet: &VnetHeader, packet: &mut [u8]) -> Result<SuperPacket, WireError> {
        match vnet.gso_type {
            GsoType::None => Self::parse_whole(vnet, packet),
            GsoType::TcpV4 => Self::parse_gso(vnet, packet, Transport::Tcp, Some(IpVersion::V4)),
            GsoType::TcpV6 => Self::parse_gso(vnet, packet, Transport::Tcp, Some(IpVersion::V6)),
            GsoType::UdpL4 => Self::parse_gso(vnet, packet, Transport::Udp, None),
        }
    }

    fn parse_whole(vnet: &VnetHeader, packet: &mut [u8]) -> Result<SuperPacket, WireError> {
        let ip = IpView::parse(packet)?;
        let (header_len, total_len) = (ip.header_len, ip.total_len);
        let mut headers = Headers::of(&ip).filter(|_| vnet.needs_csum());
        let expected = headers.map(|h| (h.transport_at, h.transport.checksum_offset()));
        if vnet.needs_csum() && expected != Some((vnet.csum_start, vnet.csum_offset)) {
            if usize::from(vnet.csum_start) < header_len {
                return Err(WireError::Malformed);
            }
            let packet = packet.get_mut(..total_len).ok_or(WireError::Truncated)?;
            checksum::finish_partial(packet, vnet.csum_start.into(), vnet.csum_offset.into())?;
            headers = None;
        }
        Ok(SuperPacket {
            headers,
            header_len: total_len as u32,
            total_len: total_len as u32,
            gso_size: 0,
            is_urgent: false,
        })
    }

    fn parse_gso(
        vnet: &VnetHeader,
        packet: &mut [u8],
        transport: Transport,
        version: Option<IpVersion>,
    ) -> Result<SuperPacket, WireError> {
        let ip = IpView::parse(packet)?;
        let total_len = ip.total_len;
        let headers = Headers::of(&ip).filter(|h| h.transport == transport).ok_or(WireError::Malformed)?;
        if vnet.gso_size == 0 || version.is_some_and(|version| version != ip.version) {
            return Err(WireError::Malformed);
        }
        if !vnet.needs_csum() {
            let partial = partial_l4_checksum(packet)?;
            put_at(packet, headers.checksum_at(), &partial.to_be_bytes())?;
        }
        let is_urgent = transport == Transport::Tcp && headers.tcp_flags(packet)? & TcpFlags::URG != 0;
        Ok(SuperPacket {
            headers: Some(headers),
            header_len: headers.len.into(),
            total_len: total_len as u32,
            gso_size: vnet.gso_size,
            is_urgent,
        })
    }

    /// Number of bytes that [`SuperPacket::segment_header`] writes.
    pub fn header_len(&self) -> usize {
        self.header_len as usize
    }

    /// Length of the uncut packet, in bytes.
    pub fn total_len(&self) -> usize {
        self.total_len as usize
    }

    /// Payload of every segment but the last, in bytes. Zero for a packet that needs no cutting.
    pub fn gso_size(&self) -> usize {
        self.gso_size.into()
    }

    /// Number of segments, at least one.
    pub fn segments(&self) -> usize {
        let payload_len = self.total_len() - self.header_len();
        if self.gso_size == 0 { 1 } else { payload_len.div_ceil(self.gso_size()).max(1) }
    }

    /// True if the segments may be sent as slices.
    ///
    /// The packet must have several segments, a header that the egress edge accepts, and no urgent data. The urgent
    /// pointer would be wrong after the kernel at the egress edge cuts the joined packet again.
    pub fn may_be_sliced(&self) -> bool {
        self.segments() > 1 && self.header_len() <= MAX_HEADER_LEN && !self.is_urgent
    }

    /// Returns the unit kind of a segment that is sent alone: its checksum is complete or partial.
    pub fn unit_kind(&self) -> UnitKind {
        if self.headers.is_some() { UnitKind::PartialPacket } else { UnitKind::Packet }
    }

    /// Returns the byte range of segment `k`'s payload in the packet, empty if there is no such segment.
    pub fn payload(&self, k: usize) -> Range<usize> {
        let end = self.total_len();
        let start = self.header_len().saturating_add(k.saturating_mul(self.gso_size())).min(end);
        start..start.saturating_add(self.gso_size()).min(end)
    }

    /// Writes the header of segment `k`, counted from 0, to `out` and returns its length.
    ///
    /// `packet` must be the parsed packet. For either role the header states the payload length of this segment only,
    /// and its transport checksum is partial.
    ///
    /// # Errors
    /// [`WireError::NoRoom`]; [`WireError::Malformed`] if there is no segment `k`; [`WireError::Truncated`] if `packet`
    /// is shorter than the parsed packet's header.
    pub fn segment_header(
        &self,
        packet: &[u8],
        k: usize,
        role: SegmentRole,
        out: &mut [u8],
    ) -> Result<usize, WireError> {
        if k >= self.segments() {
            return Err(WireError::Malformed);
        }
        let header = packet.get(..self.header_len()).ok_or(WireError::Truncated)?;
        put_at(out, 0, header)?;
        if let (Some(headers), 1..) = (&self.headers, self.gso_size) {
            let is_last = k + 1 == self.segments();
            let rewrite = Rewrite {
                skip: k,
                gso_size: self.gso_size(),
                old_payload_len: self.total_len() - self.header_len(),
                payload_len: self.payload(k).len(),
                flags: if is_last || role == SegmentRole::Head { 0xff } else { !LAST_FLAGS },
            };
            rewrite.apply(headers, out.get_mut(..self.header_len()).ok_or(WireError::NoRoom)?)?;
        }
        Ok(self.header_len())
    }
}
