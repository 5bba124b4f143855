//! The types that pass between the engine and its driver, which is the daemon or a simulator.

use alloc::string::String;
use core::net::{IpAddr, SocketAddr};
use weft_core::pool::BufId;
use weft_units::{Instant, LinkId};

/// A change of the local links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link can be used now, or its properties changed. A socket is open on it for each address family that is set.
    Up {
        /// The link that can be used.
        link: LinkId,
        /// Name of the link's network interface.
        name: String,
        /// The link's MTU in bytes.
        mtu: u16,
        /// True if the link can carry IPv4.
        ipv4: bool,
        /// True if the link can carry IPv6.
        ipv6: bool,
    },
    /// A link can no longer be used.
    Down {
        /// The link that can no longer be used.
        link: LinkId,
        /// The reason for the log why the link is unusable: `no carrier`, `address gone`, `removed` or another one.
        cause: &'static str,
    },
}

/// The reason why a datagram did not arrive, as the kernel or an ICMP error states it.
///
/// ICMP errors can be forged, so the reason is only shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unreachable {
    /// The destination has no socket at the UDP port.
    Port,
    /// A firewall on the route or at the destination rejects the datagram.
    Prohibited,
    /// The last router before the destination cannot reach it.
    Host,
    /// A router has no route to the IP network of the destination.
    Network,
    /// The datagram is longer than the MTU of a link on the route.
    TooBig,
    /// This machine's own firewall refuses to send the datagram.
    Filtered,
    /// This machine has no route to the address by the link.
    NoRoute,
    /// The link cannot send at present.
    LinkDown,
    /// Any other reason.
    Other,
}

/// One receive: a datagram, or several of `stride` bytes in one buffer (UDP GRO).
///
/// The engine takes ownership of the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Time of arrival, for measurements.
    ///
    /// It may be before the time at which the engine is given the buffer.
    pub at: Instant,
    /// The link by which the datagram arrived.
    pub link: LinkId,
    /// Address and port of the sender.
    pub source: SocketAddr,
    /// The local address at which the datagram arrived, if known.
    pub destination: Option<IpAddr>,
    /// TOS (IPv4) or traffic class (IPv6) of the outer header: DSCP and ECN mark.
    pub tos: u8,
    /// The buffer with the bytes received: a large one of the engine's pool.
    pub buf: BufId,
    /// Number of bytes received, of all datagrams together.
    pub len: usize,
    /// Length of each datagram, in bytes. The last one may be shorter.
    pub stride: usize,
}

/// One send: a datagram, or several of `segment_size` bytes (UDP GSO), in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The link on which to send.
    pub link: LinkId,
    /// Address and port to which to send.
    pub destination: SocketAddr,
    /// The local address to send from. With `None`, the kernel chooses it.
    pub source: Option<IpAddr>,
    /// TOS (IPv4) or traffic class (IPv6) of the outer header: DSCP and ECN mark.
    pub tos: u8,
    /// Number of bytes to send from the buffer.
    pub len: usize,
    /// Length of each datagram but the last in bytes; `None` if there is only one datagram.
    pub segment_size: Option<u16>,
}
