//! Parsing of `[[proxy]]` and `[proxies]`.
//!
//! The former selects the TCP connections that pass through proxies. The latter has settings for all proxies.

use super::read::{At, Choice, Section};
use super::{Config, prefix};
use toml::de::DeValue;
use weft_engine::Prefix;
use weft_tcp_er::proxy::permit::{AccessCheck, Permit, RuleVerdict};
use weft_tcp_er::proxy::policy::{PolicyPrefix as ProxyPrefix, PortRange, ProxyPolicy, ProxyRule, Side};

/// Default of `capacity`, in connections.
const CAPACITY: i64 = 16_384;
/// Maximum of `capacity`, in connections.
const MAX_CAPACITY: i64 = 1 << 20;
/// Default of `congestion`: the congestion controls to try, in this order.
const CONGESTION: [&str; 2] = ["weft_er", "bbr"];

impl Choice for Side {
    const NAMES: &'static [(&'static str, Side)] = Side::NAMES;
}

/// A `[[proxy]]` table.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Prefixes of the servers; absent: all prefixes of the peers.
    pub to: Option<Vec<At<Prefix>>>,
    /// Ports of servers; empty: all.
    pub ports: Vec<PortRange>,
    /// Side of the tunnel on which the proxied connections begin.
    pub side: Side,
}

/// All `[[proxy]]` tables, and `[proxies]`.
#[derive(Clone, Debug)]
pub struct Proxies {
    /// Maximum number of simultaneous connections.
    pub capacity: usize,
    /// Congestion controls to try for connections between proxies, the best first.
    pub congestion: Vec<String>,
    /// `[[proxies.rule]]`, in order: the connections to servers that the proxy may make.
    pub rules: Vec<At<AccessRule>>,
    /// The `[[proxy]]` tables.
    pub each: Vec<At<Proxy>>,
}

/// A `[[proxies.rule]]` table.
#[derive(Clone, Debug)]
pub struct AccessRule {
    /// Verdict of the rule: allow or deny.
    pub verdict: RuleVerdict,
    /// Prefixes of clients; empty: all.
    pub from: Vec<At<Prefix>>,
    /// Prefixes of servers.
    pub to: Vec<At<Prefix>>,
    /// Ports of servers; empty: all.
    pub ports: Vec<PortRange>,
}

impl AccessRule {
    /// Returns the rule as the type that the proxy uses.
    pub fn permit(&self) -> Permit {
        let prefixes = |all: &[At<Prefix>]| all.iter().map(|at| proxy_prefix(at.value)).collect();
        Permit { verdict: self.verdict, from: prefixes(&self.from), to: prefixes(&self.to), ports: self.ports.clone() }
    }
}

impl Default for Proxies {
    fn default() -> Proxies {
        let congestion = CONGESTION.map(str::to_owned).into();
        Proxies { capacity: CAPACITY as usize, congestion, rules: Vec::new(), each: Vec::new() }
    }
}

impl Config {
    /// Returns the policy of the proxy, or `None` if no proxy is configured.
    pub fn proxy_policy(&self) -> Option<ProxyPolicy> {
        let Proxies { capacity, congestion, rules: _, each } = &self.proxies;
        let rules: Vec<ProxyRule> = each.iter().map(|at| self.proxy_rule(&at.value)).collect();
        let access = self.proxy_access();
        (!rules.is_empty()).then(|| ProxyPolicy { capacity: *capacity, congestion: congestion.clone(), rules, access })
    }

    /// Returns the connections that the proxy may make.
    ///
    /// The proxy never connects to the endpoints of nodes in the configuration, even if a rule allows it.
    pub fn proxy_access(&self) -> AccessCheck {
        let peers = self.peers.iter().flat_map(|peer| peer.endpoints.iter().copied());
        let network = self.network.iter().flat_map(|network| {
            let own = network.endpoints.iter().map(|at| at.value);
            own.chain(network.contacts.iter().map(|at| at.value.1))
        });
        AccessCheck {
            rules: self.proxies.rules.iter().map(|at| at.value.permit()).collect(),
            endpoints: peers.chain(network).collect(),
        }
    }

    /// Returns a `[[proxy]]` table with its defaults filled in.
    pub fn proxy_rule(&self, proxy: &Proxy) -> ProxyRule {
        let peers = self.peers.iter().flat_map(|peer| &peer.prefixes);
        let to = match &proxy.to {
            Some(to) => to.iter().map(|at| proxy_prefix(at.value)).collect(),
            None => peers.map(|at| proxy_prefix(at.value)).collect(),
        };
        ProxyRule { side: proxy.side, to, ports: proxy.ports.clone() }
    }
}

/// Returns the prefix as the type that the proxy uses, with all host bits zero.
pub fn proxy_prefix(of: Prefix) -> ProxyPrefix {
    let Prefix { address, length } = prefix::trimmed(of);
    ProxyPrefix { address, length }
}

/// Parses `[proxies]`.
pub fn read_all(mut section: Section<'_, '_>) -> Proxies {
    let capacity = section.integer("capacity", 1..MAX_CAPACITY + 1).map_or(CAPACITY, |at| at.value);
    let congestion = section.list("congestion", "[\"bbr\"]", congestion_name);
    let rules = section.sections("rule", "[[proxies.rule]]").into_iter().filter_map(access_rule).collect();
    section.finish();
    let congestion = congestion.map(|names| names.into_iter().map(|at| at.value).collect());
    let default = Proxies::default();
    let congestion = congestion.unwrap_or(default.congestion);
    Proxies { capacity: capacity as usize, congestion, rules, each: default.each }
}

/// Parses a `[[proxies.rule]]` table.
fn access_rule(mut section: Section<'_, '_>) -> Option<At<AccessRule>> {
    const EXAMPLE: &str = "[\"10.6.0.0/16\"]";
    let span = section.span();
    let [allow, deny] = ["allow", "deny"].map(|key| section.list(key, EXAMPLE, unmapped));
    let from = section.list("from", EXAMPLE, unmapped).unwrap_or_default();
    let ports = ports(&mut section);
    let both = section.has("allow") && section.has("deny");
    if both || !(section.has("allow") || section.has("deny")) {
        let message = if both { "a rule cannot `allow` and `deny`" } else { "a rule needs `allow` or `deny`" };
        let help = "set one of them to prefixes of servers: deny = [\"10.6.0.0/16\"]; all servers are [\"0.0.0.0/0\", \
            \"::/0\"]";
        section.complain(span.clone(), message, help);
    }
    for key in ["allow", "deny", "from"] {
        let value = section.value(key).and_then(|value| value.get_ref().as_array());
        if value.is_some_and(|items| items.is_empty()) {
            let help = "list prefixes; all addresses are [\"0.0.0.0/0\", \"::/0\"]";
            let message =
                format!("`{key}` is empty, so this [[proxies.rule]] would match no connection: list prefixes in it");
            section.complain(section.key_span(key), &message, help);
        }
    }
    section.finish();
    let (verdict, to) = match (allow, deny) {
        (Some(to), None) => (RuleVerdict::Allow, to),
        (None, Some(to)) => (RuleVerdict::Deny, to),
        _ => return None,
    };
    Some(At { value: AccessRule { verdict, from, to, ports }, span })
}

/// Parses a prefix, but refuses one of IPv4-mapped IPv6 addresses.
///
/// The proxy compares a connection to such an address with the rules for IPv4.
fn unmapped(text: &str) -> Result<Prefix, String> {
    let prefix = prefix::parse(text)?;
    match prefix.address {
        std::net::IpAddr::V6(address) if prefix.length >= 96 => match address.to_ipv4_mapped() {
            Some(plain) => {
                let length = prefix.length - 96;
                Err(format!("[[proxies.rule]] treats an IPv4-mapped prefix as IPv4: write {plain}/{length}"))
            }
            None => Ok(prefix),
        },
        _ => Ok(prefix),
    }
}

fn congestion_name(text: &str) -> Result<String, &'static str> {
    // The kernel's TCP_CA_NAME_MAX is 16 bytes, including the final zero.
    match text.len() {
        1..=15 if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => Ok(text.to_owned()),
        _ => Err("the name of a congestion control must be 1 to 15 letters, digits or underscores"),
    }
}

/// Parses a `[[proxy]]` table.
pub fn read(mut section: Section<'_, '_>) -> At<Proxy> {
    let span = section.span();
    let to = section.list("to", "[\"10.9.0.0/24\"]", prefix::parse);
    if to.as_ref().is_some_and(Vec::is_empty) {
        section.complain(
            section.key_span("to"),
            "`to` is empty: no connection would be proxied",
            "leave it out for all peers",
        );
    }
    let ports = ports(&mut section);
    let side = section.choice("side").unwrap_or(Side::Both);
    section.finish();
    At { value: Proxy { to, ports, side }, span }
}

/// Parses an array of port numbers, and of ranges as text.
fn ports(section: &mut Section<'_, '_>) -> Vec<PortRange> {
    const EXAMPLE: &str = "for example ports = [80, \"5201-5210\"]";
    let Some(value) = section.value("ports") else { return Vec::new() };
    let Some(items) = value.get_ref().as_array().filter(|items| !items.is_empty()) else {
        section.complain(value.span(), "`ports` must be an array of ports and ranges", EXAMPLE);
        return Vec::new();
    };
    let read = |item: &toml::Spanned<DeValue<'_>>| {
        let text = match item.get_ref() {
            DeValue::Integer(number) => number.as_str(),
            DeValue::String(text) => text,
            _ => "",
        };
        let ports = text.parse::<PortRange>();
        ports.map_err(|why| section.complain(item.span(), &format!("`{text}`: {why}"), EXAMPLE)).ok()
    };
    items.iter().filter_map(read).collect()
}
