//! Facts that explain why a peer has no session, and strangers that sent handshakes.
//!
//! The program turns them into text.

use super::interface::Unreachable;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::{PublicKey, RefusedStamp};
use weft_units::{Duration, PeerId};

/// Result of the handshakes that were sent on one link to one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// The link's name.
    pub link: String,
    /// Address of the peer to which the handshakes were sent.
    pub remote: SocketAddr,
    /// Handshakes sent since the session ended. Zero for a path of a present session that does not answer.
    pub sent: u32,
    /// The error that a handshake recently caused, and the address that reported the error.
    pub came_back: Option<(Unreachable, Option<IpAddr>)>,
}

/// State of a peer's session, and the facts that keep it from being established.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// The peer's number.
    pub id: PeerId,
    /// The peer's name.
    pub peer: String,
    /// True if the network's root revoked the peer's key. No session with it is possible.
    pub is_revoked: bool,
    /// Time without a session. `None` if there is a session.
    pub without_session: Option<Duration>,
    /// Addresses to which handshakes for the peer can be sent.
    pub endpoints: Vec<SocketAddr>,
    /// Addresses of the peer that no link in use reaches.
    pub out_of_reach: Vec<SocketAddr>,
    /// Number of links in use on which data may be sent.
    pub links: usize,
    /// Results of the handshakes to the peer. With a session, only the results with an error.
    pub tried: Vec<Tried>,
    /// The last refused stamp, and true if the peer refused this node's stamp.
    pub refused_stamp: Option<(RefusedStamp, bool)>,
    /// Address from which the peer answers with handshakes that this node cannot decrypt.
    pub unreadable: Option<SocketAddr>,
    /// Number of initiations of the peer without effect, and the source address of the last one.
    ///
    /// They arrived after the session ended. This node answered them, and no packet of the peer followed the answers.
    pub unfollowed: Option<(u32, SocketAddr)>,
}

/// Information that a handshake reveals about its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The handshake was made for another public key than this node's. Anyone can send one.
    OtherKey,
    /// The handshake was made for this node's key but cannot be decrypted.
    ///
    /// Its sender runs another version of weft, or the datagram is damaged.
    Unreadable,
    /// The handshake proves that its sender has this key, which belongs to no peer.
    Key(PublicKey),
}

/// A sender of handshakes that is not a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stranger {
    /// Source address of the last handshake.
    pub source: SocketAddr,
    /// Information that the last handshake revealed.
    pub shown: Shown,
    /// Number of handshakes from this sender so far.
    pub times: u32,
    /// Time since the last handshake from this sender.
    pub ago: Duration,
}
