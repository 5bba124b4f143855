//! Key files: a line that says what the key is and has the base64 of its 32 secret bytes, for their owner's eyes only.
//!
//! Files of earlier versions hold the base64 alone. They are read as whatever is asked for.

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

/// No key file is longer, in bytes.
const MAX_BYTES: u64 = 256;
/// No certificate file is longer, in bytes.
const MAX_CERTIFICATE_BYTES: u64 = 4_096;

/// What a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The private key of a node.
    Node,
    /// The root key of a network.
    Root,
    /// A secret that two nodes share.
    Preshared,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Node, Kind::Root, Kind::Preshared];

    /// The words before the key.
    fn label(self) -> &'static str {
        match self {
            Kind::Node => "weft node private key",
            Kind::Root => "weft network root key",
            Kind::Preshared => "weft preshared key",
        }
    }

    /// The line of a key of this kind, without its end.
    pub fn line(self, base64: &str) -> String {
        format!("{}: {base64}", self.label())
    }

    fn of(label: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.label() == label)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Node => "the private key of a node (`weft keygen`)",
            Kind::Root => "the root key of a network (`weft ca init`)",
            Kind::Preshared => "a preshared key (`weft genpsk`)",
        })
    }
}

/// Why a key file cannot be used.
#[derive(Debug)]
pub enum KeyError {
    /// The file could not be opened, read or made.
    Io(PathBuf, io::Error),
    /// Others than its owner can read the file; the mode bits found.
    Exposed(PathBuf, u32),
    /// The file does not hold a key.
    Malformed(PathBuf),
    /// The file holds a key for another purpose: what it holds, and what is wanted.
    OfAnotherKind(PathBuf, Kind, Kind),
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
            KeyError::OfAnotherKind(path, found, wanted) => {
                write!(f, "key file {} holds {found}; {wanted} is needed here", path.display())
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// Reads the key pair of a node from a file that only its owner may read.
///
/// # Errors
/// When the file is missing, exposed to others, or holds no key.
pub fn load(path: &Path) -> Result<Identity, KeyError> {
    load_from(files::open(path).map_err(|why| KeyError::Io(path.to_owned(), why))?, path)
}

/// Reads a node's key pair from an open file. `path` is for messages.
///
/// # Errors
/// As [`load`].
pub fn load_from(file: File, path: &Path) -> Result<Identity, KeyError> {
    node_key(&read_file(file, path)?, path)
}

/// Reads a node's key pair from a stream, such as standard input, which may be closed to nobody. `name` is for messages.
///
/// # Errors
/// When it ends with an error, or holds no key of a node.
pub fn load_from_stream(stream: impl Read, name: &Path) -> Result<Identity, KeyError> {
    let mut text = String::new();
    stream.take(MAX_BYTES).read_to_string(&mut text).map_err(|why| KeyError::Io(name.to_owned(), why))?;
    node_key(&text, name)
}

fn node_key(text: &str, path: &Path) -> Result<Identity, KeyError> {
    base64_of(text, Kind::Node, path)?.parse().map_err(|_| KeyError::Malformed(path.to_owned()))
}

/// The base64 of a key file's text, if the key is of this kind or the file does not say.
fn base64_of<'a>(text: &'a str, wanted: Kind, path: &Path) -> Result<&'a str, KeyError> {
    let Some((label, base64)) = text.trim().split_once(':') else { return Ok(text.trim()) };
    match Kind::of(label.trim_end()) {
        Some(kind) if kind == wanted => Ok(base64.trim_start()),
        Some(kind) => Err(KeyError::OfAnotherKind(path.to_owned(), kind, wanted)),
        None => Err(KeyError::Malformed(path.to_owned())),
    }
}

/// Reads the key of a signalling domain, which is as any that `weft keygen` or `weft genpsk` makes.
///
/// # Errors
/// As [`load`].
pub fn load_signal_key(path: &Path) -> Result<SignalKey, KeyError> {
    let mut key = [0; SIGNAL_KEY_LEN];
    let text = read(path)?;
    let base64 = base64_of(&text, Kind::Node, path).or_else(|_| base64_of(&text, Kind::Preshared, path))?;
    match Base64::decode(base64, &mut key) {
        Ok(bytes) if bytes.len() == SIGNAL_KEY_LEN => Ok(SignalKey::new(key)),
        _ => Err(KeyError::Malformed(path.to_owned())),
    }
}

/// The text of a file that only its owner may read.
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
/// As [`load`].
pub fn load_preshared(path: &Path) -> Result<PresharedKey, KeyError> {
    let text = read(path)?;
    base64_of(&text, Kind::Preshared, path)?.parse().map_err(|_| KeyError::Malformed(path.to_owned()))
}

/// Reads a network's root key from a file that only its owner may read.
///
/// # Errors
/// As [`load`].
pub fn load_root(path: &Path) -> Result<RootKey, KeyError> {
    let text = read(path)?;
    base64_of(&text, Kind::Root, path)?.parse().map_err(|_| KeyError::Malformed(path.to_owned()))
}

/// Writes a key, with what it is, to a new file that only its owner may read. A directory that is missing is made for its owner alone.
///
/// # Errors
/// When the file exists already or cannot be made.
pub fn store_key(kind: Kind, base64: &str, path: &Path) -> Result<(), KeyError> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        Directory::make(directory, 0o700, Owner::Caller).map_err(|why| KeyError::Io(path.to_owned(), why))?;
    }
    store(&kind.line(base64), path)
}

/// Writes a secret to a new file that only its owner may read.
///
/// # Errors
/// When the file exists already or cannot be made.
pub fn store(secret: &str, path: &Path) -> Result<(), KeyError> {
    let io = |why| KeyError::Io(path.to_owned(), why);
    files::create(path, 0o600, format!("{secret}\n").as_bytes()).map_err(io)
}

/// Why a certificate file cannot be used.
#[derive(Debug)]
pub enum CertificateFileError {
    /// The file could not be opened or read.
    Io(PathBuf, io::Error),
    /// The file does not hold a certificate, or a revocation where one is expected.
    Malformed(PathBuf),
}

impl fmt::Display for CertificateFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateFileError::Io(path, why) => write!(f, "certificate file {}: {why}", path.display()),
            CertificateFileError::Malformed(path) => {
                write!(f, "file {} does not hold what `weft ca` writes", path.display())
            }
        }
    }
}

impl std::error::Error for CertificateFileError {}

/// Reads a certificate, which is no secret.
///
/// # Errors
/// When the file is missing or holds none.
pub fn load_certificate(path: &Path) -> Result<Certificate, CertificateFileError> {
    parse(path)
}

/// Reads a revocation, which is no secret.
///
/// # Errors
/// When the file is missing or holds none.
pub fn load_revocation(path: &Path) -> Result<Revocation, CertificateFileError> {
    parse(path)
}

fn parse<T: FromStr>(path: &Path) -> Result<T, CertificateFileError> {
    let io = |why| CertificateFileError::Io(path.to_owned(), why);
    let mut text = String::new();
    files::open(path).map_err(io)?.take(MAX_CERTIFICATE_BYTES).read_to_string(&mut text).map_err(io)?;
    text.trim().parse().map_err(|_| CertificateFileError::Malformed(path.to_owned()))
}
