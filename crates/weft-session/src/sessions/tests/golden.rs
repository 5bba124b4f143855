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
        (
            Cipher::Aes256Gcm,
            ["bfd52beca1cc35d9", "98b0be2665fbcdb1", "1da794785d0dff9e", "7ee743ba7c422b85"],
            ["a04a015d6afbe998", "812340d444081db9", "b43f2e3b14a57545", "d14fac12c9f64ab5"],
            ["cbf6ede67453df6a", "0c1c2aa3b366908e"],
        ),
        (
            Cipher::ChaCha20Poly1305,
            ["bfd52beca1cc35d9", "dff0de4e3560d183", "089836e640ce2081", "27dec3919529d369"],
            ["ba444b95461730a6", "637bdd9a1411e89a", "cfa2b676e1fad65c", "8240f432fa561050"],
            ["51e073ccefb9d4b8", "449cba7e3e0e1b72"],
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
