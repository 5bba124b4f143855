//! Quick-Start options in packets.
//!
//! A found option can be written again, an inserted option is found, and no rate rises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::quick_start::{QuickRate, QuickStart, Response, insert, nonces_agree, parse, update};

fuzz_target!(|packet: &[u8]| {
    let _ = Response::of(packet);
    if let Ok(Some((at, option))) = parse(packet) {
        let (mut again, mut lowered) = (packet.to_vec(), option);
        lowered.lower(QuickRate::new(packet[0] & 0x0f), u32::from(packet[1]) * 0x0101_0101);
        assert!(lowered.rate <= option.rate && nonces_agree(option.nonce, lowered.nonce, lowered.rate));
        update(&mut again, at, lowered).expect("what is parsed can be written");
        assert_eq!(parse(&again).expect("sound"), Some((at, lowered)));
        return;
    }
    let Some((value, packet)) = packet.split_first_chunk::<6>() else { return };
    let Ok(option) = QuickStart::parse(value) else { return };
    let mut out = vec![0; packet.len() + 64];
    if let Ok(len) = insert(packet, option, &mut out) {
        assert_eq!(parse(&out[..len]).expect("sound").map(|(_, option)| option), Some(option));
    }
});
