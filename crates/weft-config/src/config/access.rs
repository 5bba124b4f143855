//! `[access]`: where unmodified WireGuard clients come in, and with `[access.openvpn]` OpenVPN's.

use super::parse::interface_name;
use super::read::{At, Section};
use super::{Config, prefix};
use std::fmt;
use std::iter;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::Prefix;

/// `[access]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// UDP port.
    pub listen: At<u16>,
    /// Where clients' addresses are from.
    pub pool: At<Pool>,
    /// `HOST:PORT`, as clients reach this node; absent: said for each client.
    pub endpoint: Option<At<String>>,
    /// What clients send here; empty: what this node knows of.
    pub routes: Vec<At<Prefix>>,
    /// Servers that clients ask for names; none: those they have.
    pub dns: Vec<At<Ipv4Addr>>,
    /// Whether clients are kept from each other.
    pub isolate: bool,
    /// Name of the device they come out of.
    pub device: String,
    /// `[access.openvpn]`; absent: none of OpenVPN's come in.
    pub openvpn: Option<Openvpn>,
}

/// `[access.openvpn]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Openvpn {
    /// UDP port.
    pub listen: At<u16>,
    /// Where clients' addresses are from.
    pub pool: At<Pool>,
    /// `HOST:PORT`, as clients reach this node; absent: said for each client.
    pub endpoint: Option<At<String>>,
    /// Name of the device they come out of.
    pub device: String,
}

impl Access {
    /// The devices that clients come out of.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        iter::once(self.device.as_str()).chain(self.openvpn.iter().map(|openvpn| openvpn.device.as_str()))
    }

    /// All pools.
    pub fn pools(&self) -> impl Iterator<Item = &At<Pool>> {
        iter::once(&self.pool).chain(self.openvpn.iter().map(|openvpn| &openvpn.pool))
    }
}

/// What both have.
struct Common {
    listen: Option<At<u16>>,
    pool: Option<At<Pool>>,
    endpoint: Option<At<String>>,
    device: String,
}

/// IPv4 addresses for clients: the first is the edge's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    network: Ipv4Addr,
    length: u8,
}

impl Pool {
    /// Reads `10.9.128.0/24`.
    ///
    /// # Errors
    /// What is expected.
    pub fn parse(text: &str) -> Result<Pool, String> {
        let given = prefix::parse(text)?;
        let trimmed = prefix::trimmed(given);
        match (trimmed.address, trimmed.length) {
            _ if trimmed != given => Err(format!("it has bits behind its length; write {}", prefix::text(trimmed))),
            (IpAddr::V4(network), length @ 16..=30) => Ok(Pool { network, length }),
            _ => Err("an IPv4 prefix with a length from 16 to 30 is expected".to_owned()),
        }
    }

    /// The pool as a prefix.
    pub fn prefix(&self) -> Prefix {
        Prefix { address: self.network.into(), length: self.length }
    }

    /// The edge's own address in it.
    pub fn edge(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.network.to_bits() + 1)
    }

    /// Its mask, as older programs write a length.
    pub fn mask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(!(u32::MAX >> self.length))
    }

    /// Those for clients, lowest first.
    pub fn hosts(&self) -> impl Iterator<Item = Ipv4Addr> {
        let broadcast = self.network.to_bits() + (u32::MAX >> self.length);
        (self.edge().to_bits() + 1..broadcast).map(Ipv4Addr::from_bits)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&prefix::text(self.prefix()))
    }
}

/// Reads the table.
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
        pool: section.parsed("pool", "\"10.9.128.0/24\"", Pool::parse),
        endpoint: section.parsed("endpoint", "\"vpn.example.org:51820\"", endpoint),
        device: section
            .parsed("device", "\"weft-clients\"", interface_name)
            .map_or_else(|| device.to_owned(), |at| at.value),
    }
}

/// Reads where an edge is reached: `HOST:PORT`.
///
/// # Errors
/// What is expected.
pub fn endpoint(text: &str) -> Result<String, &'static str> {
    let expected = "HOST:PORT is expected, an IPv6 address in brackets";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let is_bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
    let is_clean = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    let has_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_bare && is_clean && has_port { Ok(text.to_owned()) } else { Err(expected) }
}

/// Reads the address of a name server that clients can reach through the edge.
fn name_server(text: &str) -> Result<Ipv4Addr, &'static str> {
    let address: IpAddr = text.parse().map_err(|_| "this is no IP address")?;
    match address {
        IpAddr::V6(_) => Err("clients have IPv4 inside, so an IPv4 address is expected"),
        IpAddr::V4(address) if is_host(address) => Ok(address),
        IpAddr::V4(_) => Err("clients cannot reach this address"),
    }
}

fn is_host(address: Ipv4Addr) -> bool {
    let is_other = address.is_loopback() || address.is_link_local() || address.is_multicast() || address.is_broadcast();
    !is_other && !address.is_unspecified()
}

/// What clients learn of their edge beside keys and addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// What they send to it.
    pub routes: Vec<Prefix>,
    /// Servers they ask for names.
    pub dns: Vec<Ipv4Addr>,
}

impl Offer {
    /// That of an edge.
    pub fn of(config: &Config, access: &Access) -> Offer {
        Offer { routes: client_routes(config, access), dns: access.dns.iter().map(|at| at.value).collect() }
    }

    /// Whether clients send all they have. Then IPv6, which the tunnel does not carry, must not go beside it.
    pub fn takes_all(&self) -> bool {
        let is_half = |first: u8| {
            let half = Prefix { address: Ipv4Addr::new(first, 0, 0, 0).into(), length: 1 };
            self.routes.iter().any(|route| prefix::trimmed(*route) == half)
        };
        self.routes.iter().any(|route| route.length == 0) || is_half(0) && is_half(128)
    }
}

/// What a client shall send to the edge: what the configuration names, or the IPv4 networks it knows of.
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
        let pool = Pool::parse("10.9.128.0/29").unwrap();
        assert_eq!(pool.edge().to_string(), "10.9.128.1");
        let hosts: Vec<String> = pool.hosts().map(|host| host.to_string()).collect();
        assert_eq!(hosts, ["10.9.128.2", "10.9.128.3", "10.9.128.4", "10.9.128.5", "10.9.128.6"]);
        assert_eq!(Pool::parse("255.255.255.252/30").unwrap().hosts().count(), 1);
        assert_eq!(Pool::parse("10.9.0.0/16").unwrap().hosts().count(), 65_533);
        for bad in ["10.9.128.1/24", "10.0.0.0/8", "10.9.0.0/31", "fd00::/64", "10.9.0.0", "x/24"] {
            assert!(Pool::parse(bad).is_err(), "{bad}");
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
