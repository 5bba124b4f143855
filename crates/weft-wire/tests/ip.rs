//! Views of IP and TCP: hand-written packets, and in-place changes compared with recomputed checksums.

mod common;

use common::{Flow, L4, Segment, hex, unhex};
use proptest::prelude::*;
use weft_wire::WireError;
use weft_wire::ip::{self, Ecn, FlowKey, IpVersion, IpView, L4Checksum, TcpFlags, TcpOption, clamp_mss};

const SYN: u8 = TcpFlags::SYN;

fn flow(v6: bool, l4: L4, tcp_options: Vec<u8>) -> Flow {
    Flow { v6, l4, ip_options: true, tcp_options, tos: 0xb9, ttl: 63, window: 500 }
}

fn segment(flags: u8) -> Segment {
    Segment { id: 1, seq: 0x0a0b_0c0d, flags, payload: b"odd".to_vec() }
}

#[test]
fn a_view_agrees_with_the_headers() {
    for v6 in [false, true] {
        let flow = flow(v6, L4::Tcp, vec![]);
        let mut packet = flow.packet(&segment(0x18));
        packet.extend([0; 6]); // Ethernet padding behind the packet
        let view = IpView::parse(&packet).unwrap();
        assert_eq!(view.version, if v6 { IpVersion::V6 } else { IpVersion::V4 });
        assert_eq!((view.header_len, view.total_len), (flow.l4_at(), packet.len() - 6));
        let addresses = if v6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.0.2"] };
        assert_eq!([view.src, view.dst].map(|a| a.to_string()), addresses);
        assert_eq!((view.protocol, view.is_fragment, view.tos, view.hop_limit), (6, false, 0xb9, 63));
        assert_eq!(view.flow_label, if v6 { 0xbeef } else { 0 });
        assert_eq!(view.ports(), (8080, 50_000));
        let tcp = view.tcp().unwrap();
        assert_eq!((tcp.seq, tcp.ack, tcp.window, tcp.header_len), (0x0a0b_0c0d, 0x0102_0304, 500, 20));
        assert!(tcp.flags.any(TcpFlags::PSH) && !tcp.flags.any(TcpFlags::SYN | TcpFlags::FIN));
        assert_eq!(tcp.payload(), b"odd");
        let key = FlowKey::of(&packet).unwrap();
        assert_eq!((key.protocol, key.src_port, key.dst_port, key.flow_label), (6, 8080, 50_000, view.flow_label));
    }
}

#[test]
fn extension_headers_are_walked_to_a_bound() {
    let packet = |first: u8, extensions: &str, next: &str| {
        let tail = unhex(&format!("{extensions}{next}"));
        let mut packet = unhex("60000000 0000 00 40 fd000000000000000000000000000001 fd000000000000000000000000000002");
        packet[4..6].copy_from_slice(&(tail.len() as u16).to_be_bytes());
        packet[6] = first;
        packet.extend(tail);
        packet
    };
    let udp = "1388 0035 0008 0000";
    let chain = packet(0, "2b00010400000000 2c00000000000000 3c000000 12345678 1100010400000000", udp);
    let view = IpView::parse(&chain).unwrap();
    assert_eq!((view.protocol, view.header_len, view.is_fragment), (17, 40 + 32, false), "an atomic fragment is whole");
    assert_eq!(view.ports(), (5000, 53));

    let fragment = packet(44, "1100 0001 12345678", udp);
    let view = IpView::parse(&fragment).unwrap();
    assert_eq!((view.protocol, view.is_fragment, view.ports()), (17, true, (0, 0)));

    let authenticated = packet(51, "1101000000000001000000020000", udp);
    assert_eq!(IpView::parse(&authenticated).map(|v| v.header_len), Ok(52));

    let endless = packet(60, &"3c00010400000000".repeat(9), udp);
    let view = IpView::parse(&endless).unwrap();
    assert_eq!((view.protocol, view.header_len), (60, 40 + 64));
    assert_eq!(IpView::parse(&packet(60, "11ff010400000000", udp)), Err(WireError::Truncated));
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let good = flow(false, L4::Tcp, vec![]).packet(&segment(0x10));
    let changed = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        IpView::parse(&packet).map(|view| view.total_len)
    };
    assert_eq!(changed(0, 0x44), Err(WireError::Malformed), "IHL below five");
    assert_eq!(changed(0, 0x55), Err(WireError::Version));
    assert_eq!(changed(3, 27), Err(WireError::Malformed), "total length below the header's");
    assert_eq!(changed(3, good.len() as u8 + 1), Err(WireError::Truncated));
    assert_eq!(IpView::parse(&[]), Err(WireError::Truncated));
}

#[test]
fn fragments_have_no_ports_and_echoes_have_an_identifier() {
    let mut packet = flow(false, L4::Udp, vec![]).packet(&segment(0));
    packet[6] = 0x20; // set the more-fragments flag
    assert_eq!(FlowKey::of(&packet).map(|k| (k.src_port, k.dst_port)), Ok((0, 0)));
    assert_eq!(IpView::parse(&packet).map(|v| v.is_fragment), Ok(true));
    let echo = unhex("45000024 00000000 4001 0000 0a000001 0a000002 0800 0000 1234 0001 0000000000000000");
    assert_eq!(FlowKey::of(&echo).map(|k| (k.src_port, k.dst_port)), Ok((0x1234, 0x1234)));
    let mut unreachable = echo.clone();
    unreachable[20] = 3;
    assert_eq!(FlowKey::of(&unreachable).map(|k| (k.src_port, k.dst_port)), Ok((0, 0)));
}

#[test]
fn options_are_read_in_order() {
    let options = unhex("020405b4 0402 01 080a0000000100000002 01 0512 00000001000000020000000300000004");
    let packet = flow(false, L4::Tcp, [options, vec![0; 2]].concat()).packet(&segment(SYN));
    let tcp = IpView::parse(&packet).unwrap().tcp().unwrap();
    let read: Vec<_> = tcp.options().collect();
    let [TcpOption::Mss(1460), sack_permitted, timestamps, TcpOption::Sack(blocks)] = read[..] else {
        panic!("{read:?}")
    };
    assert_eq!(sack_permitted, TcpOption::Other { kind: 4, data: &[] });
    assert_eq!(timestamps, TcpOption::Other { kind: 8, data: &[0, 0, 0, 1, 0, 0, 0, 2] });
    assert_eq!(blocks.collect::<Vec<_>>(), [(1, 2), (3, 4)]);
}

#[test]
fn malformed_options_end_the_list() {
    for bad in ["02000000", "02010000", "02ff0000", "01010102"] {
        let packet = flow(false, L4::Tcp, unhex(bad)).packet(&segment(SYN));
        assert_eq!(IpView::parse(&packet).unwrap().tcp().unwrap().options().count(), 0, "{bad}");
    }
}

#[test]
fn mss_is_only_lowered_and_only_in_a_syn() {
    let options = unhex("020405b4");
    for (flags, max_mss, clamped) in [(SYN, 1300, true), (0x12, 1300, true), (SYN, 1460, false), (0x10, 1300, false)] {
        let mut packet = flow(true, L4::Tcp, options.clone()).packet(&segment(flags));
        let before = packet.clone();
        assert_eq!(clamp_mss(&mut packet, max_mss, L4Checksum::Complete), clamped);
        assert_eq!(packet != before, clamped);
    }
}

proptest! {
    #[test]
    fn a_clamped_syn_is_the_syn_with_a_lower_mss(
        v6 in any::<bool>(), nops in 0usize..4, mss in 537u16.., max_mss in 536u16..1500, partial in any::<bool>(),
    ) {
        let options = |mss: u16| {
            let mut options = vec![1; nops];
            options.extend([2, 4]);
            options.extend(mss.to_be_bytes());
            options.resize(8, 1);
            options
        };
        let build = |mss| {
            let flow = flow(v6, L4::Tcp, options(mss));
            if partial { flow.partial(&segment(SYN)) } else { flow.packet(&segment(SYN)) }
        };
        let mut packet = build(mss);
        let state = if partial { L4Checksum::Partial } else { L4Checksum::Complete };
        prop_assert_eq!(clamp_mss(&mut packet, max_mss, state), mss > max_mss);
        prop_assert_eq!(hex(&packet), hex(&build(mss.min(max_mss))));
    }

    #[test]
    fn a_changed_tos_is_as_if_built_so(v6 in any::<bool>(), tos in any::<u8>(), old in any::<u8>(), id in any::<u16>()) {
        let build = |tos| Flow { tos, ..flow(v6, L4::Udp, vec![]) }.packet(&Segment { id, ..segment(0) });
        let mut packet = build(old);
        prop_assert_eq!(ip::tos(&packet), Ok(old));
        ip::set_tos(&mut packet, tos).unwrap();
        prop_assert_eq!(hex(&packet), hex(&build(tos)));
        ip::set_ecn(&mut packet, Ecn::Ce).unwrap();
        prop_assert_eq!(hex(&packet), hex(&build(tos | 3)));
        ip::set_dscp(&mut packet, 46).unwrap();
        prop_assert_eq!(hex(&packet), hex(&build(46 << 2 | 3)));
    }
}
