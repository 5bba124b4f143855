//! Calls and ownership messages: writing and parsing a parsed message yields the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::call::{self, MAX_BODY};
use weft_wire::ownership::{MAX_MESSAGE, MAX_QUESTION, ClaimMessage, OwnershipQuestion, Reply};

fuzz_target!(|bytes: &[u8]| {
    let mut out = [0; call::MAX_MESSAGE];
    if let Ok(message) = call::CallMessage::parse(bytes) {
        let len = message.emit(&mut out).expect("what is parsed can be written");
        assert_eq!(len, bytes.len());
        assert_eq!(call::CallMessage::parse(&out[..len]), Ok(message));
        body(message.body);
    }
    if let Ok(message) = ClaimMessage::parse(bytes) {
        let len = message.emit(&mut out[..MAX_MESSAGE]).expect("what is parsed can be written");
        assert_eq!(&out[..len], bytes);
    }
    body(bytes);
});

fn body(bytes: &[u8]) {
    let mut out = [0; MAX_BODY];
    if let Ok(question) = OwnershipQuestion::parse(bytes) {
        let len = question.emit(&mut out[..MAX_QUESTION]).expect("what is parsed can be written");
        assert_eq!(&out[..len], bytes);
    }
    if let Ok(reply) = Reply::parse(bytes) {
        // A body in a call fits the buffer, but these bytes may be longer.
        match reply.emit(&mut out) {
            Ok(len) => assert_eq!(&out[..len], bytes),
            Err(_) => assert!(bytes.len() > MAX_BODY),
        }
    }
}
