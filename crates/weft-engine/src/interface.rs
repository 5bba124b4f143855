//! What passes between the engine and whoever drives it.

use alloc::string::String;
use core::net::{IpAddr, SocketAddr};
use weft_core::pool::BufId;
use weft_units::{Instant, LinkId};

/// A change of the local links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A link can be used now, or its properties changed. Sockets of the families named are open on it.
    Up {
        /// The link.
        link: LinkId,
        /// The interface's name.
        name: String,
        /// Its MTU in bytes.
        mtu: u16,
        /// It can carry IPv4.
        ipv4: bool,
        /// It can carry IPv6.
        ipv6: bool,
    },
    /// A link can no longer be used, and why.
    Down {
        /// The link.
        link: LinkId,
        /// For the log: `no carrier`, `address gone`, `removed` …
        cause: &'static str,
    },
}

/// Why a datagram did not arrive, as the kernel or an ICMP error says. Anyone can forge the latter: it is for people only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unreachable {
    /// The host has nobody at this port.
    Port,
    /// A firewall on the way, or at the host, rejects it.
    Prohibited,
    /// The last router does not reach the host.
    Host,
    /// A router knows no way to the network.
    Network,
    /// The datagram is longer than a link on the way takes.
    TooBig,
    /// This machine's own firewall refuses to send it.
    Filtered,
    /// This machine has no route there by the link.
    NoRoute,
    /// The link cannot send now.
    LinkDown,
    /// Anything else.
    Other,
}

/// One receive: a datagram, or several of `stride` bytes in one buffer (UDP GRO). The engine takes over the buffer's reference.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// When it arrived, which may be before it is handed over: measurement goes by it.
    pub at: Instant,
    /// The link it came by.
    pub link: LinkId,
    /// Who sent it.
    pub source: SocketAddr,
    /// The local address it came to, if known.
    pub destination: Option<IpAddr>,
    /// Outer TOS or traffic class.
    pub tos: u8,
    /// A large buffer of the engine's pool.
    pub buf: BufId,
    /// Bytes received.
    pub len: usize,
    /// Bytes per datagram; the last may be shorter.
    pub stride: usize,
}

/// One send: a datagram, or several of `segment_size` bytes (UDP GSO), written to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The link to send on.
    pub link: LinkId,
    /// Where to.
    pub destination: SocketAddr,
    /// The local address to send from, if it matters.
    pub source: Option<IpAddr>,
    /// Outer TOS or traffic class.
    pub tos: u8,
    /// Bytes in the buffer.
    pub len: usize,
    /// Bytes per datagram when there are several.
    pub segment_size: Option<u16>,
}
