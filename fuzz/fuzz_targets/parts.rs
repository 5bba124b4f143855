//! Parts of units: every parsed part is written again with the same bytes, and lies inside its unit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::inner::{GRANULE, PART_HEADER_LEN, PartHeader, granules};

fuzz_target!(|plaintext: &[u8]| {
    let Ok((header, payload)) = PartHeader::parse(plaintext) else { return };
    let mut out = [0; PART_HEADER_LEN];
    assert_eq!(header.emit(&mut out), Ok(PART_HEADER_LEN));
    assert_eq!([&out, payload].concat(), plaintext);
    let part = header.granules(payload.len()).expect("what is parsed has a place");
    assert!(part.start < part.end && part.end <= header.of, "{part:?} of {}", header.of);
    assert!(part.len() < usize::from(header.of), "the whole unit is no part");
    let end = usize::from(part.start) * GRANULE + payload.len();
    assert_eq!(granules(end), Some(part.end));
    assert!(part.end == header.of || end == usize::from(part.end) * GRANULE, "a hole inside a granule");
});
