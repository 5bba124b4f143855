//! Which connections the proxy may make: ordered rules, and addresses that no rule opens.
//!
//! The proxy ends a client's connection and makes one of its own, so the FORWARD chain of the firewall never sees either. These rules
//! stand in its place. The first rule that matches decides; what no rule matches is allowed. IPv4-mapped IPv6 addresses are judged as
//! the IPv4 addresses they lead to, and an IPv6 client reaches none of them.

use super::policy::{Ports, Prefix, items, list};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// What a rule decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The connection is made.
    Allow,
    /// The client's connection is reset.
    Deny,
}

/// A rule for connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit {
    /// What it decides.
    pub verdict: Verdict,
    /// Clients; empty: all.
    pub from: Vec<Prefix>,
    /// Servers; none: nothing matches.
    pub to: Vec<Prefix>,
    /// The servers' ports; empty: all.
    pub ports: Vec<Ports>,
}

impl Permit {
    /// Whether it decides about a connection between canonical addresses.
    fn matches(&self, from: IpAddr, to: SocketAddr) -> bool {
        let holds = |prefixes: &[Prefix], address| prefixes.iter().any(|prefix| prefix.contains(address));
        let port = to.port();
        (self.from.is_empty() || holds(&self.from, from))
            && holds(&self.to, to.ip())
            && (self.ports.is_empty() || self.ports.iter().any(|ports| (ports.first..=ports.last).contains(&port)))
    }
}

const VERDICTS: [(&str, Verdict); 2] = [("allow", Verdict::Allow), ("deny", Verdict::Deny)];

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.verdict == Verdict::Allow { "allow" } else { "deny" };
        write!(f, "{verdict} {} {} {}", list(&self.from), list(&self.to), list(&self.ports))
    }
}

impl FromStr for Permit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Permit, &'static str> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or("a permit is a verdict, clients, servers and ports");
        let (verdict, from, to, ports) = (word()?, word()?, word()?, word()?);
        let verdict = VERDICTS.iter().find(|(name, _)| *name == verdict).ok_or("there is no such verdict")?.1;
        Ok(Permit { verdict, from: items(from)?, to: items(to)?, ports: items(ports)? })
    }
}

/// Addresses that no rule opens, and what they are.
pub const CLOSED: [(Prefix, &str); 9] = [
    (v4([0, 0, 0, 0], 8), "unspecified"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([255, 255, 255, 255], 32), "broadcast"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    // IPv4-compatible addresses (RFC 4291 section 2.5.5.1) name the same hosts as IPv4 ones, and nobody uses them.
    (v6([0; 8], 96), "unspecified"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> Prefix {
    Prefix { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], length: u8) -> Prefix {
    Prefix { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), length }
}

/// What the addresses of this prefix are, if no rule opens them.
pub fn closed(address: IpAddr) -> Option<&'static str> {
    CLOSED.iter().find(|(prefix, _)| prefix.contains(address)).map(|(_, kind)| *kind)
}

/// Why a connection is not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The rule with this number, from 1, denies it.
    Rule(usize),
    /// The server's address is of this kind.
    Closed(&'static str),
    /// The server's address carries the tunnel.
    Tunnel,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Rule(number) => write!(f, "[[proxies.rule]] {number} denies it"),
            Refusal::Closed(kind) => write!(f, "a proxy connects to no {kind} address"),
            Refusal::Tunnel => write!(f, "this endpoint carries the tunnel"),
        }
    }
}

/// All that is asked before a connection is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The rules, in order.
    pub rules: Vec<Permit>,
    /// Endpoints of the tunnel itself.
    pub endpoints: Vec<SocketAddr>,
}

impl Access {
    /// Whether a connection from a client to a server may be made.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self, from: IpAddr, to: SocketAddr) -> Result<(), Refusal> {
        let (from, to) = (from.to_canonical(), SocketAddr::new(to.ip().to_canonical(), to.port()));
        if let Some(kind) = closed(to.ip()) {
            return Err(Refusal::Closed(kind));
        }
        if from.is_ipv4() != to.is_ipv4() {
            return Err(Refusal::Closed("IPv4-mapped"));
        }
        if self.endpoints.iter().any(|own| (own.ip().to_canonical(), own.port()) == (to.ip(), to.port())) {
            return Err(Refusal::Tunnel);
        }
        match self.rules.iter().enumerate().find(|(_, rule)| rule.matches(from, to)) {
            Some((at, Permit { verdict: Verdict::Deny, .. })) => Err(Refusal::Rule(at + 1)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "permit_tests.rs"]
mod tests;
