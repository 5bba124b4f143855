//! Checks across several keys: contradictions between settings, and the files that settings name.
//!
//! These checks run after the whole file has been parsed. They report findings. They also read the preshared keys into
//! the configuration.

pub mod access;
mod proxies;
pub mod signal;
mod vpns;

use crate::config::diagnose::{Report, did_you_mean};
use crate::config::read::At;
use crate::config::{Config, Peer, flows, matches, out, prefix, route};
use crate::keys;
use nix::net::if_::{Interface, if_nameindex};
use weft_engine::Prefix;
use weft_session::Identity;

/// Reports all contradictions in `config`, and returns the node's private key if it can be read.
pub fn check(config: &Config, report: &Report) -> Option<Identity> {
    settings(config, report);
    let key = key(config, report)?;
    route::check(config, &key.public_key(), report);
    for peer in config.peers.iter().filter(|peer| peer.public_key.value == key.public_key()) {
        let message = format!("the `public-key` of peer `{}` is this node's own key", peer.name.value);
        report.error(peer.public_key.span.clone(), message, Some("put the peer's public key here".to_owned()));
    }
    Some(key)
}

/// Reports the contradictions between settings. Does not read the files that the settings name.
pub fn settings(config: &Config, report: &Report) {
    links(config, report);
    link_names(config, report);
    peers(config, report);
    prefixes(config, report);
    alternates(config, report);
    inner_families(config, report);
    vpns::check(config, report);
    proxies::check(config, report);
    out::check(config, report);
    flows::check(config, report);
}

fn key(config: &Config, report: &Report) -> Option<Identity> {
    let at = &config.node.key;
    keys::load(&at.value).map_err(|why| report.error(at.span.clone(), why.to_string(), None)).ok()
}

/// Reads the preshared key of each peer from the file that the configuration names.
pub fn preshared_keys(config: &mut Config, report: &Report) {
    for peer in &mut config.peers {
        let Some(file) = &peer.preshared_key_file else { continue };
        let help = "make one with `weft genpsk --out FILE`, and copy the same file to the peer over a secure channel";
        match keys::load_preshared(&file.value) {
            Ok(key) => peer.preshared_key = Some(key),
            Err(why) => report.error(file.span.clone(), why.to_string(), Some(help.to_owned())),
        }
    }
}

fn links(config: &Config, report: &Report) {
    for only in &config.links.only {
        if let Some(ignore) = config.links.ignore.iter().find(|ignore| matches(&ignore.value, &only.value)) {
            let is_never = config.link.iter().any(|link| link.tier.is_none() && link.name.span == ignore.span);
            let (reason, help) = match is_never {
                true => ("its `tier` is `never`".to_owned(), "choose another tier, or remove the link from `use`"),
                false => (
                    format!("the entry `{}` in `ignore` excludes the link `{}`", ignore.value, only.value),
                    "remove the link from one of the two lists",
                ),
            };
            let message = format!("`use` lists the link `{}`, but this node can never use it: {reason}", only.value);
            report.error(only.span.clone(), message, Some(help.to_owned()));
        }
    }
    for (i, link) in config.link.iter().enumerate() {
        if config.link[..i].iter().any(|earlier| earlier.name.value == link.name.value) {
            let message = format!("link `{}` has two [[link]] tables", link.name.value);
            report.error(link.name.span.clone(), message, Some("merge them into one".to_owned()));
        }
    }
}

/// Warns of names in `use`, of `[[link]]` tables and of weights that match no interface.
///
/// A link exists if this machine has it or `use` matches it.
fn link_names(config: &Config, report: &Report) {
    let here: Vec<String> =
        if_nameindex().map_or_else(|_| Vec::new(), |here| here.iter().filter_map(name_of).collect());
    let names: Vec<&str> = here.iter().map(String::as_str).collect();
    for only in config.links.unmatched(&names) {
        let message =
            format!("no interface on this machine matches the entry `{}` in `use`: check this entry", only.value);
        report.warning(only.span.clone(), message, did_you_mean(&only.value, names.iter().copied()));
    }
    let known =
        |name: &str| here.iter().any(|n| n == name) || config.links.only.iter().any(|only| matches(&only.value, name));
    let named = config.link.iter().map(|link| &link.name).chain(&config.weighted_links);
    let mut said = Vec::new();
    for name in named.filter(|name| !known(&name.value)) {
        if !said.contains(&&name.span) {
            said.push(&name.span);
            let message = format!(
                "the file names the link `{}`, but this machine has no such interface: check the name",
                name.value
            );
            report.warning(name.span.clone(), message, did_you_mean(&name.value, here.iter().map(String::as_str)));
        }
    }
}

fn name_of(interface: &Interface) -> Option<String> {
    interface.name().to_str().ok().map(str::to_owned)
}

fn peers(config: &Config, report: &Report) {
    for (i, peer) in config.peers.iter().enumerate() {
        for earlier in &config.peers[..i] {
            if earlier.name.value == peer.name.value {
                let help = "give each a name of its own".to_owned();
                let message = format!("two peers have the name `{}`", peer.name.value);
                report.error(peer.name.span.clone(), message, Some(help));
            }
            if earlier.public_key.value == peer.public_key.value {
                let message =
                    format!("peers `{}` and `{}` have the same public key", earlier.name.value, peer.name.value);
                let help = "put each node's own public key into its [[peer]], or merge the two tables".to_owned();
                report.error(peer.public_key.span.clone(), message, Some(help));
            }
        }
        let may_be_relayed = peer.policy.detours
            && config
                .peers
                .iter()
                .any(|other| other.name != peer.name && !(other.endpoints.is_empty() && other.names.is_empty()));
        let is_unreachable =
            peer.endpoints.is_empty() && peer.names.is_empty() && peer.via.is_empty() && !may_be_relayed;
        if is_unreachable && config.node.listen.is_none() && !report.is_partial() {
            let message = format!(
                "peer `{}` has no `endpoints` and this node has no `listen` port, so neither can call the other",
                peer.name.value
            );
            let help = "add `endpoints` to the peer, or `listen` to [node]";
            report.error(peer.name.span.clone(), message, Some(help.to_owned()));
        }
        if peer.prefixes.is_empty()
            && !report.is_partial()
            && !config.vpns.iter().any(|vpn| vpn.has_member(&peer.name.value))
        {
            let message = format!("peer `{}` has no `prefixes`, so this node sends it no packets", peer.name.value);
            report.warning(
                peer.name.span.clone(),
                message,
                Some("for example prefixes = [\"10.9.0.2/32\"]".to_owned()),
            );
        }
    }
}

/// Warns if a peer has a prefix of IPv4 or IPv6, but the tunnel has no address of this version.
///
/// Without such an address, packets of this machine to the prefix have no source address to which the peer can reply.
fn inner_families(config: &Config, report: &Report) {
    if report.is_partial() {
        return;
    }
    for (peer, at) in config.peers.iter().flat_map(|peer| peer.prefixes.iter().map(move |at| (peer, at))) {
        let ipv6 = at.value.address.is_ipv6();
        if !config.tun.addresses.iter().any(|own| own.address.is_ipv6() == ipv6) {
            let (family, example) = if ipv6 { ("IPv6", "fd00:9::2/64") } else { ("IPv4", "10.9.0.2/24") };
            let (text, name) = (prefix::text(at.value), &peer.name.value);
            let message = format!(
                "the prefix `{text}` is behind peer `{name}`, but [tun] has no {family} address: packets from this \
                 machine to this prefix get no answer"
            );
            report.warning(
                at.span.clone(),
                message,
                Some(format!("add an {family} address to `address` in [tun], for example \"{example}\"")),
            );
        }
    }
}

/// Reports a prefix with host bits: a prefix names a network, not a host in it.
pub(super) fn bits_behind_length(at: &At<Prefix>, report: &Report) {
    let value = prefix::trimmed(at.value);
    if value != at.value {
        let message = format!("the prefix `{}` has host bits set", prefix::text(at.value));
        report.error(at.span.clone(), message, Some(format!("write {}", prefix::text(value))));
    }
}

/// Reports an alternate whose prefix belongs to no other peer: it would have no effect.
fn alternates(config: &Config, report: &Report) {
    for peer in &config.peers {
        for at in &peer.alternate_for {
            bits_behind_length(at, report);
            let (value, written) = (prefix::trimmed(at.value), prefix::text(at.value));
            let has = |other: &Peer| other.prefixes.iter().any(|of| prefix::trimmed(of.value) == value);
            let name = &peer.name.value;
            let message = match has(peer) {
                true => format!(
                    "the prefix `{written}` is both in `prefixes` and in `alternate-for` of peer `{name}`: keep one"
                ),
                false if config.peers.iter().any(has) => continue,
                false => format!(
                    "peer `{name}` is an alternate for the prefix `{written}`, but no other peer has it in `prefixes`"
                ),
            };
            let help = "put exactly this prefix into `prefixes` of one peer, and into `alternate-for` of the others";
            report.error(at.span.clone(), message, Some(help.to_owned()));
        }
    }
}

fn prefixes(config: &Config, report: &Report) {
    for (i, peer) in config.peers.iter().enumerate() {
        for at in &peer.prefixes {
            let (value, written) = (prefix::trimmed(at.value), prefix::text(at.value));
            bits_behind_length(at, report);
            let same = |other: &&Peer| other.prefixes.iter().any(|o| prefix::trimmed(o.value) == value);
            if let Some(other) = config.peers[..i].iter().find(same) {
                let message = format!(
                    "the prefix `{written}` belongs to two peers, `{}` and `{}`",
                    other.name.value, peer.name.value
                );
                let help = "assign each prefix to one peer; for others that forward toward it, use `alternate-for`";
                report.error(at.span.clone(), message, Some(help.to_owned()));
            }
            let own = |own: &&Prefix| own.address == value.address && value.length == prefix::host_bits(value.address);
            if let Some(own) = config.tun.addresses.iter().find(own) {
                let message = format!(
                    "the prefix `{written}` of peer `{}` is this node's own address ({} in [tun])",
                    peer.name.value,
                    prefix::text(*own)
                );
                report.error(at.span.clone(), message, Some("put the peer's address here".to_owned()));
            }
        }
    }
}
