//! The proxy's instructions, and the one-line text form in which the daemon sends them.

use super::permit::AccessCheck;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Edges at which the connections of a rule are proxied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// At both edges.
    Both,
    /// At the edge where the connection enters the tunnel.
    Ingress,
    /// At the edge where the connection leaves the tunnel.
    Egress,
}

impl Side {
    /// Name of each side in the configuration and in the text form.
    pub const NAMES: &'static [(&'static str, Side)] =
        &[("both", Side::Both), ("ingress", Side::Ingress), ("egress", Side::Egress)];

    /// True if connections are proxied where they enter the tunnel.
    pub fn has_ingress(self) -> bool {
        self != Side::Egress
    }

    /// True if connections are proxied where they leave the tunnel.
    pub fn has_egress(self) -> bool {
        self != Side::Ingress
    }
}

/// A range of TCP ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// First port of the range.
    pub first: u16,
    /// Last port of the range. It is not below the first.
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PortRange, &'static str> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse().ok().filter(|port| *port > 0);
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(PortRange { first, last }),
            (Some(_), Some(_)) => Err("the first port is above the last: write the lower port first"),
            _ => Err("expected a port from 1 to 65535, or a range such as 5201-5210"),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// An address prefix. The bits behind its length are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PolicyPrefix {
    /// Address of the prefix.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub length: u8,
}

impl PolicyPrefix {
    /// True if the prefix contains this address. IPv4-mapped addresses are not converted.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.holds(&PolicyPrefix { address, length: u8::MAX })
    }

    /// True if the prefix contains `other`.
    pub fn holds(&self, other: &PolicyPrefix) -> bool {
        self.length <= other.length
            && match (self.address, other.address) {
                (IpAddr::V4(a), IpAddr::V4(b)) => starts_alike(a.to_bits().into(), b.to_bits().into(), 32, self.length),
                (IpAddr::V6(a), IpAddr::V6(b)) => starts_alike(a.to_bits(), b.to_bits(), 128, self.length),
                _ => false,
            }
    }
}

fn starts_alike(a: u128, b: u128, width: u32, length: u8) -> bool {
    (a ^ b).checked_shr(width.saturating_sub(length.into())).unwrap_or(0) == 0
}

impl FromStr for PolicyPrefix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PolicyPrefix, &'static str> {
        let (address, length) = text.split_once('/').ok_or("expected a prefix length")?;
        let address: IpAddr = address.parse().map_err(|_| "not an IP address")?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.parse().ok().filter(|length| *length <= most).ok_or("the prefix length is too long")?;
        Ok(PolicyPrefix { address, length })
    }
}

impl fmt::Display for PolicyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Selects the connections to proxy by the host behind the peer and the server's port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyRule {
    /// Edges at which the connections are proxied.
    pub side: Side,
    /// Prefixes behind the peers: of servers at the ingress edge, of clients at the egress edge.
    ///
    /// An empty list matches none.
    pub to: Vec<PolicyPrefix>,
    /// Ports of the servers. An empty list matches all.
    pub ports: Vec<PortRange>,
}

impl ProxyRule {
    /// True if one connection could match both rules at the same edge.
    pub fn overlaps(&self, other: &ProxyRule) -> bool {
        let sides = self.side == Side::Both || other.side == Side::Both || self.side == other.side;
        let meets = |a: &PolicyPrefix| other.to.iter().any(|b| a.holds(b) || b.holds(a));
        let within = |a: &PortRange| other.ports.iter().any(|b| a.first <= b.last && b.first <= a.last);
        let ports = self.ports.is_empty() || other.ports.is_empty() || self.ports.iter().any(within);
        sides && ports && self.to.iter().any(meets)
    }
}

impl fmt::Display for ProxyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = Side::NAMES.iter().find(|(_, side)| *side == self.side).map_or("both", |(name, _)| *name);
        write!(f, "{side} {} {}", list(&self.to), list(&self.ports))
    }
}

impl FromStr for ProxyRule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ProxyRule, &'static str> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or("expected a side, prefixes and ports");
        let (side, to, ports) = (word()?, word()?, word()?);
        let side = Side::NAMES.iter().find(|(name, _)| *name == side).ok_or("unknown side")?.1;
        Ok(ProxyRule { side, to: items(to)?, ports: items(ports)? })
    }
}

/// The daemon's instructions to the proxy. The daemon sends them again after each reload of its configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProxyPolicy {
    /// Maximum number of simultaneous connections that the proxy should accept.
    pub capacity: usize,
    /// Names of congestion controls for TCP connections between proxies, the best first.
    pub congestion: Vec<String>,
    /// Rules that select the connections to proxy.
    pub rules: Vec<ProxyRule>,
    /// Access rules for these connections.
    pub access: AccessCheck,
}

impl fmt::Display for ProxyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.capacity, list(&self.congestion))?;
        self.rules.iter().try_for_each(|rule| write!(f, ";{rule}"))?;
        self.access.rules.iter().try_for_each(|rule| write!(f, ";{rule}"))?;
        match self.access.endpoints.as_slice() {
            [] => Ok(()),
            endpoints => write!(f, ";tunnel {}", list(endpoints)),
        }
    }
}

impl FromStr for ProxyPolicy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ProxyPolicy, &'static str> {
        let mut parts = text.split(';');
        let (capacity, congestion) = parts
            .next()
            .and_then(|head| head.split_once(' '))
            .ok_or("a capacity and congestion controls are missing")?;
        let capacity = capacity.parse().map_err(|_| "the capacity is not a number")?;
        let congestion = match congestion {
            "*" => Vec::new(),
            names => names.split(',').map(str::to_owned).collect(),
        };
        let mut policy = ProxyPolicy { capacity, congestion, ..ProxyPolicy::default() };
        for part in parts {
            match part.split_once(' ') {
                Some(("allow" | "deny", _)) => policy.access.rules.push(part.parse()?),
                Some(("tunnel", endpoints)) => {
                    let endpoint = |text: &str| text.parse().map_err(|_| "an endpoint must be an address and a port");
                    policy.access.endpoints = endpoints.split(',').map(endpoint).collect::<Result<_, _>>()?;
                }
                _ => policy.rules.push(part.parse()?),
            }
        }
        Ok(policy)
    }
}

/// Returns the items as text, separated by commas. `*` stands for the empty list.
pub(super) fn list<T: fmt::Display>(items: &[T]) -> String {
    match items {
        [] => "*".to_owned(),
        items => items.iter().map(T::to_string).collect::<Vec<_>>().join(","),
    }
}

/// Parses the text of a list as [`list`] writes it.
pub(super) fn items<T: FromStr<Err = &'static str>>(text: &str) -> Result<Vec<T>, &'static str> {
    match text {
        "*" => Ok(Vec::new()),
        text => text.split(',').map(str::parse).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_its_line() {
        for line in [
            "16384 weft_er,bbr;both 10.9.0.0/24,fd00::/64 80,5201-5210;egress 10.8.0.0/16 *",
            "1 *",
            "9 cubic;ingress 0.0.0.0/0 443",
            "9 *;both ::/0 *;deny 10.5.0.0/16 10.6.0.0/16,fd00::/8 22,80-90;allow * ::/0 *;tunnel 192.0.2.1:5,[::1]:6",
        ] {
            assert_eq!(line.parse::<ProxyPolicy>().unwrap().to_string(), line);
        }
        for bad in [
            "",
            "x *",
            "1 *;both",
            "1 *;left 10.0.0.0/8 1",
            "1 *;both 10.0.0.0/33 1",
            "1 *;both 10.0.0.0/8 0",
            "1 *;deny 10.0.0.0/8 22",
            "1 *;allow * 10.0.0.0/40 *",
            "1 *;tunnel 192.0.2.1",
        ] {
            assert!(bad.parse::<ProxyPolicy>().is_err(), "{bad}");
        }
    }

    #[test]
    fn overlaps() {
        let overlap = |a: &str, b: &str| {
            let (a, b): (ProxyRule, ProxyRule) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(a.overlaps(&b), b.overlaps(&a));
            a.overlaps(&b)
        };
        assert!(overlap("both 10.9.0.0/24 80", "ingress 10.9.0.7/32 *"));
        assert!(overlap("egress 0.0.0.0/0 1-100", "both 10.9.0.0/24 100-200"));
        assert!(!overlap("both 10.9.0.0/24 80", "both 10.9.0.0/24 81"));
        assert!(!overlap("both 10.9.0.0/24 80", "both 10.9.1.0/24 80"));
        assert!(!overlap("ingress 10.9.0.0/24 80", "egress 10.9.0.0/24 80"));
        assert!(!overlap("both ::/0 80", "both 0.0.0.0/0 80"));
    }
}
