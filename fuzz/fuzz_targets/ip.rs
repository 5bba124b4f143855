//! IP and TCP views, and the functions that change packets in place: TOS byte, hop limit and MSS clamp.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use weft_wire::checksum;
use weft_wire::ecn::{Decapsulated, DscpModel, decapsulate, encapsulate};
use weft_wire::ip::{self, Ecn, IcmpError, IpVersion, IpView, L4Checksum, TcpOption, clamp_mss};

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
    for model in [DscpModel::Uniform, DscpModel::Pipe] {
        assert_eq!(decapsulate(view.tos, encapsulate(view.tos, model), model), Decapsulated::Tos(view.tos));
        if let Decapsulated::Tos(tos) = decapsulate(view.tos, outer_tos, model) {
            change_tos(&mut packet, tos);
        }
    }
    ip::set_dscp(&mut packet, outer_tos >> 2).unwrap();
    ip::set_ecn(&mut packet, Ecn::of(outer_tos)).unwrap();
    assert_eq!(ip::tos(&packet), Ok(outer_tos));
    lower_hop_limit(&packet);
    error_about(&view);
    if let Some(ack) = ip::pure_ack(bytes) {
        assert!(!ack.replaces(&ack));
    }
    let state = if is_partial { L4Checksum::Partial } else { L4Checksum::Complete };
    let clamped = clamp_mss(&mut packet, max_mss, state);
    assert!(!clamp_mss(&mut packet, max_mss, state), "once is enough");
    assert_eq!(IpView::parse(&packet).map(|view| view.flow_key()), Ok(key));
    if clamped && !is_partial {
        assert_eq!(segment_sum(bytes), segment_sum(&packet), "a checksum is as right, or as wrong, as before");
    }
});

/// A router lowers the hop limit by one, keeps the header checksum as right or wrong as it is, or forwards nothing.
fn lower_hop_limit(packet: &[u8]) {
    let before = IpView::parse(packet).unwrap().hop_limit;
    let mut lowered = packet.to_vec();
    let left = ip::lower_hop_limit(&mut lowered).unwrap();
    assert_eq!(left, before.saturating_sub(1));
    if left > 0 {
        assert_eq!(IpView::parse(&lowered).unwrap().hop_limit, left);
        assert_eq!(header_sum(&lowered), header_sum(packet));
    } else {
        assert_eq!(lowered, packet);
    }
}

/// An error message about a packet is a packet to its sender, with right checksums, that quotes at most 1,280 bytes.
fn error_about(view: &IpView) {
    let source =
        if view.src.is_ipv4() { IpAddr::from([10, 0, 0, 1]) } else { IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 1]) };
    let mut out = [0; 1280];
    for error in [IcmpError::TimeExceeded, IcmpError::TooBig { mtu: 1280 }] {
        let Some(len) = ip::icmp_error(view, error, source, &mut out) else { continue };
        let told = IpView::parse(&out[..len]).unwrap();
        assert_eq!((told.dst, told.src, told.total_len), (view.src, source, len));
        if told.version == IpVersion::V4 {
            assert_eq!((header_sum(&out[..len]), segment_sum(&out[..len])), (0, 0));
        }
    }
}

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
