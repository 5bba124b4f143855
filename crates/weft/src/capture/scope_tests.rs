//! Properties: a capture stores the node's packets and no others, and follows changes of the node's addresses.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns the headers of a packet between two IPv4 ends.
fn packet(protocol: u8, from: &str, to: &str) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (at(from), at(to)) else { panic!("these tests use IPv4") };
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend(from.ip().octets());
    packet.extend(to.ip().octets());
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.resize(40, 0);
    packet
}

fn scope(remotes: Option<&[&str]>) -> LinkScope {
    let sockets = LinkSockets {
        name: "eth0".to_owned(),
        index: 2,
        addresses: vec!["192.0.2.1".parse().unwrap()],
        udp_port: 51_900,
        tcp: vec![at("198.51.100.1:443")],
    };
    LinkScope::new(sockets, (Some(8443), 7), remotes.map(|remotes| remotes.iter().map(|remote| at(remote)).collect()))
}

#[test]
fn datagrams_of_the_nodes_port_and_addresses_are_its_own() {
    let mut scope = scope(None);
    let (own, peer) = ("192.0.2.1:51900", "203.0.113.9:40000");
    assert_eq!(scope.judge(true, &packet(17, own, peer)), ScopeVerdict::Own);
    assert_eq!(scope.judge(false, &packet(17, peer, own)), ScopeVerdict::Own);
    // The address may be a new one of the node, or of another node for which this machine forwards.
    assert_eq!(scope.judge(false, &packet(17, peer, "192.0.2.77:51900")), ScopeVerdict::NewAddress);
    assert_eq!(scope.judge(true, &packet(17, peer, own)), ScopeVerdict::Foreign, "the remote port alone is no reason");
    assert_eq!(scope.judge(true, &packet(17, "192.0.2.1:53", "203.0.113.9:51900")), ScopeVerdict::Foreign);
    assert_eq!(scope.judge(true, &packet(6, own, peer)), ScopeVerdict::Foreign);
}

#[test]
fn connections_of_other_programs_to_the_same_server_are_foreign() {
    let mut scope = scope(None);
    let server = "198.51.100.1:443";
    assert_eq!(
        scope.judge(false, &packet(6, server, "192.0.2.1:50000")),
        ScopeVerdict::Foreign,
        "not opened by the node"
    );
    assert_eq!(scope.judge(true, &packet(6, "192.0.2.1:50001", server)), ScopeVerdict::Own, "it has the mark");
    assert_eq!(scope.judge(false, &packet(6, server, "192.0.2.1:50001")), ScopeVerdict::Own);
    assert_eq!(scope.judge(false, &packet(6, server, "192.0.2.1:50000")), ScopeVerdict::Foreign);
    assert_eq!(scope.judge(false, &packet(6, "203.0.113.9:40000", "192.0.2.1:8443")), ScopeVerdict::Own, "a caller");
}

#[test]
fn a_capture_of_one_peer_has_no_packet_of_another() {
    let mut scope = scope(Some(&["203.0.113.9:40000"]));
    let own = "192.0.2.1:51900";
    assert_eq!(scope.judge(true, &packet(17, own, "203.0.113.9:40000")), ScopeVerdict::Own);
    assert_eq!(
        scope.judge(true, &packet(17, own, "203.0.113.9:40001")),
        ScopeVerdict::Foreign,
        "another peer behind a NAT"
    );
    assert_eq!(scope.judge(false, &packet(17, "203.0.113.8:40000", own)), ScopeVerdict::Foreign);
    assert_eq!(scope.judge(false, &packet(6, "203.0.113.9:55555", "192.0.2.1:8443")), ScopeVerdict::Own);
    assert_eq!(scope.judge(false, &packet(6, "203.0.113.8:55555", "192.0.2.1:8443")), ScopeVerdict::Foreign);
}

#[test]
fn a_scope_follows_new_addresses_and_keeps_its_connections() {
    let mut scope = scope(None);
    let server = "198.51.100.1:443";
    assert_eq!(scope.judge(true, &packet(6, "192.0.2.1:50001", server)), ScopeVerdict::Own);
    let mut newer = scope.clone();
    newer.sockets.addresses.push("192.0.2.2".parse().unwrap());
    assert_eq!(scope.judge(true, &packet(17, "192.0.2.2:51900", "203.0.113.9:1")), ScopeVerdict::NewAddress);
    newer.connections.clear();
    assert!(!scope.update(newer.clone()), "the kernel's filter has no addresses of this machine");
    assert_eq!(scope.judge(true, &packet(17, "192.0.2.2:51900", "203.0.113.9:1")), ScopeVerdict::Own);
    assert_eq!(scope.judge(false, &packet(6, server, "192.0.2.1:50001")), ScopeVerdict::Own);
    newer.sockets.udp_port = 9;
    assert!(scope.update(newer));
    assert_eq!(scope.judge(true, &packet(17, "192.0.2.2:51900", "203.0.113.9:1")), ScopeVerdict::Foreign);
}

#[test]
fn the_longest_prefix_decides_behind_whom_an_address_lies() {
    let owners = PrefixOwners::new(
        [("10.0.0.0/8", true), ("10.9.0.0/16", false), ("bad", true), ("fd00::/8", true)].into_iter(),
    );
    let holds = |from: &str, to: &str| owners.has_end_of(&packet(17, from, to));
    assert!(holds("10.1.0.1:1", "192.0.2.1:1") && holds("192.0.2.1:1", "10.1.0.1:1"));
    assert!(!holds("10.9.0.1:1", "192.0.2.1:1") && !holds("11.0.0.1:1", "192.0.2.1:1"));
    let mut wide = vec![0x60; 40];
    wide[8..24].copy_from_slice(&"fd01::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    assert!(owners.has_end_of(&wide));
    let all = PrefixOwners::new([("0.0.0.0/0", true)].into_iter());
    assert!(all.has_end_of(&packet(17, "10.1.0.1:1", "192.0.2.1:1")));
}

proptest! {
    #[test]
    fn any_bytes_are_judged(bytes in vec(any::<u8>(), 0..120), is_outgoing: bool) {
        let mut scope = scope(None);
        scope.judge(is_outgoing, &bytes);
        PrefixOwners::new([("0.0.0.0/0", true), ("::/0", true)].into_iter()).has_end_of(&bytes);
    }

    #[test]
    fn connections_that_are_remembered_are_limited(ports in vec(any::<u16>(), 1..40)) {
        let mut scope = scope(None);
        for (n, port) in (0..).zip(ports.iter().cycle().take(MAX_CONNECTIONS + 100)) {
            let own = format!("10.0.{}.{}:{port}", n / 256, n % 256);
            scope.judge(true, &packet(6, &own, "198.51.100.1:443"));
        }
        prop_assert!(scope.connections.len() <= MAX_CONNECTIONS);
    }
}
