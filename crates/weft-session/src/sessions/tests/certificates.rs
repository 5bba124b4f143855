use super::*;
use crate::certificate::{Claims, RootKey};
use weft_wire::handshake::MAX_INITIATION_LEN;

/// Returns a certificate for this key, signed by an arbitrary root key.
fn certificate(of: &Identity) -> Certificate {
    let claims = Claims {
        public_key: of.public_key(),
        name: "home".to_owned(),
        not_before_unix_s: 0,
        not_after_unix_s: u64::MAX,
        may_relay: false,
        prefixes: vec![("10.9.0.5".parse().unwrap(), 32); 3],
        groups: vec![],
    };
    RootKey::from_seed([9; 32]).sign(&claims).unwrap()
}

/// Returns a node with the certificate `shows` that has the hub as its peer, and a hub that has no peers.
fn newcomer_and_hub(shows: &Certificate) -> (Sessions, Sessions) {
    let (left, right) = identities();
    let mut newcomer = node(&left, &right, 10);
    newcomer.set_certificate(Some(shows));
    (newcomer, Sessions::new(right, &[], Cipher::Aes256Gcm, [20; 32], at(0)).unwrap())
}

fn first_of(node: &mut Sessions, stamp: u64) -> Vec<u8> {
    first_of_at(node, at(0), stamp)
}

fn first_of_at(node: &mut Sessions, now: Instant, stamp: u64) -> Vec<u8> {
    let mut out = [0; MAX_INITIATION_LEN];
    let len = node.initiate(now, PEER, stamp, &mut out).unwrap();
    out[..len].to_vec()
}

#[test]
fn a_stranger_is_introduced_by_its_certificate_and_nothing_is_remembered() {
    let (left, _) = identities();
    let shown = certificate(&left);
    let (mut newcomer, mut hub) = newcomer_and_hub(&shown);
    let first = first_of(&mut newcomer, 1);
    assert_eq!(first.len(), MAX_INITIATION_LEN, "as long as any other's");
    for _ in 0..3 {
        let (outcome, response) = answer(&mut hub, at(0), &first).unwrap();
        assert_eq!(outcome, Outcome::Introduced { certificate: Box::new(shown.clone()) });
        assert!(response.is_empty() && hub.next_timeout().is_none() && hub.indices.len() == 0);
    }
    assert_eq!(hub.add_peer(left.public_key().into()), Ok(PEER));
    let (_, response) = answer(&mut hub, at(0), &first).unwrap();
    assert_eq!(response.len(), RESPONSE_LEN);
    assert!(matches!(answer(&mut newcomer, at(0), &response).unwrap().0, Outcome::Established { peer: PEER, .. }));
    assert_eq!(hub.shown_certificate(PEER), shown.encoded());
    pass(&mut newcomer, &mut hub);
    pass(&mut hub, &mut newcomer);
}

#[test]
fn another_nodes_certificate_gets_silence() {
    let (_, right) = identities();
    let (mut thief, mut hub) = newcomer_and_hub(&certificate(&right));
    let first = first_of(&mut thief, 1);
    assert_eq!(answer(&mut hub, at(0), &first), Err(HandshakeError::Stranger));
}

#[test]
fn a_peer_that_is_known_may_show_a_certificate_or_not() {
    let (left, right) = identities();
    let (mut a, mut b) = (node(&left, &right, 10), node(&right, &left, 20));
    a.set_certificate(Some(&certificate(&left)));
    let first = first_of(&mut a, 1);
    let (_, response) = answer(&mut b, at(0), &first).unwrap();
    answer(&mut a, at(0), &response).unwrap();
    pass(&mut a, &mut b);
    assert_eq!(b.shown_certificate(PEER), certificate(&left).encoded());
    a.set_certificate(None);
    handshake(&mut a, &mut b, at(10), 2);
    assert!(b.shown_certificate(PEER).is_empty());
}

#[test]
fn a_responder_presents_its_certificate_only_to_an_initiator_with_one() {
    let (left, right) = identities();
    let (mut a, mut b) = (node(&left, &right, 10), node(&right, &left, 20));
    b.set_certificate(Some(&certificate(&right)));
    let (_, response) = answer(&mut b, at(0), &first_of(&mut a, 1)).unwrap();
    assert_eq!(response.len(), RESPONSE_LEN, "not to others");
    a.set_certificate(Some(&certificate(&left)));
    let first = first_of_at(&mut a, at(10), 2);
    let (_, response) = answer(&mut b, at(10), &first).unwrap();
    assert!(response.len() > RESPONSE_LEN && response.len() < first.len());
    for position in 0..response.len() - 16 {
        let mut changed = response.clone();
        changed[position] ^= 0x10;
        assert!(answer(&mut a, at(10), &changed).is_err(), "byte {position}");
    }
    assert!(a.shown_certificate(PEER).is_empty());
    answer(&mut a, at(10), &response).unwrap();
    assert_eq!(a.shown_certificate(PEER), certificate(&right).encoded());
    pass(&mut a, &mut b);
}

#[test]
fn a_changed_byte_in_a_long_initiation_gets_silence() {
    let (left, _) = identities();
    let (mut newcomer, mut hub) = newcomer_and_hub(&certificate(&left));
    let first = first_of(&mut newcomer, 1);
    for position in 0..first.len() - 16 {
        let mut changed = first.clone();
        changed[position] ^= 0x10;
        assert!(answer(&mut hub, at(0), &changed).is_err(), "byte {position}");
    }
    for len in [INITIATION_LEN, first.len() - 1, MAX_INITIATION_LEN + 1] {
        let mut other = first.clone();
        other.resize(len, 0);
        assert!(answer(&mut hub, at(0), &other).is_err(), "length {len}");
    }
}

#[test]
fn under_load_a_stranger_with_a_certificate_must_prove_its_address_first() {
    let (left, _) = identities();
    let (mut newcomer, mut hub) = newcomer_and_hub(&certificate(&left));
    let first = first_of(&mut newcomer, 1);
    let mut out = [0; RESPONSE_LEN];
    let outcome = hub.handle(at(0), &first, SOURCE, true, &mut out).unwrap();
    assert_eq!(outcome, Outcome::Cookie { len: COOKIE_REPLY_LEN });
    answer(&mut newcomer, at(0), &out[..COOKIE_REPLY_LEN]).unwrap();
    let proved = first_of(&mut newcomer, 2);
    let outcome = hub.handle(at(0), &proved, SOURCE, true, &mut out).unwrap();
    assert!(matches!(outcome, Outcome::Introduced { .. }));
}

#[test]
fn an_initiation_with_a_certificate_needs_its_room() {
    let (left, _) = identities();
    let (mut newcomer, _) = newcomer_and_hub(&certificate(&left));
    assert_eq!(newcomer.initiate(at(0), PEER, 1, &mut [0; INITIATION_LEN]), Err(InitiateError::NoRoom));
}
