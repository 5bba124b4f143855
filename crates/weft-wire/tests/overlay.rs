//! Messages of the overlay: their exact bytes, and that the parser restores each written message.
#![allow(missing_docs)]

mod common;

use common::{hex, unhex};
use proptest::prelude::*;
use weft_units::NodeId;
use weft_wire::WireError;
use weft_wire::overlay::{
    MAX_CONTACTS, MAX_DETAILS, MAX_MESSAGE, NodeState, OverlayMessage, Query, WireContact, emit_found,
};

fn emit(message: &OverlayMessage<'_>) -> Vec<u8> {
    let mut out = [0; MAX_MESSAGE];
    let len = message.emit(&mut out).unwrap();
    out[..len].to_vec()
}

fn id(text: &str) -> NodeId {
    NodeId::new(unhex(text).try_into().unwrap())
}

/// Golden vectors: these bytes are the wire format.
#[test]
fn the_bytes_are_these() {
    let a = id("000102030405060708090a0b0c0d0e0f10111213");
    let state = NodeState { is_ready: true, leaf_news: 2, table_news: 0xff };
    let near = "01 000102030405060708090a0b0c0d0e0f10111213";
    let row = "02 000102030405060708090a0b0c0d0e0f10111213 03 8001";
    let row_query = Query::Row { of: a, row: 3, columns: 0x8001 };
    let cases = [
        (OverlayMessage::Probe { seq: 0xa1b2_c3d4 }, "01 a1b2c3d4".to_string()),
        (OverlayMessage::Introduction { seq: 1, details: &[7, 8] }, "02 00000001 02 0708".to_string()),
        (OverlayMessage::Echo { seq: 0xa1b2_c3d4, state }, "03 a1b2c3d4 01 02 ff".to_string()),
        (OverlayMessage::Find(Query::Near(a)), format!("04 {near}")),
        (OverlayMessage::Find(row_query), format!("04 {row}")),
        (OverlayMessage::Leave, "06".to_string()),
    ];
    for (message, text) in cases {
        assert_eq!(hex(&emit(&message)), hex(&unhex(&text)));
        assert_eq!(OverlayMessage::parse(&unhex(&text)), Ok(message));
    }
    let contacts = [WireContact { id: a, details: &[9; 3] }, WireContact { id: NodeId::default(), details: &[] }];
    let mut out = [0; MAX_MESSAGE];
    let len = emit_found(row_query, 5, contacts.into_iter(), &mut out).unwrap();
    let text = format!("05 {row} 05 02 000102030405060708090a0b0c0d0e0f10111213 03 090909 {} 00", "00".repeat(20));
    assert_eq!(hex(&out[..len]), hex(&unhex(&text)));
    let Ok(OverlayMessage::Found { query, news: 5, contacts: read }) = OverlayMessage::parse(&out[..len]) else {
        panic!()
    };
    assert_eq!((query, read.collect::<Vec<_>>()), (row_query, contacts.to_vec()));
}

#[test]
fn values_beyond_a_bound_are_refused() {
    let long = [0; MAX_DETAILS + 1];
    let mut out = [0; 2 * MAX_MESSAGE];
    assert_eq!(OverlayMessage::Introduction { seq: 0, details: &long }.emit(&mut out), Err(WireError::Malformed));
    let beyond = Query::Row { of: NodeId::default(), row: 40, columns: 1 };
    assert_eq!(OverlayMessage::Find(beyond).emit(&mut out), Err(WireError::Malformed));
    let near = Query::Near(NodeId::default());
    let contacts = std::iter::repeat(WireContact { id: NodeId::default(), details: &long[1..] });
    let len = emit_found(near, 0, contacts, &mut out).unwrap();
    assert!(len <= MAX_MESSAGE);
    let count_at = 1 + 21 + 1;
    assert_eq!(usize::from(out[count_at]), MAX_CONTACTS);
    out[count_at] += 1;
    assert_eq!(OverlayMessage::parse(&out[..len]), Err(WireError::Malformed));
    assert_eq!(OverlayMessage::parse(&[6, 0]), Err(WireError::TooLong));
    assert_eq!(OverlayMessage::parse(&[7]), Err(WireError::UnknownType));
    assert_eq!(OverlayMessage::parse(&[]), Err(WireError::Truncated));
}

fn node_id() -> impl Strategy<Value = NodeId> {
    any::<[u8; 20]>().prop_map(NodeId::new)
}

fn query() -> impl Strategy<Value = Query> {
    let row = (node_id(), 0..40u8, any::<u16>()).prop_map(|(of, row, columns)| Query::Row { of, row, columns });
    prop_oneof![node_id().prop_map(Query::Near), row]
}

proptest! {
    #[test]
    fn found_contacts_arrive_as_far_as_they_fit(
        query in query(),
        news: u8,
        nodes in prop::collection::vec((node_id(), prop::collection::vec(any::<u8>(), 0..=MAX_DETAILS)), 0..20),
        room in 0..=MAX_MESSAGE,
    ) {
        let contacts = || nodes.iter().map(|(id, details)| WireContact { id: *id, details });
        let mut out = vec![0; room];
        let Ok(len) = emit_found(query, news, contacts(), &mut out) else {
            prop_assert!(room < 27);
            return Ok(());
        };
        let message = OverlayMessage::parse(&out[..len]).unwrap();
        let OverlayMessage::Found { query: q, news: n, contacts: read } = message else { panic!() };
        prop_assert_eq!((q, n), (query, news));
        let count = read.count();
        prop_assert!(read.eq(contacts().take(count)));
        let next = contacts().nth(count).map_or(0, |contact| 21 + contact.details.len());
        prop_assert!(count == nodes.len().min(MAX_CONTACTS) || len + next > room);
        prop_assert_eq!(emit(&message), &out[..len]);
    }

    #[test]
    fn any_bytes_are_refused_or_written_again(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..8u8) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(message) = OverlayMessage::parse(&bytes) {
            let again = emit(&message);
            prop_assert_eq!(OverlayMessage::parse(&again), Ok(message));
            prop_assert_eq!(again.len(), bytes.len());
        }
    }
}
