//! Trust in certificates: its configuration, and the reasons why a certificate or a revocation is rejected.

use super::config::{Policy, Prefix};
use super::outside::Clash;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use weft_session::{Certificate, CertificateError, Revocation, RootPublicKey};
use weft_units::PeerId;

/// Configuration of trust in certificates.
#[derive(Clone, Debug)]
pub struct TrustConfig {
    /// The root's public key, with which all certificates of the network are verified.
    pub root: RootPublicKey,
    /// This node's own certificate, which it sends in handshakes.
    pub certificate: Option<Certificate>,
    /// Addresses of this node in the default VPN. No certificate may claim them.
    pub own: Vec<IpAddr>,
    /// Rules for sending to peers that join by certificate.
    pub policy: Policy,
    /// Revocations that the program stored on disk. Revocations that the root did not sign are ignored.
    pub revocations: Vec<Revocation>,
}

/// The reason why a certificate does not make its owner a peer. Nothing has changed in that case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The certificate itself is not valid, for this reason.
    Certificate(CertificateError),
    /// Another peer has the name in the certificate.
    Name,
    /// A prefix of the certificate equals or overlaps with a prefix of another peer or an address of this node.
    Overlap {
        /// Prefix of the certificate that overlaps.
        prefix: Prefix,
        /// Name of the other peer. `None` if the prefix contains an address of this node.
        with: Option<String>,
    },
    /// A prefix of the certificate covers one of this machine's networks or an outer address of a node.
    Outside {
        /// Prefix of the certificate that conflicts.
        prefix: Prefix,
        /// The local network or the endpoint that the prefix covers.
        clash: Clash,
    },
    /// The maximum number of peers that joined by certificate is reached.
    TooMany,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Certificate(why) => write!(f, "its certificate is {why}"),
            Rejection::Name => f.write_str("another peer has this name"),
            Rejection::Overlap { prefix, with } => {
                let with = with.as_deref().unwrap_or("this node");
                write!(f, "its prefix {}/{} overlaps with one of {with}", prefix.address, prefix.length)
            }
            Rejection::Outside { prefix, clash } => {
                write!(f, "its prefix {}/{} is rejected: {clash}", prefix.address, prefix.length)
            }
            Rejection::TooMany => f.write_str("too many peers have joined by certificate"),
        }
    }
}

/// A peer that joined by certificate, for status output.
#[derive(Clone, Copy, Debug)]
pub struct CertifiedPeer<'a> {
    /// The number of the peer.
    pub peer: PeerId,
    /// The certificate that the peer presented.
    pub certificate: &'a Certificate,
}

/// The reason why a revocation of a key was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RevokeError {
    /// This node trusts no root key.
    NoRoot,
    /// The revocation is not signed by the network's root key.
    OtherRoot,
    /// The maximum number of revocations is stored.
    TooMany,
}

impl fmt::Display for RevokeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RevokeError::NoRoot => "this node has no root key: set [network] root",
            RevokeError::OtherRoot => "the revocation is not signed by the network's root key",
            RevokeError::TooMany => "too many revocations: make a new root key",
        })
    }
}
