//! Fragments and quoted packets: the properties that an access rule needs of packets without ports.

use weft_wire::ip::{FragmentPlace, IcmpError, IpView, icmp_error};

fn v4(flags_and_offset: u16, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
    packet.extend(payload);
    packet
}

#[test]
fn fragments_of_ipv4_have_place_and_ports() {
    let udp = [0x13, 0x88, 0, 53, 0, 8, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let first = v4(0x2000, &udp);
    let view = IpView::parse(&first).unwrap();
    assert_eq!(view.fragment(), Some(FragmentPlace { id: 0x1234, offset: 0 }));
    assert_eq!(view.first_fragment_ports(), Some((5000, 53)));
    assert_eq!(view.ports(), (0, 0));
    let later = v4(0x0002, &udp);
    assert_eq!(IpView::parse(&later).unwrap().fragment(), Some(FragmentPlace { id: 0x1234, offset: 16 }));
    let whole = v4(0x4000, &udp);
    assert_eq!(IpView::parse(&whole).unwrap().fragment(), None);
    let short = v4(0x2000, &udp[..4]);
    assert_eq!(IpView::parse(&short).unwrap().first_fragment_ports(), None, "the header is cut");
}

#[test]
fn fragments_of_ipv6_are_found_behind_other_headers() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
    packet.extend([0xfd; 32]);
    packet.extend([44, 0, 1, 4, 0, 0, 0, 0]); // hop-by-hop options
    packet.extend([17, 0, 0, 1, 0xaa, 0xbb, 0xcc, 0xdd]); // the first fragment
    packet.extend([0x13, 0x88, 0, 53, 0, 8, 0, 0]);
    let view = IpView::parse(&packet).unwrap();
    assert_eq!(view.fragment(), Some(FragmentPlace { id: 0xaabb_ccdd, offset: 0 }));
    assert_eq!(view.first_fragment_ports(), Some((5000, 53)));
    packet[50..52].copy_from_slice(&0x0019u16.to_be_bytes());
    assert_eq!(IpView::parse(&packet).unwrap().fragment(), Some(FragmentPlace { id: 0xaabb_ccdd, offset: 24 }));
}

fn udp(is_ipv6: bool) -> Vec<u8> {
    let mut packet = if is_ipv6 {
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 1];
        packet.extend([0xfd; 16]);
        packet.extend([0xfc; 16]);
        packet
    } else {
        vec![0x45, 0, 0, 28, 0, 1, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
    };
    packet.extend([0x13, 0x88, 0, 53, 0, 8, 0, 0]);
    packet
}

#[test]
fn errors_that_weft_writes_name_the_flow_that_they_are_about() {
    for (is_ipv6, source) in [(false, "10.0.0.9"), (true, "fd00::9")] {
        let packet = udp(is_ipv6);
        let about = IpView::parse(&packet).unwrap();
        for error in [IcmpError::TimeExceeded, IcmpError::TooBig { mtu: 1280 }] {
            let mut out = [0; 1280];
            let len = icmp_error(&about, error, source.parse().unwrap(), &mut out).unwrap();
            let view = IpView::parse(&out[..len]).unwrap();
            assert_eq!(view.quoted_flow(), Some(about.flow_key()));
        }
        assert_eq!(about.quoted_flow(), None, "the packet itself quotes nothing");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), first in 0u8..2) {
        let mut bytes = bytes;
        if let Some(version) = bytes.first_mut() {
            *version = if first == 0 { 0x45 } else { 0x60 };
        }
        if let Ok(view) = IpView::parse(&bytes) {
            proptest::prop_assert_eq!(view.fragment().is_some(), view.is_fragment);
            let _ = (view.first_fragment_ports(), view.quoted_flow());
        }
    }
}
