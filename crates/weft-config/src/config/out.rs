//! Parsing of `[out]`: this machine's own traffic leaves through a peer.

use super::Config;
use super::diagnose::Report;
use super::host_name;
use super::read::{At, Section};
use std::net::IpAddr;

/// Maximum number of servers that a resolver asks (*standard*: `MAXNS`, resolv.conf(5)).
const MAX_SERVERS: usize = 3;
/// Maximum number of search domains that every resolver accepts (*standard*: `MAXDNSRCH`, resolv.conf(5)).
const MAX_DOMAINS: usize = 6;

/// `[out]`: settings of a node that reaches the Internet through a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoingOut {
    /// `kill-switch`, with its place in the source: nothing leaves this machine unencrypted.
    pub kill_switch: Option<At<()>>,
    /// `lan`: true if the kill switch lets traffic to the links' own IP networks pass.
    pub lan: bool,
    /// DNS servers of this machine while the node runs; empty: the machine keeps its own.
    pub dns: Vec<At<IpAddr>>,
    /// Domains that a resolver appends to names without a dot.
    pub search: Vec<At<String>>,
}

impl Default for GoingOut {
    fn default() -> GoingOut {
        GoingOut { kill_switch: None, lan: true, dns: Vec::new(), search: Vec::new() }
    }
}

impl GoingOut {
    /// Returns true if names of endpoints must be looked up without the machine's resolver.
    ///
    /// The resolver's requests then pass through the tunnel, which cannot exist before the endpoints are known.
    pub fn hides_resolver(&self) -> bool {
        self.kill_switch.is_some() || !self.dns.is_empty()
    }
}

/// Parses `[out]`.
pub fn read(mut section: Section<'_, '_>) -> GoingOut {
    let span = section.key_span("kill-switch");
    let kill_switch = section.flag("kill-switch").filter(|is_on| *is_on).map(|_| At { value: (), span });
    let lan = section.flag("lan").unwrap_or(true);
    if !lan && kill_switch.is_none() {
        let help = "without a kill switch, routes alone decide: add kill-switch = true, or remove `lan`";
        section.complain(section.key_span("lan"), "`lan` needs `kill-switch`", help);
    }
    let dns = section.list("dns", "[\"10.9.0.2\"]", server).unwrap_or_default();
    let search = section.list("search", "[\"corp.example\"]", domain).unwrap_or_default();
    section.finish();
    GoingOut { kill_switch, lan, dns, search }
}

fn server(text: &str) -> Result<IpAddr, &'static str> {
    let address: IpAddr = text.parse().map_err(|_| "expected the IP address of a DNS server")?;
    match address.is_loopback() || address.is_multicast() || address.is_unspecified() {
        true => Err("the tunnel cannot reach a DNS server at a loopback, multicast or unspecified address"),
        false => Ok(address),
    }
}

fn domain(text: &str) -> Result<String, &'static str> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    match host_name::is_name(&name) {
        true => Ok(name),
        false => Err("expected a domain name without a port, such as corp.example"),
    }
}

/// Reports contradictions of `[out]` with other settings.
pub fn check(config: &Config, report: &Report) {
    let out = &config.out;
    if let Some(at) = out.dns.get(MAX_SERVERS) {
        let message = format!(
            "`dns` has more than {MAX_SERVERS} servers, but resolvers ask only the first {MAX_SERVERS}: remove some"
        );
        report.error(at.span.clone(), message, Some("remove the others".to_owned()));
    }
    if let Some(at) = out.search.get(MAX_DOMAINS) {
        let message = format!(
            "`search` has more than {MAX_DOMAINS} domains, but resolvers take only the first {MAX_DOMAINS}: remove some"
        );
        report.error(at.span.clone(), message, Some("remove the others".to_owned()));
    }
    if report.is_partial() {
        return;
    }
    if let (Some(at), []) = (out.search.first(), &out.dns[..]) {
        let help = Some("for example dns = [\"10.9.0.2\"]".to_owned());
        report.error(at.span.clone(), "`search` needs `dns`: it names domains of those servers".to_owned(), help);
    }
    // In a network with certificates, a peer may have prefixes that the file does not name.
    let is_lost = |at: &&At<IpAddr>| config.network.is_none() && !is_behind_peer(config, at.value);
    for at in out.dns.iter().filter(is_lost) {
        let message =
            format!("the DNS server `{}` is behind no peer: queries to it would not enter the tunnel", at.value);
        let help =
            format!("add the prefix {}/{} to a peer's `prefixes`", at.value, if at.value.is_ipv4() { 32 } else { 128 });
        report.error(at.span.clone(), message, Some(help));
    }
    if let Some(at) = &out.kill_switch {
        kill_switch(config, at, report);
    }
}

fn is_behind_peer(config: &Config, address: IpAddr) -> bool {
    config.peers.iter().flat_map(|peer| &peer.prefixes).any(|at| at.value.contains(address))
}

fn kill_switch(config: &Config, at: &At<()>, report: &Report) {
    let refuse = |message: &str, help: &str| report.error(at.span.clone(), message.to_owned(), Some(help.to_owned()));
    let warn = |message: &str, help: &str| report.warning(at.span.clone(), message.to_owned(), Some(help.to_owned()));
    let has = |ipv6| config.default_routes().any(|(_, prefix)| prefix.address.is_ipv6() == ipv6);
    match (has(false), has(true)) {
        (false, false) => refuse(
            "`kill-switch` needs a default route to a peer, and no peer has the prefix 0.0.0.0/0 or ::/0",
            "add \"0.0.0.0/0\" and \"::/0\" to the `prefixes` of the peer that is the exit",
        ),
        (false, true) => warn(
            "IPv4 has no default route to a peer, so `kill-switch` rejects IPv4 packets to the Internet",
            "add \"0.0.0.0/0\" to the peer's `prefixes`",
        ),
        (true, false) => warn(
            "IPv6 has no default route to a peer, so `kill-switch` rejects IPv6 packets to the Internet",
            "add \"::/0\" to the peer's `prefixes`",
        ),
        (true, true) => {}
    }
    if !config.tun.routes {
        refuse("`kill-switch` needs the tunnel's routes, and [tun] has routes = false", "remove `routes` from [tun]");
    }
    if config.exit.is_some() {
        refuse(
            "`kill-switch` rejects the packets that [exit] forwards, so a node cannot have both settings",
            "remove one of the two",
        );
    }
    if config.access.is_some() {
        refuse(
            "`kill-switch` rejects the answers to clients of [access], so a node cannot have both settings",
            "remove one of the two",
        );
    }
    if !is_plain(&config.tun.name) {
        refuse(
            "`kill-switch` needs a [tun] `name` of letters, digits, `.`, `_` and `-`",
            "for example name = \"weft0\"",
        );
    }
    if config.out.dns.is_empty() {
        warn(
            "`kill-switch` without `dns` rejects DNS queries to a server of the local network",
            "add a server that the tunnel reaches to [out], for example dns = [\"10.9.0.2\"]",
        );
    }
}

/// Returns true if a rule of nftables can contain this interface name in quotes without escapes.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}
