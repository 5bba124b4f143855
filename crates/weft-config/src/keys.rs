//! Key files. A key file has one line with the kind of the key and its 32 secret bytes in base64.
//!
//! Only the owner may read it.
//!
//! Files of earlier versions contain the base64 alone. They are accepted as any kind of key.

use crate::files::{self, Directory, Owner};
use base64ct::{Base64, Encoding};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use weft_engine::{SIGNAL_KEY_LEN, SignalKey};
use weft_session::{Certificate, Identity, PresharedKey, Revocation, RootKey};

/// Maximum length of a key file, in bytes.
const MAX_BYTES: u64 = 256;
/// Maximum length of a certificate file, in bytes.
const MAX_CERTIFICATE_BYTES: u64 = 4_096;

/// Purpose of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// Private key of a node.
    Node,
    /// Root key of a network.
    Root,
    /// Secret that two nodes share.
    Preshared,
}

impl KeyKind {
    const ALL: [KeyKind; 3] = [KeyKind::Node, KeyKind::Root, KeyKind::Preshared];

    /// Returns the words for the kind of key, which precede the key in its file.
    fn label(self) -> &'static str {
        match self {
            KeyKind::Node => "weft node private key",
            KeyKind::Root => "weft network root key",
            KeyKind::Preshared => "weft preshared key",
        }
    }

    /// Returns the line for a key of this kind, without a line end.
    pub fn line(self, base64: &str) -> String {
        format!("{}: {base64}", self.label())
    }

    fn of(label: &str) -> Option<KeyKind> {
        KeyKind::ALL.into_iter().find(|kind| kind.label() == label)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyKind::Node => "the private key of a node (`weft keygen`)",
            KeyKind::Root => "the root key of a network (`weft ca init`)",
            KeyKind::Preshared => "a preshared key (`weft genpsk`)",
        })
    }
}

/// Reason why a key file cannot be used.
#[derive(Debug)]
pub enum KeyError {
    /// The file could not be opened, read or created.
    Io(PathBuf, io::Error),
    /// Users other than the owner can read the file. The field has the mode bits.
    Exposed(PathBuf, u32),
    /// The file does not contain a key.
    Malformed(PathBuf),
    /// The file contains a key of another kind. The fields after the path are the kind found and the kind expected.
    OfAnotherKind(PathBuf, KeyKind, KeyKind),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Io(path, why) if why.kind() == io::ErrorKind::NotFound => {
                let path = path.display();
                write!(f, "there is no key file {path}: make one with: weft keygen --out {path}")
            }
            KeyError::Io(path, why) if why.kind() == io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "cannot read or write key file {}: permission denied: run this as root or as the node's user",
                    path.display()
                )
            }
            KeyError::Io(path, why) => write!(f, "cannot read or write key file {}: {why}", path.display()),
            KeyError::Exposed(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "key file {path} can be read by other users (mode {mode:04o}): protect it with: chmod 600 {path}"
                )
            }
            KeyError::Malformed(path) => {
                write!(f, "key file {} contains no key: expected 44 characters of base64", path.display())
            }
            KeyError::OfAnotherKind(path, found, wanted) => {
                write!(f, "key file {} contains {found}: use a file with {wanted} instead", path.display())
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// Reads the key pair of a node from a file that only its owner may read.
///
/// # Errors
/// Fails if the file is missing, readable by others, or contains no key.
pub fn load(path: &Path) -> Result<Identity, KeyError> {
    load_from(files::open(path).map_err(|why| KeyError::Io(path.to_owned(), why))?, path)
}

/// Reads a node's key pair from an open file. Error messages name the file by `path`.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_from(file: File, path: &Path) -> Result<Identity, KeyError> {
    node_key(&read_file(file, path)?, path)
}

/// Reads a node's key pair from a stream, such as standard input, whose permissions are not checked.
///
/// Error messages call it `name`.
///
/// # Errors
/// Fails if the stream returns an error, or contains no key of a node.
pub fn load_from_stream(stream: impl Read, name: &Path) -> Result<Identity, KeyError> {
    let mut text = String::new();
    stream.take(MAX_BYTES).read_to_string(&mut text).map_err(|why| KeyError::Io(name.to_owned(), why))?;
    node_key(&text, name)
}

fn node_key(text: &str, path: &Path) -> Result<Identity, KeyError> {
    base64_of(text, KeyKind::Node, path)?.parse().map_err(|_| KeyError::Malformed(path.to_owned()))
}

/// Returns the base64 in a key file's text, if the key is of the expected kind.
///
/// A file that does not name its kind is accepted.
fn base64_of<'a>(text: &'a str, wanted: KeyKind, path: &Path) -> Result<&'a str, KeyError> {
    let Some((label, base64)) = text.trim().split_once(':') else { return Ok(text.trim()) };
    match KeyKind::of(label.trim_end()) {
        Some(kind) if kind == wanted => Ok(base64.trim_start()),
        Some(kind) => Err(KeyError::OfAnotherKind(path.to_owned(), kind, wanted)),
        None => Err(KeyError::Malformed(path.to_owned())),
    }
}

/// Reads the key of a signalling domain. Any key from `weft keygen` or `weft genpsk` will do.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_signal_key(path: &Path) -> Result<SignalKey, KeyError> {
    let mut key = [0; SIGNAL_KEY_LEN];
    let text = read(path)?;
    let base64 = base64_of(&text, KeyKind::Node, path).or_else(|_| base64_of(&text, KeyKind::Preshared, path))?;
    match Base64::decode(base64, &mut key) {
        Ok(bytes) if bytes.len() == SIGNAL_KEY_LEN => Ok(SignalKey::new(key)),
        _ => Err(KeyError::Malformed(path.to_owned())),
    }
}

/// Reads the text of a file that only its owner may read.
fn read(path: &Path) -> Result<String, KeyError> {
    read_file(files::open(path).map_err(|why| KeyError::Io(path.to_owned(), why))?, path)
}

fn read_file(file: File, path: &Path) -> Result<String, KeyError> {
    let io = |why| KeyError::Io(path.to_owned(), why);
    let mode = file.metadata().map_err(io)?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed(path.to_owned(), mode));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(io)?;
    Ok(text)
}

/// Reads a secret shared with a peer.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_preshared(path: &Path) -> Result<PresharedKey, KeyError> {
    let text = read(path)?;
    base64_of(&text, KeyKind::Preshared, path)?.parse().map_err(|_| KeyError::Malformed(path.to_owned()))
}

/// Reads a network's root key from a file that only its owner may read.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_root(path: &Path) -> Result<RootKey, KeyError> {
    let text = read(path)?;
    base64_of(&text, KeyKind::Root, path)?.parse().map_err(|_| KeyError::Malformed(path.to_owned()))
}

/// Writes a key and its kind to a new file that only its owner may read.
///
/// Creates a missing directory for its owner alone.
///
/// # Errors
/// Fails if the file exists already or cannot be created.
pub fn store_key(kind: KeyKind, base64: &str, path: &Path) -> Result<(), KeyError> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        Directory::make(directory, 0o700, Owner::Caller).map_err(|why| KeyError::Io(path.to_owned(), why))?;
    }
    store(&kind.line(base64), path)
}

/// Writes a secret to a new file that only its owner may read.
///
/// # Errors
/// Fails if the file exists already or cannot be created.
pub fn store(secret: &str, path: &Path) -> Result<(), KeyError> {
    let io = |why| KeyError::Io(path.to_owned(), why);
    files::create(path, 0o600, format!("{secret}\n").as_bytes()).map_err(io)
}

/// Reason why a certificate file cannot be used.
#[derive(Debug)]
pub enum CertificateFileError {
    /// The file could not be opened or read.
    Io(PathBuf, io::Error),
    /// The file contains no certificate, or no revocation where one is expected.
    Malformed(PathBuf),
}

impl fmt::Display for CertificateFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateFileError::Io(path, why) => write!(f, "cannot read file {}: {why}", path.display()),
            CertificateFileError::Malformed(path) => {
                let path = path.display();
                write!(f, "file {path} is neither a certificate nor a revocation: name a file that `weft ca` wrote")
            }
        }
    }
}

impl std::error::Error for CertificateFileError {}

/// Reads a certificate, which is not secret.
///
/// # Errors
/// Fails if the file is missing or contains no certificate.
pub fn load_certificate(path: &Path) -> Result<Certificate, CertificateFileError> {
    parse(path)
}

/// Reads a revocation, which is not secret.
///
/// # Errors
/// Fails if the file is missing or contains no revocation.
pub fn load_revocation(path: &Path) -> Result<Revocation, CertificateFileError> {
    parse(path)
}

fn parse<T: FromStr>(path: &Path) -> Result<T, CertificateFileError> {
    let io = |why| CertificateFileError::Io(path.to_owned(), why);
    let mut text = String::new();
    files::open(path).map_err(io)?.take(MAX_CERTIFICATE_BYTES).read_to_string(&mut text).map_err(io)?;
    text.trim().parse().map_err(|_| CertificateFileError::Malformed(path.to_owned()))
}
