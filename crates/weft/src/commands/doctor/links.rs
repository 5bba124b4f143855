//! Checks of all links together: routes, subnets, routers, the physical carrier, and IPv6.

use super::checks::{Check, Machine, Verdict};
use crate::config::{Config, prefix};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use weft_engine::Prefix;
use weft_io::netlink::RouteLookup;

/// Performs all checks of the links called `names`.
pub fn links(machine: &Machine, config: &Config, names: &[&str]) -> Vec<Check> {
    let addresses = addresses(names);
    let neighbours = machine.proc("net/arp").map_or_else(Vec::new, |text| neighbours(&text));
    let routers = machine.proc("net/route").map_or_else(BTreeSet::new, |text| routers(&text));
    let mut checks: Vec<Check> = names.iter().filter_map(|name| carrier(machine, name)).collect();
    checks.extend(no_route(config, &addresses));
    checks.extend(one_subnet(&addresses, arp_is_strict(machine)));
    checks.extend(one_router(&neighbours, &routers, names));
    checks.extend(ipv6(machine, config));
    checks
}

/// Addresses of links with their prefix lengths, by link.
type LinkAddresses = BTreeMap<String, Vec<Prefix>>;

/// Returns the addresses of these links, except IPv6 addresses that are valid only on the link.
fn addresses(names: &[&str]) -> LinkAddresses {
    let mut found = LinkAddresses::new();
    for interface in getifaddrs().into_iter().flatten().filter(|of| names.contains(&of.interface_name.as_str())) {
        let (address, mask) = (interface.address.as_ref(), interface.netmask.as_ref());
        let v4 = address.and_then(|at| at.as_sockaddr_in()).zip(mask.and_then(|mask| mask.as_sockaddr_in()));
        let v6 = address.and_then(|at| at.as_sockaddr_in6()).zip(mask.and_then(|mask| mask.as_sockaddr_in6()));
        let prefix = match (v4, v6) {
            (Some((at, mask)), _) => Prefix { address: at.ip().into(), length: mask.ip().to_bits().count_ones() as u8 },
            (_, Some((at, mask))) if !at.ip().is_unicast_link_local() => {
                Prefix { address: at.ip().into(), length: mask.ip().to_bits().count_ones() as u8 }
            }
            _ => continue,
        };
        found.entry(interface.interface_name).or_default().push(prefix);
    }
    found
}

/// Returns a finding if a link that is set up has no carrier, such as a connected cable.
fn carrier(machine: &Machine, name: &str) -> Option<Check> {
    // The file cannot be read while the link is set down.
    let is_missing = machine.sys(&format!("class/net/{name}/carrier"))? == "0";
    let help = "connect its cable or modem, or choose another link in [links] use";
    is_missing.then(|| Check::new(format!("carrier of link {name}"), Verdict::Bad, "none", help))
}

/// Checks that each link with an address has a route to an endpoint.
///
/// A node without endpoints waits for handshakes of its peers, and needs no such route.
fn no_route(config: &Config, addresses: &LinkAddresses) -> Vec<Check> {
    let endpoints: BTreeSet<IpAddr> =
        config.peers.iter().flat_map(|peer| &peer.endpoints).map(|endpoint| endpoint.ip()).collect();
    let Ok(mut lookup) = RouteLookup::open() else { return Vec::new() };
    if endpoints.is_empty() {
        return Vec::new();
    }
    let mut leads = |name: &str| {
        let Ok(index) = if_nametoindex(name) else { return true };
        // If the kernel does not answer, a route is assumed, so that no finding results.
        endpoints.iter().any(|endpoint| lookup.has_route(*endpoint, index, None).unwrap_or(true))
    };
    let bad = addresses.keys().filter(|name| !leads(name)).map(|name| {
        let to = endpoints.first().map_or_else(String::new, ToString::to_string);
        let help = format!(
            "run ip route add default via ROUTER dev {name} metric 1000, where ROUTER is the router of that link"
        );
        let found = format!("the kernel has no route over this link to {to} or to any other endpoint of a peer");
        Check::new(format!("route over link {name}"), Verdict::Bad, found, help)
    });
    bad.collect()
}

fn arp_is_strict(machine: &Machine) -> bool {
    let value =
        |key: &str| machine.proc(&format!("sys/net/ipv4/conf/all/{key}")).and_then(|text| text.parse::<u8>().ok());
    value("arp_ignore").is_some_and(|ignore| ignore > 0) && value("arp_announce") == Some(2)
}

/// Checks for two links with addresses in one subnet.
///
/// By default, Linux then answers ARP for the address of one link on the other.
fn one_subnet(addresses: &LinkAddresses, arp_is_strict: bool) -> Vec<Check> {
    let all: Vec<(&String, Prefix)> =
        addresses.iter().flat_map(|(name, prefixes)| prefixes.iter().map(move |prefix| (name, *prefix))).collect();
    let mut checks = Vec::new();
    for (at, (name, own)) in all.iter().enumerate().filter(|(_, (_, own))| own.address.is_ipv4() && own.length < 32) {
        for (other, its) in all.iter().skip(at + 1).filter(|(other, its)| other != name && its.overlaps(*own)) {
            let wider = prefix::text(prefix::trimmed(if its.length < own.length { *its } else { *own }));
            let both = format!("the links {name} and {other} both have an address in the subnet {wider}");
            let (verdict, found) = match arp_is_strict {
                true => (Verdict::Good, format!("{both}, and the kernel answers ARP correctly")),
                false => (Verdict::Warning, format!("{both}: the kernel answers ARP for one of them on the other")),
            };
            let help = "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2";
            checks.push(Check::new(format!("subnet of link {name}"), verdict, found, help));
        }
    }
    checks
}

/// A neighbour in the kernel's table: its address, its hardware address, and the link.
type KnownNeighbour = (Ipv4Addr, String, String);

/// Reads `/proc/net/arp`. Entries without a hardware address are left out.
fn neighbours(text: &str) -> Vec<KnownNeighbour> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, hardware, _, link] = words[..] else { return None };
        let is_known = flags != "0x0" && hardware != "00:00:00:00:00:00";
        Some((address.parse().ok()?, hardware.to_owned(), link.to_owned())).filter(|_| is_known)
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Reads the links and gateways of default routes from `/proc/net/route`.
fn routers(text: &str) -> BTreeSet<(String, Ipv4Addr)> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (link, destination, gateway) = (words.first()?, words.get(1)?, words.get(2)?);
        let gateway = Ipv4Addr::from(u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes());
        (*destination == "00000000" && !gateway.is_unspecified()).then(|| ((*link).to_owned(), gateway))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// Checks for two links whose router is one machine: both fail with it.
fn one_router(neighbours: &[KnownNeighbour], routers: &BTreeSet<(String, Ipv4Addr)>, names: &[&str]) -> Vec<Check> {
    let mut links_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, hardware, link) in neighbours.iter().filter(|(_, _, link)| names.contains(&link.as_str())) {
        links_of.entry(hardware).or_default().insert(link);
    }
    let is_router = |hardware: &str| {
        let its = neighbours.iter().filter(|(_, own, _)| own == hardware);
        its.into_iter().any(|(address, _, link)| routers.contains(&(link.clone(), *address)))
    };
    let shared = links_of.into_iter().filter(|(hardware, links)| links.len() > 1 && is_router(hardware));
    let check = |(hardware, links): (&str, BTreeSet<&str>)| {
        let links = links.into_iter().collect::<Vec<_>>().join(" and ");
        let found = format!(
            "the links {links} lead to one router or modem (MAC {hardware}): they fail together and share its rate"
        );
        Check::new("ways out", Verdict::Warning, found, "connect one of them to another modem, or use only one of them")
    };
    shared.map(check).collect()
}

/// Checks that IPv6 is on. `None` if neither the tunnel nor an endpoint has an IPv6 address.
fn ipv6(machine: &Machine, config: &Config) -> Option<Check> {
    let in_tunnel = config.tun.addresses.iter().any(|own| own.address.is_ipv6());
    let endpoints = config.peers.iter().flat_map(|peer| &peer.endpoints);
    let needs = match (in_tunnel, endpoints.into_iter().any(|endpoint| endpoint.is_ipv6())) {
        (true, _) => "the tunnel has an IPv6 address in [tun]",
        (_, true) => "an endpoint of a peer has an IPv6 address",
        _ => return None,
    };
    let is_off =
        |of: &str| machine.proc(&format!("sys/net/ipv6/conf/{of}/disable_ipv6")).is_none_or(|value| value != "0");
    Some(match is_off("all") || is_off("default") {
        true => {
            let help = "sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0";
            Check::new("IPv6", Verdict::Bad, format!("IPv6 is switched off on this machine, but {needs}"), help)
        }
        false => Check::new("IPv6", Verdict::Good, "on", ""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_one_subnet_are_reported_once() {
        let prefix = |text: &str| prefix::parse(text).unwrap();
        let both = |a: &str, b: &str| {
            LinkAddresses::from([
                ("a".to_owned(), vec![prefix(a)]),
                ("b".to_owned(), vec![prefix(b), prefix("fd00::1/64")]),
            ])
        };
        let checks = one_subnet(&both("192.168.1.7/24", "192.168.1.8/25"), false);
        assert_eq!(checks.len(), 1, "{checks:?}");
        let found = "the links a and b both have an address in the subnet 192.168.1.0/24: the kernel";
        assert!(checks[0].found.starts_with(found), "{checks:?}");
        assert_eq!(one_subnet(&both("192.168.1.7/24", "192.168.1.8/24"), true)[0].verdict, Verdict::Good);
        assert_eq!(one_subnet(&both("192.168.1.7/24", "192.168.2.8/24"), false), []);
        assert_eq!(
            one_subnet(&both("192.168.1.7/32", "192.168.1.7/32"), false),
            [],
            "an address of a point-to-point link"
        );
    }

    #[test]
    fn links_with_one_router_are_reported() {
        let arp = "IP address       HW type     Flags       HW address            Mask     Device\n\
            192.168.8.1      0x1         0x2         02:00:00:00:00:01     *        wwan0\n\
            192.168.9.1      0x1         0x2         02:00:00:00:00:01     *        eth0\n\
            192.168.9.77     0x1         0x2         02:00:00:00:00:77     *        eth0\n\
            192.168.8.77     0x1         0x2         02:00:00:00:00:77     *        wwan0\n\
            192.168.8.9      0x1         0x0         00:00:00:00:00:00     *        wwan0\n";
        let routes = "Iface\tDestination\tGateway \tFlags\n\
            eth0\t00000000\t0109A8C0\t0003\neth0\t0009A8C0\t00000000\t0001\nwwan0\t00000000\t0108A8C0\t0003\n";
        let checks = one_router(&neighbours(arp), &routers(routes), &["eth0", "wwan0"]);
        assert_eq!(checks.len(), 1, "a host on both links is no router: {checks:?}");
        assert!(
            checks[0].found.contains("eth0 and wwan0 lead to one router or modem (MAC 02:00:00:00:00:01)"),
            "{checks:?}"
        );
        assert_eq!(one_router(&neighbours(arp), &routers(routes), &["eth0"]), []);
        assert_eq!(neighbours("\n broken \n\u{1f}"), []);
    }
}
