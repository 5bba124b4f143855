//! Two unmodified OpenVPN clients of one edge, on a real kernel.
//!
//! Properties: clients get the offered settings, no IPv6 bypasses the tunnel, and clients reach each other only where
//! that is allowed.

use crate::common::{Dir, has_tun, script, stderr, stdout};
use std::process::Command;

/// Two clients, each with its own link to the edge, in both families.
///
/// `2001:db8:99::1` is a host beyond the edge.
const NETWORK: &str = r#"
    for node in one two edge; do ip netns add $node; ip -n $node link set lo up; done
    join() { # client, network
        ip link add edge-$1 netns edge type veth peer name wan netns $1
        ip -n edge addr add 192.0.$2.1/24 dev edge-$1; ip -n edge addr add 2001:db8:$2::1/64 dev edge-$1 nodad
        ip -n $1 addr add 192.0.$2.2/24 dev wan; ip -n $1 addr add 2001:db8:$2::2/64 dev wan nodad
        ip -n edge link set edge-$1 up; ip -n $1 link set wan up
        ip -n $1 route add default via 192.0.$2.1; ip -n $1 route add default via 2001:db8:$2::1
    }
    join one 2; join two 3
    ip -n edge addr add 2001:db8:99::1/128 dev lo; ip netns exec edge sysctl -qw net.ipv4.ip_forward=1
    edge() { ip netns exec edge $WEFT access "$@" -c edge.toml; }
    start() { ip netns exec edge $WEFT up -c edge.toml 2>>edge.log & edge=$!
        for _ in $(seq 100); do [ "$(grep -c 'OpenVPN: running' edge.log)" = $1 ] && break; sleep 0.1; done; }
    come() { # client: both begin anew
        ip netns exec $1 openvpn --config $1.ovpn --dev ovpn0 --dev-type tun --verb 4 --script-security 2 --up ./up.sh >$1.log 2>&1 & eval "$1=$!"; }
    pings() { node=$1; shift; ip netns exec $node ping -c1 -W1 "$@" >/dev/null 2>&1 && echo yes || echo no; }
    there() { for _ in $(seq 100); do grep -q 'Initialization Sequence Completed' $1.log && break; sleep 0.1; done; }
    both() { come one; come two; there one; there two; }
    leave() { kill $one $two; wait $one $two; }
    rules() { ip -n edge rule | grep -c prohibit; }
"#;

fn is_possible() -> bool {
    let has_openvpn = Command::new("openvpn").arg("--version").output().is_ok();
    if !has_openvpn {
        eprintln!("skipped: openvpn is missing here");
    }
    has_openvpn && has_tun()
}

fn edge(dir: &Dir, access: &str) {
    dir.key("edge.key");
    let site = dir.key("site.key");
    dir.write(
        "edge.toml",
        &format!(
            "[node]\nkey = \"edge.key\"\nlisten = 51900\nstate = \"edge.state\"\ncontrol = \"edge.sock\"\n\
             [tun]\naddress = [\"10.9.0.1/24\"]\n[access]\nlisten = 51820\npool = \"10.9.128.0/24\"\n\
             endpoint = \"192.0.2.1:51820\"\n{access}\n\
             [access.openvpn]\nlisten = 1194\npool = \"10.9.129.0/24\"\nendpoint = \"192.0.2.1:1194\"\n\
             [[peer]]\nname = \"site\"\npublic-key = \"{site}\"\nprefixes = [\"10.9.0.2/32\"]\n\
             endpoints = [\"192.0.2.9:51900\"]\n"
        ),
    );
    let up = dir.write("up.sh", "#!/bin/sh\nenv | grep ^foreign_option | sort >>\"$dev.told\"\n");
    crate::common::chmod(&up, 0o755);
}

fn part<'a>(text: &'a str, name: &str) -> &'a str {
    text.split("== ").find_map(|part| part.strip_prefix(name)?.strip_prefix('\n')).unwrap_or_default().trim()
}

/// Returns all logs, for a failure message.
fn logs(dir: &Dir) -> String {
    let read = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap_or_default();
    ["edge.log", "one.log", "two.log", "edge.state/openvpn/server.log"].map(read).join("\n")
}

#[test]
fn a_client_with_a_default_route_queries_the_named_servers_and_sends_no_ipv6_outside_the_tunnel() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    edge(&dir, "routes = [\"0.0.0.0/0\"]\ndns = [\"10.9.0.1\", \"10.9.0.53\"]");
    let text = format!(
        r#"{NETWORK}
        seen() {{ ip netns exec edge nft list chain ip6 seen in | grep -o 'packets [0-9]*'; }}
        ip netns exec edge nft 'table ip6 seen {{ chain in {{ type filter hook prerouting priority 0; iifname "edge-one" ip6 daddr 2001:db8:99::1 counter; }}; }}'
        echo "== before"; pings one 2001:db8:99::1; seen
        start 1; edge add one --openvpn --out one.ovpn
        come one; there one; echo "== there"; pings one 10.9.129.1
        echo "== told"; cat ovpn0.told
        echo "== beside"; pings one 2001:db8:99::1; ip netns exec one ping -c1 -W1 -I wan 2001:db8:2::1 >/dev/null && echo link; seen
        echo "== way"; ip -n one -6 route get 2001:db8:99::1 | grep -o 'dev [^ ]*'
        echo "== elsewhere"; ip -n one route get 198.51.100.7 | grep -o 'dev [^ ]*'
        kill $one; wait $one; echo "== after"; pings one 2001:db8:99::1
        kill $edge; wait $edge"#
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{}", stderr(&out), logs(&dir));
    assert_eq!(part(&text, "before"), "yes\npackets 1", "{all}");
    assert_eq!(part(&text, "there"), "yes", "{all}");
    let told = "foreign_option_1=dhcp-option DNS 10.9.0.1\nforeign_option_2=dhcp-option DNS 10.9.0.53";
    assert_eq!(part(&text, "told"), told, "{all}");
    assert_eq!(part(&text, "beside"), "no\nlink\npackets 1", "{all}");
    assert_eq!(part(&text, "way"), "dev ovpn0", "{all}");
    assert_eq!(part(&text, "elsewhere"), "dev ovpn0", "{all}");
    assert_eq!(part(&text, "after"), "yes", "{all}");
}

#[test]
fn clients_reach_each_other_unless_they_are_kept_apart() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    edge(&dir, "isolate = false");
    let text = format!(
        r#"{NETWORK}
        try() {{ echo "$(pings one 10.9.129.3) $(pings two 10.9.129.2) $(pings one 10.9.129.1) $(pings two 10.9.0.1)"; }}
        echo "== untouched"; ip -n edge rule >rules; start 1
        edge add one --openvpn --out one.ovpn; edge add two --openvpn --out two.ovpn
        both; echo "== together"; try; rules; leave
        kill $edge; wait $edge
        sed -i 's/^isolate.*/isolate = true/' edge.toml; start 2
        both; echo "== apart"; try; rules; leave
        kill $edge; wait $edge; echo "== stopped"; ip -n edge rule | diff rules - && echo as before
        start 3; echo "== again"; rules; kill -9 $edge; wait $edge
        sed -i 's/^isolate.*/isolate = false/' edge.toml; sleep 1; start 4
        both; echo "== killed, then together"; try; rules; leave
        kill $edge; wait $edge; echo "== left"; ip -n edge rule | diff rules - && echo as before"#
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{}", stderr(&out), logs(&dir));
    assert_eq!(part(&text, "together"), "yes yes yes yes\n0", "{all}");
    assert_eq!(part(&text, "apart"), "no no yes yes\n4", "{all}");
    assert_eq!(part(&text, "stopped"), "as before", "{all}");
    assert_eq!(part(&text, "again"), "4", "{all}");
    assert_eq!(part(&text, "killed, then together"), "yes yes yes yes\n0", "{all}");
    assert_eq!(part(&text, "left"), "as before", "{all}");
}
