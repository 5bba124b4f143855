//! Golden vectors: fingerprints of the datagrams for fixed seeds. If they change, the protocol version must change.
//!
//! The only exception is a change of [`SecretRng`], which yields other bytes for the same protocol.

use super::*;
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write;

/// Returns the first 64 bits of the SHA-256 hash of a datagram, in hexadecimal.
fn fingerprint(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref()[..8].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn fixed_seeds_give_fixed_datagrams() {
    let expected = [
        (
            Cipher::Aes256Gcm,
            ["1de74b0f6dec8a1b", "e3ad69b138d6c5c6", "32e751f1e621c9c5", "61d198d8a8ad4da6"],
            ["c66c7c23ed369ee8", "39f80663d42de163", "078ff161a77a7fc2", "5a24b1c8ee9361e1"],
            ["80ab13042edfa815", "5c54903e2277b9de"],
        ),
        (
            Cipher::ChaCha20Poly1305,
            ["1de74b0f6dec8a1b", "5bf5a1178b3ebfe2", "35cbf58b307d3690", "a377c459d39d3e7b"],
            ["5d2670f14f87fb11", "06ffef0fa353a4bf", "d5dfbfcbf534651e", "db23b77f4cd6e3da"],
            ["fe170da9812b1af8", "9e8b502349992846"],
        ),
    ];
    let (left, right) = identities();
    for (cipher, expected, in_vpns, relayed) in expected {
        let (mut a, mut b) = (node(&left, &right, 10), node(&right, &left, 20));
        b.cipher = cipher;
        let first = initiation(&mut a, at(0), 0x0102_0304_0506_0708);
        let (_, second) = answer(&mut b, at(0), &first).unwrap();
        answer(&mut a, at(0), &second).unwrap();
        let third = seal(&mut a, PathId(5), b"from the initiator").unwrap().1;
        open(&mut b, &third).unwrap();
        let fourth = seal(&mut b, PathId(6), b"from the responder").unwrap().1;
        open(&mut a, &fourth).unwrap();
        assert_eq!([first, second, third, fourth].map(|datagram| fingerprint(&datagram)), expected, "{cipher:?}");
        let vpns = [VpnId(1), VpnId(u32::MAX)].map(|vpn| {
            tell(&mut a, &mut b, vpn);
            tell(&mut b, &mut a, vpn);
            let from_initiator = seal_in(&mut a, vpn, PathId(5), b"from the initiator").unwrap().1;
            let from_responder = seal_in(&mut b, vpn, PathId(6), b"from the responder").unwrap().1;
            [from_initiator, from_responder].map(|datagram| fingerprint(&datagram))
        });
        assert_eq!(vpns.concat(), in_vpns, "{cipher:?}");
        let for_relays = [relayed::sealed(&mut a, b"for another"), relayed::sealed(&mut b, b"for another")];
        assert_eq!(for_relays.map(|datagram| fingerprint(&datagram)), relayed, "{cipher:?}");
    }
}

#[test]
fn a_table_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Sessions>();
}
