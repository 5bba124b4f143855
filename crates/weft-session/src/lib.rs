//! Secure sessions between adjacent nodes: handshake, key rotation, replay windows and cookies.
//!
//! The design is that of WireGuard (J. A. Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel", NDSS 2017)
//! over Noise `IKpsk2` (The Noise Protocol Framework, revision 34). It differs in one point, because a session has
//! several paths: each path has its own packet numbers and replay window, and packet numbers continue when the key
//! changes.
//!
//! The crate does no IO. The caller passes the time, a seed, and a stamp that rises across restarts. Datagrams are
//! slices. [`Sessions`] is the table of all peers. All other types are parts of it.
#![forbid(unsafe_code)]

mod admission;
mod certificate;
mod cookie;
pub mod enrolment;
mod error;
mod handshake;
mod identity;
mod index;
mod keys;
mod numbers;
mod payload;
mod peer;
mod random;
mod replay;
mod resolver;
mod sessions;
mod shared;
mod signing;
mod stack;
mod stamps;
mod timers;
#[cfg(test)]
mod traces;
mod vpn_keys;

pub use admission::route_source;
pub use certificate::{Certificate, Claims, Revocation, RootKey, RootPublicKey};
pub use error::{CertificateError, HandshakeError, InitiateError, OpenError, ParseKeyError, PeerError, SealError};
pub use identity::{Identity, PresharedKey, PublicKey, place_of};
pub use keys::Cipher;
pub use sessions::{OpenedPacket, Outcome, Relayed, SessionPeerConfig, Sessions, TimeoutAction, VpnStanding};
pub use stamps::{FARTHEST_AHEAD, RefusedStamp, StampFault, StampRefusal};
pub use timers::{GIVE_UP_AFTER, KEY_LIFETIME, REKEY_AFTER, RETRY_INTERVAL, SLOW_RETRY_INTERVAL};
