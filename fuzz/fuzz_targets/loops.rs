//! What the ends of a loop tell each other: what is understood is written again as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::loop_data::{LoopHeader, MAX_LOOP_HEADER_LEN};

fuzz_target!(|plaintext: &[u8]| {
    let Ok((header, unit)) = LoopHeader::parse(plaintext) else { return };
    let mut out = [0; MAX_LOOP_HEADER_LEN];
    let len = header.emit(&mut out).expect("what is parsed can be written");
    assert_eq!(len, header.len());
    assert_eq!([&out[..len], unit].concat(), plaintext);
});
