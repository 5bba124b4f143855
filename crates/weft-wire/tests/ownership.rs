//! Calls and ownership messages: their exact bytes, and that the parser restores each one.
#![allow(missing_docs)]

mod common;

use common::{hex, unhex};
use proptest::prelude::*;
use std::net::IpAddr;
use weft_units::NodeId;
use weft_wire::WireError;
use weft_wire::call::{self, CallKind, Header, MAX_BODY};
use weft_wire::certificate::MAX_CERTIFICATE_LEN;
use weft_wire::overlay::{MAX_CONTACTS, MAX_DETAILS, WireContact};
use weft_wire::ownership::{
    Claim, ClaimMessage, ClaimVerdict, MAX_MESSAGE, MAX_QUESTION, OwnershipQuestion, Reply, emit_holders,
};

const A: &str = "000102030405060708090a0b0c0d0e0f10111213";
const B: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfefff0f1f2f3";

fn id(text: &str) -> NodeId {
    NodeId::new(unhex(text).try_into().unwrap())
}

fn header() -> Header {
    Header { key: id(A), source: id(B), run: 1, seq: 0xa1b2_c3d4, hops_left: 32, was_duplicated: true }
}

fn emit_call(message: &call::CallMessage<'_>) -> Vec<u8> {
    let mut out = [0; call::MAX_MESSAGE];
    let len = message.emit(&mut out).unwrap();
    out[..len].to_vec()
}

fn emit(message: &ClaimMessage<'_>) -> Vec<u8> {
    let mut out = [0; MAX_MESSAGE];
    let len = message.emit(&mut out).unwrap();
    out[..len].to_vec()
}

fn emit_reply(reply: &Reply<'_>) -> Vec<u8> {
    let mut out = [0; MAX_BODY];
    let len = reply.emit(&mut out).unwrap();
    out[..len].to_vec()
}

fn emit_question(question: &OwnershipQuestion) -> Vec<u8> {
    let mut out = [0; MAX_QUESTION];
    let len = question.emit(&mut out).unwrap();
    out[..len].to_vec()
}

/// Golden vectors: these bytes are the wire format.
#[test]
fn the_bytes_are_these() {
    let head = format!("{A} {B} 00000001 a1b2c3d4 20 01");
    for (kind, text) in [
        (CallKind::Call { application: 0x0203 }, format!("07 {head} 00000009 0203 aabb")),
        (CallKind::Answer, format!("08 {head} 00000009 aabb")),
    ] {
        let message = call::CallMessage { header: header(), number: 9, kind, body: &[0xaa, 0xbb] };
        assert_eq!(hex(&emit_call(&message)), hex(&unhex(&text)));
        assert_eq!(call::CallMessage::parse(&unhex(&text)), Ok(message));
    }
    let claim = Claim { seq: 0x0102_0304_0506_0708, details: &[9; 3], certificate: &[7; 5] };
    let claimed = "0102030405060708 03 090909 0707070707";
    for (message, text) in [
        (ClaimMessage::Claim(claim), format!("09 {claimed}")),
        (ClaimMessage::Withdraw { seq: 5 }, "0a 0000000000000005".to_owned()),
        (ClaimMessage::Verdict { seq: 5, verdict: ClaimVerdict::Taken }, "0b 0000000000000005 00".to_owned()),
        (ClaimMessage::Verdict { seq: 5, verdict: ClaimVerdict::Outdated }, "0b 0000000000000005 01".to_owned()),
        (ClaimMessage::Verdict { seq: 5, verdict: ClaimVerdict::Uncertified }, "0b 0000000000000005 02".to_owned()),
        (ClaimMessage::Verdict { seq: 5, verdict: ClaimVerdict::Owned }, "0b 0000000000000005 03".to_owned()),
        (ClaimMessage::Verdict { seq: 5, verdict: ClaimVerdict::Full }, "0b 0000000000000005 04".to_owned()),
        (ClaimMessage::Verdict { seq: 5, verdict: ClaimVerdict::Elsewhere }, "0b 0000000000000005 05".to_owned()),
        (ClaimMessage::Renew { key: id(A) }, format!("0c {A}")),
    ] {
        assert_eq!(hex(&emit(&message)), hex(&unhex(&text)));
        assert_eq!(ClaimMessage::parse(&unhex(&text)), Ok(message));
    }
    let v6 = "fd000000000000000000000000000001";
    for (question, text) in [
        (OwnershipQuestion::Holders(id(A)), format!("01 {A}")),
        (OwnershipQuestion::Owner { key: id(A), address: [10, 9, 0, 5].into() }, format!("02 {A} 04 0a090005")),
        (OwnershipQuestion::Owner { key: id(A), address: "fd00::1".parse().unwrap() }, format!("02 {A} 06 {v6}")),
    ] {
        assert_eq!(hex(&emit_question(&question)), hex(&unhex(&text)));
        assert_eq!(OwnershipQuestion::parse(&unhex(&text)), Ok(question));
    }
    for (reply, text) in [(Reply::Owner(claim), format!("02 {claimed}")), (Reply::Nobody, "03".to_owned())] {
        assert_eq!(hex(&emit_reply(&reply)), hex(&unhex(&text)));
        assert_eq!(Reply::parse(&unhex(&text)), Ok(reply));
    }
    let contacts = [WireContact { id: id(A), details: &[9; 3] }, WireContact { id: id(B), details: &[] }];
    let mut out = [0; MAX_BODY];
    let len = emit_holders(contacts.into_iter(), &mut out).unwrap();
    assert_eq!(hex(&out[..len]), hex(&unhex(&format!("01 02 {A} 03 090909 {B} 00"))));
    let Ok(Reply::Holders(read)) = Reply::parse(&out[..len]) else { panic!() };
    assert_eq!(read.collect::<Vec<_>>(), contacts.to_vec());
}

#[test]
fn values_beyond_a_bound_are_refused() {
    let long = [0; MAX_BODY + 1];
    let mut out = [0; 2 * call::MAX_MESSAGE];
    let message = call::CallMessage { header: header(), number: 9, kind: CallKind::Answer, body: &long };
    assert_eq!(message.emit(&mut out), Err(WireError::TooLong));
    let mut bytes = emit_call(&call::CallMessage { body: &long[1..], ..message });
    assert!(call::CallMessage::parse(&bytes).is_ok());
    bytes.push(0);
    assert_eq!(call::CallMessage::parse(&bytes), Err(WireError::TooLong));

    let claim = Claim { seq: 1, details: &long[..MAX_DETAILS + 1], certificate: &[] };
    assert_eq!(ClaimMessage::Claim(claim).emit(&mut out), Err(WireError::Malformed));
    let claim = Claim { seq: 1, details: &[], certificate: &long[..MAX_CERTIFICATE_LEN + 1] };
    assert_eq!(ClaimMessage::Claim(claim).emit(&mut out), Err(WireError::Malformed));
    let longest = Claim { seq: 1, details: &long[..MAX_DETAILS], certificate: &long[..MAX_CERTIFICATE_LEN] };
    let mut bytes = emit(&ClaimMessage::Claim(longest));
    assert_eq!(bytes.len(), MAX_MESSAGE);
    bytes.push(0);
    assert_eq!(ClaimMessage::parse(&bytes), Err(WireError::TooLong));
    assert_eq!(ClaimMessage::parse(&unhex("0b 0000000000000005 06")), Err(WireError::Malformed));
    assert_eq!(ClaimMessage::parse(&unhex("0a 0000000000000005 00")), Err(WireError::TooLong));
    for kind in [0, 6, 8, 13] {
        assert_eq!(ClaimMessage::parse(&[kind; 30]), Err(WireError::UnknownType));
    }
    for kind in [0, 6, 9] {
        assert_eq!(call::CallMessage::parse(&[kind; 80]), Err(WireError::UnknownType));
    }
    assert_eq!(OwnershipQuestion::parse(&unhex(&format!("02 {A} 05 0a090005"))), Err(WireError::UnknownType));
    assert_eq!(OwnershipQuestion::parse(&unhex(&format!("01 {A} 00"))), Err(WireError::TooLong));
    assert_eq!(Reply::parse(&[1, MAX_CONTACTS as u8 + 1]), Err(WireError::Malformed));
    assert_eq!(Reply::parse(&[4]), Err(WireError::UnknownType));
    assert_eq!(Reply::parse(&[]), Err(WireError::Truncated));
}

fn node_id() -> impl Strategy<Value = NodeId> {
    any::<[u8; 20]>().prop_map(NodeId::new)
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=most)
}

proptest! {
    #[test]
    fn calls_arrive(key in node_id(), source in node_id(), run: u32, seq: u32, hops_left: u8, was_duplicated: bool,
        number: u32, application in prop::option::of(any::<u16>()), body in bytes(MAX_BODY)) {
        let header = Header { key, source, run, seq, hops_left, was_duplicated };
        let kind = application.map_or(CallKind::Answer, |application| CallKind::Call { application });
        let message = call::CallMessage { header, number, kind, body: &body };
        let bytes = emit_call(&message);
        prop_assert_eq!(call::CallMessage::parse(&bytes), Ok(message));
    }

    #[test]
    fn claims_and_questions_arrive(seq: u64, details in bytes(MAX_DETAILS), certificate in bytes(MAX_CERTIFICATE_LEN),
        key in node_id(), address: IpAddr) {
        let claim = Claim { seq, details: &details, certificate: &certificate };
        let (message, reply) = (emit(&ClaimMessage::Claim(claim)), emit_reply(&Reply::Owner(claim)));
        prop_assert_eq!(ClaimMessage::parse(&message), Ok(ClaimMessage::Claim(claim)));
        prop_assert_eq!(Reply::parse(&reply), Ok(Reply::Owner(claim)));
        let question = OwnershipQuestion::Owner { key, address };
        prop_assert_eq!(OwnershipQuestion::parse(&emit_question(&question)), Ok(question));
    }

    #[test]
    fn any_bytes_are_refused_or_written_again(bytes in bytes(700), kind in 0..14u8) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(message) = call::CallMessage::parse(&bytes) {
            let again = emit_call(&message);
            prop_assert_eq!(call::CallMessage::parse(&again), Ok(message));
        }
        if let Ok(message) = ClaimMessage::parse(&bytes) {
            prop_assert_eq!(emit(&message), &*bytes);
        }
        if let Ok(question) = OwnershipQuestion::parse(&bytes) {
            prop_assert_eq!(emit_question(&question), &*bytes);
        }
        if let Ok(reply) = Reply::parse(&bytes) {
            prop_assert_eq!(emit_reply(&reply), &*bytes);
        }
    }
}
