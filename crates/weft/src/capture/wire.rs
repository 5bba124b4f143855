//! Packets as they leave the machine, from copies that the kernel makes earlier.
//!
//! The kernel copies a packet before it cuts a batch of datagrams (GSO) and before the card completes its checksum. On
//! the way in it copies after it has joined datagrams (GRO). A capture shows the datagrams of the wire.

use std::io;
use weft_io::packet::Captured;
use weft_wire::checksum::{Sum, checksum, finish_partial, pseudo_header};
use weft_wire::ip::{IpVersion, IpView, UDP_HEADER_LEN, protocol};
use weft_wire::virtio::{GsoType, VnetHeader};

/// Passes each packet of the wire that a captured one stands for to `each`. `scratch` is memory for them.
///
/// A TCP super-packet stays whole.
///
/// # Errors
/// Returns the error of `each`.
pub fn each_on_wire(
    captured: &Captured<'_>,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let packet = captured.packet;
    let described = captured.segmentation.and_then(|header| VnetHeader::parse(header).ok());
    let (Some((described, _)), true) = (described, captured.len == packet.len()) else { return each(packet) };
    if described.gso_type == GsoType::UdpL4
        && let Some(batch) = Batch::of(packet, described.gso_size.into())
    {
        let has_checksum = described.needs_csum() || batch.has_checksum();
        for (number, payload) in batch.payload.chunks(batch.size).enumerate() {
            batch.write(number as u16, payload, has_checksum, scratch);
            each(scratch)?;
        }
        return Ok(());
    }
    // The offset counts from the link-layer header.
    let start = usize::from(described.csum_start).checked_sub(captured.link_len);
    match start.filter(|_| described.needs_csum() && described.gso_type == GsoType::None) {
        Some(start) => {
            scratch.clear();
            scratch.extend_from_slice(packet);
            // A checksum outside the packet stays as it is.
            let _ = finish_partial(scratch, start, described.csum_offset.into());
            each(scratch)
        }
        None => each(packet),
    }
}

/// Several UDP datagrams of one size in one packet.
struct Batch<'a> {
    version: IpVersion,
    ip_len: usize,
    headers: &'a [u8],
    payload: &'a [u8],
    /// Payload of each datagram but the last, in bytes.
    size: usize,
    ends: IpView<'a>,
}

impl<'a> Batch<'a> {
    fn of(packet: &'a [u8], size: usize) -> Option<Batch<'a>> {
        let ends = IpView::parse(packet).ok()?;
        let (headers, payload) = ends.bytes.split_at_checked(ends.header_len + UDP_HEADER_LEN)?;
        let is_batch = ends.protocol == protocol::UDP && !ends.is_fragment && size > 0 && payload.len() > size;
        is_batch.then_some(Batch { version: ends.version, ip_len: ends.header_len, headers, payload, size, ends })
    }

    /// True unless the sender uses no checksum, which IPv4 allows.
    fn has_checksum(&self) -> bool {
        self.headers.last_chunk() != Some(&[0, 0]) || self.version == IpVersion::V6
    }

    /// Writes a datagram of the batch, as the kernel cuts it: the identification of IPv4 rises by one.
    fn write(&self, number: u16, payload: &[u8], has_checksum: bool, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.headers);
        out.extend_from_slice(payload);
        let (len, udp_len) = (out.len() as u16, (out.len() - self.ip_len) as u16);
        let Some((ip, udp)) = out.split_at_mut_checked(self.ip_len) else { return };
        match self.version {
            IpVersion::V4 => {
                let id = ip.get(4..6).and_then(<[u8]>::first_chunk).map_or(0, |id| u16::from_be_bytes(*id));
                put(ip, 2, len);
                put(ip, 4, id.wrapping_add(number));
                put(ip, 10, 0);
                put(ip, 10, checksum(ip));
            }
            IpVersion::V6 => put(ip, 4, len.saturating_sub(40)),
        }
        put(udp, 4, udp_len);
        put(udp, 6, 0);
        if has_checksum {
            let sum: Sum = pseudo_header(self.ends.src, self.ends.dst, protocol::UDP, udp_len.into());
            let checksum = sum.bytes(udp).checksum();
            put(udp, 6, if checksum == 0 { u16::MAX } else { checksum });
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weft_wire::virtio::{NEEDS_CSUM, VNET_HEADER_LEN};

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
        let (mut all, mut scratch) = (Vec::new(), Vec::new());
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
            // The kernel has stored the sum of the pseudo-header.
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
            each_on_wire(&captured, &mut Vec::new(), |_| { count += 1; Ok(()) }).unwrap();
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
