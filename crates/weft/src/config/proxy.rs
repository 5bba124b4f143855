//! `[[proxy]]`: which TCP connections go through proxies, and `[proxies]`: what holds for all of them.

use super::read::{At, Choice, Section};
use super::{Config, prefix};
use toml::de::DeValue;
use weft_engine::Prefix;
use weft_tcp_er::proxy::policy::{Policy, Ports, Prefix as ProxyPrefix, Rule, Side};

/// Connections unless said otherwise.
const CAPACITY: i64 = 16_384;
const MAX_CAPACITY: i64 = 1 << 20;
/// Congestion controls to try unless said otherwise.
const CONGESTION: [&str; 2] = ["weft_er", "bbr"];

impl Choice for Side {
    const NAMES: &'static [(&'static str, Side)] = Side::NAMES;
}

/// A `[[proxy]]` table.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Behind the peers; absent: everything behind them.
    pub to: Option<Vec<At<Prefix>>>,
    /// Ports of servers; empty: all.
    pub ports: Vec<Ports>,
    /// Where connections are taken in.
    pub side: Side,
}

/// All of them, and `[proxies]`.
#[derive(Clone, Debug)]
pub struct Proxies {
    /// Connections at once.
    pub capacity: usize,
    /// Congestion controls for legs between proxies, the best first.
    pub congestion: Vec<String>,
    /// The tables.
    pub each: Vec<At<Proxy>>,
}

impl Default for Proxies {
    fn default() -> Proxies {
        Proxies { capacity: CAPACITY as usize, congestion: CONGESTION.map(str::to_owned).into(), each: Vec::new() }
    }
}

impl Config {
    /// What the proxy is told; `None` where there is none.
    pub fn proxy_policy(&self) -> Option<Policy> {
        let Proxies { capacity, congestion, each } = &self.proxies;
        let rules: Vec<Rule> = each.iter().map(|at| self.proxy_rule(&at.value)).collect();
        (!rules.is_empty()).then(|| Policy { capacity: *capacity, congestion: congestion.clone(), rules })
    }

    /// A table with all that it leaves out.
    pub fn proxy_rule(&self, proxy: &Proxy) -> Rule {
        let peers = self.peers.iter().flat_map(|peer| &peer.prefixes);
        let to = match &proxy.to {
            Some(to) => to.iter().map(|at| proxy_prefix(at.value)).collect(),
            None => peers.map(|at| proxy_prefix(at.value)).collect(),
        };
        Rule { side: proxy.side, to, ports: proxy.ports.clone() }
    }
}

/// The same prefix for the proxy.
pub fn proxy_prefix(of: Prefix) -> ProxyPrefix {
    let Prefix { address, length } = prefix::trimmed(of);
    ProxyPrefix { address, length }
}

/// Reads `[proxies]`.
pub fn read_all(mut section: Section<'_, '_>) -> Proxies {
    let capacity = section.integer("capacity", 1..MAX_CAPACITY + 1).map_or(CAPACITY, |at| at.value);
    let congestion = section.list("congestion", "[\"bbr\"]", congestion_name);
    section.finish();
    let congestion = congestion.map(|names| names.into_iter().map(|at| at.value).collect());
    let default = Proxies::default();
    Proxies { capacity: capacity as usize, congestion: congestion.unwrap_or(default.congestion), each: default.each }
}

fn congestion_name(text: &str) -> Result<String, &'static str> {
    // TCP_CA_NAME_MAX is 16 with the zero behind it.
    match text.len() {
        1..=15 if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => Ok(text.to_owned()),
        _ => Err("a congestion control has 1 to 15 letters, digits and underscores"),
    }
}

/// Reads a `[[proxy]]` table.
pub fn read(mut section: Section<'_, '_>) -> At<Proxy> {
    let span = section.span();
    let to = section.list("to", "[\"10.9.0.0/24\"]", prefix::parse);
    if to.as_ref().is_some_and(Vec::is_empty) {
        section.complain(
            section.key_span("to"),
            "`to` is empty: nothing would be proxied",
            "leave it out for all peers",
        );
    }
    let ports = ports(&mut section);
    let side = section.choice("side").unwrap_or(Side::Both);
    section.finish();
    At { value: Proxy { to, ports, side }, span }
}

/// Numbers, and ranges as text.
fn ports(section: &mut Section<'_, '_>) -> Vec<Ports> {
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
        let ports = text.parse::<Ports>();
        ports.map_err(|why| section.complain(item.span(), &format!("`{text}`: {why}"), EXAMPLE)).ok()
    };
    items.iter().filter_map(read).collect()
}
