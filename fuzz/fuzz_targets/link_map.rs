//! Messages of the link map: writing and parsing a parsed message yields the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weft_wire::link_map::{LinkMapMessage, MAX_MESSAGE, emit_certificate, emit_claim, emit_digest, is_link_map};

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = LinkMapMessage::parse(bytes) else { return };
    assert!(is_link_map(bytes));
    let mut out = [0; MAX_MESSAGE];
    let len = match message {
        LinkMapMessage::Claim(claim) => {
            let links: Vec<_> = claim.links.iter().collect();
            let sign = |covered: &[u8]| {
                assert_eq!(covered, claim.covered);
                *claim.signature
            };
            emit_claim(&mut out, (claim.public_key, claim.seq, claim.is_relay), &links, sign)
        }
        LinkMapMessage::Certificate(certificate) => emit_certificate(&mut out, certificate),
        LinkMapMessage::Digest(digest) => {
            let entries: Vec<_> = digest.iter().collect();
            emit_digest(&mut out, digest.wants_answer, (digest.first, digest.last), &entries)
        }
    };
    assert_eq!(&out[..len.expect("what is parsed can be written")], bytes);
});
