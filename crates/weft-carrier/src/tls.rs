//! TLS settings of both sides, like those of an ordinary browser and an ordinary web server.
//!
//! The side that connects accepts every certificate. The datagrams in the connection are encrypted and authenticated by
//! the session between the nodes, so a server that is not the node can neither read nor forge them.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig, ServerConnection, SignatureScheme,
};
use std::net::IpAddr;
use std::sync::Arc;

/// The settings for the client's side of TLS connections.
#[derive(Clone, Debug)]
pub struct Caller(Arc<ClientConfig>);

impl Caller {
    /// Returns the settings of the client side.
    ///
    /// # Errors
    /// Returns an error if the cryptography lacks TLS 1.3.
    pub fn new() -> Result<Caller, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Caller(Arc::new(config)))
    }

    /// Begins a connection to the host `name`, which is sent as SNI; without it, to `address` without SNI.
    ///
    /// # Errors
    /// Returns an error if the name is no host name.
    pub fn call(&self, name: Option<&str>, address: IpAddr) -> Result<Connection, rustls::Error> {
        let name = match name {
            Some(name) => {
                ServerName::try_from(name.to_owned()).map_err(|why| rustls::Error::General(why.to_string()))?
            }
            None => ServerName::from(address),
        };
        ClientConnection::new(Arc::clone(&self.0), name).map(Connection::Client)
    }
}

/// The settings for the server's side of TLS connections.
#[derive(Clone, Debug)]
pub struct TlsAcceptor(Arc<ServerConfig>);

impl TlsAcceptor {
    /// Returns the settings for a certificate and its key, both as PEM.
    ///
    /// # Errors
    /// Returns the reason why they cannot be used, as text for a reader.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(|why| format!("certificate: {why}"))?;
        if chain.is_empty() {
            return Err("certificate: no PEM certificate".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|why| format!("key: {why}"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| why.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = config.map_err(|why| format!("certificate and key: {why}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor(Arc::new(config)))
    }

    /// Begins the server's side of a connection.
    ///
    /// # Errors
    /// Returns an error if the settings are unusable.
    pub fn answer(&self) -> Result<Connection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.0)).map(Connection::Server)
    }
}

/// Accepts every server certificate. It only checks that the server has the private key of its certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
