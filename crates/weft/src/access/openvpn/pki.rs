//! Certificate authority for OpenVPN (X.509, RFC 5280), which belongs to this edge alone.
//!
//! Its certificates do not expire. The files of `clients` decide who is admitted.

use super::certificate::{Role, SigningKey, of_authority, of_holder};
use super::{MAX_BYTES, pem, read, write};
use crate::files::Directory;
use aws_lc_rs::error::{KeyRejected, Unspecified};
use std::io;

/// Name of the file with the authority's private key.
const KEY: &str = "ca.key";
/// Name of the file with the authority's certificate.
pub const CERTIFICATE: &str = "ca.crt";

/// Name of the authority in its certificate.
const NAME: &str = "weft access";

/// A certificate and its private key (PEM).
pub struct KeyAndCertificate {
    /// The certificate, which is public.
    pub certificate: String,
    /// The private key, which only its holder may have.
    pub key: String,
}

/// Authority that signs certificates.
pub struct Authority {
    key: SigningKey,
    /// The authority's own certificate (PEM).
    pub certificate: String,
}

impl Authority {
    /// Loads the authority from `directory`. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns the reason why it cannot be read, as text for a reader.
    pub fn load(directory: &Directory) -> Result<Option<Authority>, String> {
        let text = match directory.read_text(KEY, MAX_BYTES) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(directory.failed(KEY, &why)),
        };
        let no_key = |why: &str| format!("{}: {why}", directory.path().join(KEY).display());
        let der = pem::decode(&text).ok_or_else(|| no_key("could not parse the private key"))?;
        let key = SigningKey::read(der).map_err(|why: KeyRejected| {
            no_key(&format!(
                "the private key that signs OpenVPN certificates is unusable: {why}: restore the file from a backup, \
                 or remove it, and then remove and add each OpenVPN client"
            ))
        })?;
        let certificate = read(directory, CERTIFICATE)?;
        Ok(Some(Authority { key, certificate }))
    }

    /// Creates an authority.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn new() -> Result<Authority, Unspecified> {
        let key = SigningKey::generate()?;
        let certificate = pem::encode(pem::CERTIFICATE, &of_authority(NAME, &key)?);
        Ok(Authority { key, certificate })
    }

    /// Stores the authority in `directory`.
    ///
    /// The key is written last, so that a stored key implies a complete authority.
    ///
    /// # Errors
    /// Returns the reason why it cannot be stored, as text for a reader.
    pub fn keep(&self, directory: &Directory) -> Result<(), String> {
        write(directory, CERTIFICATE, &self.certificate)?;
        write(directory, KEY, &pem::encode(pem::PRIVATE_KEY, &self.key.der))
    }

    /// Issues a key and a certificate for `name`.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn issue(&self, name: &str, role: Role) -> Result<KeyAndCertificate, Unspecified> {
        let key = SigningKey::generate()?;
        let certificate = pem::encode(pem::CERTIFICATE, &of_holder(name, role, &key, NAME, &self.key)?);
        Ok(KeyAndCertificate { certificate, key: pem::encode(pem::PRIVATE_KEY, &key.der) })
    }
}
