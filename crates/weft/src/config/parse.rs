//! From TOML to [`Config`]: the tables and their keys.

use super::diagnose::Report;
use super::policy::Policy;
use super::read::Section;
use super::{Cipher, Config, Link, LinkChoice, Mtu, Node, Peer, Prefix, Tun};
use crate::keys::PublicKey;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use weft_units::parse_rate;

/// Reads the report's text; file names in it are relative to `directory`. Nothing when a table that must be there is not.
pub fn parse(report: &Report, directory: &Path) -> Option<Config> {
    let root = match DeTable::parse(report.text()) {
        Ok(root) => root,
        Err(why) => {
            report.error(why.span().unwrap_or(0..0), why.message().replace('\n', ", "), None);
            return None;
        }
    };
    let mut root = Section::new("the file", root.get_ref(), 0..0, report);
    let (node_table, tun_table) = (root.section("node", "[node]"), root.section("tun", "[tun]"));
    if node_table.is_none() {
        root.missing("[node]", "it names the key: [node] key = \"weft.key\"");
    }
    if tun_table.is_none() {
        root.missing("[tun]", "it gives the address: [tun] address = [\"10.9.0.1/24\"]");
    }
    let node = node_table.and_then(|section| node(section, directory));
    let tun = tun_table.and_then(|section| tun(section, report));
    let links = root.section("links", "[links]").map(links).unwrap_or_default();
    let link = root.sections("link", "[[link]]").into_iter().filter_map(link).collect();
    let base = Policy::default();
    let policy = root.section("policy", "[policy]").map(|section| Policy::read(section, &base, report));
    let policy = policy.unwrap_or(base);
    let peers = root.sections("peer", "[[peer]]").into_iter().filter_map(|s| peer(s, &policy, report)).collect();
    root.finish();
    Some(Config { node: node?, tun: tun?, links, link, peers })
}

fn node(mut section: Section<'_, '_>, directory: &Path) -> Option<Node> {
    let path = |text: &str| Ok::<_, Infallible>(directory.join(text));
    let key = section.parsed("key", "weft.key", path);
    let listen = section.integer("listen", 1..65_536).map(|port| port.value as u16);
    let state = section.parsed("state", "/var/lib/weft", path).map(|at| at.value);
    let control = section.parsed("control", "/run/weft/control.sock", path).map(|at| at.value);
    let cipher = section.choice("cipher").unwrap_or(Cipher::Aes256Gcm);
    if key.is_none() && !section.has("key") {
        section.missing("key", "make one with: weft keygen --out weft.key");
    }
    section.finish();
    Some(Node {
        key: key?,
        listen,
        state: state.unwrap_or_else(|| PathBuf::from("/var/lib/weft")),
        control: control.unwrap_or_else(|| PathBuf::from(crate::control::DEFAULT_SOCKET)),
        cipher,
    })
}

fn tun(mut section: Section<'_, '_>, report: &Report) -> Option<Tun> {
    let name = section.parsed("name", "\"weft0\"", interface_name).map(|at| at.value);
    let addresses = section.list("address", "[\"10.9.0.1/24\"]", str::parse::<Prefix>);
    if addresses.as_ref().is_none_or(Vec::is_empty) {
        section.missing("address", "for example address = [\"10.9.0.1/24\"]");
    }
    let mtu = mtu(&mut section, report);
    let routes = section.flag("routes").unwrap_or(true);
    section.finish();
    let addresses = addresses?.into_iter().map(|at| at.value).collect();
    Some(Tun { name: name.unwrap_or_else(|| "weft0".to_owned()), addresses, mtu, routes })
}

fn mtu(section: &mut Section<'_, '_>, report: &Report) -> Mtu {
    let Some(value) = section.value("mtu") else { return Mtu::Auto };
    if value.get_ref().as_str() == Some("auto") {
        return Mtu::Auto;
    }
    if value.get_ref().is_str() {
        report.error(value.span(), "`mtu` is \"auto\" or a number of bytes", Some("for example 1400".to_owned()));
        return Mtu::Auto;
    }
    section.integer("mtu", 1280..65_536).map_or(Mtu::Auto, |bytes| Mtu::Fixed(bytes.value as u16))
}

fn links(mut section: Section<'_, '_>) -> LinkChoice {
    let name = |text: &str| interface_name(text);
    let only = section.list("use", "[\"eth0\", \"wwan0\"]", name).unwrap_or_default();
    let ignore = section.list("ignore", "[\"docker*\"]", name).unwrap_or_default();
    section.finish();
    LinkChoice { only, ignore }
}

fn link(mut section: Section<'_, '_>) -> Option<Link> {
    let name = section.parsed("name", "\"wwan0\"", interface_name);
    if name.is_none() && !section.has("name") {
        section.missing("name", "the interface these settings are for");
    }
    let max_rate_up = section.parsed("max-rate-up", "\"30 Mbit/s\"", parse_rate).map(|at| at.value);
    let weight = section.integer("weight", 0..1_000_001).map(|at| at.value as u32);
    let up = section.flag("up").unwrap_or(true);
    section.finish();
    Some(Link { name: name?, max_rate_up, weight, up })
}

fn peer(mut section: Section<'_, '_>, policy: &Policy, report: &Report) -> Option<Peer> {
    let name = section.parsed("name", "\"hub\"", peer_name);
    let public_key = section.parsed("public-key", "what `weft pubkey` prints there", str::parse::<PublicKey>);
    let endpoints = section.list("endpoints", "[\"192.0.2.1:51900\"]", endpoint).unwrap_or_default();
    let prefixes = section.list("prefixes", "[\"10.9.0.2/32\"]", |text: &str| text.parse::<Prefix>());
    let policy = section.section("policy", "[peer.policy]").map(|overrides| Policy::read(overrides, policy, report))
        .unwrap_or_else(|| policy.clone());
    for (key, help) in [("name", "a name for tables and logs"), ("public-key", "what `weft pubkey` prints there")] {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    let span = section.span();
    section.finish();
    Some(Peer {
        name: name?,
        public_key: public_key?,
        endpoints: endpoints.into_iter().map(|at| at.value).collect(),
        prefixes: prefixes.unwrap_or_default(),
        policy,
        span,
    })
}

fn endpoint(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an IP address and a port are expected; names are not looked up")
}

fn interface_name(text: &str) -> Result<String, &'static str> {
    match text.len() {
        1..=15 if !text.contains(['/', ':', ' ']) => Ok(text.to_owned()),
        _ => Err("a name of an interface has 1 to 15 characters and no `/`, `:` or space"),
    }
}

fn peer_name(text: &str) -> Result<String, &'static str> {
    match text.len() {
        1..=63 if !text.contains(char::is_whitespace) => Ok(text.to_owned()),
        _ => Err("a name has 1 to 63 characters and no space"),
    }
}
