//! Static X25519 keys (RFC 7748), in files and as people pass them on: base64 of 32 bytes.

use aws_lc_rs::agreement::{PrivateKey as Agreement, X25519};
use base64ct::{Base64, Encoding};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A node's public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicKey(pub [u8; 32]);

/// A node's private key. It has neither `Debug` nor `Display`, so that no log can show it.
#[derive(Clone)]
pub struct PrivateKey(pub [u8; 32]);

/// Why a key file cannot be used.
#[derive(Debug)]
pub enum KeyError {
    /// The file could not be opened, read or made.
    Io(PathBuf, io::Error),
    /// Others than its owner can read the file; the mode bits found.
    Exposed(PathBuf, u32),
    /// The file does not hold a key.
    Malformed(PathBuf),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io(path, why) if why.kind() == io::ErrorKind::NotFound => {
                let path = path.display();
                write!(f, "there is no key file {path}; make one with: weft keygen --out {path}")
            }
            KeyError::Io(path, why) => write!(f, "key file {}: {why}", path.display()),
            KeyError::Exposed(path, mode) => {
                let path = path.display();
                write!(f, "key file {path} can be read by others (mode {mode:04o}); close it with: chmod 600 {path}")
            }
            KeyError::Malformed(path) => {
                write!(f, "key file {} holds no key (44 characters of base64 are expected)", path.display())
            }
        }
    }
}

impl std::error::Error for KeyError {}

impl PrivateKey {
    /// The key made of 32 random bytes, clamped as RFC 7748 §5 says.
    pub fn from_random(mut bytes: [u8; 32]) -> PrivateKey {
        bytes[0] &= 248;
        bytes[31] = (bytes[31] & 127) | 64;
        PrivateKey(bytes)
    }

    /// The public key that belongs to this one.
    pub fn public(&self) -> PublicKey {
        let key = Agreement::from_private_key(&X25519, &self.0).expect("every 32 bytes are an X25519 private key");
        let public = key.compute_public_key().expect("every X25519 private key has a public key");
        PublicKey(public.as_ref().try_into().expect("X25519 public keys have 32 bytes"))
    }

    /// Reads a key file, which only its owner may read.
    ///
    /// # Errors
    /// When the file is missing, exposed to others, or holds no key.
    pub fn load(path: &Path) -> Result<PrivateKey, KeyError> {
        let io = |why| KeyError::Io(path.to_owned(), why);
        let file = File::open(path).map_err(io)?;
        let mode = file.metadata().map_err(io)?.mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed(path.to_owned(), mode));
        }
        let mut text = String::new();
        file.take(256).read_to_string(&mut text).map_err(io)?;
        decode(text.trim()).map(PrivateKey).ok_or_else(|| KeyError::Malformed(path.to_owned()))
    }

    /// Writes the key to a new file that only its owner may read.
    ///
    /// # Errors
    /// When the file exists already or cannot be made.
    pub fn store(&self, path: &Path) -> Result<(), KeyError> {
        let io = |why| KeyError::Io(path.to_owned(), why);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io)?;
        writeln!(file, "{}", self.encoded()).map_err(io)
    }

    /// The key as its file holds it. Not for logs.
    pub fn encoded(&self) -> String {
        Base64::encode_string(&self.0)
    }
}

fn decode(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let decoded = Base64::decode(text, &mut bytes).ok()?;
    (decoded.len() == 32).then_some(bytes)
}

impl FromStr for PublicKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PublicKey, Self::Err> {
        decode(text).map(PublicKey).ok_or("a public key is 44 characters of base64, as `weft keygen` prints it")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748 §6.1, Alice.
    #[test]
    fn public_key_follows_rfc_7748() {
        let hex = |text: &str| -> [u8; 32] {
            std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        };
        let private = hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let public = hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        assert_eq!(PrivateKey(private).public(), PublicKey(public));
    }

    #[test]
    fn keys_survive_their_text() {
        let key = PrivateKey::from_random([7; 32]);
        let text = key.public().to_string();
        assert_eq!(text.parse::<PublicKey>(), Ok(key.public()));
        assert!("AAAA".parse::<PublicKey>().is_err());
        assert!(text[1..].parse::<PublicKey>().is_err());
    }
}
