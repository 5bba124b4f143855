use super::*;

const REKEY: Instant = Instant::from_millis(REKEY_AFTER.as_millis() as u64);
const END: Instant = Instant::from_millis(KEY_LIFETIME.as_millis() as u64);

#[test]
fn the_initiator_of_a_key_and_only_it_starts_the_next_handshake() {
    let (mut a, mut b) = connected();
    assert_eq!((a.next_timeout(), b.next_timeout()), (Some(REKEY), Some(END)));
    assert_eq!(a.handle_timeout(REKEY.before(Duration::from_nanos(1))), []);
    assert_eq!(a.handle_timeout(REKEY), [TimeoutAction::Initiate { peer: PEER }]);
    assert_eq!(a.handle_timeout(REKEY), [], "asked once");
    assert_eq!(b.handle_timeout(REKEY), []);
}

#[test]
fn an_initiation_without_answer_is_asked_for_again_every_second() {
    let (mut a, _) = pair();
    a.force_initiate(at(0), PEER).unwrap();
    for stamp in 0..20 {
        let due = a.next_timeout().unwrap();
        assert_eq!(a.handle_timeout(due), [TimeoutAction::Initiate { peer: PEER }]);
        initiation(&mut a, due, stamp);
        let wait = a.next_timeout().unwrap().since(due);
        assert!((1000..1334).contains(&wait.as_millis()), "{wait:?}");
    }
}

#[test]
fn a_rekey_loses_nothing_that_is_in_flight_or_out_of_order() {
    let (mut a, mut b) = connected();
    let opened_before = seal(&mut a, PATH, b"opened before the rekey").unwrap();
    assert!(open(&mut b, &opened_before.1).is_ok());
    let old_from_a = seal(&mut a, PATH, b"old from a").unwrap();
    let old_from_b = seal(&mut b, PATH, b"old from b").unwrap();
    assert!(!handshake(&mut a, &mut b, REKEY, 2));
    let new_from_a: Vec<_> = (0..3).map(|_| seal(&mut a, PATH, b"new from a").unwrap()).collect();
    let unconfirmed_from_b = seal(&mut b, PATH, b"old key still").unwrap();
    assert_eq!(open(&mut a, &unconfirmed_from_b.1).unwrap().1, b"old key still");
    let first = open(&mut b, &new_from_a[2].1).unwrap().0;
    assert!(first.first_with_this_key && !first.fresh);
    let new_from_b = seal(&mut b, PATH, b"new from b").unwrap();
    for (_, datagram) in [&new_from_a[0], &old_from_a, &new_from_a[1]] {
        assert!(open(&mut b, datagram).is_ok());
        assert_eq!(open(&mut b, datagram), Err(OpenError::Replayed));
    }
    assert_eq!(open(&mut b, &opened_before.1), Err(OpenError::Replayed));
    for (_, datagram) in [&new_from_b, &old_from_b] {
        assert!(open(&mut a, datagram).is_ok());
        assert_eq!(open(&mut a, datagram), Err(OpenError::Replayed));
    }
}

#[test]
fn packet_numbers_go_on_across_a_rekey() {
    let (mut a, mut b) = connected();
    let (before, _) = seal(&mut a, PATH, b"").unwrap();
    handshake(&mut a, &mut b, REKEY, 2);
    assert_eq!(pass(&mut a, &mut b).packet_number, before + 1);
    assert_eq!(a.established_since(PEER), Some(at(0)));
    assert_eq!(b.established_since(PEER), Some(at(0)));
}

#[test]
fn after_its_lifetime_a_key_neither_seals_nor_opens() {
    let (mut a, mut b) = connected();
    let (_, in_flight) = seal(&mut a, PATH, b"").unwrap();
    assert_eq!(b.handle_timeout(END), [TimeoutAction::Expired { peer: PEER }]);
    assert_eq!(b.handle_timeout(END), []);
    assert_eq!(open(&mut b, &in_flight), Err(OpenError::UnknownSession));
    assert_eq!(seal(&mut b, PATH, b""), Err(SealError::NotEstablished));
    assert!(!b.is_established(PEER));
    let actions = a.handle_timeout(END);
    assert_eq!(actions, [TimeoutAction::Expired { peer: PEER }, TimeoutAction::Initiate { peer: PEER }]);
    assert_eq!(a.established_since(PEER), None);
    assert!(!handshake(&mut a, &mut b, END, 2), "the same processes meet again");
    assert!(!pass(&mut a, &mut b).fresh);
}

#[test]
fn the_old_key_of_a_rekey_ends_without_a_word() {
    let (mut a, mut b) = connected();
    let (_, in_flight) = seal(&mut a, PATH, b"").unwrap();
    handshake(&mut a, &mut b, REKEY, 2);
    pass(&mut a, &mut b);
    assert_eq!((a.handle_timeout(END), b.handle_timeout(END)), (vec![], vec![]));
    assert_eq!(open(&mut b, &in_flight), Err(OpenError::UnknownSession));
    pass(&mut a, &mut b);
    pass(&mut b, &mut a);
}

#[test]
fn many_packets_ask_for_a_rekey_too() {
    let (mut a, mut b) = connected();
    let keys = &mut a.peer_mut(PEER).unwrap().keys;
    let slot = keys.sending_slot(at(0), VpnId::DEFAULT).unwrap();
    keys.get_mut(slot).unwrap().sealed = (1 << 60) - 1;
    pass(&mut a, &mut b);
    let due = a.next_timeout().unwrap();
    assert!(due < at(1));
    assert_eq!(a.handle_timeout(due), [TimeoutAction::Initiate { peer: PEER }]);
}

#[test]
fn simultaneous_initiations_end_in_one_key_whatever_the_order() {
    for order in 0..6 {
        let (mut high, mut low) = connected();
        let old = (seal(&mut high, PATH, b"").unwrap().1, seal(&mut low, PATH, b"").unwrap().1);
        high.force_initiate(at(1), PEER).unwrap();
        low.force_initiate(at(1), PEER).unwrap();
        let (from_high, from_low) = (initiation(&mut high, at(1), 2), initiation(&mut low, at(1), 2));
        let in_flight = |from: &mut Sessions| seal(from, PATH, b"").map(|(_, datagram)| datagram).unwrap();
        let mut sent = (vec![old.0], vec![old.1]);
        let mut to_low = || answer(&mut low, at(1), &from_high).unwrap().1;
        let mut to_high = || answer(&mut high, at(1), &from_low).unwrap().1;
        let (response_of_low, response_of_high) = if order % 2 == 0 {
            let first = to_low();
            (first, to_high())
        } else {
            let first = to_high();
            (to_low(), first)
        };
        let steps: &[u8] = [b"hl".as_slice(), b"lh", b"l-h"][order / 2];
        for step in steps {
            match step {
                b'h' => drop(answer(&mut high, at(1), &response_of_low)),
                b'l' => drop(answer(&mut low, at(1), &response_of_high)),
                _ => {
                    pass(&mut low, &mut high);
                    pass(&mut high, &mut low);
                }
            }
            sent.0.push(in_flight(&mut high));
            sent.1.push(in_flight(&mut low));
        }
        for (from_high, from_low) in sent.0.iter().zip(&sent.1).rev() {
            assert!(open(&mut low, from_high).is_ok(), "order {order}");
            assert!(open(&mut high, from_low).is_ok(), "order {order}");
        }
        pass(&mut high, &mut low);
        pass(&mut low, &mut high);
        let index = |node: &Sessions| {
            let key = node.peer(PEER).unwrap().keys.sending().unwrap();
            (key.local_index, key.remote_index)
        };
        let (ours, theirs) = (index(&high), index(&low));
        assert_eq!(ours, (theirs.1, theirs.0), "both seal with one key, order {order}");
    }
}

#[test]
fn a_yielding_side_tries_again_when_the_other_does_not_finish() {
    let (mut high, mut low) = pair();
    low.force_initiate(at(0), PEER).unwrap();
    low.handle_timeout(at(0));
    initiation(&mut low, at(0), 1);
    let from_high = initiation(&mut high, at(0), 1);
    answer(&mut low, at(0), &from_high).unwrap();
    let due = low.next_timeout().unwrap();
    assert!(due >= at(2) && due < at(3));
    assert_eq!(low.handle_timeout(due), [TimeoutAction::Initiate { peer: PEER }]);
    handshake(&mut low, &mut high, due, 2);
    pass(&mut low, &mut high);
}

#[test]
fn a_restarted_initiator_is_back_within_one_handshake() {
    let (left, right) = identities();
    let (mut a, mut b) = connected();
    for _ in 0..100 {
        pass(&mut a, &mut b);
    }
    let (_, from_the_old) = seal(&mut a, PATH, b"").unwrap();
    let mut again = node(&left, &right, 11);
    assert!(handshake(&mut again, &mut b, at(5), 2));
    assert!(open(&mut b, &from_the_old).is_ok(), "until the new process speaks, the old one is heard");
    let first = pass(&mut again, &mut b);
    assert!(first.fresh && first.packet_number == 0);
    assert_eq!(b.established_since(PEER), Some(at(5)));
    assert_eq!(open(&mut b, &from_the_old), Err(OpenError::UnknownSession));
    pass(&mut b, &mut again);
    assert!(!handshake(&mut again, &mut b, at(9), 3));
}

#[test]
fn a_restarted_responder_is_back_once_the_initiator_asks() {
    let (left, right) = identities();
    let (mut a, _) = connected();
    let mut again = node(&right, &left, 21);
    let (_, lost) = seal(&mut a, PATH, b"").unwrap();
    assert_eq!(open(&mut again, &lost), Err(OpenError::UnknownSession));
    a.force_initiate(at(5), PEER).unwrap();
    assert_eq!(a.handle_timeout(at(5)), [TimeoutAction::Initiate { peer: PEER }]);
    assert!(handshake(&mut a, &mut again, at(5), 2), "its association changed");
    assert!(pass(&mut a, &mut again).fresh);
    pass(&mut again, &mut a);
}

#[test]
fn a_long_lived_sender_is_found_by_a_restarted_peer() {
    let (left, right) = identities();
    let (mut a, _) = connected();
    a.peer_mut(PEER).unwrap().send.skip(PATH, (9 << 32) + 12345);
    let last = seal(&mut a, PATH, b"").unwrap().0;
    let mut again = node(&right, &left, 21);
    handshake(&mut again, &mut a, at(5), 1);
    pass(&mut again, &mut a);
    for path in [PATH, PathId(9)] {
        let (number, datagram) = seal(&mut a, path, b"").unwrap();
        assert!(number > last, "numbers never go back");
        assert_eq!(open(&mut again, &datagram).unwrap().0.packet_number, number);
    }
}
