//! Packets as they leave the machine, from copies that the kernel makes earlier.
//!
//! The kernel copies an outgoing packet before it cuts a batch of datagrams (GSO) and before the card completes its
//! checksum. It copies arriving datagrams after it has joined them (GRO). A capture shows the datagrams of the wire.

use std::io;
use weft_io::packet::Captured;
use weft_wire::checksum::finish_partial;
use weft_wire::inner::UnitKind;
use weft_wire::ip::{IpVersion, IpView};
use weft_wire::super_packet::{SegmentRole, SuperPacket};
use weft_wire::virtio::{GsoType, NEEDS_CSUM, VnetHeader};

/// Offset of the checksum in a UDP header, in bytes.
const UDP_CHECKSUM: usize = 6;

/// Memory in which captured batches are cut into the packets that leave the machine.
#[derive(Default)]
pub struct PacketBuffers {
    /// The captured packet or batch, whose checksum may be finished in place.
    whole: Vec<u8>,
    /// One packet as it leaves the machine or arrives.
    one: Vec<u8>,
}

/// Cuts a captured batch into the packets that leave the machine or arrive, and passes each packet to `each`.
///
/// A TCP super-packet stays whole, and so does a packet without a virtio-net header from the kernel, or one that is
/// cut.
///
/// # Errors
/// Returns the error of `each`.
pub fn each_on_wire(
    captured: &Captured<'_>,
    scratch: &mut PacketBuffers,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(description) = description(captured) else { return each(captured.packet) };
    scratch.whole.clear();
    scratch.whole.extend_from_slice(captured.packet);
    // In a batch, the checksum field has the sum of the batch's pseudo-header. The field is ignored, because the sum
    // is computed again for each datagram.
    let is_partial = description.needs_csum() && description.gso_type == GsoType::None;
    let parsed = VnetHeader { flags: if is_partial { NEEDS_CSUM } else { 0 }, ..description };
    let Ok(shape) = SuperPacket::parse(&parsed, &mut scratch.whole) else { return each(captured.packet) };
    let checksum = Checksum::of(captured.packet, &description, &shape);
    for number in 0..shape.segments() {
        match write_segment(scratch, &shape, number, checksum) {
            Some(()) => each(&scratch.one)?,
            None => return each(captured.packet),
        }
    }
    Ok(())
}

/// Returns the virtio-net header that states how the kernel or the card still changes a packet.
///
/// Its offsets count from the IP header. Returns `None` if nothing is changed.
fn description(captured: &Captured<'_>) -> Option<VnetHeader> {
    let (description, _) = VnetHeader::parse(captured.segmentation?).ok()?;
    let changes = match description.gso_type {
        GsoType::None => description.needs_csum(),
        GsoType::UdpL4 => true,
        GsoType::TcpV4 | GsoType::TcpV6 => false,
    };
    let link_len = u16::try_from(captured.link_len).ok()?;
    let is_whole = captured.len == captured.packet.len();
    (changes && is_whole)
        .then(|| VnetHeader { csum_start: description.csum_start.saturating_sub(link_len), ..description })
}

/// The transport checksum that each packet of a captured batch still lacks.
#[derive(Clone, Copy)]
struct Checksum {
    /// Position of the first summed byte in the packet, and offset of the checksum field from that byte.
    place: (usize, usize),
    /// False if the sender uses no checksum, which UDP over IPv4 allows.
    is_used: bool,
}

impl Checksum {
    fn of(packet: &[u8], description: &VnetHeader, shape: &SuperPacket) -> Option<Checksum> {
        if shape.unit_kind() != UnitKind::PartialPacket {
            return None;
        }
        if description.gso_type == GsoType::None {
            return Some(Checksum {
                place: (description.csum_start.into(), description.csum_offset.into()),
                is_used: true,
            });
        }
        let view = IpView::parse(packet).ok()?;
        let is_zero = view.payload().get(UDP_CHECKSUM..UDP_CHECKSUM + 2) == Some(&[0, 0]);
        let is_used = description.needs_csum() || !is_zero || view.version == IpVersion::V6;
        Some(Checksum { place: (view.header_len, UDP_CHECKSUM), is_used })
    }

    fn write(self, packet: &mut [u8]) -> Option<()> {
        let (start, offset) = self.place;
        if self.is_used {
            return finish_partial(packet, start, offset).ok();
        }
        packet.get_mut(start + offset..)?.get_mut(..2)?.fill(0);
        Some(())
    }
}

/// Writes packet `number` of a captured batch to `scratch`. Returns `None` if the batch has no such packet.
fn write_segment(
    scratch: &mut PacketBuffers,
    shape: &SuperPacket,
    number: usize,
    checksum: Option<Checksum>,
) -> Option<()> {
    let PacketBuffers { whole, one } = scratch;
    one.clear();
    one.resize(shape.header_len(), 0);
    shape.segment_header(whole, number, SegmentRole::Alone, one).ok()?;
    one.extend_from_slice(whole.get(shape.payload(number))?);
    checksum.map_or(Some(()), |checksum| checksum.write(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weft_wire::checksum::{checksum, pseudo_header};
    use weft_wire::virtio::VNET_HEADER_LEN;

    /// Returns a UDP packet over IPv4 or IPv6 without checksums.
    fn datagram(is_ipv6: bool, id: u16, payload: &[u8]) -> Vec<u8> {
        let udp_len = (8 + payload.len()) as u16;
        let mut packet = if is_ipv6 {
            let mut header = vec![0; 40];
            (header[0], header[6], header[7]) = (0x60, 17, 64);
            header[4..6].copy_from_slice(&udp_len.to_be_bytes());
            (header[23], header[39]) = (1, 2);
            header
        } else {
            let mut header = vec![0; 20];
            (header[0], header[8], header[9]) = (0x45, 64, 17);
            header[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
            header[4..6].copy_from_slice(&id.to_be_bytes());
            header[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
            header
        };
        packet.extend([0x12, 0x34, 0xca, 0xbc]);
        packet.extend(udp_len.to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        packet
    }

    fn on_wire(packet: &[u8], header: Option<VnetHeader>, len: usize) -> Vec<Vec<u8>> {
        let mut described = [0; VNET_HEADER_LEN];
        if let Some(header) = header {
            header.emit(&mut described).unwrap();
        }
        let segmentation = header.is_some().then_some(&described);
        let captured = Captured { packet, len, link_len: 14, unix_ns: 1, is_outgoing: true, segmentation };
        let (mut all, mut scratch) = (Vec::new(), PacketBuffers::default());
        each_on_wire(&captured, &mut scratch, |packet| {
            all.push(packet.to_vec());
            Ok(())
        })
        .unwrap();
        all
    }

    /// Checks the checksums of a datagram, and returns its identification and payload.
    fn checked(packet: &[u8]) -> (u16, Vec<u8>) {
        let view = IpView::parse(packet).unwrap();
        assert_eq!(view.total_len, packet.len());
        let udp = view.payload();
        assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
        assert_eq!(pseudo_header(view.src, view.dst, 17, udp.len()).bytes(udp).checksum(), 0, "checksum of UDP");
        if view.version == IpVersion::V4 {
            assert_eq!(checksum(&packet[..view.header_len]), 0, "checksum of IPv4");
        }
        let id = if view.version == IpVersion::V4 { u16::from_be_bytes([packet[4], packet[5]]) } else { 0 };
        (id, udp[8..].to_vec())
    }

    proptest! {
        #[test]
        fn a_batch_is_cut_into_the_datagrams_of_the_wire(
            is_ipv6: bool, id: u16, payload in vec(any::<u8>(), 2..5_000), size in 1..1_500usize,
        ) {
            let size = size.min(payload.len() - 1);
            let header = VnetHeader { flags: NEEDS_CSUM, gso_type: GsoType::UdpL4, gso_size: size as u16, ..VnetHeader::default() };
            let packet = datagram(is_ipv6, id, &payload);
            let found: Vec<_> = on_wire(&packet, Some(header), packet.len()).iter().map(|one| checked(one)).collect();
            prop_assert_eq!(found.iter().flat_map(|(_, payload)| payload.clone()).collect::<Vec<_>>(), payload);
            prop_assert!(found[..found.len() - 1].iter().all(|(_, payload)| payload.len() == size));
            for (n, (found, _)) in (0..).zip(&found) {
                prop_assert_eq!(*found, if is_ipv6 { 0 } else { id.wrapping_add(n) });
            }
        }

        #[test]
        fn a_partial_checksum_is_completed(is_ipv6: bool, payload in vec(any::<u8>(), 0..300)) {
            let mut packet = datagram(is_ipv6, 0, &payload);
            let ip_len = if is_ipv6 { 40 } else { 20 };
            if !is_ipv6 {
                let sum = checksum(&packet[..20]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            // In a packet from the kernel, the checksum field contains the sum of the pseudo-header.
            let view = IpView::parse(&packet).unwrap();
            let sum = pseudo_header(view.src, view.dst, 17, packet.len() - ip_len).fold();
            packet[ip_len + 6..ip_len + 8].copy_from_slice(&sum.to_be_bytes());
            let header = VnetHeader { flags: NEEDS_CSUM, csum_start: 14 + ip_len as u16, csum_offset: 6, ..VnetHeader::default() };
            let found = on_wire(&packet, Some(header), packet.len());
            prop_assert_eq!((found.len(), checked(&found[0]).1), (1, payload));
        }

        #[test]
        fn any_packet_and_description_yield_packets(
            packet in vec(any::<u8>(), 0..300), header in any::<[u8; VNET_HEADER_LEN]>(), longer in 0..2usize,
        ) {
            let captured = Captured {
                packet: &packet, len: packet.len() + longer, link_len: 14, unix_ns: 0, is_outgoing: false,
                segmentation: Some(&header),
            };
            let mut count = 0;
            each_on_wire(&captured, &mut PacketBuffers::default(), |_| { count += 1; Ok(()) }).unwrap();
            prop_assert!(count >= 1);
        }
    }

    #[test]
    fn a_packet_that_the_kernel_does_not_describe_stays_as_it_is() {
        let packet = datagram(false, 9, &[7; 100]);
        assert_eq!(on_wire(&packet, None, packet.len()), vec![packet.clone()]);
        let header = VnetHeader { gso_type: GsoType::UdpL4, gso_size: 10, ..VnetHeader::default() };
        assert_eq!(on_wire(&packet, Some(header), packet.len() + 1), vec![packet.clone()], "a cut packet");
    }

    #[test]
    fn a_batch_without_checksum_has_none_afterwards() {
        let packet = datagram(false, 9, &[7; 100]);
        let header = VnetHeader { gso_type: GsoType::UdpL4, gso_size: 60, ..VnetHeader::default() };
        let found = on_wire(&packet, Some(header), packet.len());
        assert_eq!(
            found.iter().map(|one| (one.len(), &one[26..28])).collect::<Vec<_>>(),
            [(88, &[0, 0][..]), (68, &[0, 0])]
        );
    }
}
