//! Certificates with keys on the curve P-256 (X.509, RFC 5280 and RFC 5758).
//!
//! A caller names the subject, and the issuer's key signs. Certificates do not expire.

use super::der::{
    GENERALIZED_TIME, UTC_TIME, UTF8_STRING, bits, element, explicit, identifier, implicit, octets, one_bit, sequence,
    set, unsigned, yes,
};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::error::{KeyRejected, Unspecified};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

/// `ecdsa-with-SHA256` (RFC 5758 §3.2), 1.2.840.10045.4.3.2.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// `id-ecPublicKey` (RFC 5480 §2.1.1), 1.2.840.10045.2.1.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// `secp256r1` (RFC 5480 §2.1.1.1), 1.2.840.10045.3.1.7.
const SECP256R1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// `id-at-commonName` (RFC 5280 appendix A.1), 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// `id-ce-subjectKeyIdentifier` (RFC 5280 §4.2.1.2), 2.5.29.14.
const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 29, 14];
/// `id-ce-keyUsage` (RFC 5280 §4.2.1.3), 2.5.29.15.
const KEY_USAGE: &[u8] = &[0x55, 29, 15];
/// `id-ce-basicConstraints` (RFC 5280 §4.2.1.9), 2.5.29.19.
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 29, 19];
/// `id-ce-authorityKeyIdentifier` (RFC 5280 §4.2.1.1), 2.5.29.35.
const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 29, 35];
/// `id-ce-extKeyUsage` (RFC 5280 §4.2.1.12), 2.5.29.37.
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 29, 37];
/// `id-kp-serverAuth` (RFC 5280 §4.2.1.12), 1.3.6.1.5.5.7.3.1.
const SERVER_AUTHENTICATION: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
/// `id-kp-clientAuth` (RFC 5280 §4.2.1.12), 1.3.6.1.5.5.7.3.2.
const CLIENT_AUTHENTICATION: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
/// Number of the bit `digitalSignature` of a key's usage (RFC 5280 §4.2.1.3).
const DIGITAL_SIGNATURE: u8 = 0;
/// Number of the bit `keyCertSign` of a key's usage (RFC 5280 §4.2.1.3).
const SIGNS_CERTIFICATES: u8 = 5;
/// Number that stands for version 3 in a certificate (RFC 5280 §4.1.2.1).
const VERSION: u8 = 2;
/// Begin of the validity: 1 January 1975. It is this early because the clock of an edge or a client may be wrong.
const NOT_BEFORE: &[u8] = b"750101000000Z";
/// End of the validity: 1 January 4096. The certificates should not expire.
const NOT_AFTER: &[u8] = b"40960101000000Z";
/// Length of a serial number and of a key's identifier, in bytes.
///
/// *Standard*: the maximum that RFC 5280 §4.1.2.2 permits for a serial number.
const IDENTIFIER: usize = 20;

/// Kind of a certificate's holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A server, such as the edge.
    Server,
    /// A client of the server.
    Client,
}

/// A private key that signs certificates.
pub struct SigningKey {
    pair: EcdsaKeyPair,
    /// The key in PKCS #8, as it was created or read.
    pub der: Vec<u8>,
}

impl SigningKey {
    /// Generates a key.
    ///
    /// # Errors
    /// Returns an error if the system gives no random numbers.
    pub fn generate() -> Result<SigningKey, Unspecified> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
        let der = pair.to_pkcs8v1()?.as_ref().to_vec();
        Ok(SigningKey { pair, der })
    }

    /// Reads a key in PKCS #8.
    ///
    /// # Errors
    /// Returns an error if it is not a key on the curve P-256.
    pub fn read(der: Vec<u8>) -> Result<SigningKey, KeyRejected> {
        Ok(SigningKey { pair: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der)?, der })
    }

    /// Returns the public key as a point of the curve.
    fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// Returns the public key with its algorithm (RFC 5280 §4.1.2.7).
    fn public(&self) -> Vec<u8> {
        sequence(&[&sequence(&[&identifier(EC_PUBLIC_KEY), &identifier(SECP256R1)]), &bits(self.point())])
    }

    /// Returns the identifier of the key: the first bytes of the public key's hash (RFC 7093 §2).
    fn identifier(&self) -> Vec<u8> {
        digest(&SHA256, &self.public()).as_ref()[..IDENTIFIER].to_vec()
    }

    /// Signs the content of a certificate, and returns the complete certificate.
    fn sign(&self, content: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let signature = self.pair.sign(&SystemRandom::new(), content)?;
        Ok(sequence(&[content, &algorithm(), &bits(signature.as_ref())]))
    }
}

/// Creates the certificate of an authority, signed by its own key.
///
/// # Errors
/// Returns an error if the certificate cannot be signed.
pub fn of_authority(name: &str, key: &SigningKey) -> Result<Vec<u8>, Unspecified> {
    let extensions = [
        extension(KEY_USAGE, true, &one_bit(SIGNS_CERTIFICATES)),
        extension(SUBJECT_KEY_IDENTIFIER, false, &octets(&key.identifier())),
        // A path length of zero: the authority may sign end-entity certificates only.
        extension(BASIC_CONSTRAINTS, true, &sequence(&[&yes(), &unsigned(&[0])])),
    ];
    key.sign(&content(name, name, key, &extensions))
}

/// Creates the certificate of a holder's key, signed by the authority's key.
///
/// # Errors
/// Returns an error if the certificate cannot be signed.
pub fn of_holder(
    name: &str,
    role: Role,
    key: &SigningKey,
    authority: &str,
    signer: &SigningKey,
) -> Result<Vec<u8>, Unspecified> {
    let purpose = match role {
        Role::Server => SERVER_AUTHENTICATION,
        Role::Client => CLIENT_AUTHENTICATION,
    };
    let extensions = [
        extension(AUTHORITY_KEY_IDENTIFIER, false, &sequence(&[&implicit(0, &signer.identifier())])),
        extension(KEY_USAGE, true, &one_bit(DIGITAL_SIGNATURE)),
        extension(EXTENDED_KEY_USAGE, false, &sequence(&[&identifier(purpose)])),
    ];
    signer.sign(&content(authority, name, key, &extensions))
}

/// Writes the part that the issuer signs: the TBSCertificate (RFC 5280 §4.1.2).
fn content(issuer: &str, subject: &str, key: &SigningKey, extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut serial = digest(&SHA256, key.point()).as_ref()[..IDENTIFIER].to_vec();
    // With its first bit clear, the number is positive without a leading zero byte.
    serial[0] &= 0x7f;
    sequence(&[
        &explicit(0, &unsigned(&[VERSION])),
        &unsigned(&serial),
        &algorithm(),
        &called(issuer),
        &sequence(&[&element(UTC_TIME, NOT_BEFORE), &element(GENERALIZED_TIME, NOT_AFTER)]),
        &called(subject),
        &key.public(),
        &explicit(3, &sequence(&[&extensions.concat()])),
    ])
}

fn algorithm() -> Vec<u8> {
    sequence(&[&identifier(ECDSA_WITH_SHA256)])
}

fn called(name: &str) -> Vec<u8> {
    sequence(&[&set(&sequence(&[&identifier(COMMON_NAME), &element(UTF8_STRING, name.as_bytes())]))])
}

fn extension(name: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if is_critical { yes() } else { Vec::new() };
    sequence(&[&identifier(name), &critical, &octets(value)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
    use proptest::prelude::*;
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        KeyUsagePurpose,
    };

    /// Returns the first element of `der`, with its tag and length, and the bytes behind it.
    fn split(der: &[u8]) -> (&[u8], &[u8]) {
        let (head, length) = match der[1] {
            0x81 => (3, usize::from(der[2])),
            0x82 => (4, usize::from(der[2]) << 8 | usize::from(der[3])),
            short => (2, usize::from(short)),
        };
        der.split_at(head + length)
    }

    /// Checks the signature of a certificate and returns the signed part.
    fn signed<'a>(certificate: &'a [u8], signer: &SigningKey) -> &'a [u8] {
        let head = if certificate[1] == 0x82 { 4 } else { 3 };
        let (content, rest) = split(&certificate[head..]);
        let (used, signature) = split(rest);
        assert_eq!(used, algorithm());
        assert_eq!(signature[0], 3);
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, signer.point());
        key.verify(content, &signature[3..]).expect("a valid signature");
        content
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    fn authority(name: &str) -> CertificateParams {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
    }

    fn pair(key: &SigningKey) -> KeyPair {
        KeyPair::try_from(key.der.clone()).expect("a key that rcgen reads")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_independent_library_signs_the_same_content(name in ".{0,80}", issuer in ".{1,200}", is_server: bool) {
            let (key, signer) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
            let ours = of_authority(&issuer, &signer).unwrap();
            let theirs = authority(&issuer).self_signed(&pair(&signer)).unwrap();
            prop_assert_eq!(signed(&ours, &signer), signed(theirs.der(), &signer));

            let (role, purpose) = match is_server {
                true => (Role::Server, ExtendedKeyUsagePurpose::ServerAuth),
                false => (Role::Client, ExtendedKeyUsagePurpose::ClientAuth),
            };
            let mut params = params(&name);
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![purpose];
            params.use_authority_key_identifier_extension = true;
            let theirs = params.signed_by(&pair(&key), &Issuer::new(authority(&issuer), pair(&signer))).unwrap();
            let ours = of_holder(&name, role, &key, &issuer, &signer).unwrap();
            prop_assert_eq!(signed(&ours, &signer), signed(theirs.der(), &signer));
        }

        #[test]
        fn any_bytes_are_read_as_a_key_or_refused(der in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = SigningKey::read(der);
        }
    }

    #[test]
    fn a_key_is_read_again_and_a_cut_or_foreign_one_is_refused() {
        let key = SigningKey::generate().unwrap();
        assert_eq!(SigningKey::read(key.der.clone()).unwrap().point(), key.point());
        for length in 0..key.der.len() {
            assert!(SigningKey::read(key.der[..length].to_vec()).is_err(), "{length} bytes");
        }
        let foreign = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        assert!(SigningKey::read(foreign.serialized_der().to_vec()).is_err());
    }
}
