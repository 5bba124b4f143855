//! Explicit-rate signals in packets.
//!
//! A found signal can be written again, an inserted signal is found, and a node's grant raises no rate.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::er_sig::carriage::{blank, insert, parse, remove, update};
use weft_wire::er_sig::{Direction, KEY_LEN, Rate16, Rates, SIGNAL_LEN, Signal, SignalKey, ttl_difference};
use weft_wire::ip::IpView;

fuzz_target!(|packet: &[u8]| {
    if let Ok(Some((at, signal))) = parse(packet) {
        let mut again = packet.to_vec();
        update(&mut again, at, &signal).expect("what is parsed can be written");
        assert_eq!(again[at..at + SIGNAL_LEN], packet[at..at + SIGNAL_LEN]);
        granted(&signal, packet);
        without(again, at);
        return;
    }
    let Some((bytes, packet)) = packet.split_first_chunk::<SIGNAL_LEN>() else { return };
    let Ok(signal) = Signal::parse(bytes) else { return };
    let mut out = vec![0; packet.len() + 64];
    if let Ok(len) = insert(packet, &signal, &mut out) {
        assert_eq!(parse(&out[..len]).expect("sound").map(|(_, signal)| signal), Some(signal));
    }
});

/// A grant that the packet's first bytes give lowers the rates of one direction or leaves them.
fn granted(signal: &Signal, packet: &[u8]) {
    let [a, b, c, d, e, ..] = *packet else { return };
    let grant = Rates { available: Rate16(u16::from_be_bytes([a, b])), guaranteed: Rate16(u16::from_be_bytes([c, d])) };
    let mut passed = *signal;
    passed.pass(if e & 1 == 0 { Direction::Forward } else { Direction::Reverse }, grant, 1);
    for (was, is) in [(signal.forward, passed.forward), (signal.reverse, passed.reverse)] {
        assert!(is.available <= was.available && is.guaranteed <= was.guaranteed);
        assert!(is == was || passed.is_lowered);
    }
    assert_eq!(passed.immutable(), signal.immutable());
    if let Ok(view) = IpView::parse(packet) {
        let (key, flow) = (SignalKey::new([7; KEY_LEN]), view.flow_key());
        assert_eq!(key.tag(&flow, &passed), key.sign(&flow, *signal).tag, "a grant keeps the tag right");
    }
    assert_eq!(ttl_difference(a.wrapping_sub(1), passed.qttl), ttl_difference(a, signal.qttl));
    assert!(signal.burst.bytes() >= 256);
    assert_eq!(signal.delay_variance.bound().is_none(), signal.delay_variance.0 == 0);
}

/// A packet has no signal where one was replaced by padding, and begins with the same version where one was cut out.
fn without(mut packet: Vec<u8>, at: usize) {
    let mut blanked = packet.clone();
    assert_eq!(blank(&mut blanked), Ok(true));
    assert!(!matches!(parse(&blanked), Ok(Some((place, _))) if place == at));
    let first = packet[0] >> 4;
    if let Ok(taken) = remove(&mut packet) {
        assert_eq!(packet[taken] >> 4, first);
    }
}
