//! rtnetlink with the real kernel: the watch reports the changes of `ip`, and `ip` sees our changes.

mod namespace;

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Instant;

use namespace::{PATIENCE, in_namespace, ip};
use weft_io::netlink::{
    Address, Configure, DeviceRoute, IpFamily, Link, LinkWatch, MAIN_TABLE, NetlinkEvent, RouteLookup, Rule, Scope,
    Selector,
};
use weft_io::tun::{TunConfig, TunDevice};
use weft_io::wait::Poller;

struct Watch {
    watch: LinkWatch,
    poller: Poller,
}

impl Watch {
    /// Opens a watch and returns the initial state that it reports.
    fn open() -> (Self, Vec<NetlinkEvent>) {
        let mut watch = LinkWatch::open().unwrap();
        let poller = Poller::new().unwrap();
        poller.add(watch.as_raw_fd(), 0).unwrap();
        let mut events = Vec::new();
        watch.poll(&mut events).unwrap();
        (Self { watch, poller }, events)
    }

    /// Waits for an event for which `select` returns a value.
    fn expect<T>(&mut self, what: &str, mut select: impl FnMut(&NetlinkEvent) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        let (mut events, mut ready) = (Vec::new(), Vec::new());
        loop {
            self.watch.poll(&mut events).unwrap();
            if let Some(found) = events.iter().find_map(&mut select) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what}: only {events:#?}");
            self.poller.wait(Some(left), &mut ready).unwrap();
        }
    }

    fn expect_link(&mut self, what: &str, condition: impl Fn(&Link) -> bool) -> Link {
        self.expect(what, |event| match event {
            NetlinkEvent::Link(link) if condition(link) => Some(link.clone()),
            _ => None,
        })
    }

    fn expect_event(&mut self, expected: &NetlinkEvent) {
        self.expect(&format!("{expected:?}"), |event| (event == expected).then_some(()));
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn creation_change_and_removal_of_a_link_are_reported() {
    in_namespace(|_| {
        let (mut watch, first) = Watch::open();
        assert!(matches!(&first[..], [NetlinkEvent::Link(lo), ..] if lo.is_loopback && lo.name == "lo" && lo.is_up));
        ip("link add w0 mtu 1480 type veth peer name w1");
        let link = watch.expect_link("new", |link| link.name == "w0");
        assert!(!link.is_up && link.mtu == 1480 && !link.is_tun && !link.is_loopback);
        let index = link.index;
        ip("link set w0 addrgenmode none");
        ip("link set w0 up");
        ip("link set w1 up");
        watch.expect_link("carrier", |link| link.index == index && link.has_carrier);

        ip("addr add 192.0.2.1/24 dev w0");
        watch.expect_event(&NetlinkEvent::Address(Address {
            index,
            address: address("192.0.2.1"),
            prefix_len: 24,
            scope: Scope::Global,
            is_deprecated: false,
            is_tentative: false,
        }));
        ip("addr add 2001:db8::1/64 dev w0 nodad preferred_lft 0");
        let global = watch.expect("IPv6 address", |event| match event {
            NetlinkEvent::Address(found) if found.address == address("2001:db8::1") => Some(*found),
            _ => None,
        });
        assert!(global.is_deprecated && !global.is_tentative && global.prefix_len == 64);

        let route = |family, has_default| NetlinkEvent::DefaultRoute { index, family, has_default };
        ip("route add default via 192.0.2.254");
        watch.expect_event(&route(IpFamily::V4, true));
        ip("-6 route add default dev w0 table 77");
        watch.expect_event(&route(IpFamily::V6, true));
        // The kernel does not report the IPv6 routes that it removes with the device.
        ip("-6 route del default dev w0 table 77");
        watch.expect_event(&route(IpFamily::V6, false));
        ip("-6 addr flush dev w0");
        watch.expect("no IPv6", |event| matches!(event, NetlinkEvent::AddressRemoved { .. }).then_some(()));
        ip("link set w1 down");
        watch.expect_link("no carrier", |link| link.index == index && link.is_up && !link.has_carrier);
        ip("link set w0 down");
        watch.expect_event(&route(IpFamily::V4, false));
        ip("link set w0 name renamed");
        watch.expect_link("renamed", |link| link.index == index && link.name == "renamed" && !link.is_up);
        ip("addr del 192.0.2.1/24 dev renamed");
        watch.expect_event(&NetlinkEvent::AddressRemoved { index, address: address("192.0.2.1"), prefix_len: 24 });
        ip("link del renamed");
        watch.expect_event(&NetlinkEvent::LinkRemoved { index });
    });
}

#[test]
fn a_tun_device_is_known_as_one() {
    in_namespace(|_| {
        let (mut watch, _) = Watch::open();
        let config = TunConfig {
            name: Some("weft0".into()),
            mtu: 1400,
            addresses: vec![(address("10.9.0.1"), 24)],
            alias: "weft".into(),
        };
        let tun = TunDevice::open(&config).unwrap();
        let index = tun.index();
        let link = watch.expect_link("up", |link| link.index == index && link.is_tun && link.is_up && link.mtu == 1400);
        assert_eq!(link.alias, "weft");
        drop(tun);
        watch.expect_event(&NetlinkEvent::LinkRemoved { index });
    });
}

#[test]
fn lost_messages_cost_nothing() {
    in_namespace(|_| {
        let (mut watch, _) = Watch::open();
        let smallest: libc::c_int = 1;
        // SAFETY: the descriptor is open. Pointer and length describe `smallest`.
        let set = unsafe {
            let value = (&raw const smallest).cast();
            libc::setsockopt(watch.watch.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, value, 4)
        };
        assert_eq!(set, 0);
        ip("link add w0 type veth peer name w1");
        let index = watch.expect_link("new", |link| link.name == "w0").index;
        let mut configure = Configure::open().unwrap();
        for mtu in 1300..=1400 {
            configure.set_mtu(index, mtu).unwrap();
        }
        configure.add_address(index, address("192.0.2.1"), 24).unwrap();
        watch.expect_link("the last MTU", |link| link.index == index && link.mtu == 1400);
        configure.remove_address(index, address("192.0.2.1"), 24).unwrap();
        watch.expect_event(&NetlinkEvent::AddressRemoved { index, address: address("192.0.2.1"), prefix_len: 24 });
    });
}

#[test]
fn routes_are_set_and_removed() {
    in_namespace(|_| {
        let (mut watch, _) = Watch::open();
        ip("link add w0 type veth peer name w1");
        let index = watch.expect_link("new", |link| link.name == "w0").index;
        let mut configure = Configure::open().unwrap();
        configure.set_up(index, true).unwrap();
        for (destination, prefix_len, family, shown) in
            [("198.51.100.0", 24, "-4", "198.51.100.0/24"), ("2001:db8:1::", 48, "-6", "2001:db8:1::/48")]
        {
            let route = DeviceRoute {
                destination: address(destination),
                prefix_len,
                index,
                table: None,
                priority: Some(50),
                reordering: None,
            };
            configure.add_route(&route).unwrap();
            let there = configure.add_route(&DeviceRoute { reordering: Some(1), ..route }).unwrap_err();
            assert_eq!(there.kind(), std::io::ErrorKind::AlreadyExists);
            configure.replace_route(&DeviceRoute { reordering: Some(127), ..route }).unwrap();
            let listed = ip(&format!("{family} route show dev w0 metric 50"));
            assert_eq!(listed.lines().count(), 1, "{listed}");
            assert!(listed.contains(shown) && listed.contains("reordering 127"), "{listed}");
            configure.remove_route(&route).unwrap();
            assert_eq!(configure.remove_route(&route).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        }
        assert!(configure.add_address(index, address("192.0.2.1"), 24).is_ok());
        assert!(configure.add_address(index, address("192.0.2.1"), 24).is_ok(), "again is no error");
        configure.remove_address(index, address("192.0.2.1"), 24).unwrap();
        let gone = configure.remove_address(index, address("192.0.2.1"), 24).unwrap_err();
        assert_eq!(gone.kind(), std::io::ErrorKind::AddrNotAvailable);
        configure.set_up(index, false).unwrap();
        watch.expect_link("down", |link| link.index == index && !link.is_up);
    });
}

#[test]
fn a_device_may_have_a_table_of_its_own() {
    in_namespace(|_| {
        let (mut watch, _) = Watch::open();
        ip("link add w0 type veth peer name w1");
        let index = watch.expect_link("new", |link| link.name == "w0").index;
        let mut configure = Configure::open().unwrap();
        configure.set_up(index, true).unwrap();
        for (ipv6, own, destination, prefix_len) in
            [(false, "192.0.2.1", "198.51.100.0", 24), (true, "2001:db8::1", "2001:db8:1::", 48)]
        {
            let family = if ipv6 { "-6" } else { "-4" };
            let selectors = [Selector::Incoming("w0"), Selector::Bound("w0"), Selector::From(address(own))];
            let rules = selectors.map(|selector| Rule { selector, ipv6, table: 1007 });
            for rule in rules.iter().chain(&rules) {
                configure.add_rule(rule).unwrap();
            }
            let listed = ip(&format!("{family} rule show"));
            for shown in ["iif w0 lookup 1007", "oif w0 lookup 1007", &format!("from {own} lookup 1007")] {
                assert_eq!(listed.matches(shown).count(), 1, "{listed}");
            }
            configure.add_address_without_route(index, address(own), 24).unwrap();
            let main = ip(&format!("{family} route show table main"));
            assert!(!main.contains("192.0.2.0/24") && !main.contains("2001:d00::/24"), "{main}");
            let route = DeviceRoute {
                destination: address(destination),
                prefix_len,
                index,
                table: Some(1007),
                priority: None,
                reordering: None,
            };
            configure.add_route(&route).unwrap();
            let shown = ip(&format!("{family} route show table 1007"));
            assert!(shown.contains(&format!("{destination}/{prefix_len} dev w0")), "{shown}");
            configure.remove_route(&route).unwrap();
            for rule in &rules {
                configure.remove_rule(rule).unwrap();
                assert_eq!(configure.remove_rule(rule).unwrap_err().kind(), std::io::ErrorKind::NotFound);
            }
        }
    });
}

#[test]
fn rules_of_one_priority_keep_their_order_and_may_be_there_twice() {
    in_namespace(|_| {
        let mut configure = Configure::open().unwrap();
        for ipv6 in [false, true] {
            let family = if ipv6 { "-6" } else { "-4" };
            ip(&format!("{family} rule add priority 32765 table 7"));
            let before = ip(&format!("{family} rule show"));
            let rules = [(24, MAIN_TABLE), (24, 1007), (1, MAIN_TABLE)].map(|(length, table)| Rule {
                selector: Selector::AtLeast(length),
                ipv6,
                table,
            });
            rules.iter().chain(&rules).for_each(|rule| configure.append_rule(rule).unwrap());
            let listed = ip(&format!("{family} rule show"));
            let shown: Vec<&str> =
                listed.lines().filter_map(|line| line.split_once("lookup ")).map(|at| at.1).collect();
            let ours =
                ["main suppress_prefixlength 23", "1007 suppress_prefixlength 23", "main suppress_prefixlength 0"];
            let last = if ipv6 { &["main"][..] } else { &["main", "default"] };
            let expected = [&["local", "7"][..], &ours, &ours, last].concat();
            assert!(shown.iter().zip(&expected).all(|(shown, expected)| shown.starts_with(expected)), "{listed}");
            rules.iter().chain(&rules).for_each(|rule| configure.remove_rule(rule).unwrap());
            assert_eq!(ip(&format!("{family} rule show")), before);
        }
    });
}

/// Asks `ip` whether a device has a route to an address.
fn finds(destination: IpAddr, device: &str) -> bool {
    let question = match destination {
        IpAddr::V4(_) => format!("route get fibmatch {destination} oif {device}"),
        IpAddr::V6(_) => format!("-6 route get {destination} oif {device}"),
    };
    let arguments = question.split(' ');
    let output = std::process::Command::new("ip").args(arguments).output().unwrap();
    output.status.success()
}

#[test]
fn a_lookup_knows_routes_and_rules_of_each_device_and_sends_nothing() {
    in_namespace(|_| {
        let mut lookup = RouteLookup::open().unwrap();
        let (v4, v6) = (address("203.0.113.7"), address("2001:db8:7::7"));
        for (number, device) in ["la", "lb", "lc"].into_iter().enumerate() {
            ip(&format!("link add dev {device} type veth peer name peer-{device}"));
            ip(&format!("link set peer-{device} up"));
            ip(&format!("link set {device} up"));
            ip(&format!("addr add 192.0.2.{}/28 dev {device}", 16 * number + 1));
            ip(&format!("addr add 2001:db8:{number}::1/64 dev {device} nodad"));
        }
        let index = |device: &str| -> u32 {
            std::fs::read_to_string(format!("/proc/thread-self/net/dev_snmp6/{device}"))
                .unwrap()
                .split_whitespace()
                .nth(1)
                .unwrap()
                .parse()
                .unwrap()
        };
        let mut check = |what: &str, expected: [[bool; 3]; 2]| {
            for (destination, expected) in [v4, v6].into_iter().zip(expected) {
                for (device, expected) in ["la", "lb", "lc"].into_iter().zip(expected) {
                    let found = lookup.has_route(destination, index(device), None).unwrap();
                    assert_eq!(found, expected, "{what}: {destination} by {device}");
                    assert_eq!(found, finds(destination, device), "{what}: {destination} by {device}, as ip says");
                }
            }
        };
        check("no route", [[false; 3]; 2]);
        ip("route add default via 192.0.2.2");
        ip("-6 route add default dev lb");
        check("default routes", [[true, false, false], [false, true, false]]);
        ip("route add default via 192.0.2.18 metric 200");
        ip("-6 route add 2001:db8:7::/48 dev lc");
        check("a second one and a longer one", [[true, true, false], [false, true, true]]);
        ip("route add unreachable 203.0.113.0/24");
        check("unreachable", [[false; 3], [false, true, true]]);
        ip("route add default via 192.0.2.34 table 7");
        ip("rule add oif lc lookup 7 priority 7");
        check("a rule for a device", [[false, false, true], [false, true, true]]);
        ip("rule add from 192.0.2.17 lookup 8 priority 8");
        ip("route add default via 192.0.2.18 table 8");
        check("a rule for a source is not met without one", [[false, false, true], [false, true, true]]);
        let from_b = lookup.has_route(v4, index("lb"), Some(address("192.0.2.17"))).unwrap();
        let from_a = lookup.has_route(v4, index("la"), Some(address("192.0.2.1"))).unwrap();
        assert!(from_b && !from_a);
        assert!(lookup.has_route(address("192.0.2.2"), index("la"), None).unwrap(), "on the link");
        ip("route flush exact 0.0.0.0/0");
        assert!(!lookup.has_route(address("192.0.2.2"), index("lb"), None).unwrap(), "on another link");
        let neighbours = ip("neigh show") + &ip("-6 neigh show");
        assert!(!neighbours.contains("203.0.113.7") && !neighbours.contains("2001:db8:7::7"), "{neighbours}");
    });
}

#[test]
fn changes_of_routes_and_rules_are_reported() {
    in_namespace(|_| {
        ip("link add w0 type veth peer name w1");
        ip("link set w0 up");
        let (mut watch, _) = Watch::open();
        for change in [
            "route add 198.51.100.0/24 dev w0",
            "route del 198.51.100.0/24 dev w0",
            "-6 route add 2001:db8:1::/48 dev w0 table 9",
            "rule add oif w0 lookup 9",
            "-6 rule add oif w0 lookup 9",
            "rule del oif w0 lookup 9",
        ] {
            // Events that the kernel causes on its own, such as a link-local address, are read first.
            std::thread::sleep(std::time::Duration::from_millis(20));
            watch.watch.poll(&mut Vec::new()).unwrap();
            ip(change);
            watch.expect_event(&NetlinkEvent::Routes);
        }
        ip("link set w0 alias somebody");
        watch.expect_link("alias", |link| link.name == "w0" && link.alias == "somebody");
    });
}
