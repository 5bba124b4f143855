//! A marker before a unit: every parsed input is written again with the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::loop_data::{MARKER_LEN, Marker, OfRun};

fuzz_target!(|plaintext: &[u8]| {
    let Ok((marker, unit)) = OfRun::<Marker>::parse(plaintext) else { return };
    let mut out = [0; MARKER_LEN + 4];
    let len = marker.emit(&mut out).expect("what is parsed can be written");
    assert_eq!([&out[..len], unit].concat(), plaintext);
});
