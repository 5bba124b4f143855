//! Property: the decision whether an interface is a link equals that of a second, simple implementation of its rule.
//!
//! Interfaces, endpoints and routes are random.

use super::*;
use crate::config::At;
use proptest::prelude::*;

fn at(name: &str) -> At<String> {
    At { value: name.to_owned(), span: 0..0 }
}

fn address(host: u8, ipv6: bool) -> IpAddr {
    if ipv6 { IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(host)]) } else { IpAddr::from([192, 0, 2, host]) }
}

prop_compose! {
    fn interface()(
        name in prop_oneof![Just("eth0"), Just("eth1"), Just("docker0"), Just("lo")],
        is_up in any::<bool>(),
        has_carrier in any::<bool>(),
        state in prop_oneof![Just(OperState::Up), Just(OperState::Dormant), Just(OperState::Unknown)],
        alias in prop_oneof![3 => Just(""), 1 => Just(TUNNEL_ALIAS), 1 => Just("uplink")],
        mtu in prop_oneof![Just(1_280), Just(1_500), Just(100_000)],
    ) -> Link {
        let (is_loopback, is_tun) = (name == "lo", !alias.is_empty());
        Link { index: 7, name: name.to_owned(), mtu, is_loopback, is_tun, alias: alias.to_owned(), is_up, has_carrier, state }
    }
}

prop_compose! {
    fn local()(
        host in 1..5_u8, ipv6 in any::<bool>(), is_tentative in prop::bool::weighted(0.2), is_global in prop::bool::weighted(0.8),
    ) -> Address {
        let scope = if is_global { Scope::Global } else { Scope::Link };
        Address { index: 7, address: address(host, ipv6), prefix_len: 24, scope, is_deprecated: false, is_tentative }
    }
}

proptest! {
    #[test]
    fn a_link_in_use_may_be_used_and_leads_to_an_endpoint_or_takes_calls(
        link in prop::option::weighted(0.9, interface()),
        addresses in prop::collection::vec(local(), 0..4),
        endpoints in prop::collection::btree_set((100..104_u8, any::<bool>()), 0..4),
        routed in prop::collection::btree_set((100..104_u8, any::<bool>()), 0..6),
        is_called in any::<bool>(),
        is_own in prop::bool::weighted(0.1),
        only in prop::sample::subsequence(vec!["eth0", "eth*", "lo", "none"], 0..3),
        ignore in prop::sample::subsequence(vec!["docker*", "eth1"], 0..2),
    ) {
        let list = |names: Vec<&str>| names.into_iter().map(at).collect();
        let choice = LinkChoice { only: list(only), ignore: list(ignore) };
        let place = |(host, ipv6): &(u8, bool)| address(*host, *ipv6);
        let demand = Demand { endpoints: endpoints.iter().map(place).collect(), is_called };
        let routed: BTreeSet<IpAddr> = routed.iter().map(place).collect();
        let mut asked = Vec::new();
        let found = judge(link.as_ref(), &addresses, is_own, &choice, &demand, |endpoint, _| {
            asked.push(endpoint);
            routed.contains(&endpoint)
        });
        let usable = |of: &Link| addresses.iter().filter(|a| !a.is_tentative && (a.scope == Scope::Global || of.is_loopback)).count() > 0;
        let has_family = |of: &Link, ipv6: bool| addresses.iter().any(|a| {
            a.address.is_ipv6() == ipv6 && !a.is_tentative && (a.scope == Scope::Global || of.is_loopback)
        });
        let leads = |of: &Link, to: &IpAddr| has_family(of, to.is_ipv6()) && (of.is_loopback || routed.contains(to));
        let may = |of: &&Link| !is_own && choice.allows(&of.name) && (!of.is_loopback || choice.names("lo"))
            && of.alias != TUNNEL_ALIAS && of.is_up && of.has_carrier && of.state != OperState::Dormant && usable(of);
        let useful = |of: &&Link| demand.endpoints.is_empty() || is_called || demand.endpoints.iter().any(|to| leads(of, to));
        let expected = link.as_ref().filter(may).filter(useful);
        prop_assert_eq!(found.is_ok(), expected.is_some(), "{:?}", found);
        if let (Ok(found), Some(of)) = (&found, expected) {
            let far: Vec<IpAddr> = demand.endpoints.iter().copied().filter(|to| !leads(of, to)).collect();
            prop_assert_eq!(&found.unreachable, &far);
        }
        if link.as_ref().filter(may).is_none() {
            prop_assert!(asked.is_empty(), "the kernel is asked of links only");
        }
        if let Err(why) = found {
            let should_work = matches!(
                why,
                Unusable::SetDown | Unusable::NoCarrier | Unusable::NotAuthenticated | Unusable::NoAddress
            );
            prop_assert_eq!(why.is_final(), !should_work);
        }
    }
}
