//! Certificates and revocations, as a network's root key signs them.
//!
//! A certificate states the name and the prefixes of a node. A revocation invalidates all certificates of a node.
//! The root key is an Ed25519 key pair (RFC 8032). It signs a label and the bytes of [`weft_wire::certificate`]. The
//! label keeps the signature of one kind of statement from being valid for another kind. Certificates are not secret:
//! only the owner of the node's private key can use one.

use crate::error::{CertificateError, ParseKeyError};
use crate::identity::{self, PublicKey};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64ct::{Base64, Encoding};
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use weft_units::planted::{self, Fault};
use weft_wire::WireError;
use weft_wire::certificate::{self as wire, MAX_CERTIFICATE_LEN, REVOCATION_LEN, SIGNATURE_LEN, Signed};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Length of an Ed25519 seed or public key, in bytes.
const KEY_LEN: usize = 32;
/// Label that precedes the bytes of a certificate when they are signed.
const OF_CERTIFICATE: &[u8] = b"weft certificate";
/// Label that precedes the bytes of a revocation when they are signed.
const OF_REVOCATION: &[u8] = b"weft revocation";

/// The public half of a network's root key, with which nodes check certificates. Its text form is base64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RootPublicKey([u8; KEY_LEN]);

/// A network's private root key, which signs certificates. It is wiped from memory when dropped and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct RootKey {
    seed: [u8; KEY_LEN],
}

/// The statements of a certificate about its node: key, name, validity period, rights, prefixes and groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claims {
    /// Static public key of the certified node.
    pub public_key: PublicKey,
    /// Name of the node for people: 1 to 63 bytes without white space.
    pub name: String,
    /// First second of the validity period, in seconds since 1970.
    pub not_before_unix_s: u64,
    /// Last second of the validity period, in seconds since 1970.
    pub not_after_unix_s: u64,
    /// True if the node may forward datagrams between other nodes.
    pub may_relay: bool,
    /// Prefixes of the hosts behind the node: addresses and prefix lengths, at most 16.
    pub prefixes: Vec<(IpAddr, u8)>,
    /// Groups of the node, to which access rules refer: at most 8, in rising order.
    ///
    /// Each name has 1 to 31 bytes without white space.
    pub groups: Vec<String>,
}

/// A certificate in its encoded form, with its decoded claims. Its text form is base64.
///
/// It must not be trusted before [`RootPublicKey::check`] accepts it.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    claims: Claims,
    encoded: Vec<u8>,
}

/// A signed statement that invalidates all certificates of a node, regardless of their date. Its text form is base64.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Revocation(wire::RevocationView);

impl RootKey {
    /// Creates a root key from 32 secret random bytes: a new key or a stored one.
    pub fn from_seed(seed: [u8; KEY_LEN]) -> RootKey {
        RootKey { seed }
    }

    /// Returns the private key as base64, for storage.
    pub fn secret_to_base64(&self) -> String {
        Base64::encode_string(&self.seed)
    }

    /// Returns the public half of this root key.
    pub fn public_key(&self) -> RootPublicKey {
        let mut public = [0; KEY_LEN];
        if let Some(pair) = self.pair() {
            public.iter_mut().zip(pair.public_key().as_ref()).for_each(|(to, from)| *to = *from);
        }
        RootPublicKey(public)
    }

    /// Signs a certificate with these claims.
    ///
    /// # Errors
    /// [`CertificateError::Claims`] for an invalid name, validity period or list of prefixes or groups, or if the
    /// certificate would be too long.
    pub fn sign(&self, claims: &Claims) -> Result<Certificate, CertificateError> {
        let of_wire = wire::CertificateClaims {
            public_key: claims.public_key.0,
            name: &claims.name,
            not_before_unix_s: claims.not_before_unix_s,
            not_after_unix_s: claims.not_after_unix_s,
            may_relay: claims.may_relay,
            prefixes: wire::EncodedPrefixes::new(&claims.prefixes).map_err(|_| CertificateError::Claims)?,
            groups: wire::EncodedGroups::new(claims.groups.iter().map(String::as_str))
                .map_err(|_| CertificateError::Claims)?,
        };
        let mut out = [0; MAX_CERTIFICATE_LEN];
        let len = of_wire
            .emit(&mut out, |covered| self.signature(OF_CERTIFICATE, covered))
            .map_err(|_| CertificateError::Claims)?;
        Ok(Certificate { claims: claims.clone(), encoded: out.get(..len).unwrap_or_default().to_vec() })
    }

    /// Signs a statement, dated `at_unix_s`, that all certificates of the node with `public_key` are invalid.
    pub fn revoke(&self, public_key: &PublicKey, at_unix_s: u64) -> Revocation {
        let sign = |covered: &[u8]| self.signature(OF_REVOCATION, covered);
        Revocation(wire::RevocationView::new(public_key.0, at_unix_s, sign))
    }

    fn signature(&self, label: &[u8], covered: &[u8]) -> [u8; SIGNATURE_LEN] {
        let mut bytes = [0; SIGNATURE_LEN];
        if let Some(pair) = self.pair() {
            let signature = pair.sign(&[label, covered].concat());
            bytes.iter_mut().zip(signature.as_ref()).for_each(|(to, from)| *to = *from);
        }
        bytes
    }

    /// Returns the Ed25519 key pair that this seed gives. Any 32 bytes are a valid seed.
    fn pair(&self) -> Option<Ed25519KeyPair> {
        Ed25519KeyPair::from_seed_unchecked(&self.seed).ok()
    }
}

impl RootPublicKey {
    /// Checks that a certificate is signed by this key and valid at `unix_s`, in seconds since 1970.
    ///
    /// # Errors
    /// [`CertificateError`] with the reason for the rejection.
    pub fn check(&self, certificate: &Certificate, unix_s: u64) -> Result<(), CertificateError> {
        let Ok(wire::CertificateView { signed, .. }) = wire::CertificateView::parse(&certificate.encoded) else {
            return Err(CertificateError::Encoding);
        };
        let Signed { signature, covers } = signed;
        if !self.has_signed(OF_CERTIFICATE, covers, signature) && !planted::is(Fault::RootNotChecked) {
            return Err(CertificateError::OtherRoot);
        }
        match &certificate.claims {
            claims if unix_s < claims.not_before_unix_s && !planted::is(Fault::EarlyMayJoin) => {
                Err(CertificateError::NotYetValid)
            }
            claims if unix_s > claims.not_after_unix_s && !planted::is(Fault::ExpiredMayJoin) => {
                Err(CertificateError::Expired)
            }
            _ => Ok(()),
        }
    }

    /// True if this root key has signed the revocation.
    pub fn has_revoked(&self, Revocation(revocation): &Revocation) -> bool {
        self.has_signed(OF_REVOCATION, &revocation.covered(), &revocation.signature)
    }

    fn has_signed(&self, label: &[u8], covered: &[u8], signature: &[u8; SIGNATURE_LEN]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(&[label, covered].concat(), signature).is_ok()
    }
}

impl Certificate {
    /// Decodes a certificate. It checks neither its signature nor its validity period.
    ///
    /// # Errors
    /// [`WireError`] for every input that is not the canonical encoding of a certificate.
    pub fn decode(bytes: &[u8]) -> Result<Certificate, WireError> {
        let claims = wire::CertificateView::parse(bytes)?.claims;
        let wire::CertificateClaims { public_key, name, not_before_unix_s, not_after_unix_s, may_relay, .. } = claims;
        let claims = Claims {
            public_key: PublicKey(public_key),
            name: name.to_owned(),
            not_before_unix_s,
            not_after_unix_s,
            may_relay,
            prefixes: claims.prefixes.as_slice().to_vec(),
            groups: claims.groups.as_slice().iter().map(|group| (*group).to_owned()).collect(),
        };
        Ok(Certificate { claims, encoded: bytes.to_vec() })
    }

    /// Returns the statements that the certificate makes about its node.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Returns the certificate as the bytes that nodes exchange.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

impl Revocation {
    /// Returns the public key of the node whose certificates are invalid.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.public_key)
    }

    /// Returns the time of the revocation, in seconds since 1970.
    pub fn revoked_at_unix_s(&self) -> u64 {
        self.0.revoked_at_unix_s
    }

    /// Returns the revocation in the form of `weft_wire`, from which it is encoded.
    pub fn to_wire(&self) -> wire::RevocationView {
        self.0
    }
}

impl From<wire::RevocationView> for Revocation {
    fn from(revocation: wire::RevocationView) -> Revocation {
        Revocation(revocation)
    }
}

impl fmt::Display for RootPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.0))
    }
}

impl fmt::Debug for RootPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootPublicKey({self})")
    }
}

impl FromStr for RootPublicKey {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<RootPublicKey, ParseKeyError> {
        identity::decode(text).map(RootPublicKey)
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({})", self.public_key())
    }
}

impl FromStr for RootKey {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<RootKey, ParseKeyError> {
        identity::decode(text).map(RootKey::from_seed)
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.encoded))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.claims).finish()
    }
}

impl FromStr for Certificate {
    type Err = CertificateError;
    fn from_str(text: &str) -> Result<Certificate, CertificateError> {
        let mut bytes = [0; MAX_CERTIFICATE_LEN];
        let bytes = Base64::decode(text, &mut bytes).map_err(|_| CertificateError::Encoding)?;
        Certificate::decode(bytes).map_err(|_| CertificateError::Encoding)
    }
}

impl fmt::Display for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.0.emit()))
    }
}

impl fmt::Debug for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revocation({} at {})", self.public_key(), self.revoked_at_unix_s())
    }
}

impl FromStr for Revocation {
    type Err = CertificateError;
    fn from_str(text: &str) -> Result<Revocation, CertificateError> {
        let mut bytes = [0; REVOCATION_LEN];
        let bytes = Base64::decode(text, &mut bytes).map_err(|_| CertificateError::Encoding)?;
        wire::RevocationView::parse(bytes).map(Revocation).map_err(|_| CertificateError::Encoding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root() -> RootKey {
        RootKey::from_seed([9; 32])
    }

    fn claims() -> Claims {
        Claims {
            public_key: PublicKey([7; 32]),
            name: "home".to_owned(),
            not_before_unix_s: 100,
            not_after_unix_s: 200,
            may_relay: false,
            prefixes: vec![("10.9.0.5".parse().unwrap(), 32)],
            groups: vec![],
        }
    }

    #[test]
    fn the_signature_is_that_of_rfc_8032() {
        // RFC 8032 §7.1, test 2: the seed, the public key, and the signature of one byte.
        let seed = [
            0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11, 0x4e, 0x0f, 0x5b, 0x8a,
            0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb,
        ];
        let root = RootKey::from_seed(seed);
        assert_eq!(root.public_key().0[..4], [0x3d, 0x40, 0x17, 0xc3]);
        let signature = root.signature(b"", &[0x72]);
        assert_eq!(signature[..4], [0x92, 0xa0, 0x09, 0xa9]);
        assert!(root.public_key().has_signed(b"", &[0x72], &signature));
    }

    #[test]
    fn a_certificate_holds_from_its_first_second_to_its_last() {
        let certificate = root().sign(&claims()).unwrap();
        let check = |unix_s| root().public_key().check(&certificate, unix_s);
        assert_eq!((check(99), check(100)), (Err(CertificateError::NotYetValid), Ok(())));
        assert_eq!((check(200), check(201)), (Ok(()), Err(CertificateError::Expired)));
        let other = RootKey::from_seed([8; 32]).public_key();
        assert_eq!(other.check(&certificate, 150), Err(CertificateError::OtherRoot));
    }

    #[test]
    fn a_revocation_is_signed_by_the_root_and_is_no_certificate() {
        let revocation = root().revoke(&PublicKey([7; 32]), 150);
        assert_eq!((revocation.public_key(), revocation.revoked_at_unix_s()), (PublicKey([7; 32]), 150));
        assert!(root().public_key().has_revoked(&revocation));
        assert!(!RootKey::from_seed([8; 32]).public_key().has_revoked(&revocation));
        let mislabelled =
            Revocation(wire::RevocationView::new([7; 32], 150, |covered| root().signature(OF_CERTIFICATE, covered)));
        assert!(!root().public_key().has_revoked(&mislabelled));
    }

    #[test]
    fn texts_survive_and_bad_text_is_refused() {
        let groups = vec!["admins".to_owned(), "staff".to_owned()];
        let with_groups = root().sign(&Claims { groups, ..claims() }).unwrap();
        assert_eq!(with_groups.to_string().parse(), Ok(with_groups.clone()));
        assert_eq!(root().public_key().check(&with_groups, 150), Ok(()));
        let (certificate, revocation) = (root().sign(&claims()).unwrap(), root().revoke(&PublicKey([7; 32]), 1));
        assert_eq!(certificate.to_string().parse(), Ok(certificate.clone()));
        assert_eq!(Certificate::decode(certificate.encoded()), Ok(certificate.clone()));
        assert_eq!(revocation.to_string().parse(), Ok(revocation));
        assert_eq!(root().public_key().to_string().parse(), Ok(root().public_key()));
        assert_eq!(root().secret_to_base64().parse::<RootKey>().unwrap().public_key(), root().public_key());
        assert_eq!(revocation.to_string().parse::<Certificate>(), Err(CertificateError::Encoding));
        assert_eq!(certificate.to_string().parse::<Revocation>(), Err(CertificateError::Encoding));
        for bad in ["", "AAAA", "no base64"] {
            assert_eq!(bad.parse::<Certificate>(), Err(CertificateError::Encoding));
        }
        assert!(!format!("{:?}", root()).contains(&root().secret_to_base64()));
    }

    #[test]
    fn invalid_certificates_are_not_signed() {
        let bad = [
            Claims { name: "two words".to_owned(), ..claims() },
            Claims { not_after_unix_s: 99, ..claims() },
            Claims { prefixes: vec![("10.9.0.5".parse().unwrap(), 24)], ..claims() },
            Claims { prefixes: vec![("10.9.0.5".parse().unwrap(), 32); 17], ..claims() },
            Claims { groups: vec!["two words".to_owned()], ..claims() },
            Claims { groups: vec!["b".to_owned(), "a".to_owned()], ..claims() },
            Claims { groups: (b'a'..=b'i').map(|letter| char::from(letter).to_string()).collect(), ..claims() },
        ];
        for claims in bad {
            assert_eq!(root().sign(&claims), Err(CertificateError::Claims), "{claims:?}");
        }
    }

    proptest! {
        #[test]
        fn a_changed_certificate_is_refused(at in any::<prop::sample::Index>(), mask in 1u8..) {
            let mut bytes = root().sign(&claims()).unwrap().encoded().to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
            if let Ok(changed) = Certificate::decode(&bytes) {
                prop_assert_eq!(root().public_key().check(&changed, 150), Err(CertificateError::OtherRoot));
            }
        }
    }
}
