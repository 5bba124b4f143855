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
            ["b25d71a24e041b61", "e3dac10c4c5e308d", "d630fcc54c92f16f", "8ecaf73b9666dcee"],
            ["712dda21e9b3f24a", "a735a1946d6aac4e", "a085e476eb2070a4", "38b9eb4a3d4374bb"],
            ["eb0a0adb9c0f6b4d", "b39f2e25068d235e"],
        ),
        (
            Cipher::ChaCha20Poly1305,
            ["b25d71a24e041b61", "5049e3ff31716180", "6c4b22e85c71bafa", "b416fb3b828a6901"],
            ["ecaed5ec18e3e111", "18fca0bd2ef70b1a", "0174a8322dcb3f92", "bc1e9f37ca71a47b"],
            ["205f64a2866b9ac8", "8b7d86287a7f9d0e"],
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
