//! Access control of the proxy: ordered rules, and addresses that no rule can open.
//!
//! The proxy ends a client's connection and makes a new one, so the firewall's FORWARD chain sees neither. These rules
//! replace that chain. The first matching rule decides. A connection that no rule matches is allowed. An IPv4-mapped
//! IPv6 address is matched as its IPv4 address, and an IPv6 client cannot reach such an address.

use super::policy::{PolicyPrefix, PortRange, items, list};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Decision of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleVerdict {
    /// The proxy connects to the server.
    Allow,
    /// The proxy resets the client's connection.
    Deny,
}

/// An access rule for connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permit {
    /// Decision of the rule.
    pub verdict: RuleVerdict,
    /// Prefixes of the clients that the rule matches. An empty list matches all clients.
    pub from: Vec<PolicyPrefix>,
    /// Prefixes of the servers that the rule matches. An empty list matches no server.
    pub to: Vec<PolicyPrefix>,
    /// Ports of the servers that the rule matches. An empty list matches all ports.
    pub ports: Vec<PortRange>,
}

impl Permit {
    /// True if the rule matches a connection from `from` to `to`. IPv4-mapped addresses must be converted before.
    fn matches(&self, from: IpAddr, to: SocketAddr) -> bool {
        let holds = |prefixes: &[PolicyPrefix], address| prefixes.iter().any(|prefix| prefix.contains(address));
        let port = to.port();
        (self.from.is_empty() || holds(&self.from, from))
            && holds(&self.to, to.ip())
            && (self.ports.is_empty() || self.ports.iter().any(|ports| (ports.first..=ports.last).contains(&port)))
    }
}

/// Names of the verdicts in the text form of a rule.
const VERDICTS: [(&str, RuleVerdict); 2] = [("allow", RuleVerdict::Allow), ("deny", RuleVerdict::Deny)];

impl fmt::Display for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.verdict == RuleVerdict::Allow { "allow" } else { "deny" };
        write!(f, "{verdict} {} {} {}", list(&self.from), list(&self.to), list(&self.ports))
    }
}

impl FromStr for Permit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Permit, &'static str> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or("expected a verdict, clients, servers and ports");
        let (verdict, from, to, ports) = (word()?, word()?, word()?, word()?);
        let verdict = VERDICTS.iter().find(|(name, _)| *name == verdict).ok_or("unknown verdict")?.1;
        Ok(Permit { verdict, from: items(from)?, to: items(to)?, ports: items(ports)? })
    }
}

/// Prefixes of servers that no access rule can open, with the kind of their addresses.
pub const CLOSED: [(PolicyPrefix, &str); 9] = [
    (v4([0, 0, 0, 0], 8), "unspecified"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([255, 255, 255, 255], 32), "broadcast"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    // IPv4-compatible addresses (RFC 4291 §2.5.5.1) name the same hosts as IPv4 addresses, and are not in use.
    (v6([0; 8], 96), "unspecified"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> PolicyPrefix {
    PolicyPrefix { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], length: u8) -> PolicyPrefix {
    PolicyPrefix { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), length }
}

/// Returns the kind of an address to which no rule can allow connections, or `None` for other addresses.
pub fn closed(address: IpAddr) -> Option<&'static str> {
    CLOSED.iter().find(|(prefix, _)| prefix.contains(address)).map(|(_, kind)| *kind)
}

/// Reason why the proxy refuses a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PermitRefusal {
    /// The access rule with this number, counted from 1, denies the connection.
    Rule(usize),
    /// The server's address is of this kind, which no rule can open.
    Closed(&'static str),
    /// The server's address is an endpoint of the tunnel.
    Tunnel,
}

impl fmt::Display for PermitRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PermitRefusal::Rule(number) => write!(f, "[[proxies.rule]] number {number} denies the connection"),
            PermitRefusal::Closed(kind) => write!(f, "a proxy never connects to servers with {kind} addresses"),
            PermitRefusal::Tunnel => write!(f, "the server's address and port are an endpoint of the tunnel itself"),
        }
    }
}

/// The access rules and addresses by which the proxy decides whether it connects a client to a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessCheck {
    /// The access rules, of which the first that matches decides.
    pub rules: Vec<Permit>,
    /// Addresses and ports of this node's and of peers' endpoints of the tunnel itself. No rule can open them.
    pub endpoints: Vec<SocketAddr>,
}

impl AccessCheck {
    /// Checks whether a client may connect to a server.
    ///
    /// # Errors
    /// [`PermitRefusal`] with the reason.
    pub fn judge(&self, from: IpAddr, to: SocketAddr) -> Result<(), PermitRefusal> {
        let (from, to) = (from.to_canonical(), SocketAddr::new(to.ip().to_canonical(), to.port()));
        if let Some(kind) = closed(to.ip()) {
            return Err(PermitRefusal::Closed(kind));
        }
        if from.is_ipv4() != to.is_ipv4() {
            return Err(PermitRefusal::Closed("IPv4-mapped"));
        }
        if self.endpoints.iter().any(|own| (own.ip().to_canonical(), own.port()) == (to.ip(), to.port())) {
            return Err(PermitRefusal::Tunnel);
        }
        match self.rules.iter().enumerate().find(|(_, rule)| rule.matches(from, to)) {
            Some((at, Permit { verdict: RuleVerdict::Deny, .. })) => Err(PermitRefusal::Rule(at + 1)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "permit_tests.rs"]
mod tests;
