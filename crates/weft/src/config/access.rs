//! `[access]`: where unmodified WireGuard clients come in.

use super::diagnose::Report;
use super::parse::interface_name;
use super::read::{At, Section};
use super::{Config, prefix};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::Prefix;
use weft_session::Certificate;

/// What the kernel says of passing packets on.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

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
    /// Name of the device they come out of.
    pub device: String,
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
    let listen = section.integer("listen", 1..65_536).map(|at| at.map(|port| port as u16));
    let pool = section.parsed("pool", "\"10.9.128.0/24\"", Pool::parse);
    let endpoint = section.parsed("endpoint", "\"vpn.example.org:51820\"", endpoint);
    let routes = section.list("routes", "[\"10.0.0.0/8\"]", prefix::parse).unwrap_or_default();
    let device = section.parsed("device", "\"weft-access0\"", interface_name);
    for (key, help) in [("listen", "a UDP port, for example 51820"), ("pool", "for example pool = \"10.9.128.0/24\"")] {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    section.finish();
    let device = device.map_or_else(|| "weft-access0".to_owned(), |at| at.value);
    Some(Access { listen: listen?, pool: pool?, endpoint, routes, device })
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

/// Reports what in the rest of the configuration, and in this node's certificate, contradicts `[access]`.
pub fn check(config: &Config, certificate: Option<&Certificate>, report: &Report) {
    let Some(access) = &config.access else { return };
    let pool = access.pool.value.prefix();
    if config.node.listen == Some(access.listen.value) {
        let message = format!("port {} is [node] `listen` already", access.listen.value);
        report.error(access.listen.span.clone(), message, Some("give clients another one, such as 51820".to_owned()));
    }
    let is_within = |other: Prefix| other.length >= pool.length && other.overlaps(pool);
    for peer in &config.peers {
        if let Some(at) = peer.prefixes.iter().find(|at| is_within(prefix::trimmed(at.value))) {
            let message = format!("the pool has `{}`, which is behind `{}`", prefix::text(at.value), peer.name.value);
            report.error(access.pool.span.clone(), message, Some("give clients addresses nobody else has".to_owned()));
        }
    }
    if let Some(own) = config.tun.addresses.iter().find(|own| is_within(prefix::trimmed(**own))) {
        let message = format!("the pool has the network of this node's own address ({} in [tun])", prefix::text(*own));
        report.error(access.pool.span.clone(), message, Some("give clients addresses nobody else has".to_owned()));
    }
    for at in &access.routes {
        super::check::bits_behind_length(at, report);
    }
    in_certificate(access, certificate, report);
    if std::fs::read_to_string(FORWARDING).is_ok_and(|text| text.trim() == "0") {
        let message = "this machine passes no packets on: clients reach only itself";
        let help = "sysctl -w net.ipv4.ip_forward=1, and the same in /etc/sysctl.d";
        report.warning(access.pool.span.clone(), message, Some(help.to_owned()));
    }
}

/// Others take from this node only what its certificate says lies behind it.
fn in_certificate(access: &Access, certificate: Option<&Certificate>, report: &Report) {
    let Some(claims) = certificate.map(Certificate::claims) else { return };
    let pool = access.pool.value;
    let mut claimed = claims.prefixes.iter().map(|&(address, length)| Prefix { address, length });
    if !claimed.any(|claimed| claimed.length <= pool.prefix().length && claimed.contains(pool.prefix().address)) {
        let message = format!("the pool {pool} is not in this node's certificate: the others drop what clients send");
        let help = format!("have it signed anew with --prefix {pool} added");
        report.warning(access.pool.span.clone(), message, Some(help));
    }
}

/// What a client shall send to the edge: what the configuration names, or the IPv4 networks it knows of.
pub fn client_routes(config: &Config, access: &Access) -> Vec<Prefix> {
    if !access.routes.is_empty() {
        return access.routes.iter().map(|at| at.value).collect();
    }
    let known =
        config.tun.addresses.iter().chain(config.peers.iter().flat_map(|peer| &peer.prefixes).map(|at| &at.value));
    let mut all: Vec<Prefix> = known.map(|known| prefix::trimmed(*known)).chain([access.pool.value.prefix()]).collect();
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
