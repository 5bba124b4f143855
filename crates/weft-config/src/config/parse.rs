//! Parsing of TOML into a [`Config`]: the tables and their keys.

use super::diagnose::{Report, Severity};
use super::limits::{cap_hours, quota};
use super::read::{At, Choice, Section};
use super::{
    Config, Link, LinkChoice, Mtu, Node, Peer, Tun, access, allow, exit, flows, host_name, metrics, network, out,
    policy, prefix, proxy, route, routing, signal, tcp, tcp_er, vpn,
};
use crate::escape::is_active;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use weft_engine::{Policy, Weights};
use weft_session::{Cipher, PublicKey};
use weft_units::{PathTier, parse_rate};

/// Parses the text of `report` into a [`Config`]. File names in it are relative to `directory`.
///
/// Returns `None` if a required table is missing.
pub fn parse(report: &Report, directory: &Path) -> Option<Config> {
    let root = match DeTable::parse(report.text()) {
        Ok(root) => root,
        Err(why) => {
            report.error(why.span().unwrap_or(0..0), why.message().replace('\n', ", "), None);
            return None;
        }
    };
    parse_table(report, root.get_ref(), directory)
}

/// Parses the table `root` into a [`Config`]. File names in it are relative to `directory`.
///
/// Mistakes are added to `report`. Returns `None` if a required table is missing.
pub fn parse_table(report: &Report, root: &DeTable<'_>, directory: &Path) -> Option<Config> {
    let mut root = Section::new("the file", root, 0..0, report);
    let (node_table, tun_table) = (root.section("node", "[node]"), root.section("tun", "[tun]"));
    if node_table.is_none() && !root.has("node") {
        root.missing("[node]", "the file must name the key: [node] key = \"weft.key\"");
    }
    if tun_table.is_none() && !root.has("tun") {
        root.missing("[tun]", "the file must set the address: [tun] address = [\"10.9.0.1/24\"]");
    }
    let node = node_table.and_then(|section| node(section, directory));
    let tun = tun_table.and_then(|section| tun(section, report));
    let network = root.section("network", "[network]").and_then(|section| network::read(section, directory));
    let access = root.section("access", "[access]").and_then(access::read);
    let exit = root.section("exit", "[exit]").map(exit::read);
    let out = root.section("out", "[out]").map(out::read).unwrap_or_default();
    let metrics = root.section("metrics", "[metrics]").and_then(|section| metrics::read(section, directory));
    let routing = root.section("routing", "[routing]").map(|section| routing::read(section, directory));
    let tcp = root.section("tcp", "[tcp]").and_then(|section| tcp::read(section, directory));
    let tcp_er = root.section("tcp-er", "[tcp-er]").map(tcp_er::read);
    let signal = root.section("signal", "[signal]").map(|section| signal::read(section, directory, report));
    let mut links = root.section("links", "[links]").map(links).unwrap_or_default();
    if let Some(openvpn) = access.as_ref().and_then(|access| access.openvpn.as_ref()) {
        links.ignore.push(openvpn.pool.clone().map(|_| openvpn.device.clone()));
    }
    let (link, link_weights): (Vec<_>, Vec<_>) = root.sections("link", "[[link]]").into_iter().filter_map(link).unzip();
    links.ignore.extend(link.iter().filter(|link: &&Link| link.tier.is_none()).map(|link| link.name.clone()));
    let weights: Vec<_> = link_weights.into_iter().flatten().collect();
    let mut base = Policy::default();
    if !weights.is_empty() {
        base.weights = Weights::Static(weights);
    }
    let mut weighted_links = Vec::new();
    if let Some(section) = root.section("policy", "[policy]") {
        base = policy::read(section, &base, &mut weighted_links, report);
    }
    let peers = root.sections("peer", "[[peer]]").into_iter();
    let peers = peers.filter_map(|section| peer(section, &base, &mut weighted_links, directory, report)).collect();
    let vpns = root.sections("vpn", "[[vpn]]").into_iter().filter_map(vpn::read).collect();
    let mut proxies = root.section("proxies", "[proxies]").map(proxy::read_all).unwrap_or_default();
    proxies.each = root.sections("proxy", "[[proxy]]").into_iter().map(proxy::read).collect();
    let flows = flows::read(&mut root, report);
    let allow = allow::read(&mut root, report);
    root.finish();
    Some(Config {
        node: node?,
        tun: tun?,
        links,
        network,
        access,
        metrics,
        exit,
        out,
        routing,
        tcp,
        tcp_er,
        signal,
        link,
        policy: base,
        peers,
        vpns,
        flows,
        allow,
        proxies,
        weighted_links,
    })
}

fn node(mut section: Section<'_, '_>, directory: &Path) -> Option<Node> {
    let path = |text: &str| Ok::<_, Infallible>(directory.join(text));
    let key = section.parsed("key", "weft.key", path);
    let listen = section.integer("listen", 1..65_536).map(|port| port.value as u16);
    let state = section.parsed("state", "/var/lib/weft", path).map(|at| at.value);
    let control = section.parsed("control", "/run/weft/control.sock", path).map(|at| at.value);
    let cipher = section.choice("cipher").unwrap_or(Cipher::Aes256Gcm);
    let relay = section.flag("relay").unwrap_or(false);
    if key.is_none() && !section.has("key") {
        section.missing("key", "make one with: weft keygen --out weft.key");
    }
    section.finish();
    Some(Node {
        key: key?,
        listen,
        state: state.unwrap_or_else(|| PathBuf::from("/var/lib/weft")),
        control: control.unwrap_or_else(|| PathBuf::from(super::DEFAULT_SOCKET)),
        cipher,
        relay,
    })
}

fn tun(mut section: Section<'_, '_>, report: &Report) -> Option<Tun> {
    let name = section.parsed("name", "\"weft0\"", interface_name).map(|at| at.value);
    let before = report.count(Severity::Error);
    let addresses = section.list("address", "[\"10.9.0.1/24\"]", prefix::parse);
    if addresses.as_ref().is_none_or(Vec::is_empty) && report.count(Severity::Error) == before {
        section.missing("address", "for example address = [\"10.9.0.1/24\"]");
    }
    let mtu = mtu(&mut section, report);
    let routes = section.flag("routes").unwrap_or(true);
    let table = table(&mut section).unwrap_or(super::DEFAULT_TABLE);
    section.finish();
    let addresses = addresses?.into_iter().map(|at| at.value).collect();
    Some(Tun { name: name.unwrap_or_else(|| "weft0".to_owned()), addresses, mtu, routes, table })
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

/// Parses a `[[link]]` table. Returns the link's settings, and its weight if it has one.
fn link(mut section: Section<'_, '_>) -> Option<(Link, Option<(String, u32)>)> {
    let name = section.parsed("name", "\"wwan0\"", interface_name);
    if name.is_none() && !section.has("name") {
        section.missing("name", "the interface these settings are for");
    }
    let max_rate_up = section.parsed("max-rate-up", "\"30 Mbit/s\"", parse_rate).map(|at| at.value);
    let max_rate_up_at = section.one_or_list("max-rate-up-at", "[\"08:00-18:00 5 Mbit/s\"]", cap_hours::parse);
    let max_rate_up_at = max_rate_up_at.unwrap_or_default().into_iter().map(|at| at.value).collect();
    let weight = section.integer("weight", 0..policy::MAX_WEIGHT + 1).map(|at| at.value as u32);
    let up = section.flag("up").unwrap_or(true);
    let tier = section.choice("tier").unwrap_or(Some(PathTier::Primary));
    let quota = quota::read(&mut section);
    let tcp = tcp::read_link(&mut section);
    section.finish();
    let name = name?;
    let weight = weight.map(|weight| (name.value.clone(), weight));
    Some((Link { name, max_rate_up, max_rate_up_at, up, tier, quota, tcp }, weight))
}

/// The tier of a link; `None` is a link that is never used.
impl Choice for Option<PathTier> {
    const NAMES: &'static [(&'static str, Option<PathTier>)] = &[
        ("primary", Some(PathTier::Primary)),
        ("secondary", Some(PathTier::Secondary)),
        ("backup", Some(PathTier::Backup)),
        ("never", None),
    ];
}

fn peer(
    mut section: Section<'_, '_>,
    base: &Policy,
    weighted_links: &mut Vec<At<String>>,
    directory: &Path,
    report: &Report,
) -> Option<Peer> {
    let name = section.parsed("name", "\"hub\"", peer_name);
    let public_key = section.parsed("public-key", "the key that `weft pubkey` prints there", public_key);
    let preshared_key_file =
        section.parsed("preshared-key", "\"hub.psk\"", |text| Ok::<_, Infallible>(directory.join(text)));
    let endpoints = section.list("endpoints", "[\"192.0.2.1:51900\"]", host_name::endpoint);
    let via = section.list("via", "[\"hub\"], or over two relays [\"hub > far\"]", route::parse).unwrap_or_default();
    let prefixes = section.list("prefixes", "[\"10.9.0.2/32\"]", prefix::parse).unwrap_or_default();
    let alternate_for = section.list("alternate-for", "[\"10.9.3.0/24\"]", prefix::parse).unwrap_or_default();
    let groups = section.list("groups", "[\"staff\"]", allow::group_name).unwrap_or_default();
    let tcp = tcp::read_peer(&mut section, endpoints.as_ref().is_some_and(|endpoints| !endpoints.is_empty()));
    let policy = match section.section("policy", "[peer.policy]") {
        Some(overrides) => policy::read(overrides, base, weighted_links, report),
        None => base.clone(),
    };
    for (key, help) in
        [("name", "a name for tables and logs"), ("public-key", "the key that `weft pubkey` prints there")]
    {
        if !section.has(key) {
            section.missing(key, help);
        }
    }
    section.finish();
    let (endpoints, names) = host_name::split(endpoints.unwrap_or_default());
    let (name, public_key) = (name?, public_key?);
    Some(Peer {
        name,
        public_key,
        preshared_key_file,
        preshared_key: None,
        endpoints,
        names,
        via,
        groups: groups.into_iter().map(|at| at.value).collect(),
        prefixes,
        alternate_for,
        policy,
        tcp,
    })
}

/// Parses the number of a routing table for weft. The kernel owns tables 253 to 255.
pub(super) fn table(section: &mut Section<'_, '_>) -> Option<u32> {
    let At { value, span } = section.integer("table", 1..1 << 32)?;
    if (253..256).contains(&value) {
        section.complain(span, "tables 253 to 255 belong to the kernel", "for example table = 1007");
        return None;
    }
    Some(value as u32)
}

pub(super) fn public_key(text: &str) -> Result<PublicKey, &'static str> {
    text.parse().map_err(|_| "a public key is 44 characters of base64")
}

pub(super) fn endpoint(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address and a port")
}

pub(super) fn interface_name(text: &str) -> Result<String, &'static str> {
    match text.len() {
        1..=15 if !text.contains(['/', ':', ' ']) => Ok(text.to_owned()),
        _ => Err("the name of a network interface must have 1 to 15 bytes and no `/`, `:` or space"),
    }
}

/// Parses the name of a node.
///
/// # Errors
/// Returns the expected form.
pub fn peer_name(text: &str) -> Result<String, &'static str> {
    match text.len() {
        1..=63 if !text.contains(|c: char| c.is_whitespace() || is_active(c)) => Ok(text.to_owned()),
        _ => Err("the name of a node, VPN, rule or class must have 1 to 63 bytes, and no space or invisible character"),
    }
}
