//! Certificates and revocations: their exact bytes, and that each has only one encoding.

mod common;

use common::{hex, unhex};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use weft_wire::WireError;
use weft_wire::certificate::{
    CertificateClaims, CertificateView, EncodedGroups, EncodedPrefixes, MAX_CERTIFICATE_LEN, MAX_GROUP_LEN, MAX_GROUPS,
    MAX_PREFIXES, REVOCATION_LEN, RevocationView, SIGNATURE_LEN, WirePrefix,
};
use weft_wire::frame::{Frame, FrameWriter, Frames, REVOCATION_FRAME_LEN};

/// Returns a false signature that depends on every covered byte.
fn sum(covered: &[u8]) -> [u8; SIGNATURE_LEN] {
    [covered.iter().fold(covered.len() as u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)); SIGNATURE_LEN]
}

fn write(claims: &CertificateClaims<'_>) -> Vec<u8> {
    let mut out = [0; MAX_CERTIFICATE_LEN];
    let len = claims.emit(&mut out, sum).unwrap();
    out[..len].to_vec()
}

fn some_claims() -> CertificateClaims<'static> {
    let prefixes = [("10.9.0.5".parse().unwrap(), 32), ("2001:db8::".parse().unwrap(), 33)];
    CertificateClaims {
        public_key: [0xaa; 32],
        name: "größe",
        not_before_unix_s: 0x0102,
        not_after_unix_s: 0x0304,
        may_relay: true,
        prefixes: EncodedPrefixes::new(&prefixes).unwrap(),
        groups: EncodedGroups::default(),
    }
}

fn groups<'a>(names: &[&'a str]) -> Result<EncodedGroups<'a>, WireError> {
    EncodedGroups::new(names.iter().copied())
}

#[test]
fn a_certificate_with_groups_has_version_2_and_is_these_bytes() {
    let claims = CertificateClaims { groups: groups(&["admins", "größe"]).unwrap(), ..some_claims() };
    let bytes = write(&claims);
    let without = write(&some_claims());
    let before = without.len() - SIGNATURE_LEN;
    assert_eq!(bytes[0], 2);
    assert_eq!(bytes[1..before], without[1..before]);
    let signature = hex(&sum(&bytes[..bytes.len() - SIGNATURE_LEN]));
    let text = format!("02 06 61646d696e73 07 6772c3b6c39f65 {signature}");
    assert_eq!(hex(&bytes[before..]), hex(&unhex(&text)));
    assert_eq!(CertificateView::parse(&bytes).unwrap().claims, claims);
}

#[test]
fn groups_have_one_order_and_take_only_what_space_is_left() {
    let long = "g".repeat(MAX_GROUP_LEN + 1);
    for bad in [&["b", "a"][..], &["a", "a"], &[""], &["two words"], &[long.as_str()]] {
        assert_eq!(groups(bad), Err(WireError::Malformed), "{bad:?}");
    }
    let names: Vec<String> = (0..=MAX_GROUPS).map(|n| format!("{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(groups(&names), Err(WireError::TooLong));
    assert_eq!(groups(&names[1..]).unwrap().as_slice(), &names[1..]);
    let prefixes: Vec<WirePrefix> = (0..16u8).map(|n| (IpAddr::from([n; 16]), 128)).collect();
    let full = CertificateClaims {
        name: &"n".repeat(63),
        prefixes: EncodedPrefixes::new(&prefixes).unwrap(),
        groups: groups(&["a"]).unwrap(),
        ..some_claims()
    };
    assert_eq!(full.emit(&mut [0; MAX_CERTIFICATE_LEN], sum), Err(WireError::NoRoom));
    let mut longer = [0; MAX_CERTIFICATE_LEN + 10];
    let len = full.emit(&mut longer, sum).unwrap();
    assert_eq!(CertificateView::parse(&longer[..len]).err(), Some(WireError::TooLong));
    let mut none = write(&some_claims());
    none[0] = 2;
    none.insert(none.len() - SIGNATURE_LEN, 0);
    assert_eq!(CertificateView::parse(&none).err(), Some(WireError::Malformed), "version 2 has groups");
}

#[test]
fn a_certificate_is_these_bytes() {
    let bytes = write(&some_claims());
    let text = format!(
        "01 01 01 {} 0000000000000102 0000000000000304 07 6772c3b6c39f65 02 04 20 0a090005 06 21 20010db8 {} {}",
        "aa".repeat(32),
        "00".repeat(12),
        hex(&sum(&bytes[..bytes.len() - SIGNATURE_LEN])),
    );
    assert_eq!(hex(&bytes), hex(&unhex(&text)));
    let parsed = CertificateView::parse(&bytes).unwrap();
    assert_eq!(parsed.claims, some_claims());
    assert_eq!(*parsed.signed.signature, sum(parsed.signed.covers));
    assert_eq!(parsed.signed.covers.len() + SIGNATURE_LEN, bytes.len());
}

#[test]
fn a_revocation_is_these_bytes() {
    let revocation = RevocationView::new([0xbb; 32], 0x0506, sum);
    let signature = hex(&sum(&revocation.covered()));
    let text = format!("01 02 {} 0000000000000506 {signature}", "bb".repeat(32));
    assert_eq!(hex(&revocation.emit()), hex(&unhex(&text)));
    assert_eq!(RevocationView::parse(&revocation.emit()), Ok(revocation));
    let mut out = [0; REVOCATION_FRAME_LEN];
    FrameWriter::new(&mut out).write(&Frame::Revocation(revocation)).unwrap();
    assert_eq!(hex(&out), "0b".to_owned() + &hex(&revocation.emit()));
    assert_eq!(Frames::new(&out).collect::<Vec<_>>(), [Ok(Frame::Revocation(revocation))]);
}

#[test]
fn the_longest_certificate_fits_and_no_longer_one_is_made() {
    let prefixes: Vec<WirePrefix> = (0..16u8).map(|n| (IpAddr::from([n; 16]), 128)).collect();
    let longest = CertificateClaims {
        name: &"n".repeat(63),
        prefixes: EncodedPrefixes::new(&prefixes).unwrap(),
        ..some_claims()
    };
    assert_eq!(write(&longest).len(), MAX_CERTIFICATE_LEN);
    assert_eq!(longest.emit(&mut [0; MAX_CERTIFICATE_LEN - 1], sum), Err(WireError::NoRoom));
    let too_many = [(IpAddr::from([0; 4]), 0); MAX_PREFIXES + 1];
    assert_eq!(EncodedPrefixes::new(&too_many), Err(WireError::TooLong));
}

#[test]
fn invalid_certificates_are_neither_written_nor_read() {
    let good = write(&some_claims());
    let refused = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        CertificateView::parse(&bytes).err()
    };
    // Offsets: version, kind, flags, not before, name, prefix count, family, length, host bits.
    for (at, byte, why) in [
        (0, 0, WireError::Version),
        (0, 3, WireError::Version),
        (1, 2, WireError::UnknownType),
        (1, 0, WireError::UnknownType),
        (2, 3, WireError::Malformed),
        (41, 9, WireError::Malformed),
        (52, b' ', WireError::Malformed),
        (54, 0xff, WireError::Malformed),
        (59, 17, WireError::TooLong),
        (60, 5, WireError::UnknownType),
        (61, 33, WireError::Malformed),
        (61, 31, WireError::Malformed),
        (83, 1, WireError::Malformed),
    ] {
        assert_eq!(refused(at, byte), Some(why), "byte {at} = {byte}");
    }
    assert_eq!(CertificateView::parse(&good[..good.len() - 1]), Err(WireError::Truncated));
    assert_eq!(CertificateView::parse(&[&good[..], &[0]].concat()), Err(WireError::TooLong));
    let bad_claims = [
        CertificateClaims { name: "", ..some_claims() },
        CertificateClaims { name: "two words", ..some_claims() },
        CertificateClaims { name: &"ä".repeat(32), ..some_claims() },
        CertificateClaims { not_before_unix_s: 0x0305, ..some_claims() },
    ];
    for claims in bad_claims {
        assert_eq!(claims.emit(&mut [0; MAX_CERTIFICATE_LEN], sum), Err(WireError::Malformed), "{claims:?}");
    }
    for bad in [("10.0.0.1", 31), ("10.0.0.0", 33), ("::1", 127), ("::", 129), ("255.0.0.0", 0)] {
        let (address, length) = bad;
        assert_eq!(EncodedPrefixes::new(&[(address.parse().unwrap(), length)]), Err(WireError::Malformed), "{bad:?}");
    }
}

fn prefixes() -> impl Strategy<Value = Vec<WirePrefix>> {
    let v4 = (any::<u32>(), 0u8..=32).prop_map(|(bits, length)| {
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        (IpAddr::from(Ipv4Addr::from(bits & mask)), length)
    });
    let v6 = (any::<u128>(), 0u8..=128).prop_map(|(bits, length)| {
        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
        (IpAddr::from(Ipv6Addr::from(bits & mask)), length)
    });
    prop::collection::vec(prop_oneof![v4, v6], 0..=MAX_PREFIXES)
}

proptest! {
    #[test]
    fn certificates_round_trip(
        public_key in any::<[u8; 32]>(), name in "[^\\s]{1,15}", period in any::<[u64; 2]>(), may_relay in any::<bool>(),
        prefixes in prefixes(), names in prop::collection::btree_set("[^\\s]{1,7}", 0..=4),
    ) {
        let [a, b] = period;
        let prefixes = EncodedPrefixes::new(&prefixes).unwrap();
        let (not_before_unix_s, not_after_unix_s) = (a.min(b), a.max(b));
        let groups = EncodedGroups::new(names.iter().map(String::as_str)).unwrap();
        let name = name.as_str();
        let claims =
            CertificateClaims { public_key, name, not_before_unix_s, not_after_unix_s, may_relay, prefixes, groups };
        let mut out = [0; MAX_CERTIFICATE_LEN + 256];
        let len = claims.emit(&mut out, sum).unwrap();
        let bytes = out[..len].to_vec();
        if len > MAX_CERTIFICATE_LEN {
            prop_assert_eq!(CertificateView::parse(&bytes).err(), Some(WireError::TooLong));
            return Ok(());
        }
        prop_assert_eq!(CertificateView::parse(&bytes).map(|certificate| certificate.claims), Ok(claims));
    }

    #[test]
    fn each_decoded_certificate_has_one_encoding(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), has_groups in any::<bool>(),
    ) {
        let names: &[&str] = if has_groups { &["a", "staff"] } else { &[] };
        let mut bytes = write(&CertificateClaims { groups: groups(names).unwrap(), ..some_claims() });
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(CertificateView { claims, signed }) = CertificateView::parse(&bytes) {
            let mut out = [0; MAX_CERTIFICATE_LEN];
            let len = claims.emit(&mut out, |_| *signed.signature).unwrap();
            prop_assert_eq!(&out[..len], &bytes[..]);
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0u8..4, version in 1u8..3) {
        let bytes = [&[version, kind][..], &bytes].concat();
        let _ = CertificateView::parse(&bytes);
        if let Ok(revocation) = RevocationView::parse(&bytes) {
            prop_assert_eq!(&revocation.emit()[..], &bytes[..]);
        }
        prop_assert!(RevocationView::parse(&bytes[..bytes.len().min(REVOCATION_LEN - 1)]).is_err());
    }
}
