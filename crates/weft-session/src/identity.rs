//! A node's identity: its static X25519 key pair (RFC 7748) and its node id.
//!
//! The node id is computed from the public key.

use crate::error::ParseKeyError;
use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::digest;
use base64ct::{Base64, Encoding};
use core::fmt;
use core::str::FromStr;
use weft_units::NodeId;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Length of a key, in bytes.
const KEY_LEN: usize = 32;
/// Length of a key in padded base64, in characters.
const KEY_TEXT_LEN: usize = 44;

/// A static X25519 public key. Its text form is base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; KEY_LEN]);

/// A node's static private key. It is wiped from memory when dropped and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Identity {
    secret: [u8; KEY_LEN],
    #[zeroize(skip)]
    public: PublicKey,
}

/// A secret that two peers share in addition to their own key pairs. Its text form is base64.
///
/// The session keys depend on it as well (Noise §9, `psk2`).
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PresharedKey([u8; KEY_LEN]);

impl PublicKey {
    /// Returns the id of the node with this key, as [`place_of`] computes it.
    pub fn node_id(&self) -> NodeId {
        place_of(&self.0)
    }
}

/// Returns the first 160 bits of the SHA-256 hash of `bytes`: the id in the overlay that belongs to them.
///
/// The id of a node belongs to its public key.
pub fn place_of(bytes: &[u8]) -> NodeId {
    let hash = digest::digest(&digest::SHA256, bytes);
    let mut id = [0; NodeId::LEN];
    id.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
    NodeId::new(id)
}

impl Identity {
    /// Creates an identity from 32 secret random bytes: a new key or a stored one.
    pub fn from_secret(secret: [u8; KEY_LEN]) -> Identity {
        let public = x25519_public(&secret);
        Identity { secret, public: PublicKey(public) }
    }

    /// Returns the public key by which peers identify this node.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Returns the id of this node, which is computed from its public key.
    pub fn node_id(&self) -> NodeId {
        self.public.node_id()
    }

    /// Returns the private key as base64, for storage.
    pub fn secret_to_base64(&self) -> String {
        Base64::encode_string(&self.secret)
    }

    pub(crate) fn secret(&self) -> &[u8; KEY_LEN] {
        &self.secret
    }
}

impl PresharedKey {
    /// Creates a pre-shared key from 32 secret random bytes.
    pub fn new(secret: [u8; KEY_LEN]) -> PresharedKey {
        PresharedKey(secret)
    }

    /// Returns the all-zero key, which peers without a pre-shared key use in its place (WireGuard paper §5.4).
    pub(crate) fn none() -> PresharedKey {
        PresharedKey([0; KEY_LEN])
    }

    pub(crate) fn secret(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

/// Returns the public key of a secret. X25519 clamps the secret, so any 32 bytes are valid.
pub(crate) fn x25519_public(secret: &[u8; KEY_LEN]) -> [u8; KEY_LEN] {
    let mut public = [0; KEY_LEN];
    let computed = PrivateKey::from_private_key(&X25519, secret).ok().and_then(|key| key.compute_public_key().ok());
    if let Some(computed) = computed {
        public.iter_mut().zip(computed.as_ref()).for_each(|(to, from)| *to = *from);
    }
    public
}

/// Decodes a key from its text form, 44 characters of base64.
pub(crate) fn decode(text: &str) -> Result<[u8; KEY_LEN], ParseKeyError> {
    let mut key = [0; KEY_LEN];
    match Base64::decode(text, &mut key) {
        Ok(bytes) if bytes.len() == KEY_LEN => Ok(key),
        _ => Err(ParseKeyError::Encoding),
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; KEY_TEXT_LEN];
        f.write_str(Base64::encode(&self.0, &mut text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<PublicKey, ParseKeyError> {
        decode(text).map(PublicKey)
    }
}

impl FromStr for Identity {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<Identity, ParseKeyError> {
        decode(text).map(Identity::from_secret)
    }
}

impl FromStr for PresharedKey {
    type Err = ParseKeyError;
    fn from_str(text: &str) -> Result<PresharedKey, ParseKeyError> {
        decode(text).map(PresharedKey)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Alice's key pair of RFC 7748 §6.1.
    const ALICE_SECRET: [u8; 32] = [
        0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf, 0x4c,
        0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
    ];
    const ALICE_PUBLIC: [u8; 32] = [
        0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e, 0xf7, 0x5a, 0x0d, 0xbf,
        0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e, 0xaa, 0x9b, 0x4e, 0x6a,
    ];

    #[test]
    fn the_public_key_is_that_of_rfc_7748() {
        assert_eq!(Identity::from_secret(ALICE_SECRET).public_key(), PublicKey(ALICE_PUBLIC));
    }

    #[test]
    fn keys_survive_their_text_and_bad_text_is_refused() {
        let alice = Identity::from_secret(ALICE_SECRET);
        assert_eq!(alice.public_key().to_string().parse(), Ok(alice.public_key()));
        let again: Identity = alice.secret_to_base64().parse().unwrap();
        assert_eq!(again.public_key(), alice.public_key());
        for bad in ["", "AAAA", &"A".repeat(43), &"A".repeat(44), &"=".repeat(44), "schlüssel"] {
            assert_eq!(bad.parse::<PublicKey>(), Err(ParseKeyError::Encoding), "{bad}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let alice = Identity::from_secret(ALICE_SECRET);
        assert!(!format!("{alice:?}").contains(&alice.secret_to_base64()));
        assert_eq!(format!("{:?}", PresharedKey::new(ALICE_SECRET)), "PresharedKey");
    }

    #[test]
    fn a_node_is_named_by_160_bits_of_sha_256() {
        let id = PublicKey([0; 32]).node_id();
        assert_eq!(id.to_string(), "66687aadf862bd776c8fc18b8e9f8e20089714 85".replace(' ', ""));
    }
}
