//! Header compression never changes a header.
//!
//! Either the receiver restores the header exactly from the difference, or the sender does not compress the header.

mod common;

use common::{Flow, L4, Segment, flows, hex};
use proptest::prelude::*;
use weft_wire::WireError;
use weft_wire::header_compression::{MAX_DIFFERENCE_LEN, Reference, header_len};

fn segments() -> impl Strategy<Value = Segment> {
    (any::<u16>(), any::<u32>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..300))
        .prop_map(|(id, seq, flags, payload)| Segment { id, seq, flags, payload })
}

/// Returns the difference of `packet` from `reference` and the payload.
///
/// `None` means that the header must be sent whole.
fn compress(reference: &Reference, packet: &[u8], is_partial: bool) -> Option<Vec<u8>> {
    let header_len = header_len(packet)?;
    let mut out = [0; MAX_DIFFERENCE_LEN];
    let len = reference.difference(&packet[..header_len], packet.len() - header_len, is_partial, &mut out)?;
    Some([&out[..len], &packet[header_len..]].concat())
}

fn restore(reference: &Reference, compressed: &[u8], is_partial: bool) -> Result<Vec<u8>, WireError> {
    let mut header = [0; 128];
    let (len, payload) = reference.restore(compressed, is_partial, &mut header)?;
    Ok([&header[..len], payload].concat())
}

proptest! {
    #[test]
    fn the_next_packets_of_a_flow_come_back_from_little(
        flow in flows(), first in segments(), next in segments(), is_partial in any::<bool>(), near in any::<bool>(),
    ) {
        let next = if near { Segment { seq: first.seq.wrapping_add(1_400), id: first.id.wrapping_add(1), ..next } } else { next };
        let build = |s: &Segment| if is_partial { flow.partial(s) } else { flow.packet(s) };
        let (first, packet) = (build(&first), build(&next));
        let reference = Reference::of(&first).unwrap();
        prop_assert_eq!(header_len(&first), Some(reference.header().len()));
        let whole = reference.header().len();
        if let Some(compressed) = compress(&reference, &packet, is_partial) {
            prop_assert_eq!(hex(&restore(&reference, &compressed, is_partial).unwrap()), hex(&packet));
            prop_assert!(packet.len() - compressed.len() >= whole / 2);
        } else {
            // Even without checksums and lengths, too many bytes differ.
            let differs = whole.div_ceil(8) + packet.iter().zip(&first).take(whole).filter(|(new, old)| new != old).count();
            prop_assert!(differs > whole / 2, "{differs} of {whole}");
        }
    }

    /// A derived field with an unexpected value is never lost: the header is then sent whole.
    #[test]
    fn a_header_that_contradicts_itself_is_sent_whole(
        flow in flows(), first in segments(), at in 0..2usize, wrong in 1..=255u8, is_partial in any::<bool>(),
    ) {
        let mut packet = flow.partial(&first);
        let reference = Reference::of(&packet).unwrap();
        let fields = if flow.v6 { [4, 5] } else { [2, 11] };
        packet[fields[at]] ^= wrong;
        prop_assert_eq!(compress(&reference, &packet, is_partial), None);
    }

    #[test]
    fn strange_bytes_restore_to_a_packet_or_an_error(
        flow in flows(), first in segments(), bytes in prop::collection::vec(any::<u8>(), 0..400), is_partial in any::<bool>(),
    ) {
        let first = flow.partial(&first);
        let reference = Reference::of(&first).unwrap();
        if let Ok(packet) = restore(&reference, &bytes, is_partial) {
            prop_assert!(packet.len() >= reference.header().len());
        }
    }

    #[test]
    fn strange_packets_have_a_header_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(len) = header_len(&bytes) {
            prop_assert!(len <= bytes.len().min(128));
            prop_assert_eq!(Reference::of(&bytes).map(|r| r.header().to_vec()), Some(bytes[..len].to_vec()));
        }
    }
}

/// Compresses a full packet of a download, sent 2 s and 5 MB after the reference.
#[test]
fn a_tcp_header_of_52_bytes_becomes_16() {
    let flow = Flow {
        v6: false,
        l4: L4::Tcp,
        ip_options: false,
        tcp_options: [[1, 1, 8, 10].as_slice(), &[0, 0, 4, 0, 0, 0, 8, 0]].concat(),
        tos: 0,
        ttl: 64,
        window: 500,
    };
    let later =
        Flow { tcp_options: [[1, 1, 8, 10].as_slice(), &[0, 0, 11, 208, 0, 0, 15, 208]].concat(), ..flow.clone() };
    let segment = |id, seq| Segment { id, seq, flags: 0x10, payload: vec![7; 1_388] };
    let first = flow.partial(&segment(1, 1_000_000));
    let reference = Reference::of(&first).unwrap();
    let packet = later.partial(&segment(3_700, 6_123_456));
    let compressed = compress(&reference, &packet, true).unwrap();
    assert_eq!(packet.len() - compressed.len(), 52 - 16);
}
