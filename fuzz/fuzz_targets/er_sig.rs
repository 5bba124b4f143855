//! Explicit-rate signals in packets.
//!
//! A found signal can be written again, and an inserted signal is found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::er_sig::carriage::{insert, parse, remove, update};
use weft_wire::er_sig::{SIGNAL_LEN, Signal};

fuzz_target!(|packet: &[u8]| {
    if let Ok(Some((at, signal))) = parse(packet) {
        let mut again = packet.to_vec();
        update(&mut again, at, &signal).expect("what is parsed can be written");
        assert_eq!(again[at..at + SIGNAL_LEN], packet[at..at + SIGNAL_LEN]);
        if let Ok(taken) = remove(&mut again) {
            assert_eq!(again[taken] >> 4, packet[0] >> 4);
        }
        return;
    }
    let Some((bytes, packet)) = packet.split_first_chunk::<SIGNAL_LEN>() else { return };
    let Ok(signal) = Signal::parse(bytes) else { return };
    let mut out = vec![0; packet.len() + 64];
    if let Ok(len) = insert(packet, &signal, &mut out) {
        assert_eq!(parse(&out[..len]).expect("sound").map(|(_, signal)| signal), Some(signal));
    }
});
