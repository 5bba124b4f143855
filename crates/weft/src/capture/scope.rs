//! Decides which packets of an interface belong to the node, or to the peer that the user asks for.
//!
//! The kernel's filter knows ports only. This module checks addresses, so it decides alone what a capture stores.

use crate::status::LinkSockets;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use weft_io::packet::FilterRule;
use weft_wire::ip::{IpView, protocol};

/// Maximum number of TCP connections that are remembered. If there are more, all are forgotten.
///
/// A node has a few connections for each peer.
const MAX_CONNECTIONS: usize = 4_096;

/// Judgement about a packet of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScopeVerdict {
    /// The node sends or receives the packet.
    Own,
    /// The packet is other traffic.
    Foreign,
    /// The packet has a port of the node and an address of this machine that is not known: the node may have a new one.
    NewAddress,
}

/// The node's sockets on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkScope {
    sockets: LinkSockets,
    tcp_port: Option<u16>,
    tcp_mark: u32,
    /// Addresses of the only peer whose packets are wanted. `None` if those of all peers are.
    remotes: Option<Vec<SocketAddr>>,
    /// Local and remote ends of TCP connections that the node opened: their outgoing segments have the node's mark.
    connections: BTreeSet<(SocketAddr, SocketAddr)>,
}

impl LinkScope {
    /// Returns the scope of a link's sockets.
    ///
    /// `tcp` is the port at which the node accepts TCP connections, and the mark of the segments that it sends.
    pub fn new(sockets: LinkSockets, tcp: (Option<u16>, u32), remotes: Option<Vec<SocketAddr>>) -> LinkScope {
        let connections = BTreeSet::new();
        LinkScope { sockets, tcp_port: tcp.0, tcp_mark: tcp.1, remotes, connections }
    }

    /// Takes over newer sockets and addresses. Returns true if the kernel's filter must change.
    pub fn update(&mut self, newer: LinkScope) -> bool {
        let rules = self.rules();
        let connections = std::mem::take(&mut self.connections);
        *self = LinkScope { connections, ..newer };
        rules != self.rules()
    }

    /// Returns the rules of the kernel's filter.
    pub fn rules(&self) -> Vec<FilterRule> {
        let udp = FilterRule::Udp { port: self.sockets.udp_port };
        let server = self.tcp_port.map(|port| FilterRule::TcpServer { port });
        let mark = self.tcp_mark;
        let client = self.sockets.tcp.iter().map(|&remote| FilterRule::TcpClient { remote, mark });
        std::iter::once(udp).chain(server).chain(client).collect()
    }

    /// Judges a packet that passed the kernel's filter.
    pub fn judge(&mut self, is_outgoing: bool, packet: &[u8]) -> ScopeVerdict {
        let Some((number, source, destination)) = ends(packet) else { return ScopeVerdict::Foreign };
        let (local, remote) = if is_outgoing { (source, destination) } else { (destination, source) };
        let is_of_node = match number {
            protocol::UDP => local.port() == self.sockets.udp_port && self.is_of_peer(remote, true),
            protocol::TCP if Some(local.port()) == self.tcp_port => self.is_of_peer(remote, false),
            protocol::TCP => self.is_own_connection(is_outgoing, local, remote),
            _ => false,
        };
        match (is_of_node, self.sockets.addresses.contains(&local.ip())) {
            (true, true) => ScopeVerdict::Own,
            (true, false) => ScopeVerdict::NewAddress,
            (false, _) => ScopeVerdict::Foreign,
        }
    }

    fn is_of_peer(&self, remote: SocketAddr, with_port: bool) -> bool {
        let is_it = |of: &SocketAddr| of.ip() == remote.ip() && (!with_port || of.port() == remote.port());
        self.remotes.as_ref().is_none_or(|remotes| remotes.iter().any(is_it))
    }

    /// True for a segment of a connection that the node opened.
    ///
    /// Another program, such as a browser, may have connections to the same server. The kernel's filter drops its outgoing
    /// segments, so each segment that passes names a connection of the node.
    fn is_own_connection(&mut self, is_outgoing: bool, local: SocketAddr, remote: SocketAddr) -> bool {
        let is_called = self.sockets.tcp.iter().any(|of| of.ip() == remote.ip() && of.port() == remote.port());
        if !is_called || !is_outgoing {
            return is_called && self.connections.contains(&(local, remote));
        }
        if self.connections.len() >= MAX_CONNECTIONS {
            self.connections.clear();
        }
        self.connections.insert((local, remote));
        true
    }
}

/// Returns the protocol number, the source and the destination of a TCP or UDP packet. `None` if it cannot be parsed.
fn ends(packet: &[u8]) -> Option<(u8, SocketAddr, SocketAddr)> {
    let view = IpView::parse(packet).ok()?;
    let (source, destination) = view.ports();
    Some((view.protocol, SocketAddr::new(view.src, source), SocketAddr::new(view.dst, destination)))
}

/// Prefixes of a VPN and the peers that have them, for captures of one peer's inner packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PrefixOwners {
    /// Address and length of each prefix, and true if the peer of interest has it. The longest prefix is the first.
    prefixes: Vec<(IpAddr, u8, bool)>,
}

impl PrefixOwners {
    /// Returns the owners for prefixes such as `10.9.0.0/24`, each with true if the peer of interest has it.
    ///
    /// A text that is no prefix is left out.
    pub fn new<'a>(prefixes: impl Iterator<Item = (&'a str, bool)>) -> PrefixOwners {
        let parsed = prefixes.filter_map(|(text, is_wanted)| {
            let (address, length) = text.split_once('/')?;
            Some((address.parse().ok()?, length.parse().ok()?, is_wanted))
        });
        let mut prefixes: Vec<(IpAddr, u8, bool)> = parsed.collect();
        prefixes.sort_by_key(|(_, length, _)| std::cmp::Reverse(*length));
        PrefixOwners { prefixes }
    }

    /// True if one end of the packet lies behind the peer of interest.
    pub fn has_end_of(&self, packet: &[u8]) -> bool {
        let is_wanted = |address: IpAddr| {
            let longest = self.prefixes.iter().find(|(of, length, _)| contains(*of, *length, address));
            longest.is_some_and(|(_, _, is_wanted)| *is_wanted)
        };
        addresses(packet).is_some_and(|ends| ends.into_iter().any(is_wanted))
    }
}

/// Returns source and destination of a packet that may be cut. `None` if it is too short or no IP packet.
fn addresses(packet: &[u8]) -> Option<[IpAddr; 2]> {
    let v4 = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes));
    let v6 = |at: usize| packet.get(at..)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes));
    match packet.first()? >> 4 {
        4 => Some([v4(12)?, v4(16)?]),
        6 => Some([v6(8)?, v6(24)?]),
        _ => None,
    }
}

fn contains(prefix: IpAddr, length: u8, address: IpAddr) -> bool {
    let differs = |bits: u128, width: u8| bits.checked_shr((width - length.min(width)).into()).unwrap_or(0) != 0;
    match (prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => !differs((prefix.to_bits() ^ address.to_bits()).into(), 32),
        (IpAddr::V6(prefix), IpAddr::V6(address)) => !differs(prefix.to_bits() ^ address.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
