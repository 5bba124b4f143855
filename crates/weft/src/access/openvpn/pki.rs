//! Certificate authority for OpenVPN (X.509, RFC 5280), which belongs to this edge alone.
//!
//! Its certificates do not expire. The files of `clients` decide who is admitted.

use super::{MAX_BYTES, pem, read, write};
use crate::files::Directory;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::io;

/// Name of the file with the authority's private key.
const KEY: &str = "ca.key";
/// Name of the file with the authority's certificate.
pub const CERTIFICATE: &str = "ca.crt";

/// Holder of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The edge.
    Server,
    /// A client.
    Client,
}

/// A certificate and its private key (PEM).
pub struct KeyAndCertificate {
    /// The certificate, which is public.
    pub certificate: String,
    /// The private key, which only its holder may have.
    pub key: String,
}

/// Authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate (PEM).
    pub certificate: String,
}

impl Authority {
    /// Loads the authority from `directory`; returns `None` if there is none.
    ///
    /// # Errors
    /// Returns the reason why it cannot be read, as text for a reader.
    pub fn load(directory: &Directory) -> Result<Option<Authority>, String> {
        let text = match directory.read_text(KEY, MAX_BYTES) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(directory.failed(KEY, &why)),
        };
        let no_key = |why| format!("{}: {why}", directory.path().join(KEY).display());
        let key = pem::decode(&text).ok_or(Error::CouldNotParseKeyPair).and_then(KeyPair::try_from).map_err(no_key)?;
        let certificate = read(directory, CERTIFICATE)?;
        Ok(Some(Authority { issuer: Issuer::new(authority(), key), certificate }))
    }

    /// Creates an authority.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn new() -> Result<Authority, Error> {
        let key = KeyPair::generate()?;
        let certificate = pem::encode(pem::CERTIFICATE, authority().self_signed(&key)?.der());
        Ok(Authority { issuer: Issuer::new(authority(), key), certificate })
    }

    /// Stores the authority in `directory`.
    ///
    /// The key is written last, so that a stored key implies a complete authority.
    ///
    /// # Errors
    /// Returns the reason why it cannot be stored, as text for a reader.
    pub fn keep(&self, directory: &Directory) -> Result<(), String> {
        write(directory, CERTIFICATE, &self.certificate)?;
        write(directory, KEY, &pem::encode(pem::PRIVATE_KEY, self.issuer.key().serialized_der()))
    }

    /// Issues a key and a certificate for `name`.
    ///
    /// # Errors
    /// Returns an error if no key can be generated.
    pub fn issue(&self, name: &str, role: Role) -> Result<KeyAndCertificate, Error> {
        let key = KeyPair::generate()?;
        let mut params = called(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match role {
            Role::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Role::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        let certificate = pem::encode(pem::CERTIFICATE, params.signed_by(&key, &self.issuer)?.der());
        Ok(KeyAndCertificate { certificate, key: pem::encode(pem::PRIVATE_KEY, key.serialized_der()) })
    }
}

fn authority() -> CertificateParams {
    let mut params = called("weft access");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn called(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
