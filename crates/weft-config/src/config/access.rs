//! Parsing of `[access]` (WireGuard clients) and `[access.openvpn]` (OpenVPN clients).
//!
//! Clients are hosts without weft. This module also computes the settings that an edge gives its clients: their name
//! servers, and the prefixes whose packets they send to the edge.

use super::parse::interface_name;
use super::read::{At, Section};
use super::{Config, prefix};
use std::fmt;
use std::iter;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::Prefix;

/// `[access]`: settings for clients of WireGuard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// UDP port that WireGuard clients send to.
    pub listen: At<u16>,
    /// Pool of the clients' addresses.
    pub pool: At<AddressPool>,
    /// `HOST:PORT` at which clients reach this node; absent: each `weft access add` names it.
    pub endpoint: Option<At<String>>,
    /// Prefixes whose packets clients send to this node; empty: all IPv4 prefixes in this node's configuration.
    pub routes: Vec<At<Prefix>>,
    /// Name servers for clients; empty: clients keep theirs.
    pub dns: Vec<At<Ipv4Addr>>,
    /// True if clients cannot reach each other.
    pub isolate: bool,
    /// Name of the device from which the clients' packets emerge.
    pub device: String,
    /// `[access.openvpn]`; absent: no OpenVPN client is admitted.
    pub openvpn: Option<Openvpn>,
}

/// `[access.openvpn]`: settings for clients of OpenVPN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Openvpn {
    /// UDP port that OpenVPN clients send to.
    pub listen: At<u16>,
    /// Pool of the clients' addresses.
    pub pool: At<AddressPool>,
    /// `HOST:PORT` at which clients reach this node; absent: each `weft access add` names it.
    pub endpoint: Option<At<String>>,
    /// Name of the device from which the clients' packets emerge.
    pub device: String,
}

impl Access {
    /// Returns the names of the devices from which the clients' packets emerge.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        iter::once(self.device.as_str()).chain(self.openvpn.iter().map(|openvpn| openvpn.device.as_str()))
    }

    /// Returns the address pools of both kinds of clients.
    pub fn pools(&self) -> impl Iterator<Item = &At<AddressPool>> {
        iter::once(&self.pool).chain(self.openvpn.iter().map(|openvpn| &openvpn.pool))
    }
}

/// Values of the keys that the tables `[access]` and `[access.openvpn]` both have.
struct Common {
    listen: Option<At<u16>>,
    pool: Option<At<AddressPool>>,
    endpoint: Option<At<String>>,
    device: String,
}

/// IPv4 addresses for clients. The first one is the edge's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressPool {
    network: Ipv4Addr,
    length: u8,
}

impl AddressPool {
    /// Parses a pool such as `10.9.128.0/24`.
    ///
    /// # Errors
    /// Returns the expected form.
    pub fn parse(text: &str) -> Result<AddressPool, String> {
        let given = prefix::parse(text)?;
        let trimmed = prefix::trimmed(given);
        match (trimmed.address, trimmed.length) {
            _ if trimmed != given => {
                Err(format!("the prefix `{text}` has host bits set: write {} instead", prefix::text(trimmed)))
            }
            (IpAddr::V4(network), length @ 16..=30) => Ok(AddressPool { network, length }),
            _ => Err("a `pool` of addresses for clients must be an IPv4 prefix with a length from 16 to 30".to_owned()),
        }
    }

    /// Returns the pool as a prefix.
    pub fn prefix(&self) -> Prefix {
        Prefix { address: self.network.into(), length: self.length }
    }

    /// Returns the edge's own address in the pool.
    pub fn edge(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() + 1)
    }

    /// Returns the netmask of the pool, for programs that expect a netmask instead of a prefix length.
    pub fn mask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(!(u32::MAX >> self.length))
    }

    /// Returns the addresses for clients, in ascending order.
    pub fn hosts(&self) -> impl Iterator<Item = Ipv4Addr> {
        let broadcast = self.network.to_bits() + (u32::MAX >> self.length);
        (self.edge().to_bits() + 1..broadcast).map(Ipv4Addr::from_bits)
    }
}

impl fmt::Display for AddressPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&prefix::text(self.prefix()))
    }
}

/// Parses the table `[access]`.
pub fn read(mut section: Section<'_, '_>) -> Option<Access> {
    let Common { listen, pool, endpoint, device } = common(&mut section, "weft-access0");
    let routes = section.list("routes", "[\"10.0.0.0/8\"]", prefix::parse).unwrap_or_default();
    let dns = section.list("dns", "[\"10.9.0.1\"]", name_server).unwrap_or_default();
    let isolate = section.flag("isolate").unwrap_or(false);
    let openvpn = section.section("openvpn", "[access.openvpn]").map(read_openvpn);
    section.finish();
    Some(Access { listen: listen?, pool: pool?, endpoint, routes, dns, isolate, device, openvpn: openvpn.flatten() })
}

fn read_openvpn(mut section: Section<'_, '_>) -> Option<Openvpn> {
    let Common { listen, pool, endpoint, device } = common(&mut section, "weft-openvpn0");
    section.finish();
    Some(Openvpn { listen: listen?, pool: pool?, endpoint, device })
}

fn common(section: &mut Section<'_, '_>, device: &str) -> Common {
    for (key, help) in [("listen", "a UDP port, for example 51820"), ("pool", "for example pool = \"10.9.128.0/24\"")] {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    Common {
        listen: section.integer("listen", 1..65_536).map(|at| at.map(|port| port as u16)),
        pool: section.parsed("pool", "\"10.9.128.0/24\"", AddressPool::parse),
        endpoint: section.parsed("endpoint", "\"vpn.example.org:51820\"", endpoint),
        device: section
            .parsed("device", "\"weft-clients\"", interface_name)
            .map_or_else(|| device.to_owned(), |at| at.value),
    }
}

/// Parses the address at which clients reach an edge: `HOST:PORT`.
///
/// # Errors
/// Returns the expected form.
pub fn endpoint(text: &str) -> Result<String, &'static str> {
    let expected = "expected HOST:PORT, with an IPv6 address in brackets";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
    let is_clean = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_bare && is_clean && has_port { Ok(text.to_owned()) } else { Err(expected) }
}

/// Parses the IPv4 address of a name server. Refuses an address that no client can reach, such as loopback.
fn name_server(text: &str) -> Result<Ipv4Addr, &'static str> {
    let address: IpAddr = text.parse().map_err(|_| "not an IP address")?;
    match address {
        IpAddr::V6(_) => {
            Err("a name server for clients needs an IPv4 address: clients use only IPv4 inside the tunnel")
        }
        IpAddr::V4(address) if is_host(address) => Ok(address),
        IpAddr::V4(_) => Err("a name server for clients needs an address that they can reach through the tunnel: \
            not loopback, link-local, multicast, broadcast or 0.0.0.0"),
    }
}

fn is_host(address: Ipv4Addr) -> bool {
    let is_other = address.is_loopback() || address.is_link_local() || address.is_multicast() || address.is_broadcast();
    !is_other && !address.is_unspecified()
}

/// Settings that a client gets from its edge, besides keys and the client's address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientOffer {
    /// Prefixes that clients send to the edge.
    pub routes: Vec<Prefix>,
    /// Name servers that clients use.
    pub dns: Vec<Ipv4Addr>,
}

impl ClientOffer {
    /// Returns the settings that an edge with this configuration gives its clients.
    pub fn of(config: &Config, access: &Access) -> ClientOffer {
        ClientOffer { routes: client_routes(config, access), dns: access.dns.iter().map(|at| at.value).collect() }
    }

    /// Returns true if clients send all their IPv4 traffic to the edge.
    ///
    /// The tunnel carries no IPv6, so the client must then block IPv6, which would otherwise bypass the tunnel.
    pub fn takes_all(&self) -> bool {
        let is_half = |first: u8| {
            let half = Prefix { address: Ipv4Addr::new(first, 0, 0, 0).into(), length: 1 };
            self.routes.iter().any(|route| prefix::trimmed(*route) == half)
        };
        self.routes.iter().any(|route| route.length == 0) || is_half(0) && is_half(128)
    }
}

/// Returns the prefixes whose packets a client sends to the edge.
///
/// They are those of `routes` in `[access]`. If it is empty, they are all IPv4 prefixes in this node's configuration.
fn client_routes(config: &Config, access: &Access) -> Vec<Prefix> {
    if !access.routes.is_empty() {
        return access.routes.iter().map(|at| at.value).collect();
    }
    let known =
        config.tun.addresses.iter().chain(config.peers.iter().flat_map(|peer| &peer.prefixes).map(|at| &at.value));
    let pools = access.pools().map(|pool| pool.value.prefix());
    let mut all: Vec<Prefix> = known.map(|known| prefix::trimmed(*known)).chain(pools).collect();
    all.retain(|prefix| prefix.address.is_ipv4());
    all.sort_by_key(|prefix| (prefix.length, prefix.address));
    let mut routes: Vec<Prefix> = Vec::new();
    for prefix in all {
        if !routes.iter().any(|route| route.contains(prefix.address)) {
            routes.push(prefix);
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_the_edge_the_first_address_and_clients_the_others() {
        let pool = AddressPool::parse("10.9.128.0/29").unwrap();
        assert_eq!(pool.edge().to_string(), "10.9.128.1");
        let hosts: Vec<String> = pool.hosts().map(|host| host.to_string()).collect();
        assert_eq!(hosts, ["10.9.128.2", "10.9.128.3", "10.9.128.4", "10.9.128.5", "10.9.128.6"]);
        assert_eq!(AddressPool::parse("255.255.255.252/30").unwrap().hosts().count(), 1);
        assert_eq!(AddressPool::parse("10.9.0.0/16").unwrap().hosts().count(), 65_533);
        for bad in ["10.9.128.1/24", "10.0.0.0/8", "10.9.0.0/31", "fd00::/64", "10.9.0.0", "x/24"] {
            assert!(AddressPool::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for good in ["vpn.example.org:51820", "192.0.2.1:1", "[2001:db8::1]:51820"] {
            assert_eq!(endpoint(good).as_deref(), Ok(good));
        }
        for bad in ["vpn.example.org", ":51820", "host:0", "host:65536", "2001:db8::1:51820", "a b:1", "a\nb:1", ""] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
