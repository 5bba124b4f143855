//! Compares the access rules with a model that works on single bits, for random rules and addresses.

use super::super::shadow::{Shade, shades};
use super::*;
use proptest::prelude::*;

/// Generates addresses with few random bits, so that rules and addresses often match.
///
/// Some are addresses that no rule opens.
fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = |bits: u32| Ipv4Addr::from_bits(0x0a00_0000 | bits & 0x8000_0003);
    let v6 = |bits: u32| Ipv6Addr::from_bits(0xfd00_u128 << 112 | u128::from(bits & 3));
    prop_oneof![
        4 => any::<u32>().prop_map(move |bits| v4(bits).into()),
        3 => any::<u32>().prop_map(move |bits| v6(bits).into()),
        3 => any::<u32>().prop_map(move |bits| v4(bits).to_ipv6_mapped().into()),
        1 => any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()),
        1 => any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).to_ipv6_mapped().into()),
        1 => any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into()),
        1 => prop::sample::select(CLOSED.to_vec()).prop_map(|(prefix, _)| prefix.address),
    ]
}

fn prefix() -> impl Strategy<Value = PolicyPrefix> {
    let lengths = prop::sample::select(vec![0_u8, 1, 7, 8, 30, 31, 32, 126, 127, 128]);
    (address(), lengths).prop_map(|(address, length)| {
        let address = address.to_canonical();
        let width = if address.is_ipv4() { 32 } else { 128 };
        let length = length.min(width);
        let text = format!("{address}/{length}");
        trimmed(text.parse().unwrap())
    })
}

fn trimmed(prefix: PolicyPrefix) -> PolicyPrefix {
    let address = match prefix.address {
        IpAddr::V4(a) => {
            IpAddr::V4((a.to_bits() & u32::MAX.checked_shl(32 - u32::from(prefix.length)).unwrap_or(0)).into())
        }
        IpAddr::V6(a) => {
            IpAddr::V6((a.to_bits() & u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0)).into())
        }
    };
    PolicyPrefix { address, ..prefix }
}

fn ports() -> impl Strategy<Value = PortRange> {
    (1_u16..6, 0_u16..4).prop_map(|(first, more)| PortRange { first, last: first + more })
}

fn permit() -> impl Strategy<Value = Permit> {
    let verdict = any::<bool>().prop_map(|allow| if allow { RuleVerdict::Allow } else { RuleVerdict::Deny });
    let (from, to) = (prop::collection::vec(prefix(), 0..3), prop::collection::vec(prefix(), 1..3));
    (verdict, from, to, prop::collection::vec(ports(), 0..3)).prop_map(|(verdict, from, to, ports)| Permit {
        verdict,
        from,
        to,
        ports,
    })
}

/// Returns the bits of the address, the most significant first.
///
/// An IPv4-mapped address yields the bits of its IPv4 address.
fn bits(address: IpAddr) -> Vec<bool> {
    let octets = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) if a.octets().starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]) => {
            a.octets().into_iter().skip(12).collect()
        }
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
}

/// True if an IPv6 client asks for an IPv4-mapped server, or an IPv4 client for an IPv6 server.
fn is_mixed(from: IpAddr, to: IpAddr) -> bool {
    bits(from).len() != bits(to).len()
}

fn model_holds(prefix: &PolicyPrefix, address: IpAddr) -> bool {
    let (a, b) = (bits(prefix.address), bits(address));
    a.len() == b.len() && a.iter().zip(&b).take(prefix.length.into()).all(|(a, b)| a == b)
}

/// Returns the index of the first matching rule and whether it allows the connection, or `None` if no rule matches.
fn model(rules: &[Permit], from: IpAddr, to: SocketAddr) -> Option<(usize, bool)> {
    for (index, rule) in rules.iter().enumerate() {
        let is_from = rule.from.is_empty() || rule.from.iter().any(|prefix| model_holds(prefix, from));
        let is_to = rule.to.iter().any(|prefix| model_holds(prefix, to.ip()));
        let port = to.port();
        let is_port = rule.ports.is_empty() || rule.ports.iter().any(|p| p.first <= port && port <= p.last);
        if is_from && is_to && is_port {
            return Some((index, rule.verdict == RuleVerdict::Allow));
        }
    }
    None
}

/// True for servers' addresses that a proxy must never reach, as the standard library classifies them.
fn model_is_closed(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            a.octets()[0] == 0 || a.is_loopback() || a.is_link_local() || a.is_multicast() || a.is_broadcast()
        }
        IpAddr::V6(a) => match a.to_ipv4_mapped() {
            Some(mapped) => model_is_closed(mapped.into()),
            None => {
                a.is_loopback()
                    || a.is_unspecified()
                    || a.is_unicast_link_local()
                    || a.is_multicast()
                    || a.octets().starts_with(&[0; 12])
            }
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn judged_as_the_model_judges(
        rules in prop::collection::vec(permit(), 0..6),
        from in address(),
        (to, port) in (address(), 1_u16..10),
        own in prop::collection::vec((address(), 1_u16..10), 0..2),
    ) {
        let to = SocketAddr::new(to, port);
        let endpoints: Vec<SocketAddr> = own.into_iter().map(SocketAddr::from).collect();
        let is_own = endpoints.iter().any(|own| bits(own.ip()) == bits(to.ip()) && own.port() == port);
        let expected = match model(&rules, from, to) {
            _ if model_is_closed(to.ip()) || is_mixed(from, to.ip()) => "closed".to_owned(),
            _ if is_own => "tunnel".to_owned(),
            Some((index, false)) => format!("rule {}", index + 1),
            _ => "allowed".to_owned(),
        };
        let found = match (AccessCheck { rules, endpoints }).judge(from, to) {
            Err(PermitRefusal::Closed(_)) => "closed".to_owned(),
            Err(PermitRefusal::Tunnel) => "tunnel".to_owned(),
            Err(PermitRefusal::Rule(number)) => format!("rule {number}"),
            Ok(()) => "allowed".to_owned(),
        };
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_mapped_address_is_judged_as_the_address_it_leads_to(
        rules in prop::collection::vec(permit(), 0..6),
        from in any::<u32>(),
        to in address().prop_filter("IPv4", |address| address.to_canonical().is_ipv4()),
        port in 1_u16..10,
    ) {
        let access = AccessCheck { rules, endpoints: Vec::new() };
        let IpAddr::V4(plain) = to.to_canonical() else { unreachable!("filtered") };
        let from = Ipv4Addr::from_bits(0x0a00_0000 | from & 3);
        let mapped = SocketAddr::new(plain.to_ipv6_mapped().into(), port);
        let judged = access.judge(from.into(), SocketAddr::new(plain.into(), port));
        prop_assert_eq!(access.judge(from.to_ipv6_mapped().into(), mapped), judged);
        prop_assert_eq!(access.judge(from.into(), mapped), judged);
    }

    #[test]
    fn a_shadowed_rule_never_decides(
        rules in prop::collection::vec(permit(), 1..6),
        asked in prop::collection::vec((address(), address(), 1_u16..10), 64),
    ) {
        let last = rules.len() - 1;
        let found = shades(&rules);
        let decides = |(from, to, port): &(IpAddr, IpAddr, u16)| {
            !model_is_closed(*to) && !is_mixed(*from, *to) && matches!(model(&rules, *from, SocketAddr::new(*to, *port)), Some((by, _)) if by == last)
        };
        if found.is_empty() {
            // No earlier rules shadow the last rule, so it must decide at least one of these connections at the
            // boundaries.
            let corners = corners(&rules);
            prop_assert!(corners.iter().any(decides), "not shadowed, yet nothing is left for it: {rules:?}");
        } else {
            prop_assert!(!asked.iter().any(decides), "{found:?} do not shadow the last of {rules:?}");
            prop_assert!(!corners(&rules).iter().any(decides), "{found:?} do not shadow the last of {rules:?}");
        }
    }

    #[test]
    fn a_permit_survives_its_line(permit in permit()) {
        prop_assert_eq!(permit.to_string().parse::<Permit>().unwrap(), permit);
    }
}

/// Returns connections at the boundaries of all rules: clients, servers and ports.
///
/// They use the first address and port inside each range, and the first ones behind it.
fn corners(rules: &[Permit]) -> Vec<(IpAddr, IpAddr, u16)> {
    let ends = |prefix: &PolicyPrefix| match prefix.address {
        IpAddr::V4(a) => {
            let size = 1_u32.checked_shl(32 - u32::from(prefix.length)).unwrap_or(0);
            [IpAddr::V4(a), IpAddr::V4(Ipv4Addr::from_bits(a.to_bits().wrapping_add(size)))]
        }
        IpAddr::V6(a) => {
            let size = 1_u128.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
            [IpAddr::V6(a), IpAddr::V6(Ipv6Addr::from_bits(a.to_bits().wrapping_add(size)))]
        }
    };
    let zeros = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let closed = CLOSED.iter().map(|(prefix, _)| prefix);
    let to: Vec<IpAddr> = rules.iter().flat_map(|rule| &rule.to).chain(closed).flat_map(ends).chain(zeros).collect();
    let from: Vec<IpAddr> = rules.iter().flat_map(|rule| &rule.from).flat_map(ends).chain(zeros).collect();
    let ports = rules.iter().flat_map(|rule| &rule.ports).flat_map(|ports| [ports.first, ports.last + 1]);
    let ports: Vec<u16> = ports.chain([1, u16::MAX]).collect();
    let mut all = Vec::new();
    for from in &from {
        for to in to.iter().filter(|to| to.is_ipv4() == from.is_ipv4()) {
            all.extend(ports.iter().map(|port| (*from, *to, *port)));
        }
    }
    all
}

fn rules(lines: &[&str]) -> Vec<Permit> {
    lines.iter().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn shades_are_named() {
    assert_eq!(shades(&rules(&["deny * 10.0.0.0/8 *", "allow * 10.6.0.0/16 80"])), [Shade::Rule(0)]);
    let halves =
        ["deny * 10.6.0.0/17 *", "deny * 10.9.0.0/16 *", "deny * 10.6.128.0/17 1-100", "allow * 10.6.0.0/16 80"];
    assert_eq!(shades(&rules(&halves)), [Shade::Rule(0), Shade::Rule(2)]);
    assert_eq!(shades(&rules(&["allow * 127.0.0.1/32 *"])), [Shade::Closed]);
    assert_eq!(shades(&rules(&["allow 10.0.0.0/8 fd00::/8 *"])), [Shade::Family]);
    assert!(shades(&rules(&["deny 10.5.0.0/16 10.6.0.0/16 *", "allow * 10.6.0.0/16 *"])).is_empty());
    assert!(shades(&rules(&["deny * 10.0.0.0/8 22", "allow * 10.0.0.0/8 *"])).is_empty());
}
