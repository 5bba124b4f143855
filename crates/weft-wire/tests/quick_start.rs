//! Quick-Start: its exact bytes, the changes that routers may make, and its position in packets.

use proptest::prelude::*;
use weft_units::Rate;
use weft_wire::WireError;
use weft_wire::checksum::{checksum, finish_partial};
use weft_wire::ip::{IpView, L4Checksum, has_options};
use weft_wire::quick_start::{
    Function, QuickRate, QuickStart, QuickStartResponse, blank, insert, nonces_agree, parse, remove, update,
};
use weft_wire::super_packet::partial_l4_checksum;

const ASKED: QuickStart =
    QuickStart { function: Function::Request, rate: QuickRate::MOST, ttl: 0x40, nonce: 0x2aaa_aaab };

/// Returns a SYN with `options` in its TCP header.
fn syn(is_ipv6: bool, options: &[u8]) -> Vec<u8> {
    let len = 20 + options.len() as u8;
    let mut packet = if is_ipv6 {
        let mut header = vec![0x60, 0, 0, 0, 0, len, 6, 64];
        header.extend([0xfd; 32]);
        header
    } else {
        let mut header = vec![0x45, 0, 0, 20 + len, 0, 7, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    packet.extend([0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, (len / 4) << 4, 2, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(options);
    packet
}

#[test]
fn rates_are_powers_of_two_of_forty_kilobits() {
    let bps = |n| QuickRate::new(n).rate().bps();
    assert_eq!([bps(0), bps(1), bps(2), bps(15)], [0, 80_000, 160_000, 1_310_720_000]);
    for (rate, floor, ceil) in [(0, 0, 0), (79_999, 0, 1), (80_000, 1, 1), (81_000, 1, 2), (u64::MAX, 15, 15)] {
        let rate = Rate::from_bps(rate);
        assert_eq!((QuickRate::floor(rate).get(), QuickRate::ceil(rate).get()), (floor, ceil), "{rate}");
    }
}

#[test]
fn its_bytes_in_both_headers() {
    let mut out = [0; 128];
    let len = insert(&syn(false, &[]), ASKED, &mut out).unwrap();
    assert_eq!(out[20..28], [25, 8, 0x0f, 0x40, 0xaa, 0xaa, 0xaa, 0xac]);
    assert_eq!((len, out[0], checksum(&out[..28])), (48, 0x47, 0), "the header's checksum holds");
    let len = insert(&syn(true, &[]), ASKED, &mut out).unwrap();
    assert_eq!(out[40..56], [6, 1, 0x26, 6, 0x0f, 0x40, 0xaa, 0xaa, 0xaa, 0xac, 1, 4, 0, 0, 0, 0]);
    assert_eq!((len, out[5], out[6]), (76, 36, 0));
    for is_ipv6 in [false, true] {
        let len = insert(&syn(is_ipv6, &[]), ASKED, &mut out).unwrap();
        assert!(has_options(&out) && !has_options(&syn(is_ipv6, &[])));
        assert_eq!(IpView::parse(&out[..len]).unwrap().tcp().unwrap().dst_port, 80);
        let (at, option) = parse(&out[..len]).unwrap().unwrap();
        assert_eq!(option, ASKED);
        assert_eq!(insert(&out[..len], ASKED, &mut [0; 128]), Err(WireError::Malformed), "twice");
        let mut lowered = option;
        lowered.lower(QuickRate::new(3), u32::MAX);
        update(&mut out[..len], at, lowered).unwrap();
        assert_eq!(parse(&out[..len]).unwrap(), Some((at, lowered)));
        assert!(is_ipv6 || checksum(&out[..28]) == 0);
    }
    assert_eq!(QuickStart::parse(&[0x10, 0, 0, 0, 0, 0]), Err(WireError::UnknownType));
    assert_eq!(QuickStart::parse(&[0x0f, 0, 0, 0, 0]), Err(WireError::Truncated));
}

#[test]
fn a_response_in_a_tcp_header() {
    let response = QuickStartResponse { rate: QuickRate::new(9), ttl_difference: 0x17, nonce: 0x1234_5678 };
    let mut option = [0; 8];
    assert_eq!(response.emit(&mut option), Ok(8));
    assert_eq!(option, [27, 8, 9, 0x17, 0x48, 0xd1, 0x59, 0xe0]);
    assert_eq!(response.emit(&mut [0; 7]), Err(WireError::NoRoom));
    for is_ipv6 in [false, true] {
        assert_eq!(QuickStartResponse::of(&syn(is_ipv6, &option)), Some(response));
        assert_eq!(QuickStartResponse::of(&syn(is_ipv6, &[1, 1, 1, 1])), None);
    }
}

#[test]
fn a_response_is_put_before_other_options_and_the_checksum_holds() {
    let response = QuickStartResponse { rate: QuickRate::new(9), ttl_difference: 0x17, nonce: 0x1234_5678 };
    for is_ipv6 in [false, true] {
        let (packet, start) = (syn(is_ipv6, &[2, 4, 5, 0xb4]), if is_ipv6 { 40 } else { 20 });
        for kind in [L4Checksum::Complete, L4Checksum::Partial] {
            let mut out = [0; 128];
            let len = response.insert(&packet, kind, &mut out).unwrap();
            let longer = &mut out[..len];
            assert_eq!((len, IpView::parse(longer).unwrap().total_len), (packet.len() + 8, packet.len() + 8));
            assert_eq!((QuickStartResponse::of(longer), &longer[len - 4..]), (Some(response), &[2, 4, 5, 0xb4][..]));
            assert!(is_ipv6 || checksum(&longer[..20]) == 0, "the header's checksum");
            let found = [longer[start + 16], longer[start + 17]];
            let partial = partial_l4_checksum(longer).unwrap();
            longer[start + 16..start + 18].copy_from_slice(&partial.to_be_bytes());
            if kind == L4Checksum::Complete {
                finish_partial(longer, start, 16).unwrap();
            }
            assert_eq!(found, longer[start + 16..start + 18]);
            assert_eq!(response.insert(longer, kind, &mut [0; 128]), Err(WireError::Malformed), "twice");
        }
        assert_eq!(response.insert(&packet, L4Checksum::Complete, &mut [0; 51]), Err(WireError::NoRoom));
        assert_eq!(
            response.insert(&syn(is_ipv6, &[1; 36]), L4Checksum::Complete, &mut [0; 160]),
            Err(WireError::NoRoom)
        );
    }
}

#[test]
fn a_request_that_is_taken_out_leaves_the_packet_it_was_put_into() {
    for is_ipv6 in [false, true] {
        let (packet, mut out) = (syn(is_ipv6, &[2, 4, 5, 0xb4]), [0; 128]);
        let len = insert(&packet, ASKED, &mut out).unwrap();
        let mut blanked = out;
        assert_eq!(blank(&mut blanked[..len]), Ok(true));
        assert_eq!((parse(&blanked[..len]), blank(&mut blanked[..len])), (Ok(None), Ok(false)));
        assert_eq!(IpView::parse(&blanked[..len]).unwrap().tcp().unwrap().dst_port, 80);
        assert!(is_ipv6 || checksum(&blanked[..28]) == 0, "the header's checksum");
        let taken = remove(&mut out[..len]).unwrap();
        assert_eq!(out[taken..len], packet);
        assert_eq!(remove(&mut out[taken..len]), Ok(0));
    }
}

proptest! {
    /// RFC 4782 §3.3: each step down redraws two nonce bits. The lower bits stay, and no rate rises.
    #[test]
    fn lowering_changes_the_bits_of_its_steps_alone(from in 0..16u8, to in 0..16u8, nonce in 0..1u32 << 30, random: u32) {
        let mut option = QuickStart { rate: QuickRate::new(from), nonce, ..ASKED };
        option.lower(QuickRate::new(to), random);
        let least = from.min(to);
        prop_assert_eq!(option.rate.get(), least);
        prop_assert!(nonces_agree(nonce, option.nonce, option.rate));
        let steps = ((1u32 << (2 * from)) - 1) & !((1u32 << (2 * least)) - 1);
        prop_assert_eq!((option.nonce ^ nonce) & !steps, 0);
        prop_assert_eq!((option.nonce ^ random) & steps, 0);
        prop_assert!(option.nonce < 1 << 30);
        option.refuse();
        prop_assert_eq!((option.rate, option.ttl, option.nonce), (QuickRate::ZERO, 0, 0));
    }

    #[test]
    fn no_packet_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), first in prop::sample::select(vec![0x45u8, 0x47, 0x4f, 0x60])) {
        let mut packet = bytes;
        if let Some(byte) = packet.first_mut() {
            *byte = first;
        }
        let found = parse(&packet);
        let response = QuickStartResponse { rate: QuickRate::MOST, ttl_difference: 1, nonce: 2 };
        let _ = (QuickStartResponse::of(&packet), insert(&packet, ASKED, &mut [0; 160]), remove(&mut packet.clone()));
        if let Ok(len) = response.insert(&packet, L4Checksum::Complete, &mut [0; 160]) {
            prop_assert!(len <= packet.len() + 8);
        }
        if let Ok(Some((at, option))) = found {
            prop_assert!(update(&mut packet, at, option).is_ok());
            prop_assert_eq!(parse(&packet), Ok(Some((at, option))));
        }
    }
}
