//! Recognition of pure acknowledgments, and the choice which of two makes the other redundant.
#![allow(missing_docs)]

use proptest::prelude::*;
use weft_wire::ip::pure_ack;

fn packet(ack: u32, byte_12: u8, flags: u8, options: &[u8], data: usize) -> Vec<u8> {
    let total = 40 + options.len() + data;
    let mut packet = Vec::from([0x45, 0, (total >> 8) as u8, total as u8, 0, 0, 0, 0, 64, 6, 0, 0]);
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4, 0, 0, 0, 1]);
    packet.extend(ack.to_be_bytes());
    packet.extend([(((20 + options.len()) / 4) << 4) as u8 | byte_12, flags, 9, 9, 0, 0, 0, 0]);
    packet.extend(options);
    packet.resize(total, 0);
    packet
}

/// Returns the same segment over IPv6, behind `extensions` bytes of destination options.
///
/// `extensions` is a multiple of eight.
fn packet6(segment: &[u8], extensions: usize) -> Vec<u8> {
    let next = if extensions > 0 { 60 } else { 6 };
    let len = extensions + segment.len();
    let mut packet = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, next, 64];
    packet.extend([[0xfd; 16], [0xfc; 16]].concat());
    if extensions > 0 {
        packet.extend([6, (extensions / 8 - 1) as u8, 1, (extensions - 4) as u8]);
        packet.resize(40 + extensions, 0);
    }
    packet.extend(segment);
    packet
}

const TIMESTAMPS: &[u8] = &[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
const SACK: &[u8] = &[1, 1, 5, 10, 0, 0, 1, 0, 0, 0, 2, 0];

#[test]
fn only_what_acknowledges_and_nothing_else_is_one() {
    let one = |byte_12, flags, options, data| pure_ack(&packet(7, byte_12, flags, options, data));
    assert!(one(0, 0x10, TIMESTAMPS, 0).is_some() && one(0, 0x10, SACK, 0).is_some());
    assert_eq!(one(0, 0x10, TIMESTAMPS, 1), None, "data");
    assert_eq!(one(1, 0x10, TIMESTAMPS, 0), None, "AccECN's AE");
    assert_eq!(one(0, 0x10, &[30, 4, 0, 0], 0), None, "MPTCP");
    for bit in [0x01, 0x02, 0x04, 0x08, 0x20, 0x40, 0x80] {
        assert_eq!(one(0, 0x10 | bit, TIMESTAMPS, 0), None, "flag {bit:x}");
    }
    let mut with_ip_option = packet(7, 0, 0x10, &[], 0);
    with_ip_option.splice(20..20, [1, 1, 1, 0]);
    (with_ip_option[0], with_ip_option[3]) = (0x46, 44);
    assert_eq!(pure_ack(&with_ip_option), None, "options of the IP header");
}

proptest! {
    /// A later acknowledgment replaces an earlier one and never the reverse.
    ///
    /// This holds even where sequence numbers wrap.
    #[test]
    fn the_later_replaces_the_earlier(ack: u32, ahead in 1..1_u32 << 31, sacks: [bool; 2]) {
        let [older, newer] = [(ack, sacks[0]), (ack.wrapping_add(ahead), sacks[1])]
            .map(|(ack, has_sack)| pure_ack(&packet(ack, 0, 0x10, if has_sack { SACK } else { TIMESTAMPS }, 0)).unwrap());
        prop_assert_eq!(newer.replaces(&older), !sacks[0]);
        prop_assert!(!older.replaces(&newer) && !older.replaces(&older));
    }

    /// Both IP versions yield the same result. An IPv6 packet with extension headers is never a pure acknowledgment.
    #[test]
    fn ipv6_is_read_as_ipv4_is(ack: u32, flags: u8, sack: bool, data in 0..3_usize, extensions in 0..3_usize) {
        let four = packet(ack, 0, flags, if sack { SACK } else { TIMESTAMPS }, data);
        let expected = pure_ack(&four).filter(|_| extensions == 0);
        prop_assert_eq!(pure_ack(&packet6(&four[20..], 8 * extensions)), expected);
    }

    /// Arbitrary bytes never cause a panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = pure_ack(&bytes);
    }
}
