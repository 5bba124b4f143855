use super::*;

#[test]
fn a_session_carries_packets_both_ways_after_the_first_from_the_initiator() {
    let (mut a, mut b) = pair();
    assert!(handshake(&mut a, &mut b, Instant::ZERO, 1), "never met before");
    assert!(a.is_established(PEER) && !b.is_established(PEER));
    assert_eq!(seal(&mut b, PATH, b"early"), Err(SealError::NotEstablished));
    let first = pass(&mut a, &mut b);
    assert!(first.first_with_this_key && first.fresh);
    let second = pass(&mut a, &mut b);
    assert!(!second.first_with_this_key && !second.fresh);
    let back = pass(&mut b, &mut a);
    assert!(back.first_with_this_key && !back.fresh);
    assert_eq!(b.established_since(PEER), Some(Instant::ZERO));
}

#[test]
fn every_cipher_preference_gives_a_session() {
    use Cipher::{Aes256Gcm, ChaCha20Poly1305};
    let (left, right) = identities();
    for ciphers in [(Aes256Gcm, ChaCha20Poly1305), (ChaCha20Poly1305, Aes256Gcm), (ChaCha20Poly1305, ChaCha20Poly1305)]
    {
        let (mut a, mut b) = (node(&left, &right, 1), node(&right, &left, 2));
        (a.cipher, b.cipher) = ciphers;
        handshake(&mut a, &mut b, Instant::ZERO, 1);
        pass(&mut a, &mut b);
        pass(&mut b, &mut a);
    }
}

#[test]
fn a_changed_byte_anywhere_is_refused_and_does_no_harm() {
    let (mut a, mut b) = connected();
    let (_, datagram) = seal(&mut a, PathId(7), b"payload").unwrap();
    for position in 0..datagram.len() {
        for bit in 0..8 {
            let mut changed = datagram.clone();
            changed[position] ^= 1 << bit;
            assert!(open(&mut b, &changed).is_err(), "byte {position} bit {bit}");
        }
    }
    for len in 0..datagram.len() {
        assert!(open(&mut b, &datagram[..len]).is_err(), "length {len}");
    }
    assert_eq!(open(&mut b, &datagram).unwrap().1, b"payload");
}

#[test]
fn a_packet_opens_once() {
    let (mut a, mut b) = connected();
    let (_, datagram) = seal(&mut a, PATH, b"once").unwrap();
    assert!(open(&mut b, &datagram).is_ok());
    assert_eq!(open(&mut b, &datagram), Err(OpenError::Replayed));
}

#[test]
fn paths_have_numbers_and_windows_of_their_own() {
    let (mut a, mut b) = connected();
    let late = seal(&mut a, PathId(1), b"late").unwrap();
    for _ in 0..crate::replay::WINDOW + 10 {
        let (_, datagram) = seal(&mut a, PathId(2), b"").unwrap();
        open(&mut b, &datagram).unwrap();
    }
    assert_eq!(late.0, 0);
    assert_eq!(open(&mut b, &late.1).unwrap().1, b"late");
}

#[test]
fn a_buffer_without_room_and_an_unsealed_type_are_refused() {
    let (mut a, _) = connected();
    let mut short = [0; HOP_HEADER_LEN + TAG_LEN - 1];
    assert_eq!(a.seal(PEER, PATH, PacketType::Data, &mut short), Err(SealError::Malformed));
    assert_eq!(a.seal(PEER, PATH, PacketType::CookieReply, &mut [0; 100]), Err(SealError::Malformed));
    assert_eq!(a.seal(PeerId(9), PATH, PacketType::Data, &mut [0; 100]), Err(SealError::UnknownPeer));
}
