//! Recognition of pure acknowledgments, and the choice which of two makes the other redundant.
#![allow(missing_docs)]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weft_wire::ip::{PureAck, pure_ack};

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

/// An acknowledgment of the modelled receiver, and the bytes that it acknowledges.
struct Said {
    ack: PureAck,
    /// Numbers of the segments that are acknowledged.
    acknowledged: BTreeSet<u32>,
    has_sack: bool,
    /// True if the acknowledgment reports that a segment arrived twice.
    is_duplicate: bool,
    /// True if the segment had no room for all SACK blocks.
    is_cut: bool,
}

/// A receiver with SACK and D-SACK (RFC 2018, RFC 2883) that acknowledges each segment.
#[derive(Default)]
struct Receiver {
    /// Arrival order of the segments received, by their numbers.
    at: BTreeMap<u32, usize>,
}

/// Bytes of a modelled segment.
const SEGMENT: u32 = 1_000;

impl Receiver {
    /// Receives a segment. `base` is the sequence number of segment 0.
    fn receive(&mut self, segment: u32, base: u32) -> Said {
        let is_duplicate = self.at.contains_key(&segment);
        let order = self.at.len();
        self.at.entry(segment).or_insert(order);
        let next = (0..).find(|n| !self.at.contains_key(n)).unwrap();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for n in self.at.keys().filter(|n| **n > next) {
            match runs.last_mut() {
                Some(run) if run.1 == *n => run.1 += 1,
                _ => runs.push((*n, n + 1)),
            }
        }
        // The block with the newest segment comes first.
        runs.sort_by_key(|run| core::cmp::Reverse((run.0..run.1).map(|n| self.at[&n]).max()));
        let mut blocks = runs.clone();
        if is_duplicate {
            blocks.retain(|run| !(run.0..run.1).contains(&segment));
            blocks.splice(0..0, [(segment, segment + 1)]);
            blocks.splice(1..1, runs.iter().copied().filter(|run| (run.0..run.1).contains(&segment)));
        }
        let is_cut = blocks.len() > 4;
        blocks.truncate(4);
        let seq = |n: u32| base.wrapping_add(n * SEGMENT);
        let mut options = if blocks.is_empty() { vec![] } else { vec![1, 1, 5, 2 + 8 * blocks.len() as u8] };
        options.extend(blocks.iter().flat_map(|run| [seq(run.0), seq(run.1)]).flat_map(u32::to_be_bytes));
        let acknowledged = (0..next).chain(blocks.iter().flat_map(|run| run.0..run.1)).collect();
        let ack = pure_ack(&packet(seq(next), 0, 0x10, &options, 0)).unwrap();
        Said { ack, acknowledged, has_sack: !runs.is_empty(), is_duplicate, is_cut }
    }
}

proptest! {
    /// A later acknowledgment without SACK replaces an earlier one and never the reverse.
    ///
    /// This holds even where sequence numbers wrap.
    #[test]
    fn the_later_replaces_the_earlier(ack: u32, ahead in 1..1_u32 << 31) {
        let [older, newer] =
            [ack, ack.wrapping_add(ahead)].map(|ack| pure_ack(&packet(ack, 0, 0x10, TIMESTAMPS, 0)).unwrap());
        prop_assert!(newer.replaces(&older) && !older.replaces(&newer) && !older.replaces(&older));
    }

    /// An acknowledgment is replaced only by one that acknowledges the same bytes and more.
    ///
    /// While all SACK blocks fit into the segment, the next acknowledgment replaces the one before it.
    ///
    /// The segments arrive with losses, retransmissions and duplicates.
    #[test]
    fn sack_blocks_are_replaced_only_by_an_ack_that_repeats_them(
        base: u32, fates in prop::collection::vec((0..8_u8, 0..12_u32), 2..40)
    ) {
        let mut arrivals = Vec::new();
        for (n, (fate, late)) in (0..).zip(&fates) {
            let lost = *fate == 0;
            arrivals.push((if lost { n + 6 + late } else { n }, n));
            if *fate == 1 {
                arrivals.push((n + late, n));
            }
        }
        arrivals.sort_unstable();
        let mut receiver = Receiver::default();
        let said: Vec<Said> = arrivals.iter().map(|(_, n)| receiver.receive(*n, base)).collect();
        for (at, older) in said.iter().enumerate() {
            for newer in &said[at + 1..] {
                let says_all = newer.acknowledged.is_superset(&older.acknowledged);
                if newer.ack.replaces(&older.ack) {
                    let says_more = newer.acknowledged.len() > older.acknowledged.len() || newer.is_duplicate;
                    prop_assert!(says_all && says_more);
                    prop_assert!(!older.is_duplicate || newer.is_duplicate);
                }
                // Of two acknowledgments with D-SACK, either may be the later one.
                prop_assert!(older.is_duplicate && newer.is_duplicate || !older.ack.replaces(&newer.ack));
            }
            let Some(newer) = said.get(at + 1) else { continue };
            let is_plain_repeat = older.acknowledged.len() as u32 > 0 && !older.has_sack && newer.has_sack;
            let is_alike = older.is_duplicate == newer.is_duplicate && older.ack != newer.ack;
            if is_alike && !older.is_cut && !newer.is_cut && !is_plain_repeat {
                prop_assert!(newer.ack.replaces(&older.ack), "{:?} {:?}", older.ack, newer.ack);
            }
        }
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
