//! Checks of `[access]` against the rest of the configuration and the node's certificate.

use crate::config::access::{Access, ClientOffer};
use crate::config::diagnose::Report;
use crate::config::read::At;
use crate::config::{AddressPool, Config, prefix};
use weft_engine::Prefix;
use weft_session::Certificate;

/// File in which the kernel states if it forwards IPv4 packets.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// Reports contradictions of `[access]` with other settings and with this node's certificate.
pub fn check(config: &Config, certificate: Option<&Certificate>, report: &Report) {
    let Some(access) = &config.access else { return };
    let mut taken: Vec<(u16, &str)> = config.node.listen.map(|port| (port, "[node]")).into_iter().collect();
    let ports = [(&access.listen, "[access]")].into_iter();
    for (at, table) in ports.chain(access.openvpn.iter().map(|openvpn| (&openvpn.listen, "[access.openvpn]"))) {
        if let Some((port, owner)) = taken.iter().find(|(port, _)| *port == at.value) {
            let message = format!("UDP port {port} is the `listen` port of both {owner} and {table}");
            report.error(at.span.clone(), message, Some("give clients another port, such as 51820".to_owned()));
        }
        taken.push((at.value, table));
    }
    for pool in access.pools() {
        overlaps(pool, config, report);
        in_certificate(pool, certificate, report);
    }
    if let Some(openvpn) =
        access.openvpn.as_ref().filter(|other| other.pool.value.prefix().overlaps(access.pool.value.prefix()))
    {
        let other = access.pool.value;
        let message = format!("the `pool` of [access.openvpn] overlaps with {other}, the `pool` of [access]");
        report.error(openvpn.pool.span.clone(), message, Some("give each a pool of its own".to_owned()));
    }
    for at in &access.routes {
        super::bits_behind_length(at, report);
    }
    names(config, access, report);
    if std::fs::read_to_string(FORWARDING).is_ok_and(|text| text.trim() == "0") {
        let message = "this machine does not forward packets: clients reach only this machine";
        let help = "sysctl -w net.ipv4.ip_forward=1, and the same in /etc/sysctl.d";
        report.warning(access.pool.span.clone(), message, Some(help.to_owned()));
    }
}

/// Checks the name servers for clients.
///
/// A client that sends all traffic to the edge needs a name server that it reaches through the edge. A name server
/// must lie in a prefix that clients send to the edge.
fn names(config: &Config, access: &Access, report: &Report) {
    let offer = ClientOffer::of(config, access);
    if offer.takes_all() && offer.dns.is_empty() {
        let message = "clients send all packets here, but query the name servers of their local network";
        let help = "set name servers that clients reach through this node: dns = [\"10.9.0.1\"]";
        report.warning(access.pool.span.clone(), message, Some(help.to_owned()));
    }
    for at in &access.dns {
        if !offer.routes.iter().any(|route| route.contains(at.value.into())) {
            let message = format!(
                "clients cannot query the name server {} through this node: no prefix that they route to this node \
                 contains this address",
                at.value
            );
            let help = format!("add {}/32 to `routes` of [access], or set another name server", at.value);
            report.error(at.span.clone(), message, Some(help));
        }
    }
}

/// Reports a pool that contains addresses of a peer or this node's own network.
fn overlaps(at: &At<AddressPool>, config: &Config, report: &Report) {
    let pool = at.value.prefix();
    let is_within = |other: Prefix| other.length >= pool.length && other.overlaps(pool);
    for peer in &config.peers {
        if let Some(other) = peer.prefixes.iter().find(|other| is_within(prefix::trimmed(other.value))) {
            let message = format!(
                "the client pool {} contains the prefix `{}`, which is behind peer `{}`",
                at.value,
                prefix::text(other.value),
                peer.name.value
            );
            report.error(at.span.clone(), message, Some("give clients addresses that no other host has".to_owned()));
        }
    }
    if let Some(own) = config.tun.addresses.iter().find(|own| is_within(prefix::trimmed(**own))) {
        let message = format!(
            "the client pool {} contains the network of this node's own address ({} in [tun])",
            at.value,
            prefix::text(*own)
        );
        report.error(at.span.clone(), message, Some("give clients addresses that no other host has".to_owned()));
    }
}

/// Warns if this node's certificate does not contain the pool.
///
/// Other nodes accept from this node only packets from the prefixes of its certificate.
fn in_certificate(at: &At<AddressPool>, certificate: Option<&Certificate>, report: &Report) {
    let Some(claims) = certificate.map(Certificate::claims) else { return };
    let pool = at.value;
    let mut claimed = claims.prefixes.iter().map(|&(address, length)| Prefix { address, length });
    if !claimed.any(|claimed| claimed.length <= pool.prefix().length && claimed.contains(pool.prefix().address)) {
        let message = format!(
            "the client pool {pool} is not in this node's certificate: other nodes drop packets from these clients"
        );
        let help = format!("have this node's certificate signed again by `weft ca sign`, with --prefix {pool} added");
        report.warning(at.span.clone(), message, Some(help));
    }
}
