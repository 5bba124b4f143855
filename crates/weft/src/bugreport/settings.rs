//! The configuration in a report: an allow-list of keys whose values are shown.
//!
//! A key that is not on the list is shown as hidden, so that a key of a later version is hidden until it is added to
//! the list. Comments are never shown.

use super::anonymiser::{Anonymiser, HIDDEN, NameKind};
use toml::{Table, Value};

/// Keys whose values are shown, through the anonymiser. `*` is any key of a table whose keys the user chooses.
const SHOWN: &[&str] = &[
    "node.listen",
    "node.cipher",
    "node.relay",
    "tun.name",
    "tun.address",
    "tun.mtu",
    "tun.routes",
    "tun.table",
    "links.use",
    "links.ignore",
    "link.name",
    "link.max-rate-up",
    "link.max-rate-up-at",
    "link.weight",
    "link.up",
    "link.tier",
    "link.quota",
    "link.quota-per",
    "link.quota-first-day",
    "link.quota-reached",
    "link.tcp-fallback",
    "peer.name",
    "peer.public-key",
    "peer.endpoints",
    "peer.via",
    "peer.prefixes",
    "peer.alternate-for",
    "peer.tcp",
    "peer.tcp-name",
    "tcp.listen",
    "tcp.web",
    "network.root",
    "network.contacts",
    "network.endpoints",
    "network.overlay",
    "network.routes",
    "network.prefixes",
    "access.listen",
    "access.pool",
    "access.endpoint",
    "access.routes",
    "access.dns",
    "access.isolate",
    "access.device",
    "access.openvpn.listen",
    "access.openvpn.pool",
    "access.openvpn.endpoint",
    "access.openvpn.device",
    "policy.schedule",
    "policy.bundle",
    "policy.recovery",
    "policy.reorder",
    "policy.ack",
    "policy.weights",
    "policy.weights.*",
    "policy.wrr-order",
    "policy.queue",
    "policy.detours",
    "policy.sense",
    "policy.dscp",
    "policy.leasable",
    "peer.policy.schedule",
    "peer.policy.bundle",
    "peer.policy.recovery",
    "peer.policy.reorder",
    "peer.policy.ack",
    "peer.policy.weights",
    "peer.policy.weights.*",
    "peer.policy.wrr-order",
    "peer.policy.queue",
    "peer.policy.detours",
    "peer.policy.sense",
    "peer.policy.dscp",
    "peer.policy.leasable",
    "exit.masquerade",
    "out.kill-switch",
    "out.lan",
    "out.dns",
    "out.search",
    "routing.accept",
    "routing.tables",
    "routing.most",
    "routing.hold",
    "routing.multicast",
    "tcp-er.congestion",
    "rule.name",
    "rule.class",
    "rule.from",
    "rule.to",
    "rule.ports",
    "rule.from-ports",
    "rule.protocol",
    "rule.dscp",
    "rule.vpn",
    "rule.user",
    "class.name",
    "class.guaranteed",
    "class.maximum",
    "class.precedence",
    "users.by",
    "users.ipv4-length",
    "users.ipv6-length",
    "users.weights.*",
    "export.collector",
    "export.protocol",
    "export.format",
    "export.interval",
    "export.template-interval",
    "export.domain",
    "router.transit",
    "router.flows",
    "vpn.id",
    "vpn.name",
    "vpn.members.*",
    "vpn.service",
    "vpn.weight",
    "vpn.assured",
    "vpn.leased",
    "vpn.device",
];

/// Keys whose names are shown and whose values are hidden: files, sockets and values that may contain credentials.
const NAMED: &[&str] = &[
    "node.key",
    "node.state",
    "node.control",
    "peer.preshared-key",
    "tcp.key",
    "tcp.certificate",
    "network.certificate",
    "link.http-proxy",
    "signal.key",
    "metrics.listen",
    "routing.bfd",
];

/// Keys whose values are names or contain them, with their kinds.
const NAMES: &[(&str, NameKind)] = &[
    ("peer.name", NameKind::Peer),
    ("peer.via", NameKind::Peer),
    ("vpn.name", NameKind::Vpn),
    ("rule.vpn", NameKind::Vpn),
    ("rule.name", NameKind::Rule),
    ("rule.class", NameKind::Rule),
    ("class.name", NameKind::Rule),
    ("rule.user", NameKind::User),
    ("out.search", NameKind::Host),
    ("peer.tcp-name", NameKind::Host),
    ("peer.endpoints", NameKind::Host),
    ("network.contacts", NameKind::Host),
    ("network.endpoints", NameKind::Host),
    ("tcp.web", NameKind::Host),
    ("export.collector", NameKind::Host),
    ("access.endpoint", NameKind::Host),
    ("access.openvpn.endpoint", NameKind::Host),
    ("peer.public-key", NameKind::Key),
    ("network.root", NameKind::Key),
];

/// One setting: its keys, and its value if that is a single value or a list of single values.
struct Setting<'a> {
    /// Keys from the top of the file down to the value, without positions in lists.
    path: Vec<&'a str>,
    value: &'a Value,
}

impl Setting<'_> {
    /// Returns the pattern in `list` that matches the setting's keys. `None` if none does.
    fn pattern_in<'l>(&self, list: &[&'l str]) -> Option<&'l str> {
        list.iter().copied().find(|pattern| self.matches(pattern))
    }

    fn matches(&self, pattern: &str) -> bool {
        let parts: Vec<_> = pattern.split('.').collect();
        parts.len() == self.path.len() && parts.iter().zip(&self.path).all(|(part, key)| *part == "*" || part == key)
    }

    /// Returns the setting's keys as dotted text. Keys that the user chose pass through the anonymiser.
    fn place(&self, pattern: &str, anonymiser: &mut Anonymiser) -> String {
        let parts = pattern.split('.').zip(&self.path);
        let parts = parts.map(|(part, key)| if part == "*" { anonymiser.text(key) } else { part.to_owned() });
        parts.collect::<Vec<_>>().join(".")
    }

    fn strings(&self) -> Vec<&str> {
        match self.value {
            Value::String(text) => vec![text],
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

/// Parses a configuration.
///
/// # Errors
/// Returns the place of the mistake. The parser's message may quote the file, so it is left out.
pub fn parse(text: &str) -> Result<Table, String> {
    text.parse().map_err(|why: toml::de::Error| {
        let at = why.span().map_or(0, |span| span.start).min(text.len());
        let line = text.as_bytes()[..at].split(|b| *b == b'\n').count();
        format!("the configuration file is not valid TOML: weft check shows the mistake in line {line}")
    })
}

/// Adds the names and the secrets of a configuration to the anonymiser.
pub fn learn(table: &Table, anonymiser: &mut Anonymiser) {
    for setting in settings(table) {
        let kinds = NAMES.iter().filter(|(pattern, _)| setting.matches(pattern)).map(|(_, kind)| *kind);
        for (kind, text) in kinds.flat_map(|kind| setting.strings().into_iter().map(move |text| (kind, text))) {
            learn_name(anonymiser, kind, text);
        }
        match setting.path[..] {
            ["vpn", "members", peer] => anonymiser.add_name(NameKind::Peer, peer),
            ["users", "weights", user] => anonymiser.add_name(NameKind::User, user),
            _ if setting.pattern_in(SHOWN).is_none() => {
                setting.strings().into_iter().for_each(|text| anonymiser.add_secret(text))
            }
            _ => {}
        }
    }
}

fn learn_name(anonymiser: &mut Anonymiser, kind: NameKind, text: &str) {
    match kind {
        NameKind::Host => {
            let (key, place) = text.rsplit_once('@').unwrap_or(("", text));
            let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
            anonymiser.add_name(NameKind::Key, key);
            if host.parse::<std::net::IpAddr>().is_err() && !host.starts_with('[') {
                anonymiser.add_name(kind, host);
            }
        }
        NameKind::Peer => text.split('>').for_each(|hop| anonymiser.add_name(kind, hop.trim())),
        _ => anonymiser.add_name(kind, text),
    }
}

/// Returns one line for each setting of a configuration, with its value or [`HIDDEN`].
pub fn lines(table: &Table, anonymiser: &mut Anonymiser) -> Vec<String> {
    let mut line = |setting: &Setting<'_>| {
        let Some(pattern) = setting.pattern_in(SHOWN) else {
            return format!("{} = {HIDDEN}", setting.pattern_in(NAMED).unwrap_or(HIDDEN));
        };
        let mut value = serde_json::to_value(setting.value).unwrap_or_default();
        anonymiser.value(&mut value);
        format!("{} = {value}", setting.place(pattern, anonymiser))
    };
    settings(table).iter().map(&mut line).collect()
}

fn settings(table: &Table) -> Vec<Setting<'_>> {
    let mut found = Vec::new();
    collect(table, &[], &mut found);
    found
}

fn collect<'a>(table: &'a Table, above: &[&'a str], found: &mut Vec<Setting<'a>>) {
    for (key, value) in table {
        let path = [above, &[key.as_str()]].concat();
        match value {
            Value::Table(table) => collect(table, &path, found),
            Value::Array(items) if items.iter().any(|item| !is_single(item)) => {
                collect_items(items, &path, found);
            }
            value => found.push(Setting { path, value }),
        }
    }
}

fn collect_items<'a>(items: &'a [Value], path: &[&'a str], found: &mut Vec<Setting<'a>>) {
    for item in items {
        match item {
            Value::Table(table) => collect(table, path, found),
            Value::Array(inner) => collect_items(inner, path, found),
            value => found.push(Setting { path: path.to_vec(), value }),
        }
    }
}

fn is_single(value: &Value) -> bool {
    !matches!(value, Value::Table(_) | Value::Array(_))
}

/// Returns true if a word is the name of a key or of a table.
pub fn is_key(word: &str) -> bool {
    SHOWN.iter().chain(NAMED).any(|pattern| pattern.split('.').any(|part| part == word.trim_matches(['[', ']'])))
}
