//! Facts that explain why a session with a peer is missing, and strangers that sent handshakes.
//!
//! The program turns them into text.

use super::interface::Unreachable;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use weft_session::{PublicKey, RefusedStamp};
use weft_units::{Duration, PeerId};

/// Result of the handshakes for a peer that were sent on one link to one address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// Name of the link on which the handshakes were sent.
    pub link: String,
    /// Address of the peer to which the handshakes were sent.
    pub remote: SocketAddr,
    /// Handshakes sent since the session ended. Zero for a path of a present session that does not answer.
    pub sent: u32,
    /// The error that a handshake recently caused, and the address that reported it. `None` without a recent error.
    pub came_back: Option<(Unreachable, Option<IpAddr>)>,
}

/// State of a peer's session, and the facts that keep it from being established.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    /// Number of the peer.
    pub id: PeerId,
    /// Name of the peer.
    pub peer: String,
    /// True if the network's root revoked the peer's key. No session with it is possible.
    pub is_revoked: bool,
    /// Time since which there is no session with the peer. `None` if there is one.
    pub without_session: Option<Duration>,
    /// Configured addresses of the peer, to which handshakes can be sent.
    pub endpoints: Vec<SocketAddr>,
    /// Those addresses of the peer to which no link leads that may send data.
    pub out_of_reach: Vec<SocketAddr>,
    /// Number of local links that can be used now and on which data may be sent.
    pub links: usize,
    /// Results of the handshakes that were sent to the peer. With a session, only the results with an error.
    pub tried: Vec<Tried>,
    /// The last stamp that was refused in the last ten minutes. The second value is true if the peer refused it.
    pub refused_stamp: Option<(RefusedStamp, bool)>,
    /// Address from which the peer recently answered with a handshake that this node cannot decrypt.
    pub unreadable: Option<SocketAddr>,
    /// Number of initiations of the peer without effect, and the source address of the last one.
    ///
    /// They arrived after the session ended. This node answered them, and no packet of the peer followed the answers.
    pub unfollowed: Option<(u32, SocketAddr)>,
}

/// What a stranger's handshake reveals about its sender.
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
    /// Source address of the stranger's last handshake.
    pub source: SocketAddr,
    /// What the stranger's last handshake revealed about it.
    pub shown: Shown,
    /// Number of handshakes from this sender so far.
    pub times: u32,
    /// Time since the last handshake from this sender.
    pub ago: Duration,
}
