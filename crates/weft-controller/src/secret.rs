//! Secrets of 256 bits. The store holds only their hashes.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use ring::digest::{SHA256, digest};
use std::fmt;
use subtle::ConstantTimeEq as _;
use weft_config::entropy;

/// A secret as text: 43 characters of base64url.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Makes a random secret with the kernel's random numbers.
    ///
    /// # Errors
    /// Fails if the kernel has no random numbers.
    pub fn random() -> Result<Secret, String> {
        let bytes = entropy::seed().map_err(|why| why.to_string())?;
        Ok(Secret(Base64UrlUnpadded::encode_string(&bytes)))
    }

    /// Reads the text of a secret.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse(text: &str) -> Result<Secret, &'static str> {
        match Base64UrlUnpadded::decode_vec(text) {
            Ok(bytes) if bytes.len() == 32 => Ok(Secret(text.to_owned())),
            _ => Err("a secret has 43 characters from A to Z, a to z, 0 to 9, - and _"),
        }
    }

    /// Returns the text of the secret, for its holder.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the hash that the store holds.
    pub fn hash(&self) -> SecretHash {
        SecretHash(sha256_hex(self.0.as_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// SHA-256 of a secret's text, in hexadecimal. A hash without salt is enough for a random secret of 256 bits.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct SecretHash(String);

impl SecretHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse(text: &str) -> Result<SecretHash, &'static str> {
        let is_hash = text.len() == 64 && text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        let wrong = "the SHA-256 of a secret must be 64 digits of lower-case hexadecimal";
        if is_hash { Ok(SecretHash(text.to_owned())) } else { Err(wrong) }
    }

    /// Returns the hash as hexadecimal digits.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// True if `given` is the secret.
    ///
    /// The duration depends only on the length of `given`, so it reveals nothing about the secret.
    pub fn is_of(&self, given: &str) -> bool {
        sha256_hex(given.as_bytes()).as_bytes().ct_eq(self.0.as_bytes()).into()
    }
}

/// Returns SHA-256 of bytes in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_whole_secret_has_the_hash(at in 0usize..43, with in "[A-Za-z0-9_-]", keep in 0usize..43, more in ".{1,60}") {
            let secret = Secret::random().unwrap();
            let (hash, text) = (secret.hash(), secret.text());
            prop_assert!(hash.is_of(text) && Secret::parse(text).as_ref() == Ok(&secret));
            let changed = [&text[..at], &with, &text[at + 1..]].concat();
            prop_assert_eq!(hash.is_of(&changed), changed == text);
            let longer = [text, &more].concat();
            prop_assert!(!hash.is_of(&text[..keep]) && !hash.is_of(&longer));
            prop_assert!(!hash.is_of(hash.text()), "the hash itself opens nothing");
            prop_assert_eq!(SecretHash::parse(hash.text()), Ok(hash));
            prop_assert!(Secret::parse(&text[..keep]).is_err() && Secret::parse(&longer).is_err());
            prop_assert_eq!(format!("{secret:?}"), "Secret");
        }
    }
}
