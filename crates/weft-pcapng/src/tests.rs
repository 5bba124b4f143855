//! Property: a reader of the format finds each interface and packet as it was written.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Reads the blocks of a capture.
///
/// Returns the kind and the body of each complete block, and the number of bytes after the last one.
fn blocks(mut bytes: &[u8]) -> (Vec<(u32, Vec<u8>)>, usize) {
    let mut blocks = Vec::new();
    while let (Some(kind), Some(length)) = (word(bytes, 0), word(bytes, 4)) {
        let length = length as usize;
        let Some(body) = bytes.get(8..length.saturating_sub(4)).filter(|_| bytes.len() >= length) else { break };
        assert_eq!((length % 4, word(bytes, length - 4)), (0, Some(length as u32)), "length of block {kind:#x}");
        blocks.push((kind, body.to_vec()));
        bytes = &bytes[length..];
    }
    (blocks, bytes.len())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Returns the value of the option with the code `wanted`. `options` are all options of one block.
fn value(mut options: &[u8], wanted: u16) -> Option<Vec<u8>> {
    loop {
        let half = |at: usize| options.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
        let (code, len) = (half(0)?, usize::from(half(2)?));
        if code == wanted {
            return options.get(4..4 + len).map(<[u8]>::to_vec);
        }
        options = options.get(4 + len.next_multiple_of(4)..).filter(|_| code != code::END)?;
    }
}

fn written(names: &[String], packets: &[(usize, bool, Vec<u8>, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PcapngWriter::new(&mut bytes, "weft 0.1.0").unwrap();
    let interfaces: Vec<_> = names.iter().map(|name| writer.add_interface(name, name, 0).unwrap()).collect();
    for (interface, is_outgoing, stored, unix_ns) in packets {
        let record = Record { unix_ns: *unix_ns, is_outgoing: Some(*is_outgoing), stored, len: stored.len() + 7 };
        writer.packet(interfaces[interface % interfaces.len()], &record).unwrap();
    }
    writer.counters(interfaces[0], 5, Counters { packets: 3, dropped: 2 }).unwrap();
    bytes
}

proptest! {
    #[test]
    fn packets_and_names_are_read_as_they_were_written(
        names in vec(any::<String>(), 1..4),
        packets in vec((0..4usize, any::<bool>(), vec(any::<u8>(), 0..90), any::<u64>()), 0..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = written(&names, &packets);
        let (found, rest) = blocks(&bytes);
        prop_assert_eq!((found.len(), rest), (1 + names.len() + packets.len() + 1, 0));
        for (name, (kind, body)) in names.iter().zip(&found[1..]) {
            prop_assert_eq!(*kind, INTERFACE_DESCRIPTION);
            prop_assert_eq!(value(&body[8..], code::INTERFACE_NAME), Some(name.as_bytes().to_vec()));
        }
        for ((interface, is_outgoing, stored, unix_ns), (kind, body)) in packets.iter().zip(&found[1 + names.len()..]) {
            prop_assert_eq!(*kind, ENHANCED_PACKET);
            let interface = (interface % names.len()) as u32;
            let head = [interface, (unix_ns >> 32) as u32, *unix_ns as u32, stored.len() as u32, stored.len() as u32 + 7];
            prop_assert_eq!([0, 4, 8, 12, 16].map(|at| word(body, at)), head.map(Some));
            prop_assert_eq!(&body[20..20 + stored.len()], &stored[..]);
            let direction = if *is_outgoing { 2u32 } else { 1 };
            let options = &body[20 + stored.len().next_multiple_of(4)..];
            prop_assert_eq!(value(options, code::PACKET_FLAGS), Some(direction.to_le_bytes().to_vec()));
        }
        // A capture that is cut at any byte still contains all blocks that end before this byte.
        let (before, rest) = blocks(&bytes[..cut.index(bytes.len())]);
        prop_assert_eq!(&found[..before.len()], &before[..]);
        prop_assert!(rest < 4 * 1024);
    }
}

#[test]
fn a_capture_begins_as_the_format_demands_and_ends_with_counters() {
    let bytes = written(&["eth0".to_owned()], &[]);
    assert_eq!(bytes[..12], [0x0a, 0x0d, 0x0d, 0x0a, 48, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a]);
    let (found, _) = blocks(&bytes);
    assert_eq!(value(&found[0].1[16..], code::SECTION_APPLICATION), Some(b"weft 0.1.0".to_vec()));
    let (kind, body) = found.last().unwrap();
    assert_eq!(*kind, INTERFACE_STATISTICS);
    assert_eq!(value(&body[12..], code::RECEIVED), Some(5u64.to_le_bytes().to_vec()));
    assert_eq!(value(&body[12..], code::DROPPED), Some(2u64.to_le_bytes().to_vec()));
}

#[test]
fn a_name_that_is_too_long_for_the_format_is_cut() {
    let bytes = written(&["x".repeat(70_000)], &[]);
    let (found, rest) = blocks(&bytes);
    assert_eq!((found.len(), rest), (3, 0));
    assert_eq!(value(&found[1].1[8..], code::INTERFACE_NAME).map(|name| name.len()), Some(usize::from(u16::MAX)));
}

#[test]
fn a_capture_without_names_and_directions_has_no_options_for_them() {
    let mut writer = PcapngWriter::new(Vec::new(), "").unwrap();
    let interface = writer.add_interface("a", "", 0).unwrap();
    writer.packet(interface, &Record { unix_ns: 1, is_outgoing: None, stored: &[1, 2], len: 2 }).unwrap();
    let bytes = writer.finish().unwrap();
    let (found, _) = blocks(&bytes);
    let lengths: Vec<usize> = found.iter().map(|(_, body)| body.len()).collect();
    // The three blocks are header, interface and packet. The interface's options: name, time resolution, end of
    // options.
    assert_eq!(lengths, [16, 8 + 8 + 8 + 4, 20 + 4]);
}
