//! Quick-Start options in packets.
//!
//! A found option can be written again, an inserted option or response is found, and no rate rises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::ip::L4Checksum;
use weft_wire::quick_start::{
    QuickRate, QuickStart, QuickStartResponse, blank, insert, nonces_agree, parse, remove, update,
};

fuzz_target!(|packet: &[u8]| {
    let response = QuickStartResponse::of(packet);
    if let Ok(Some((at, option))) = parse(packet) {
        let (mut again, mut lowered) = (packet.to_vec(), option);
        lowered.pass(QuickRate::new(packet[0] & 0x0f), packet[1] & 7, u32::from(packet[1]) * 0x0101_0101);
        assert!(lowered.rate <= option.rate && nonces_agree(option.nonce, lowered.nonce, lowered.rate));
        assert_eq!(QuickRate::floor(option.rate.rate()), QuickRate::ceil(option.rate.rate()));
        update(&mut again, at, lowered).expect("what is parsed can be written");
        assert_eq!(parse(&again).expect("sound"), Some((at, lowered)));
        without(again, at);
        if response.is_none() {
            answer(&QuickStartResponse::to(&option, packet[0]), packet);
        }
        return;
    }
    let Some((value, packet)) = packet.split_first_chunk::<6>() else { return };
    let Ok(option) = QuickStart::parse(value) else { return };
    let mut out = vec![0; packet.len() + 64];
    if let Ok(len) = insert(packet, option, &mut out) {
        assert_eq!(parse(&out[..len]).expect("sound").map(|(_, option)| option), Some(option));
    }
});

/// A response that was inserted into a segment is found in it.
fn answer(response: &QuickStartResponse, packet: &[u8]) {
    let mut out = vec![0; packet.len() + 64];
    for checksum in [L4Checksum::Complete, L4Checksum::Partial] {
        if let Ok(len) = response.insert(packet, checksum, &mut out) {
            assert_eq!(QuickStartResponse::of(&out[..len]), Some(*response));
        }
    }
}

/// A packet has no option where one was replaced by padding, and begins with the same version where one was cut out.
fn without(mut packet: Vec<u8>, at: usize) {
    let mut blanked = packet.clone();
    assert_eq!(blank(&mut blanked), Ok(true));
    assert!(!matches!(parse(&blanked), Ok(Some((place, _))) if place == at));
    let first = packet[0] >> 4;
    if let Ok(taken) = remove(&mut packet) {
        assert_eq!(packet[taken] >> 4, first);
    }
}
