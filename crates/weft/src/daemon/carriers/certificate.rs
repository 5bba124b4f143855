//! The certificate of the port at which the node accepts TCP: configured, or made once and kept in the state directory.
//!
//! Nodes that connect accept every certificate, because the session inside proves who the node is. A browser that
//! visits the web server behind the port requires a certificate that it trusts.

use crate::access::openvpn::certificate::{Role, SigningKey, of_holder};
use crate::access::openvpn::pem;
use crate::config::TcpDoor;
use crate::files::{self, Directory};
use aws_lc_rs::error::Unspecified;
use std::io::{self, Read as _};
use std::path::Path;
use weft_carrier::tls::TlsAcceptor;

/// File of the certificate that the node makes.
const CERTIFICATE: &str = "tcp.crt";
/// Name of the node in the certificate. It reveals nothing about the node.
const NAME: &str = "localhost";
/// File of the private key of the certificate that the node makes.
const KEY: &str = "tcp.key";
/// Maximum length of the file of a certificate or a key, in bytes.
const LARGEST: u64 = 1 << 20;

/// Returns the acceptor of TLS connections at the TCP port.
///
/// # Errors
/// Returns the reason why the certificate cannot be used, as text for a reader.
pub fn load(door: &TcpDoor, state: &Path) -> Result<TlsAcceptor, String> {
    match &door.certificate {
        Some((certificate, key)) => TlsAcceptor::new(&read(certificate)?, &read(key)?),
        None => own(state),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |why: io::Error| format!("{}: {why}", path.display());
    let mut text = Vec::new();
    files::open(path).map_err(failed)?.take(LARGEST + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(format!(
            "file {} is longer than 1 MiB, so it is no certificate and no key: name the right file in [tcp]",
            path.display()
        ));
    }
    Ok(text)
}

/// Returns the acceptor of TLS connections that uses this node's self-signed certificate.
fn own(state: &Path) -> Result<TlsAcceptor, String> {
    let directory = Directory::open(state).map_err(|why| format!("{}: {why}", state.display()))?;
    let kept = [CERTIFICATE, KEY].map(|name| directory.read_text(name, LARGEST));
    if let [Ok(certificate), Ok(key)] = &kept
        && let Ok(acceptor) = TlsAcceptor::new(certificate.as_bytes(), key.as_bytes())
    {
        return Ok(acceptor);
    }
    let (certificate, key) = make().map_err(|why| {
        format!("cannot make a TLS certificate for [tcp]: {why}: name one with `certificate` and `key`")
    })?;
    for (name, text) in [(KEY, &key), (CERTIFICATE, &certificate)] {
        directory.write(name, text.as_bytes()).map_err(|why| directory.failed(name, &why))?;
    }
    TlsAcceptor::new(certificate.as_bytes(), key.as_bytes())
}

/// Makes a certificate and its key, both PEM. The certificate reveals nothing about this node.
fn make() -> Result<(String, String), Unspecified> {
    let key = SigningKey::generate()?;
    let certificate = of_holder(NAME, Role::Server, &key, NAME, &key)?;
    Ok((pem::encode(pem::CERTIFICATE, &certificate), pem::encode(pem::PRIVATE_KEY, &key.der)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_was_made_serves() {
        let (certificate, key) = make().unwrap();
        assert!(TlsAcceptor::new(certificate.as_bytes(), key.as_bytes()).is_ok());
        let (other, _) = make().unwrap();
        assert!(TlsAcceptor::new(other.as_bytes(), key.as_bytes()).is_err(), "the key of another certificate");
        assert!(TlsAcceptor::new(b"", key.as_bytes()).is_err());
    }
}
