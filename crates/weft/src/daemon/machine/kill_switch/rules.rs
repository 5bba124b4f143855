//! The kill switch's rules, as text for nft.

use super::TUNNEL_MARK;
use crate::config::{Config, out, prefix};
use crate::daemon::machine::identifier;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use weft_engine::Prefix;

/// Minimum prefix length of a network that is taken for local. A shorter prefix contains most of the Internet.
const SHORTEST_LOCAL: u8 = 8;

/// The properties of a node on which the rules of its kill switch depend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Protected {
    /// Name of the kill switch's nft table.
    pub table: String,
    /// Names of the node's devices, whose packets enter the tunnel.
    devices: Vec<String>,
    /// True if packets to the networks of this machine's interfaces are accepted.
    lan: bool,
}

impl Protected {
    /// Returns the nft table's name, the devices and the setting for local networks, from a configuration.
    pub fn of(config: &Config) -> Protected {
        let devices = config.vpns.iter().map(|vpn| &vpn.device.value).chain([&config.tun.name]);
        let devices = devices.filter(|name| out::is_plain(name)).cloned().collect();
        Protected { table: table(&config.tun.name), devices, lan: config.out.lan }
    }
}

/// Returns the name of the kill switch's nft table, for the node with the TUN device `tun`.
pub fn table(tun: &str) -> String {
    format!("weft_kill_{}", identifier(tun))
}

/// Returns the nft commands that remove a table, whether it exists or not.
pub fn removal(table: &str) -> String {
    format!("add table inet {table}\ndelete table inet {table}\n")
}

/// Name of an interface, and the address and prefix length of a network that it is in.
pub type LocalNetwork = (String, IpAddr, u8);

/// Returns the networks of this machine's interfaces.
///
/// # Errors
/// Returns the kernel's error.
pub fn local_networks() -> io::Result<BTreeSet<LocalNetwork>> {
    Ok(getifaddrs()?.filter_map(|of| local_network(&of)).collect())
}

fn local_network(of: &InterfaceAddress) -> Option<LocalNetwork> {
    let (address, mask) = (of.address.as_ref()?, of.netmask.as_ref()?);
    let (address, length) = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => (IpAddr::V4(v4.ip()), mask.as_sockaddr_in()?.ip().to_bits().count_ones()),
        (_, Some(v6)) => (IpAddr::V6(v6.ip()), mask.as_sockaddr_in6()?.ip().to_bits().count_ones()),
        _ => return None,
    };
    let length = u8::try_from(length).ok()?;
    let is_local = !of.flags.contains(InterfaceFlags::IFF_LOOPBACK)
        && length >= SHORTEST_LOCAL
        && out::is_plain(&of.interface_name);
    is_local.then(|| (of.interface_name.clone(), prefix::trimmed(Prefix { address, length }).address, length))
}

/// Returns the commands that replace the table in one transaction.
///
/// The first rule that accepts or rejects a packet decides. The last rule rejects every packet. The rule for DNS
/// comes before those for local networks: a router's resolver would forward a query outside the tunnel.
pub fn rules(protected: &Protected, local: &BTreeSet<LocalNetwork>) -> String {
    let Protected { table, devices, lan } = protected;
    let devices: Vec<String> = devices.iter().chain([&"lo".to_owned()]).map(|name| format!("\"{name}\"")).collect();
    let devices = devices.join(", ");
    let mut near = String::new();
    if *lan {
        near += "fib daddr type broadcast accept\nip daddr 224.0.0.0/24 accept\nip6 daddr { fe80::/10, ff02::/16 } accept\n";
        for (interface, network, length) in local {
            let family = if network.is_ipv4() { "ip" } else { "ip6" };
            let _ = writeln!(near, "oifname \"{interface}\" {family} daddr {network}/{length} accept");
        }
    }
    let removal = removal(table);
    format!(
        "{removal}add table inet {table} {{
chain near {{
{near}}}
chain judge {{
oifname {{ {devices} }} accept
meta l4proto {{ tcp, udp }} th dport {{ 53, 853 }} reject with icmpx type admin-prohibited
jump near
reject with icmpx type admin-prohibited
}}
chain out {{ type filter hook output priority 10; policy drop;
meta mark {TUNNEL_MARK} accept
udp sport 68 udp dport 67 accept
udp sport 546 udp dport 547 accept
icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld-listener-report, mld2-listener-report }} accept
jump judge
}}
chain forward {{ type filter hook forward priority 10; policy drop;
iifname {{ {devices} }} jump near
jump judge
}}
}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_have_every_device_and_network_and_replace_the_table() {
        let protected =
            Protected { table: table("weft-0.1"), devices: vec!["weft-0.1".to_owned(), "red0".to_owned()], lan: true };
        let network = |name: &str, address: &str, length| (name.to_owned(), address.parse().unwrap(), length);
        let local = [network("eth0", "192.0.2.0", 28), network("wlan0", "2001:db8::", 64)].into_iter().collect();
        let text = rules(&protected, &local);
        for part in [
            "add table inet weft_kill_weft_0_1\ndelete table inet weft_kill_weft_0_1\nadd table",
            "oifname { \"weft-0.1\", \"red0\", \"lo\" } accept",
            "oifname \"eth0\" ip daddr 192.0.2.0/28 accept",
            "oifname \"wlan0\" ip6 daddr 2001:db8::/64 accept",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (dns, near) = (text.find("th dport").unwrap(), text.find("jump near").unwrap());
        assert!(dns < near && text.ends_with("jump judge\n}\n}"), "{text}");
        let strict = rules(&Protected { lan: false, ..protected }, &local);
        assert!(strict.contains("chain near {\n}") && !strict.contains("192.0.2.0"), "{strict}");
    }
}
