//! Checks of `[[proxy]]` and `[proxies]`.
//!
//! They find contradictions, and rules that would divert the tunnel's own packets.

use super::bits_behind_length;
use crate::config::diagnose::Report;
use crate::config::proxy::{Proxy, proxy_prefix};
use crate::config::read::At;
use crate::config::{Config, prefix};
use std::net::IpAddr;
use std::ops::Range;
use weft_engine::Prefix;
use weft_tcp_er::nft;
use weft_tcp_er::proxy::permit::Permit;
use weft_tcp_er::proxy::{Shade, shades};

/// Reports all mistakes in the proxies of `config`.
pub fn check(config: &Config, report: &Report) {
    rules(config, report);
    let Some(first) = config.proxies.each.first() else { return };
    if nft::program().is_none() {
        report.error(first.span.clone(), "proxies need nft, which is missing", Some("apt install nftables".to_owned()));
    }
    for (i, proxy) in config.proxies.each.iter().enumerate() {
        let rule = config.proxy_rule(&proxy.value);
        let earlier = config.proxies.each.iter().take(i);
        for (other, _) in earlier.enumerate().filter(|(_, other)| config.proxy_rule(&other.value).overlaps(&rule)) {
            let message = format!(
                "[[proxy]] number {} and number {} accept the same connections: change `to`, `ports` or `side` of one",
                other + 1,
                i + 1
            );
            report.error(proxy.span.clone(), message, None);
        }
        for (span, to) in prefixes(config, proxy) {
            own_packets(config, &span, to, report);
        }
        for at in proxy.value.to.iter().flatten() {
            bits_behind_length(at, report);
            behind_peers(config, at, report);
        }
    }
}

/// Reports rules of `[proxies]` that never apply, because earlier rules match all their connections.
///
/// It also warns of rules without a `[[proxy]]` table.
fn rules(config: &Config, report: &Report) {
    let rules = &config.proxies.rules;
    if let Some(first) = rules.first().filter(|_| config.proxies.each.is_empty()) {
        let help = "add a [[proxy]], or leave the rules to the firewall";
        report.warning(
            first.span.clone(),
            "rules of [proxies] have no effect without a [[proxy]]",
            Some(help.to_owned()),
        );
    }
    let permits: Vec<Permit> = rules.iter().map(|at| at.value.permit()).collect();
    for (index, rule) in rules.iter().enumerate() {
        let all = rule.value.from.iter().chain(&rule.value.to);
        all.for_each(|at| bits_behind_length(at, report));
        if let Some(why) = shadow(&shades(permits.get(..=index).unwrap_or_default())) {
            let message = format!("[[proxies.rule]] number {} never applies: {why}", index + 1);
            let help = "the first matching rule applies: move the narrower one up, or remove one";
            report.error(rule.span.clone(), message, Some(help.to_owned()));
        }
    }
}

/// Returns the reason why a rule never applies, as text, or `None` if it can apply.
///
/// `shades` are the earlier rules that match its connections, or another reason for which it never decides.
fn shadow(shades: &[Shade]) -> Option<String> {
    let numbers = shades.iter().filter_map(|shade| if let Shade::Rule(index) = shade { Some(index + 1) } else { None });
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    match (shades, numbers.as_slice()) {
        ([], _) => None,
        ([Shade::Family, ..], _) => Some("`from` and the servers have no address family in common".to_owned()),
        (_, []) => {
            Some("a proxy never connects to loopback, link-local, multicast and unspecified addresses".to_owned())
        }
        (_, [one]) => {
            Some(format!("the earlier [[proxies.rule]] number {one} matches all connections that this rule matches"))
        }
        (_, many) => Some(format!(
            "the earlier [[proxies.rule]] numbers {} together match all connections that this rule matches",
            many.join(" and ")
        )),
    }
}

/// Returns the prefixes that a `[[proxy]]` table covers, each with its place in the source.
fn prefixes(config: &Config, proxy: &At<Proxy>) -> Vec<(Range<usize>, Prefix)> {
    match &proxy.value.to {
        Some(to) => to.iter().map(|at| (at.span.clone(), at.value)).collect(),
        None => {
            let peers = config.peers.iter().flat_map(|peer| &peer.prefixes);
            peers.map(|at| (proxy.span.clone(), at.value)).collect()
        }
    }
}

/// Reports a prefix that contains the address of a peer, or that is this node's own address.
///
/// A proxy must not divert the packets of the tunnel itself, which go to these addresses.
fn own_packets(config: &Config, span: &Range<usize>, to: Prefix, report: &Report) {
    let holds = |address: IpAddr| {
        let one = Prefix { address, length: prefix::host_bits(address) };
        proxy_prefix(to).holds(&proxy_prefix(one))
    };
    let endpoints = config.peers.iter().flat_map(|peer| peer.endpoints.iter().map(move |endpoint| (peer, endpoint)));
    if let Some((peer, endpoint)) = endpoints.into_iter().find(|(_, endpoint)| holds(endpoint.ip())) {
        let written = prefix::text(to);
        let message = format!(
            "this [[proxy]] applies to the prefix `{written}`, which contains the endpoint {endpoint} of peer `{}`: \
             the proxy would divert the tunnel's own packets",
            peer.name.value
        );
        let help = "list in `to` only prefixes behind the peers, without the peers' endpoints";
        report.error(span.clone(), message, Some(help.to_owned()));
    }
    let own = config
        .tun
        .addresses
        .iter()
        .find(|own| to.address == own.address && to.length == prefix::host_bits(own.address));
    if own.is_some() {
        let message = format!(
            "this [[proxy]] applies to the prefix `{}`, which is this node's own address, but a proxy works only for \
             addresses behind a peer",
            prefix::text(to)
        );
        report.error(span.clone(), message, Some("write an address that lies behind a peer".to_owned()));
    }
}

/// Reports a prefix that is behind no peer.
///
/// In a network with certificates it reports nothing, because peers join that the file does not list.
fn behind_peers(config: &Config, at: &At<Prefix>, report: &Report) {
    if config.network.is_some() {
        return;
    }
    let to = proxy_prefix(at.value);
    let mut behind = config.peers.iter().flat_map(|peer| &peer.prefixes).map(|at| proxy_prefix(at.value));
    if !report.is_partial() && !behind.any(|prefix| prefix.holds(&to) || to.holds(&prefix)) {
        let message = format!(
            "this [[proxy]] applies to the prefix `{}`, which is behind no peer, but a proxy works only for addresses \
             behind a peer",
            prefix::text(at.value)
        );
        report.error(at.span.clone(), message, Some("put one of the peers' prefixes in `to`".to_owned()));
    }
}
