//! Combines consecutive segments of a connection in a super-packet.
//!
//! A host with segmentation offload passes such super-packets to its network device.

use super::tcp::{TcpDirection, TcpReader};
use super::{IPV4_HEADER_LEN, IpFields};
use crate::PacketEcn;
use crate::tcp::{Flags, TcpSegment};
use weft_wire::WireError;
use weft_wire::ip::L4Checksum;
use weft_wire::virtio::{GsoType, NEEDS_CSUM, VNET_HEADER_LEN, VnetHeader};

/// Maximum payload of a super-packet, in bytes.
///
/// Derived: 65,535 for an IP packet, less 80 for the longest headers.
const MAX_PAYLOAD_LEN: u32 = 65_535 - 80;
/// Offset of the checksum in a TCP header, in bytes.
const CHECKSUM_OFFSET: u16 = 16;

/// One super-packet: one or more consecutive segments of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuperSegment {
    /// The segments as one segment with all their payload.
    whole: TcpSegment,
    /// Payload of each segment but the last, in bytes.
    gso_size: u32,
}

impl SuperSegment {
    /// Creates a super-packet of one segment.
    pub fn new(segment: TcpSegment) -> SuperSegment {
        SuperSegment { whole: segment, gso_size: segment.len }
    }

    /// Adds `next` to the super-packet if a host would send it in the same one. Returns true if it did.
    ///
    /// The segments may differ only in the sequence number, in CWR (on the first only) and in FIN (on the last only).
    /// Only the last segment may be short.
    pub fn join(&mut self, next: &TcpSegment) -> bool {
        let whole = self.whole;
        let is_full = whole.len > 0 && whole.len.is_multiple_of(self.gso_size);
        let is_next = whole.seq + u64::from(whole.len) == next.seq && (1..=self.gso_size).contains(&next.len);
        let flags = next.flags.without(Flags::FIN);
        let same_header = flags == whole.flags.without(Flags::CWR)
            && (next.ack, next.window, next.sacks()) == (whole.ack, whole.window, whole.sacks());
        let may_join = is_full && is_next && same_header && !flags.has(Flags::SYN);
        if !may_join || whole.len + next.len > MAX_PAYLOAD_LEN {
            return false;
        }
        self.whole.len += next.len;
        self.whole.flags = whole.flags.with(next.flags);
        true
    }

    /// Returns the number of segments in the super-packet.
    pub fn count(&self) -> u32 {
        self.whole.len.div_ceil(self.gso_size.max(1)).max(1)
    }

    /// Returns all segments as one segment, as a host with receive offload gets them.
    pub fn whole(&self) -> &TcpSegment {
        &self.whole
    }

    /// Returns the single segments, in order.
    pub fn segments(&self) -> impl Iterator<Item = TcpSegment> {
        let (whole, gso_size, count) = (self.whole, self.gso_size, self.count());
        (0..count).map(move |k| {
            let skipped = k * gso_size;
            let len = if k + 1 == count { whole.len - skipped } else { gso_size };
            let first = if k == 0 { whole.flags } else { whole.flags.without(Flags::CWR) };
            let flags = if k + 1 == count { first } else { first.without(Flags::FIN) };
            TcpSegment { seq: whole.seq + u64::from(skipped), len, flags, ..whole }
        })
    }

    /// Appends a virtio_net_hdr and the super-packet to `out`, with a partial TCP checksum that the device completes.
    ///
    /// # Errors
    /// Fails with [`WireError::TooLong`] for a packet above 65535 bytes, and leaves `out` unchanged.
    pub fn write(&self, direction: &TcpDirection, fields: IpFields, out: &mut Vec<u8>) -> Result<(), WireError> {
        let headers = direction.build(&self.whole, fields, L4Checksum::Partial)?;
        let is_one = self.count() == 1;
        let vnet = VnetHeader {
            flags: NEEDS_CSUM,
            gso_type: if is_one { GsoType::None } else { GsoType::TcpV4 },
            gso_ecn: !is_one && self.whole.flags.has(Flags::CWR),
            hdr_len: headers.len() as u16,
            gso_size: if is_one { 0 } else { self.gso_size as u16 },
            csum_start: IPV4_HEADER_LEN as u16,
            csum_offset: CHECKSUM_OFFSET,
        };
        let mut bytes = [0; VNET_HEADER_LEN];
        vnet.emit(&mut bytes)?;
        out.extend_from_slice(&bytes);
        headers.write_whole(out);
        Ok(())
    }

    /// Reads a virtio_net_hdr and the packet or super-packet after it. Returns the segments and the ECN field.
    ///
    /// # Errors
    /// The same as those of [`VnetHeader::parse`] and [`TcpReader::read`].
    pub fn read(reader: &mut TcpReader, bytes: &[u8]) -> Result<(SuperSegment, PacketEcn), WireError> {
        let (vnet, packet) = VnetHeader::parse(bytes)?;
        let checksum = if vnet.needs_csum() { L4Checksum::Partial } else { L4Checksum::Complete };
        let (whole, ecn) = reader.parse(packet, checksum)?;
        let gso_size = match vnet.gso_type {
            GsoType::None => whole.len,
            GsoType::TcpV4 if vnet.gso_size > 0 => vnet.gso_size.into(),
            _ => return Err(WireError::Malformed),
        };
        Ok((SuperSegment { whole, gso_size }, ecn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};
    use weft_units::Rng;
    use weft_wire::super_packet::{SegmentRole, SuperPacket};

    const MSS: u32 = 1448;

    fn direction() -> TcpDirection {
        TcpDirection {
            source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 50_000),
            destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 50_001),
            initial: u32::MAX - 5_000,
            peer_initial: 7,
            window_shift: 2,
            mss: 1460,
            options_len: 12,
        }
    }

    /// Returns `count` consecutive segments of full size, except the last one, which has `last_len` bytes.
    fn burst(count: u64, last_len: u32) -> Vec<TcpSegment> {
        let one = |k| TcpSegment {
            seq: 100 + k * u64::from(MSS),
            ack: 40,
            len: if k + 1 == count { last_len } else { MSS },
            window: 65_536,
            flags: Flags::ACK,
            ..TcpSegment::default()
        };
        (0..count).map(one).collect()
    }

    fn joined(segments: &[TcpSegment]) -> SuperSegment {
        let mut all = SuperSegment::new(segments[0]);
        assert!(segments[1..].iter().all(|next| all.join(next)));
        all
    }

    #[test]
    fn bursts_come_back_segment_by_segment() {
        let mut rng = Rng::new(1);
        let mut reader = TcpReader::new(direction());
        for _ in 0..500 {
            let mut segments = burst(1 + rng.below(44), 1 + rng.below(u64::from(MSS)) as u32);
            if rng.chance(0.3) {
                segments[0].flags = segments[0].flags.with(Flags::CWR);
            }
            let last = segments.len() - 1;
            if rng.chance(0.3) {
                segments[last].flags = segments[last].flags.with(Flags::FIN);
            }
            let mut bytes = Vec::new();
            joined(&segments).write(&direction(), IpFields { id: 9, ecn: PacketEcn::Ect }, &mut bytes).unwrap();
            let (read, ecn) = SuperSegment::read(&mut reader, &bytes).unwrap();
            assert_eq!(ecn, PacketEcn::Ect);
            assert!(read.segments().eq(segments.iter().copied()));
        }
    }

    /// The daemon's codec cuts the super-packet into the same packets that its single segments give.
    #[test]
    fn each_cut_segment_is_the_packet_of_its_own() {
        let segments = burst(5, 700);
        let mut bytes = Vec::new();
        joined(&segments).write(&direction(), IpFields::default(), &mut bytes).unwrap();
        let (vnet, packet) = VnetHeader::parse(&bytes).unwrap();
        let mut packet = packet.to_vec();
        let cut = SuperPacket::parse(&vnet, &mut packet).unwrap();
        assert_eq!(cut.segments(), segments.len());
        for (k, segment) in segments.iter().enumerate() {
            let mut header = [0; 128];
            let len = cut.segment_header(&packet, k, SegmentRole::Alone, &mut header).unwrap();
            let id = IpFields { id: k as u16, ecn: PacketEcn::NotEct };
            let alone = direction().build(segment, id, L4Checksum::Partial).unwrap();
            assert_eq!(header[..len], alone[..]);
        }
    }

    #[test]
    fn unrelated_segments_are_not_joined() {
        let [first, next] = burst(2, MSS)[..] else { panic!("two were asked for") };
        let refused = [
            TcpSegment { seq: next.seq + 1, ..next },
            TcpSegment { ack: next.ack + 1, ..next },
            TcpSegment { window: next.window - 4, ..next },
            TcpSegment { len: MSS + 1, ..next },
            TcpSegment { len: 0, ..next },
            TcpSegment { flags: next.flags.with(Flags::ECE), ..next },
            TcpSegment { flags: next.flags.with(Flags::CWR), ..next },
            TcpSegment { flags: next.flags.with(Flags::RETRANSMIT), ..next },
            TcpSegment { sack_count: 1, ..next },
        ];
        for other in refused {
            assert!(!SuperSegment::new(first).join(&other), "{other:?}");
        }
        let ended = TcpSegment { flags: first.flags.with(Flags::FIN), ..first };
        assert!(!SuperSegment::new(ended).join(&next));
        let short = TcpSegment { len: 10, seq: next.seq, ..next };
        let mut both = joined(&[first, short]);
        assert!(!both.join(&TcpSegment { seq: short.seq + 10, ..next }));
        assert!(SuperSegment::new(first).join(&next));
    }
}
