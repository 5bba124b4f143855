//! Sockets and devices of a node, for a capture of its traffic.

use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Sockets and devices of a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sockets {
    /// Version of the JSON format, [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Links in use.
    pub links: Vec<LinkSockets>,
    /// TCP port at which the node accepts connections that carry datagrams; absent: it accepts none.
    pub tcp_port: Option<u16>,
    /// Firewall mark of the packets of TCP connections that the node opens.
    pub tcp_mark: u32,
    /// TUN devices, that of the default VPN first.
    pub devices: Vec<TunDevice>,
    /// Remote addresses of the peer that the request names; absent: it names none.
    ///
    /// The list is empty while no address is known, or while only relays lead to the peer.
    pub remotes: Option<Vec<SocketAddr>>,
}

/// Sockets of a link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkSockets {
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub index: u32,
    /// Local addresses in use.
    pub addresses: Vec<IpAddr>,
    /// Local UDP port.
    pub udp_port: u16,
    /// Addresses of peers, or of an HTTP proxy, to which the node opens TCP connections by this link.
    pub tcp: Vec<SocketAddr>,
}

/// A TUN device.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TunDevice {
    /// Name of the device's VPN.
    pub vpn: String,
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub index: u32,
}
