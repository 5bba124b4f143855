//! Messages of the overlay: writing and parsing a parsed message yields the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::overlay::{MAX_CONTACTS, MAX_DETAILS, MAX_MESSAGE, OverlayMessage};

fuzz_target!(|payload: &[u8]| {
    let Ok(message) = OverlayMessage::parse(payload) else { return };
    if let OverlayMessage::Found { contacts, .. } = message {
        assert!(contacts.count() <= MAX_CONTACTS);
        assert!(contacts.into_iter().all(|contact| contact.details.len() <= MAX_DETAILS));
    }
    let mut out = [0; MAX_MESSAGE];
    let len = message.emit(&mut out).expect("what is parsed can be written");
    assert_eq!(len, payload.len());
    assert_eq!(OverlayMessage::parse(&out[..len]), Ok(message));
});
