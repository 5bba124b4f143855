//! Forwarding of a packet by a router: a lower hop limit, or an ICMP error.

use core::net::IpAddr;
use proptest::prelude::*;
use weft_wire::checksum::{self, Sum};
use weft_wire::ip::{IcmpError, IpView, icmp_error, lower_hop_limit};

fn v4(ttl: u8, words: &[u8; 12]) -> Vec<u8> {
    let mut packet = vec![0x45, words[0], 0, 20, words[1], words[2], 0, 0, ttl, words[3], 0, 0];
    packet.extend(&words[4..12]);
    let sum = checksum::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

proptest! {
    #[test]
    fn an_ipv4_header_stays_valid_and_loses_one_hop(ttl: u8, words: [u8; 12]) {
        let mut packet = v4(ttl, &words);
        let before = packet.clone();
        let left = lower_hop_limit(&mut packet).unwrap();
        prop_assert_eq!(left, ttl.saturating_sub(1));
        prop_assert_eq!(checksum::checksum(&packet), 0);
        if left == 0 { prop_assert_eq!(packet, before) } else { prop_assert_eq!(packet[8], left) }
    }

    #[test]
    fn any_bytes_are_refused_or_lowered_by_one(mut packet: Vec<u8>) {
        let before = packet.clone();
        match lower_hop_limit(&mut packet) {
            Ok(0) | Err(_) => prop_assert_eq!(packet, before),
            Ok(left) => {
                let at = if before[0] >> 4 == 4 { 8 } else { 7 };
                prop_assert_eq!((packet[at], left), (before[at] - 1, before[at] - 1));
            }
        }
    }
}

fn packet(is_v6: bool, protocol: u8, source: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    if is_v6 {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([protocol, 1]);
        for host in [source, 9] {
            packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
    } else {
        packet.extend([0x45, 0]);
        packet.extend((20 + payload.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 1, protocol, 0, 0, 10, 0, 0, source, 10, 0, 0, 9]);
    }
    packet.extend(payload);
    packet
}

fn router(is_v6: bool) -> IpAddr {
    if is_v6 { "fd00::1".parse().unwrap() } else { "10.0.0.1".parse().unwrap() }
}

proptest! {
    #[test]
    fn an_error_is_valid_and_quotes_the_packet(
        is_v6: bool, protocol in prop::sample::select(vec![6u8, 17, 50]),
        payload in prop::collection::vec(any::<u8>(), 8..2_000), mtu: u16, exceeded: bool,
    ) {
        let about = packet(is_v6, protocol, 7, &payload);
        let view = IpView::parse(&about).unwrap();
        let error = if exceeded { IcmpError::TimeExceeded } else { IcmpError::TooBig { mtu } };
        let mut out = [0; 1_280];
        let len = icmp_error(&view, error, router(is_v6), &mut out).unwrap();
        let answer = IpView::parse(&out[..len]).unwrap();
        prop_assert_eq!((answer.src, answer.dst, answer.total_len), (router(is_v6), view.src, len));
        let most = if is_v6 { 1_280 } else { 576 };
        prop_assert!(len <= most);
        let icmp = answer.payload();
        prop_assert!(about.starts_with(&icmp[8..]) && icmp.len() >= 16);
        let pseudo = if is_v6 {
            checksum::pseudo_header(answer.src, answer.dst, 58, icmp.len())
        } else {
            prop_assert_eq!(checksum::checksum(&out[..20]), 0);
            Sum::default()
        };
        prop_assert_eq!(pseudo.bytes(icmp).checksum(), 0);
        if !exceeded {
            prop_assert_eq!(&icmp[6..8], &mtu.to_be_bytes());
        }
        // No error is sent about an error.
        prop_assert_eq!(icmp_error(&answer, error, router(is_v6), &mut [0; 1_280]), None);
    }

    #[test]
    fn any_packet_gets_an_error_or_none(bytes: Vec<u8>, is_v6: bool) {
        if let Ok(view) = IpView::parse(&bytes) {
            let _ = icmp_error(&view, IcmpError::TimeExceeded, router(is_v6), &mut [0; 1_280]);
        }
    }
}

#[test]
fn an_echo_gets_an_error_and_a_group_gets_none() {
    let echo = packet(false, 1, 7, &[8, 0, 0, 0, 0, 0, 0, 0]);
    let about = |bytes: &[u8]| {
        icmp_error(&IpView::parse(bytes).unwrap(), IcmpError::TimeExceeded, router(false), &mut [0; 1_280])
    };
    assert_eq!(about(&echo), Some(20 + 8 + 28));
    let mut group = echo;
    group[12] = 224;
    assert_eq!(about(&group), None);
}
