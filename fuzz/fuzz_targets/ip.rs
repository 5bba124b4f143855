//! IP and TCP views, and the functions that change packets in place: TOS byte and MSS clamp.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::checksum;
use weft_wire::ecn::{Decapsulated, DscpModel, decapsulate};
use weft_wire::ip::{self, IpVersion, IpView, L4Checksum, TcpOption, clamp_mss};

fuzz_target!(|input: (u8, u16, bool, &[u8])| {
    let (outer_tos, max_mss, is_partial, bytes) = input;
    let Ok(view) = IpView::parse(bytes) else { return };
    assert!(view.header_len <= view.total_len && view.bytes.len() == view.total_len);
    let key = view.flow_key();
    if let Some(tcp) = view.tcp() {
        assert!(tcp.options().count() <= 40);
        for option in tcp.options() {
            if let TcpOption::Sack(blocks) = option {
                assert!(blocks.count() <= 4);
            }
        }
    }
    let mut packet = bytes.to_vec();
    if let Decapsulated::Tos(tos) = decapsulate(view.tos, outer_tos, DscpModel::Uniform) {
        change_tos(&mut packet, tos);
    }
    let state = if is_partial { L4Checksum::Partial } else { L4Checksum::Complete };
    let clamped = clamp_mss(&mut packet, max_mss, state);
    assert!(!clamp_mss(&mut packet, max_mss, state), "once is enough");
    assert_eq!(IpView::parse(&packet).map(|view| view.flow_key()), Ok(key));
    if clamped && !is_partial {
        assert_eq!(segment_sum(bytes), segment_sum(&packet), "a checksum is as right, or as wrong, as before");
    }
});

fn change_tos(packet: &mut [u8], tos: u8) {
    let sum_before = header_sum(packet);
    ip::set_tos(packet, tos).unwrap();
    assert_eq!(ip::tos(packet), Ok(tos));
    if packet[0] >> 4 == 4 {
        assert_eq!(header_sum(packet), sum_before);
    }
}

/// Ones'-complement arithmetic has two zeros. Both become one here.
fn one_zero(sum: u16) -> u16 {
    if sum == 0xffff { 0 } else { sum }
}

fn header_sum(packet: &[u8]) -> u16 {
    let view = IpView::parse(packet).unwrap();
    let len = if view.version == IpVersion::V4 { view.header_len } else { 0 };
    one_zero(checksum::Sum::default().bytes(&packet[..len]).fold())
}

fn segment_sum(packet: &[u8]) -> u16 {
    let view = IpView::parse(packet).unwrap();
    one_zero(checksum::Sum::default().bytes(view.payload()).fold())
}
