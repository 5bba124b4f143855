//! What goes over the wire for fixed seeds. A change here is a change of the protocol: raise its version.

use super::*;
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write;

/// The first 64 bits of SHA-256, in hexadecimal.
fn fingerprint(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref()[..8].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn fixed_seeds_give_fixed_datagrams() {
    let expected = [
        (Cipher::Aes256Gcm, ["bfd52beca1cc35d9", "98b0be2665fbcdb1", "1da794785d0dff9e", "7ee743ba7c422b85"]),
        (Cipher::ChaCha20Poly1305, ["bfd52beca1cc35d9", "dff0de4e3560d183", "089836e640ce2081", "27dec3919529d369"]),
    ];
    let (left, right) = identities();
    for (cipher, expected) in expected {
        let (mut a, mut b) = (node(&left, &right, 10), node(&right, &left, 20));
        b.cipher = cipher;
        let first = initiation(&mut a, at(0), 0x0102_0304_0506_0708);
        let (_, second) = answer(&mut b, at(0), &first).unwrap();
        answer(&mut a, at(0), &second).unwrap();
        let third = seal(&mut a, PathId(5), b"from the initiator").unwrap().1;
        open(&mut b, &third).unwrap();
        let fourth = seal(&mut b, PathId(6), b"from the responder").unwrap().1;
        assert_eq!([first, second, third, fourth].map(|datagram| fingerprint(&datagram)), expected, "{cipher:?}");
    }
}

#[test]
fn a_table_may_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Sessions>();
}
