//! Compressed headers.
//!
//! Any input is restored to a packet or rejected, and every compressed header is restored exactly.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::header_compression::{MAX_DIFFERENCE_LEN, Reference};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let (is_partial, at) = (first & 1 != 0, usize::from(first >> 1).min(bytes.len()));
    let (packet, difference) = bytes.split_at(at);
    let Some(reference) = Reference::of(packet) else { return };
    let mut header = [0; 128];
    let Ok((len, payload)) = reference.restore(difference, is_partial, &mut header) else { return };
    assert_eq!(len, reference.header().len());
    let mut again = [0; MAX_DIFFERENCE_LEN];
    if let Some(shorter) = reference.difference(&header[..len], payload.len(), is_partial, &mut again) {
        let mut restored = [0; 128];
        let compressed = [&again[..shorter], payload].concat();
        assert_eq!(reference.restore(&compressed, is_partial, &mut restored), Ok((len, payload)));
        assert_eq!(restored[..len], header[..len]);
    }
});
