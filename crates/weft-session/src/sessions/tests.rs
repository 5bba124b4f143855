//! Tests of two nodes that exchange handshakes and packets. This module holds their helpers.

use super::*;
use crate::error::{HandshakeError, InitiateError, OpenError, SealError};
use crate::timers::{KEY_LIFETIME, REKEY_AFTER, REPEAT_FOR};
use weft_units::{Duration, PathId, VpnId};
use weft_wire::handshake::{COOKIE_REPLY_LEN, INITIATION_LEN, MAX_RESPONSE_LEN, RESPONSE_LEN};
use weft_wire::hop::{HOP_HEADER_LEN, PacketType, TAG_LEN};

mod certificates;
mod chaos;
mod golden;
mod handshakes;
mod memory;
mod properties;
mod rekeys;
mod relayed;
mod seals;
mod stamps;
mod vpns;

/// Number of the peer at each of the two nodes, which have only each other as peer.
const PEER: PeerId = PeerId(0);
const PATH: PathId = PathId(0);
const SOURCE: &[u8] = &[192, 0, 2, 1, 0x10, 0x00];

fn identity(secret: u8) -> Identity {
    Identity::from_secret([secret; 32])
}

/// Returns two identities, the one with the higher public key first.
fn identities() -> (Identity, Identity) {
    let (a, b) = (identity(1), identity(2));
    if a.public_key() > b.public_key() { (a, b) } else { (b, a) }
}

fn node(identity: &Identity, peer: &Identity, seed: u8) -> Sessions {
    let peers = [SessionPeerConfig::from(peer.public_key())];
    Sessions::new(identity.clone(), &peers, Cipher::Aes256Gcm, [seed; 32], Instant::ZERO).unwrap()
}

fn pair() -> (Sessions, Sessions) {
    let (a, b) = identities();
    (node(&a, &b, 10), node(&b, &a, 20))
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn initiation(from: &mut Sessions, now: Instant, stamp: u64) -> Vec<u8> {
    let mut out = [0; INITIATION_LEN];
    let len = from.initiate(now, PEER, stamp, &mut out).unwrap();
    out[..len].to_vec()
}

fn answer(to: &mut Sessions, now: Instant, datagram: &[u8]) -> Result<(Outcome, Vec<u8>), HandshakeError> {
    let mut out = [0; MAX_RESPONSE_LEN];
    let outcome = to.handle(now, datagram, SOURCE, false, &mut out)?;
    let len = match outcome {
        Outcome::Reply { len, .. } | Outcome::Cookie { len } => len,
        _ => 0,
    };
    Ok((outcome, out[..len].to_vec()))
}

/// Runs a whole handshake. Returns true if it is the initiator's first with the responder's process.
fn handshake(initiator: &mut Sessions, responder: &mut Sessions, now: Instant, stamp: u64) -> bool {
    let first = initiation(initiator, now, stamp);
    let (_, second) = answer(responder, now, &first).unwrap();
    match answer(initiator, now, &second) {
        Ok((Outcome::Established { fresh, .. }, _)) => fresh,
        other => panic!("{other:?}"),
    }
}

fn seal(from: &mut Sessions, path: PathId, text: &[u8]) -> Result<(u64, Vec<u8>), SealError> {
    seal_in(from, VpnId::DEFAULT, path, text)
}

fn seal_in(from: &mut Sessions, vpn: VpnId, path: PathId, text: &[u8]) -> Result<(u64, Vec<u8>), SealError> {
    let mut datagram = [&[0; HOP_HEADER_LEN], text, &[0; TAG_LEN]].concat();
    let number = from.seal_in(PEER, vpn, path, PacketType::Data, &mut datagram)?;
    Ok((number, datagram))
}

/// Announces one node's receiver index for `vpn` to the other, as a control datagram does.
fn tell(from: &mut Sessions, to: &mut Sessions, vpn: VpnId) {
    let index = from.vpn_index(PEER, vpn).unwrap();
    let (_, datagram) = seal(from, PATH, &index.to_be_bytes()).unwrap();
    let (opened, text) = open(to, &datagram).unwrap();
    to.set_vpn_index(PEER, opened.key, vpn, u32::from_be_bytes(text.try_into().unwrap()));
}

fn open(to: &mut Sessions, datagram: &[u8]) -> Result<(OpenedPacket, Vec<u8>), OpenError> {
    let mut datagram = datagram.to_vec();
    let opened = to.open(&mut datagram)?;
    let text = datagram[opened.plaintext.clone()].to_vec();
    Ok((opened, text))
}

/// Seals a packet at one node and opens it at the other. Returns the opened packet.
fn pass(from: &mut Sessions, to: &mut Sessions) -> OpenedPacket {
    let (number, datagram) = seal(from, PATH, b"hello").unwrap();
    let (opened, text) = open(to, &datagram).unwrap();
    assert_eq!((opened.packet_number, text.as_slice()), (number, b"hello".as_slice()));
    opened
}

/// Returns two nodes with a session in use in both directions.
fn connected() -> (Sessions, Sessions) {
    let (mut a, mut b) = pair();
    handshake(&mut a, &mut b, Instant::ZERO, 1);
    pass(&mut a, &mut b);
    pass(&mut b, &mut a);
    (a, b)
}
