//! Relayed datagrams are authenticated as a whole and opened only once.
//!
//! A relayed datagram can also be the first packet under a key.

use super::*;
use weft_wire::relay::{Label, Way, overhead};

fn way() -> Way {
    Way::new(&[Label(0x0102_0304), Label(0x0506_0708)]).unwrap()
}

/// Returns the datagram `within` inside a datagram that `from` seals for a route over two relays.
pub(super) fn sealed(from: &mut Sessions, within: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; within.len() + overhead(2)];
    datagram[HOP_HEADER_LEN..HOP_HEADER_LEN + within.len()].copy_from_slice(within);
    from.seal_relayed(PEER, &way(), &mut datagram).unwrap();
    datagram
}

fn open_relayed(to: &mut Sessions, datagram: &[u8]) -> Result<(Relayed, Vec<u8>), OpenError> {
    let mut datagram = datagram.to_vec();
    let opened = to.open_relayed(&mut datagram)?;
    let within = datagram[opened.within.clone()].to_vec();
    Ok((opened, within))
}

#[test]
fn the_inner_datagram_passes_unchanged_and_the_route_is_not_readable() {
    let (mut a, mut b) = connected();
    let datagram = sealed(&mut a, b"sealed for another");
    assert!(datagram.windows(18).any(|bytes| bytes == b"sealed for another"));
    assert!(!datagram.windows(4).any(|bytes| bytes == [1, 2, 3, 4] || bytes == [5, 6, 7, 8]));
    let (opened, within) = open_relayed(&mut b, &datagram).unwrap();
    assert_eq!((opened.peer, opened.way, within.as_slice()), (PEER, way(), b"sealed for another".as_slice()));
    assert!(!opened.first_with_this_key && !opened.fresh);
    assert_eq!(open_relayed(&mut b, &datagram), Err(OpenError::Replayed));
}

#[test]
fn a_changed_byte_anywhere_is_refused_and_does_no_harm() {
    let (mut a, mut b) = connected();
    let datagram = sealed(&mut a, b"payload");
    for position in 0..datagram.len() {
        for bit in 0..8 {
            let mut changed = datagram.clone();
            changed[position] ^= 1 << bit;
            assert!(open_relayed(&mut b, &changed).is_err(), "byte {position} bit {bit}");
        }
    }
    for len in 0..datagram.len() {
        assert!(open_relayed(&mut b, &datagram[..len]).is_err(), "length {len}");
    }
    assert_eq!(open_relayed(&mut b, &datagram).unwrap().1, b"payload");
}

#[test]
fn neither_kind_opens_as_the_other() {
    let (mut a, mut b) = connected();
    let relayed = sealed(&mut a, b"for another");
    assert_eq!(open(&mut b, &relayed), Err(OpenError::Malformed));
    let (_, mut data) = seal(&mut a, PathId(0x02), b"for the node itself").unwrap();
    data[0] = PacketType::Relayed.byte();
    assert!(open_relayed(&mut b, &data).is_err());
    let mut datagram = [0; HOP_HEADER_LEN + TAG_LEN];
    assert_eq!(a.seal(PEER, PATH, PacketType::Relayed, &mut datagram), Err(SealError::Malformed));
}

#[test]
fn it_may_be_the_first_under_its_key() {
    let (mut a, mut b) = pair();
    handshake(&mut a, &mut b, Instant::ZERO, 1);
    let datagram = sealed(&mut a, b"early");
    let (opened, _) = open_relayed(&mut b, &datagram).unwrap();
    assert!(opened.first_with_this_key && opened.fresh && b.is_established(PEER));
}

/// A relay has the keys of its own hops only. With these it can neither read nor forge the inner datagram.
#[test]
fn a_relay_can_neither_read_nor_forge() {
    let identities = [1, 2, 3].map(identity);
    let of = |own: usize, others: [usize; 2]| {
        let peers = others.map(|other| SessionPeerConfig::from(identities[other].public_key()));
        let (cipher, seed) = (Cipher::Aes256Gcm, [own as u8 + 60; 32]);
        Sessions::new(identities[own].clone(), &peers, cipher, seed, Instant::ZERO).unwrap()
    };
    // Peer 0 of each end is the relay, and peer 1 is the other end. The relay has both ends as peers.
    let (mut a, mut relay, mut d) = (of(0, [1, 2]), of(1, [0, 2]), of(2, [1, 0]));
    meet(&mut a, PeerId(0), &mut relay);
    meet(&mut d, PeerId(0), &mut relay);
    meet(&mut a, PeerId(1), &mut d);
    let secret = b"nobody between may know";
    let mut within = [&[0; HOP_HEADER_LEN], &secret[..], &[0; TAG_LEN]].concat();
    a.seal(PeerId(1), PATH, PacketType::Data, &mut within).unwrap();
    assert!(!within.windows(6).any(|bytes| bytes == b"nobody"));
    assert!(relay.open(&mut within.clone()).is_err(), "it has no key for what is within");

    let forged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = within.clone();
        change(&mut changed);
        changed
    };
    for position in 0..within.len() {
        let changed = forged(&|bytes| bytes[position] ^= 0x20);
        assert!(at_end(&mut relay, &mut d, &changed).is_err(), "byte {position}");
    }
    assert!(at_end(&mut relay, &mut d, &forged(&|bytes| bytes.truncate(40))).is_err());
    let mut own = [&[0; HOP_HEADER_LEN], &b"in another's name"[..], &[0; TAG_LEN]].concat();
    relay.seal(PeerId(1), PATH, PacketType::Data, &mut own).unwrap();
    let opened = at_end(&mut relay, &mut d, &own).unwrap();
    assert_eq!(opened.peer, PeerId(0), "what it says itself is said in its own name");
    let opened = at_end(&mut relay, &mut d, &within).unwrap();
    assert_eq!(opened.peer, PeerId(1));
    assert_eq!(at_end(&mut relay, &mut d, &within), Err(OpenError::Replayed));
}

/// Runs a handshake that `from` initiates with its peer `to`, the node `other`, and sends a packet under the new key.
fn meet(from: &mut Sessions, to: PeerId, other: &mut Sessions) {
    let mut first = [0; INITIATION_LEN];
    let len = from.initiate(Instant::ZERO, to, 1, &mut first).unwrap();
    let (_, second) = answer(other, Instant::ZERO, &first[..len]).unwrap();
    answer(from, Instant::ZERO, &second).unwrap();
    let mut datagram = [0; HOP_HEADER_LEN + TAG_LEN];
    from.seal(to, PATH, PacketType::Data, &mut datagram).unwrap();
    other.open(&mut datagram).unwrap();
}

/// Lets `relay` send the sealed datagram `within` to `end` as a relayed datagram.
///
/// Returns the result of opening it there.
fn at_end(relay: &mut Sessions, end: &mut Sessions, within: &[u8]) -> Result<OpenedPacket, OpenError> {
    let mut datagram = vec![0; within.len() + overhead(2)];
    datagram[HOP_HEADER_LEN..HOP_HEADER_LEN + within.len()].copy_from_slice(within);
    relay.seal_relayed(PeerId(1), &way(), &mut datagram).unwrap();
    let opened = end.open_relayed(&mut datagram).unwrap();
    end.open(&mut datagram[opened.within])
}
