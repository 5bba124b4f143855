use super::*;
use crate::route::overlay::{NodeContact, OverlayTiming};
use alloc::vec::Vec;

const PATIENCE: Patience = Patience { first: Duration::from_millis(500), tries: 3 };

fn id(first: u8) -> NodeId {
    NodeId::new(core::array::from_fn(|n| if n == 0 { first } else { 0 }))
}

/// Returns a node that has learnt of no other node, so that it is the root of every key.
fn alone() -> OverlayState {
    let contact = NodeContact { id: id(5), details: [].into() };
    OverlayState::new(Instant::ZERO, contact, Vec::new(), OverlayTiming::default(), Rng::new(1))
}

/// Returns a node that has not found its place in the overlay yet. It delivers and forwards no message.
fn lost() -> OverlayState {
    let [own, other] = [5, 6].map(|n| NodeContact { id: id(n), details: [].into() });
    OverlayState::new(Instant::ZERO, own, alloc::vec![other], OverlayTiming::default(), Rng::new(1))
}

#[test]
fn a_call_reaches_its_root_and_the_answer_its_caller() {
    let (overlay, now) = (alone(), Instant::ZERO);
    let mut calls = Calls::new(1, Rng::new(2));
    let number = calls.call(now, &overlay, id(9), 7, b"what?", PATIENCE).unwrap();
    let Some(CallEvent::Asked(asked)) = calls.poll_event() else { panic!() };
    assert_eq!((asked.source, asked.key, asked.application, &*asked.body), (id(5), id(9), 7, &b"what?"[..]));
    calls.answer(now, &overlay, &asked, b"that").unwrap();
    let answered = CallEvent::Answered { number, by: id(5), body: (*b"that").into() };
    assert_eq!(calls.poll_event(), Some(answered));
    calls.answer(now, &overlay, &asked, b"again").unwrap();
    assert_eq!(calls.poll_event(), None, "it is answered once");
    assert_eq!(calls.next_timeout(), Instant::FAR_FUTURE);
}

#[test]
fn a_call_is_repeated_ever_later_and_then_given_up() {
    let overlay = lost();
    let mut calls = Calls::new(1, Rng::new(2));
    let number = calls.call(Instant::ZERO, &overlay, id(9), 7, &[], PATIENCE).unwrap();
    for ms in [500, 1_500, 3_500] {
        assert_eq!(calls.next_timeout(), Instant::from_millis(ms));
        assert_eq!(calls.poll_event(), None);
        calls.handle_timeout(Instant::from_millis(ms), &overlay);
    }
    assert_eq!(calls.poll_event(), Some(CallEvent::Unanswered { number }));
    let number = calls.call(Instant::ZERO, &overlay, id(9), 7, &[], PATIENCE).unwrap();
    calls.forget(number);
    calls.handle_timeout(Instant::from_millis(60_000), &overlay);
    assert_eq!(calls.poll_event(), None);
}

#[test]
fn open_and_waiting_calls_are_bounded() {
    let (overlay, now) = (alone(), Instant::ZERO);
    let mut calls = Calls::new(1, Rng::new(2));
    let too_long = [0; MAX_BODY + 1];
    assert_eq!(calls.call(now, &overlay, id(9), 7, &too_long, PATIENCE), Err(CallError::TooLong));
    assert!((0..MOST_OPEN).all(|_| calls.call(now, &overlay, id(9), 7, &[], PATIENCE).is_ok()));
    assert_eq!(calls.call(now, &overlay, id(9), 7, &[], PATIENCE), Err(CallError::Busy));

    let mut calls = Calls::new(1, Rng::new(2));
    let mut told = |from: u8, source: u8, times: u32| {
        for seq in 0..times {
            let header = Header { key: id(9), source: id(source), run: 1, seq, hops_left: 9, was_duplicated: false };
            let mut out = [0; weft_wire::call::MAX_MESSAGE];
            let message = CallMessage { header, number: seq, kind: CallKind::Call { application: 7 }, body: &[] };
            let len = message.emit(&mut out).unwrap();
            calls.handle_message(now, &overlay, id(from), &out[..len]).unwrap();
        }
        core::iter::from_fn(|| calls.poll_event()).count()
    };
    assert_eq!(told(1, 2, 150), 100, "of one source");
    let of_many: usize = (10..20).map(|source| told(1, source, 50)).sum();
    assert_eq!(of_many, 250, "by one neighbour: 400 less the 150 before");
    assert_eq!(told(3, 30, 50), 50, "another neighbour is as free as before");
}

/// A node ignores answers with a guessed number, and answers that are addressed to another node.
#[test]
fn an_answer_to_no_call_is_ignored() {
    let (overlay, now) = (alone(), Instant::ZERO);
    let mut calls = Calls::new(1, Rng::new(2));
    let number = calls.call(now, &overlay, id(9), 7, &[], PATIENCE).unwrap();
    calls.poll_event();
    let mut hear = |key, number| {
        let header = Header { key, source: id(9), run: 1, seq: 1, hops_left: 9, was_duplicated: false };
        let mut out = [0; weft_wire::call::MAX_MESSAGE];
        let len = CallMessage { header, number, kind: CallKind::Answer, body: &[] }.emit(&mut out).unwrap();
        calls.handle_message(now, &overlay, id(1), &out[..len]).unwrap();
        calls.poll_event()
    };
    assert_eq!(hear(id(5), number.wrapping_add(1)), None);
    assert_eq!(hear(id(6), number), None);
    assert!(matches!(hear(id(5), number), Some(CallEvent::Answered { by, .. }) if by == id(9)));
    assert_eq!(hear(id(5), number), None);
}
