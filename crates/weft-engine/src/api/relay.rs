//! Relaying as the program sees it: datagrams to send, counters, and the reasons why a relayed route is refused.

use super::interface::Transmit;
use core::fmt;
use weft_core::pool::BufId;
use weft_wire::relay::MAX_RELAYS;

/// The next datagrams that a node sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departing {
    /// Datagrams of this node's own, in the caller's buffer.
    Own(Transmit),
    /// Datagrams of other nodes that this node relays.
    Relayed(Forward),
}

/// A batch of datagrams to relay. They lie one after another in the buffer in which they arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The buffer that contains the batch.
    ///
    /// The caller must release it ([`Pool::release`](weft_core::pool::Pool::release)).
    pub buf: BufId,
    /// Offset of the batch from the start of the buffer, in bytes.
    pub start: usize,
    /// Link, addresses and lengths with which to send the batch.
    pub transmit: Transmit,
}

/// Counters of the datagrams that a node relayed for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayTotals {
    /// Number of datagrams forwarded for other nodes.
    pub datagrams: u64,
    /// Bytes of the datagrams forwarded, without IP and UDP headers.
    pub bytes: u64,
    /// Datagrams not forwarded: this node is not a relay, or the next node is not a peer or is unreachable.
    pub refused_datagrams: u64,
    /// Datagrams dropped: too many waited for a link with a rate limit, or they waited too long.
    pub dropped_datagrams: u64,
}

/// The reason why a configured route over relays was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteError {
    /// The route has no relay.
    Empty,
    /// The route has more than [`MAX_RELAYS`] relays.
    TooLong,
    /// The route contains a node twice, or contains this node or the peer.
    Loop,
    /// The first relay is not a peer of this node.
    FirstIsNoPeer,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Empty => f.write_str("it has no relay"),
            RouteError::TooLong => write!(f, "it has more than {MAX_RELAYS} relays"),
            RouteError::Loop => f.write_str("it contains a node twice"),
            RouteError::FirstIsNoPeer => f.write_str("its first relay is not a peer of this node"),
        }
    }
}
