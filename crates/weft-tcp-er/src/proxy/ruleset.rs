//! The nftables rules that divert connections to the proxy, as text.
//!
//! The rules identify the packets of diverted connections in two ways. A packet from a network device belongs to such
//! a connection if a socket of the proxy matches it (`socket transparent`). These packets bypass connection tracking,
//! because the proxy's connections to the client and to the server have the same addresses and ports and would share
//! one entry. A packet that stays on this machine belongs to such a connection if its connection tracking entry has a
//! mark of the proxy.

use super::policy::{PolicyPrefix, PortRange, ProxyPolicy, ProxyRule};
use std::fmt::{Display, Write as _};

/// The kinds of connections that are diverted to the proxy. Each kind has its own listening sockets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiversionRole {
    /// A host behind this node connects through the tunnel.
    Ingress,
    /// A program on this node connects through the tunnel.
    IngressLocal,
    /// A host behind a peer connects to a host behind this node.
    Egress,
    /// A host behind a peer connects to this node.
    EgressLocal,
}

impl DiversionRole {
    /// All roles.
    pub const ALL: [DiversionRole; 4] =
        [DiversionRole::Ingress, DiversionRole::IngressLocal, DiversionRole::Egress, DiversionRole::EgressLocal];

    /// True if the client, not the server, is behind the peer.
    pub fn is_egress(self) -> bool {
        matches!(self, DiversionRole::Egress | DiversionRole::EgressLocal)
    }
}

/// Names and marks of this node's nftables table and policy routing for the proxy.
///
/// They differ from those of other nodes on this machine. They derive from the device's name, so that a later run finds
/// the remains of an earlier one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiversionNames {
    /// Name of the TUN device.
    pub tun: String,
    /// Name of the proxy's nftables table.
    pub table: String,
    /// Firewall mark of packets that are delivered to the proxy.
    ///
    /// It is also the number of the routing table that delivers them.
    pub divert: u32,
    /// Firewall mark of the packets that the proxy sends.
    pub own: u32,
}

impl DiversionNames {
    /// Returns the names for a TUN device.
    pub fn of(tun: &str) -> DiversionNames {
        // FNV-1a hash of the device name.
        let hash = tun.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let base = 0x7765_0000 | (hash ^ hash >> 16) & 0xfffe;
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let table = format!("weft_proxy_{}", tun.chars().map(plain).collect::<String>());
        DiversionNames { tun: tun.to_owned(), table, divert: base, own: base | 1 }
    }
}

/// The ports of the proxy's listening sockets. IPv4 sockets listen on 127.0.0.1, IPv6 sockets on ::1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Listening {
    /// Ports by role in the order of [`DiversionRole::ALL`], then by family, IPv4 first. `None`: no such socket.
    pub ports: [[Option<u16>; 2]; 4],
}

impl Listening {
    fn port(&self, role: DiversionRole, is_ipv6: bool) -> Option<u16> {
        self.ports.get(role as usize)?.get(usize::from(is_ipv6)).copied().flatten()
    }
}

/// Returns the nft command, in one line, that creates the proxy's table.
///
/// The table does not divert new connections yet.
pub fn table(names: &DiversionNames) -> String {
    let DiversionNames { tun: _, table, divert, own } = names;
    format!(
        "table inet {table} {{ flags owner; chain take_in {{ }}; chain take_out {{ }}; \
         chain in {{ type filter hook prerouting priority raw; policy accept; \
         tcp flags & (fin|syn|rst|ack) == syn jump take_in; \
         iifname != \"lo\" meta l4proto {{ tcp, icmp, ipv6-icmp }} socket transparent 1 notrack meta mark set {divert} accept; }}; \
         chain untracked {{ type filter hook output priority raw; policy accept; \
         meta l4proto tcp meta mark {own} oifname != \"lo\" notrack; }}; \
         chain out {{ type route hook output priority mangle; policy accept; \
         meta l4proto != tcp accept; \
         meta mark {own} oifname \"lo\" ct state new ct mark set {own}; \
         meta mark {own} accept; \
         ct direction reply ct mark {own} meta mark set {divert} accept; \
         ct direction original ct mark {divert} meta mark set {divert} accept; \
         tcp flags & (fin|syn|rst|ack) == syn jump take_out; }}; }}"
    )
}

/// Returns the nft command that stops diverting new connections to the proxy.
pub fn shut(names: &DiversionNames) -> String {
    let table = &names.table;
    format!("flush chain inet {table} take_in; flush chain inet {table} take_out")
}

/// Returns the nft command after which exactly the new connections that `policy` selects are diverted to the proxy.
pub fn open(names: &DiversionNames, policy: &ProxyPolicy, listening: &Listening) -> String {
    let DiversionNames { tun, table, divert, .. } = names;
    let mut text = shut(names);
    for is_ipv6 in [false, true] {
        let to = |role| Some(take(listening.port(role, is_ipv6)?, is_ipv6, *divert));
        if let Some(take) = to(DiversionRole::IngressLocal) {
            let _ = write!(text, "; add rule inet {table} take_in iifname \"lo\" meta mark {divert} {take}");
        }
        for rule in &policy.rules {
            let Some(prefixes) = prefixes(rule, is_ipv6) else { continue };
            let family = if is_ipv6 { "ip6" } else { "ip" };
            let ports = ports(rule);
            if let (true, Some(take)) = (rule.side.has_ingress(), to(DiversionRole::Ingress)) {
                let _ = write!(
                    text,
                    "; add rule inet {table} take_in iifname != {{ \"lo\", \"{tun}\" }} {family} daddr {prefixes} {ports} \
                     fib daddr oifname \"{tun}\" notrack {take}\
                     ; add rule inet {table} take_out oifname \"{tun}\" {family} daddr {prefixes} {ports} \
                     ct mark set {divert} meta mark set {divert} accept"
                );
            }
            if let (true, Some(local), Some(take)) =
                (rule.side.has_egress(), to(DiversionRole::EgressLocal), to(DiversionRole::Egress))
            {
                let from = format!("add rule inet {table} take_in iifname \"{tun}\" {family} saddr {prefixes} {ports}");
                let _ = write!(text, "; {from} fib daddr type local notrack {local}");
                let _ = write!(text, "; {from} fib daddr type unicast notrack {take}");
            }
        }
    }
    text
}

fn take(port: u16, is_ipv6: bool, divert: u32) -> String {
    let (family, address) = if is_ipv6 { ("ip6", "[::1]") } else { ("ip", "127.0.0.1") };
    format!("meta l4proto tcp tproxy {family} to {address}:{port} meta mark set {divert} accept")
}

/// Returns a rule's prefixes of one address family as an nftables set, or `None` if the rule has none of it.
///
/// Prefixes within others are omitted, because nftables sets reject overlaps.
fn prefixes(rule: &ProxyRule, is_ipv6: bool) -> Option<String> {
    let mut widest: Vec<PolicyPrefix> = Vec::new();
    let mut sorted: Vec<PolicyPrefix> = rule.to.iter().filter(|p| p.address.is_ipv6() == is_ipv6).copied().collect();
    sorted.sort_by_key(|prefix| prefix.length);
    for prefix in sorted {
        if !widest.iter().any(|wide| wide.holds(&prefix)) {
            widest.push(prefix);
        }
    }
    (!widest.is_empty()).then(|| set(&widest))
}

/// Returns the nftables expression for a rule's ports, or an empty text if the rule matches all ports.
///
/// Overlapping ranges are merged, because nftables sets reject overlaps.
fn ports(rule: &ProxyRule) -> String {
    let mut sorted = rule.ports.clone();
    sorted.sort_by_key(|ports| ports.first);
    let mut apart: Vec<PortRange> = Vec::new();
    for ports in sorted {
        match apart.last_mut().filter(|last| ports.first <= last.last) {
            Some(last) => last.last = last.last.max(ports.last),
            None => apart.push(ports),
        }
    }
    if apart.is_empty() { String::new() } else { format!("tcp dport {}", set(&apart)) }
}

fn set<T: Display>(items: &[T]) -> String {
    format!("{{ {} }}", items.iter().map(T::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(policy: &str) -> String {
        let ports = [[Some(1001), None], [Some(1002), None], [Some(1003), None], [Some(1004), None]];
        open(&DiversionNames::of("weft0"), &policy.parse().unwrap(), &Listening { ports })
    }

    #[test]
    fn sides_are_kept_apart() {
        let (ingress, egress) = (opened("1 *;ingress 10.9.0.0/24 80"), opened("1 *;egress 10.9.0.0/24 80"));
        assert!(ingress.contains("ip daddr { 10.9.0.0/24 } tcp dport { 80 }") && !ingress.contains("saddr"));
        assert!(egress.contains("ip saddr { 10.9.0.0/24 }") && !egress.contains("ip daddr {"));
        assert!(egress.contains("type local notrack meta l4proto tcp tproxy ip to 127.0.0.1:1004"));
        assert!(egress.contains("type unicast notrack meta l4proto tcp tproxy ip to 127.0.0.1:1003"));
    }

    #[test]
    fn sets_have_no_overlaps() {
        let text = opened("1 *;ingress 10.9.0.0/24,10.0.0.0/8,10.0.0.0/8 80-90,85-95,100");
        assert!(text.contains("{ 10.0.0.0/8 } tcp dport { 80-95, 100 }"), "{text}");
    }

    #[test]
    fn a_family_without_a_socket_is_left_alone() {
        assert!(!opened("1 *;both fd00::/64 80").contains("ip6"));
    }

    #[test]
    fn names_are_of_the_device() {
        let names = DiversionNames::of("weft-0.1");
        assert_eq!(names.table, "weft_proxy_weft_0_1");
        assert!(names.divert != names.own && names.divert != DiversionNames::of("weft1").divert);
    }
}
