use super::*;

fn copy_of(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Reply { repeated: true, .. })
}

#[test]
fn a_copy_over_another_path_gets_the_same_answer_and_no_new_session() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    let (outcome, response) = answer(&mut b, at(0), &first).unwrap();
    assert_eq!(outcome, Outcome::Reply { len: RESPONSE_LEN, peer: PEER, repeated: false });
    assert!(answer(&mut a, at(0), &response).is_ok());
    pass(&mut a, &mut b);
    let (outcome, again) = answer(&mut b, at(1), &first).unwrap();
    assert!(copy_of(outcome));
    assert_eq!(again, response);
    assert_eq!(answer(&mut a, at(1), &again), Err(HandshakeError::Unexpected), "the second copy of the response");
    pass(&mut b, &mut a);
    pass(&mut a, &mut b);
}

#[test]
fn a_retry_is_the_same_initiation_so_that_a_slow_response_still_counts() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    let (_, response) = answer(&mut b, at(0), &first).unwrap();
    assert_eq!(initiation(&mut a, at(4), 2), first);
    assert!(answer(&mut a, at(4), &response).is_ok());
    let mut c = pair().0;
    let old = initiation(&mut c, at(0), 1);
    assert_ne!(initiation(&mut c, at(0) + REPEAT_FOR, 2), old);
}

#[test]
fn an_attempt_forced_twice_at_once_is_one_initiation() {
    let (mut a, _) = pair();
    a.force_initiate(at(0), PEER).unwrap();
    let first = initiation(&mut a, at(0), 1);
    a.force_initiate(at(0), PEER).unwrap();
    assert_eq!(a.handle_timeout(at(0)), [TimeoutAction::Initiate { peer: PEER }]);
    assert_eq!(initiation(&mut a, at(0), 1), first);
    a.force_initiate(at(1), PEER).unwrap();
    assert_ne!(initiation(&mut a, at(1), 2), first);
}

#[test]
fn a_replayed_initiation_is_refused() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 5);
    answer(&mut b, at(0), &first).unwrap();
    let later = at(0) + REPEAT_FOR;
    assert_eq!(answer(&mut b, later, &first), Err(HandshakeError::Replayed));
    let second = initiation(&mut a, later, 6);
    answer(&mut b, later, &second).unwrap();
    assert_eq!(answer(&mut b, later, &first), Err(HandshakeError::Replayed));
}

#[test]
fn stored_stamps_refuse_replays_after_a_restart() {
    let (left, right) = identities();
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 5);
    answer(&mut b, at(0), &first).unwrap();
    let stored: Vec<_> = b.accepted_stamps().collect();
    assert_eq!(stored, [(left.public_key(), 5)]);
    let mut again = node(&right, &left, 99);
    for (key, stamp) in stored {
        let peer = again.peer_by_key(&key).unwrap();
        again.restore_accepted_stamp(peer, stamp);
        again.restore_accepted_stamp(peer, stamp - 3);
    }
    assert_eq!(answer(&mut again, at(1), &first), Err(HandshakeError::Replayed));
    a.force_initiate(at(1), PEER).unwrap();
    handshake(&mut a, &mut again, at(1), 6);
    pass(&mut a, &mut again);
}

#[test]
fn a_stamp_that_goes_back_is_refused_on_both_sides() {
    let (left, right) = identities();
    let (mut a, mut b) = pair();
    handshake(&mut a, &mut b, at(0), 5);
    for stamp in [4, 5] {
        assert_eq!(a.initiate(at(10), PEER, stamp, &mut [0; INITIATION_LEN]), Err(InitiateError::StampNotRising));
        let forgetful = initiation(&mut node(&left, &right, 77), at(10), stamp);
        assert_eq!(answer(&mut b, at(10), &forgetful), Err(HandshakeError::Replayed));
    }
}

#[test]
fn strangers_get_silence() {
    let (left, right) = identities();
    let mut b = node(&right, &left, 20);
    let stranger = initiation(&mut node(&identity(3), &right, 1), at(0), 1);
    assert_eq!(answer(&mut b, at(0), &stranger), Err(HandshakeError::Stranger));
    let wrong_key = initiation(&mut node(&left, &identity(3), 1), at(0), 1);
    assert_eq!(answer(&mut b, at(0), &wrong_key), Err(HandshakeError::BadMac));
    assert!(b.accepted_stamps().next().is_none());
}

#[test]
fn peers_with_different_preshared_keys_get_no_session() {
    let (left, right) = identities();
    let with = |own: &Identity, peer: &Identity, psk: u8| {
        let preshared_key = Some(PresharedKey::new([psk; 32]));
        let config = SessionPeerConfig { public_key: peer.public_key(), preshared_key };
        Sessions::new(own.clone(), &[config], Cipher::Aes256Gcm, [psk; 32], at(0)).unwrap()
    };
    let mut a = with(&left, &right, 1);
    let (_, response) = {
        let first = initiation(&mut a, at(0), 1);
        answer(&mut with(&right, &left, 2), at(0), &first).unwrap()
    };
    assert_eq!(answer(&mut a, at(0), &response), Err(HandshakeError::BadCrypto));
    let (mut a, mut b) = (with(&left, &right, 3), with(&right, &left, 3));
    handshake(&mut a, &mut b, at(0), 1);
    pass(&mut a, &mut b);
}

#[test]
fn a_changed_byte_in_a_handshake_gets_silence_and_does_no_harm() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    let mac2 = INITIATION_LEN - 16;
    for position in 0..mac2 {
        let mut changed = first.clone();
        changed[position] ^= 0x10;
        assert!(answer(&mut b, at(0), &changed).is_err(), "initiation byte {position}");
    }
    let (_, response) = answer(&mut b, at(0), &first).unwrap();
    for position in 0..RESPONSE_LEN - 16 {
        let mut changed = response.clone();
        changed[position] ^= 0x10;
        assert!(answer(&mut a, at(0), &changed).is_err(), "response byte {position}");
    }
    answer(&mut a, at(0), &response).unwrap();
    pass(&mut a, &mut b);
}

#[test]
fn an_attacker_with_the_public_keys_cannot_change_an_initiators_index() {
    let (mut a, mut b) = pair();
    let mut first = initiation(&mut a, at(0), 1);
    first[7] ^= 1;
    let mac1 = INITIATION_LEN - 32;
    let forged = MacKeys::of(&b.public_key()).mac1(&first[..mac1]);
    first[mac1..mac1 + 16].copy_from_slice(&forged);
    assert_eq!(answer(&mut b, at(0), &first), Err(HandshakeError::BadCrypto));
}

#[test]
fn an_attacker_with_the_public_keys_cannot_change_a_responders_index() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    let (_, mut response) = answer(&mut b, at(0), &first).unwrap();
    response[7] ^= 1;
    let mac1 = RESPONSE_LEN - 32;
    let forged = MacKeys::of(&a.public_key()).mac1(&response[..mac1]);
    response[mac1..mac1 + 16].copy_from_slice(&forged);
    assert_eq!(answer(&mut a, at(0), &response), Err(HandshakeError::BadCrypto));
    assert!(!a.is_established(PEER));
}

#[test]
fn cookies_that_never_help_are_not_answered_without_end() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    for (source, expected) in [(&[1u8], true), (&[2], false), (&[3], false)] {
        let (_, reply) = answer_under_load(&mut b, at(0), &first, source);
        assert_eq!(answer(&mut a, at(0), &reply).is_ok(), expected);
    }
}

#[test]
fn a_forged_response_does_not_end_the_handshake() {
    let (mut a, mut b) = pair();
    let (_, response) = {
        let first = initiation(&mut a, at(0), 1);
        answer(&mut b, at(0), &first).unwrap()
    };
    let mut forged = response.clone();
    forged[20..60].fill(9);
    let mac1 = RESPONSE_LEN - 32;
    let tag = MacKeys::of(&a.public_key()).mac1(&forged[..mac1]);
    forged[mac1..mac1 + 16].copy_from_slice(&tag);
    assert_eq!(answer(&mut a, at(0), &forged), Err(HandshakeError::BadCrypto));
    answer(&mut a, at(0), &response).unwrap();
    pass(&mut a, &mut b);
}

/// Lets a node handle a datagram under load. Returns the outcome, and the answer that it must give.
fn answer_under_load(to: &mut Sessions, now: Instant, datagram: &[u8], source: &[u8]) -> (Outcome, Vec<u8>) {
    let mut out = [0; RESPONSE_LEN];
    let outcome = to.handle(now, datagram, source, true, &mut out).unwrap();
    match outcome {
        Outcome::Cookie { len } | Outcome::Reply { len, .. } => (outcome, out[..len].to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn under_load_a_sender_must_prove_its_address_first() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    let (outcome, reply) = answer_under_load(&mut b, at(0), &first, SOURCE);
    assert_eq!(outcome, Outcome::Cookie { len: COOKIE_REPLY_LEN });
    assert!(reply.len() <= first.len());
    assert!(b.accepted_stamps().next().is_none(), "nothing costly was done");
    assert_eq!(answer(&mut a, at(0), &reply).unwrap().0, Outcome::CookieReceived { peer: PEER });
    let proved = initiation(&mut a, at(0), 2);
    let (elsewhere, _) = answer_under_load(&mut b, at(0), &proved, b"elsewhere");
    assert_eq!(elsewhere, Outcome::Cookie { len: COOKIE_REPLY_LEN }, "a cookie is good for one address");
    let (outcome, response) = answer_under_load(&mut b, at(0), &proved, SOURCE);
    assert!(matches!(outcome, Outcome::Reply { repeated: false, .. }));
    answer(&mut a, at(0), &response).unwrap();
    pass(&mut a, &mut b);
    let late = at(121);
    let old = initiation(&mut a, late, 3);
    assert_eq!(answer_under_load(&mut b, late, &old, SOURCE).0, Outcome::Cookie { len: COOKIE_REPLY_LEN });
}

#[test]
fn a_cookie_is_no_pass_for_a_flood() {
    let (mut a, mut b) = pair();
    let here = [1, 2, 192, 0, 2, 1];
    let first = initiation(&mut a, at(0), 1);
    let (_, reply) = answer_under_load(&mut b, at(0), &first, &here);
    answer(&mut a, at(0), &reply).unwrap();
    let proved = initiation(&mut a, at(0), 2);
    let mut out = [0; RESPONSE_LEN];
    let mut answered = |b: &mut Sessions, now, load| {
        let replies = (0..1_000).map(|_| b.handle(now, &proved, &here, load, &mut out));
        replies.filter(|reply| *reply != Err(HandshakeError::TooMany)).count()
    };
    assert_eq!(answered(&mut b, at(0), true), 10);
    assert_eq!(answered(&mut b, at(1), true), 10, "it refills");
    let (elsewhere, _) = answer_under_load(&mut b, at(1), &first, &[1, 2, 192, 0, 2, 2]);
    assert_eq!(elsewhere, Outcome::Cookie { len: COOKIE_REPLY_LEN }, "others are asked for proof as ever");
    assert_eq!(answered(&mut b, at(1), false), 1_000, "without load nobody is limited");
}

/// Sends 50 initiations under load, each with a valid cookie for its source.
///
/// `source` gives the source of each. Returns the number of admitted handshakes.
fn admitted(b: &mut Sessions, source: impl Fn(u32) -> Vec<u8>) -> usize {
    let now = at(0);
    let mut admits = |number: u32| {
        let (mut a, _) = pair();
        let source = source(number);
        let first = initiation(&mut a, now, 1);
        let (asked, reply) = answer_under_load(b, now, &first, &source);
        assert_eq!(asked, Outcome::Cookie { len: COOKIE_REPLY_LEN });
        answer(&mut a, now, &reply).unwrap();
        let proved = initiation(&mut a, now, 2);
        b.handle(now, &proved, &source, true, &mut [0; RESPONSE_LEN]) != Err(HandshakeError::TooMany)
    };
    (0..50).filter(|number| admits(*number)).count()
}

#[test]
fn a_flood_over_one_relay_uses_up_no_limit_of_others() {
    let (_, mut b) = pair();
    let over = |via: u16| move |number: u32| crate::route_source(PeerId(via), number).to_vec();
    assert_eq!(admitted(&mut b, over(3)), 10, "one limit for all routes over a relay");
    assert_eq!(admitted(&mut b, over(3)), 0);
    for other in [0, 1, 2, 4, 200] {
        assert_eq!(admitted(&mut b, over(other)), 10, "relay {other}");
    }
    assert_eq!(admitted(&mut b, |_| vec![1, 2, 192, 0, 2, 1]), 10, "who calls directly");
}

#[test]
fn load_is_asked_for_only_after_the_mac() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    for at_byte in 0..first.len() {
        let mut damaged = first.clone();
        damaged[at_byte] ^= 1;
        let mut asked = 0;
        let is_under_load = || {
            asked += 1;
            false
        };
        let outcome = b.handle_counted(at(0), &damaged, SOURCE, is_under_load, &mut [0; RESPONSE_LEN]);
        // The node has no load, so it does not check MAC2. A change there is thus accepted.
        let is_mac2 = at_byte >= first.len() - 16;
        assert_eq!((asked, outcome.is_ok()), (u32::from(is_mac2), is_mac2), "byte {at_byte}: {outcome:?}");
    }
}

#[test]
fn a_cookie_that_was_not_asked_for_is_refused() {
    let (mut a, mut b) = pair();
    let first = initiation(&mut a, at(0), 1);
    let (_, mut reply) = answer_under_load(&mut b, at(0), &first, SOURCE);
    let last = reply.len() - 1;
    reply[last] ^= 1;
    assert_eq!(answer(&mut a, at(0), &reply), Err(HandshakeError::BadCrypto));
    reply[4] ^= 1;
    assert_eq!(answer(&mut a, at(0), &reply), Err(HandshakeError::Unexpected));
}

#[test]
fn peers_come_and_go_and_the_others_keep_their_numbers() {
    let (left, right) = identities();
    let third = identity(3);
    let (mut a, mut b) = connected();
    assert_eq!(a.add_peer(third.public_key().into()), Ok(PeerId(1)));
    assert_eq!(a.add_peer(third.public_key().into()), Err(PeerError::Duplicate));
    assert_eq!(a.add_peer(left.public_key().into()), Err(PeerError::Myself));
    let (_, in_flight) = seal(&mut b, PATH, b"").unwrap();
    assert!(a.remove_peer(PEER) && !a.remove_peer(PEER));
    assert_eq!(open(&mut a, &in_flight), Err(OpenError::UnknownSession));
    assert_eq!(seal(&mut a, PATH, b""), Err(SealError::UnknownPeer));
    assert_eq!(a.peer_by_key(&third.public_key()), Some(PeerId(1)));
    assert_eq!(a.add_peer(right.public_key().into()), Ok(PEER));
    assert!(handshake(&mut a, &mut b, at(9), 9));
    assert!(pass(&mut a, &mut b).fresh, "what a removed peer knew is gone");
    pass(&mut b, &mut a);
}

#[test]
fn a_barred_peer_gets_silence_and_keeps_its_number() {
    let (left, _) = identities();
    let (mut a, mut b) = connected();
    let (_, in_flight) = seal(&mut a, PATH, b"").unwrap();
    b.bar_peer(PEER);
    assert_eq!(open(&mut b, &in_flight), Err(OpenError::UnknownSession));
    assert_eq!(seal(&mut b, PATH, b""), Err(SealError::NotEstablished));
    a.force_initiate(at(9), PEER).unwrap();
    let again = initiation(&mut a, at(9), 9);
    assert_eq!(answer(&mut b, at(9), &again), Err(HandshakeError::Stranger));
    assert_eq!(b.force_initiate(at(9), PEER), Err(InitiateError::UnknownPeer));
    assert_eq!(b.initiate(at(9), PEER, 9, &mut [0; INITIATION_LEN]), Err(InitiateError::UnknownPeer));
    assert_eq!((b.indices.len(), b.peer_by_key(&left.public_key())), (0, Some(PEER)));
    assert_eq!(b.add_peer(identity(3).public_key().into()), Ok(PeerId(1)));
    assert!(b.remove_peer(PEER));
    assert_eq!(b.add_peer(left.public_key().into()), Ok(PEER));
    assert!(handshake(&mut a, &mut b, at(10), 10));
}

#[test]
fn a_peer_key_without_a_secret_is_reported() {
    let (left, _) = identities();
    let peers = [SessionPeerConfig::from(PublicKey([0; 32]))];
    let mut a = Sessions::new(left, &peers, Cipher::Aes256Gcm, [1; 32], at(0)).unwrap();
    assert_eq!(a.initiate(at(0), PEER, 1, &mut [0; INITIATION_LEN]), Err(InitiateError::BadPeerKey));
    assert_eq!(a.initiate(at(0), PEER, 1, &mut [0; 10]), Err(InitiateError::NoRoom));
}

#[test]
fn a_stranger_with_this_nodes_key_is_named_and_one_without_it_is_not() {
    let (a, b) = identities();
    let (known, stranger) = (identity(7), identity(9));
    let mut to = node(&a, &known, 1);
    let mut from = node(&stranger, &a, 2);
    let first = initiation(&mut from, at(0), 1);
    assert_eq!(answer(&mut to, at(0), &first).unwrap_err(), HandshakeError::Stranger);
    assert_eq!((to.take_stranger(), to.take_stranger()), (Some(stranger.public_key()), None));
    let mut astray = node(&stranger, &b, 3);
    let first = initiation(&mut astray, at(0), 1);
    assert_eq!(answer(&mut to, at(0), &first).unwrap_err(), HandshakeError::BadMac);
    assert_eq!(to.take_stranger(), None);
}

#[test]
fn an_answer_under_another_preshared_key_identifies_its_sender() {
    let (a, b) = identities();
    let with = |own: &Identity, peer: &Identity, key: u8, seed: u8| {
        let preshared_key = Some(crate::PresharedKey::new([key; 32]));
        let peers = [SessionPeerConfig { public_key: peer.public_key(), preshared_key }];
        Sessions::new(own.clone(), &peers, Cipher::Aes256Gcm, [seed; 32], Instant::ZERO).unwrap()
    };
    let (mut from, mut to) = (with(&a, &b, 1, 5), with(&b, &a, 2, 6));
    let first = initiation(&mut from, at(0), 1);
    let (_, second) = answer(&mut to, at(0), &first).unwrap();
    assert_eq!(from.answers(&second), Some(PEER));
    assert_eq!(answer(&mut from, at(0), &second).unwrap_err(), HandshakeError::BadCrypto);
    assert_eq!((from.answers(&first), from.answers(&[])), (None, None));
}
