//! TLS settings from files with certificates, keys and certificate authorities.

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Possible files of the system's certificate authorities: those of Debian, Fedora, Alpine and OpenWrt.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Returns the TLS configuration of a server with this certificate.
///
/// # Errors
/// Returns which file is wrong, and why.
pub fn server(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| why.to_string())?.with_no_client_auth();
    let mut config =
        builder.with_single_cert(chain(certificate)?, private_key(key)?).map_err(|why| told(certificate, why))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the TLS configuration of a client that checks servers' certificates.
///
/// It trusts the authorities in `authority`, or those of this system. `own` is a certificate and its key, which the
/// client shows to servers that ask for one.
///
/// # Errors
/// Returns which file is wrong, and why.
pub fn client(authority: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(file) => {
            for certificate in chain(file)? {
                roots.add(certificate).map_err(|why| told(file, why))?;
            }
        }
        // Without a file of authorities, the client accepts no server by TLS. Plain HTTP to this machine still works.
        None => {
            let file = AUTHORITIES.iter().map(PathBuf::from).find(|file| file.is_file());
            roots.add_parsable_certificates(file.map_or(Ok(Vec::new()), |file| chain(&file))?);
        }
    }
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let builder = builder.map_err(|why| why.to_string())?.with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(chain(certificate)?, private_key(key)?)
            .map_err(|why| told(certificate, why))?,
    };
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn chain(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found.map_err(|why| told(file, why))? {
        none if none.is_empty() => Err(told(file, "it has no certificate in PEM")),
        chain => Ok(chain),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|why| told(file, why))
}

fn told(file: &Path, why: impl Display) -> String {
    format!("{}: {why}", file.display())
}
