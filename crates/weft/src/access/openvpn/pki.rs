//! Certificates for OpenVPN (X.509, RFC 5280): an authority of this edge alone. They do not end: who may come in is in another place.

use super::{MAX_BYTES, read, write};
use crate::files::Directory;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::io;

const KEY: &str = "ca.key";
/// The authority's certificate, in the directory.
pub const CERTIFICATE: &str = "ca.crt";

/// What a certificate is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The edge.
    Server,
    /// A client.
    Client,
}

/// A certificate and its key (PEM).
pub struct Issued {
    /// For everybody.
    pub certificate: String,
    /// For its holder.
    pub key: String,
}

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own (PEM).
    pub certificate: String,
}

impl Authority {
    /// The authority in `directory`; none where none was kept.
    ///
    /// # Errors
    /// Why it cannot be read, for people.
    pub fn load(directory: &Directory) -> Result<Option<Authority>, String> {
        let text = match directory.read_text(KEY, MAX_BYTES) {
            Ok(text) => text,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(directory.failed(KEY, &why)),
        };
        let no_key = |why| format!("{}: {why}", directory.path().join(KEY).display());
        let key = KeyPair::from_pem(&text).map_err(no_key)?;
        let certificate = read(directory, CERTIFICATE)?;
        Ok(Some(Authority { issuer: Issuer::new(authority(), key), certificate }))
    }

    /// A new one.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Authority, Error> {
        let key = KeyPair::generate()?;
        let certificate = authority().self_signed(&key)?.pem();
        Ok(Authority { issuer: Issuer::new(authority(), key), certificate })
    }

    /// Keeps it in `directory`; the key last, so that whoever finds it finds all.
    ///
    /// # Errors
    /// Why it cannot be kept, for people.
    pub fn keep(&self, directory: &Directory) -> Result<(), String> {
        write(directory, CERTIFICATE, &self.certificate)?;
        write(directory, KEY, &self.issuer.key().serialize_pem())
    }

    /// A key and a certificate for `name`.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn issue(&self, name: &str, role: Role) -> Result<Issued, Error> {
        let key = KeyPair::generate()?;
        let mut params = called(name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match role {
            Role::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Role::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
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
