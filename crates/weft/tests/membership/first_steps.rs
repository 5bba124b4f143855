//! Property: three commands make a network, typed as the README has them: `weft init --hub`, `weft invite`, `weft join`.
//!
//! Server and laptop are namespaces with two links between them. Each has an /etc, a /var/lib and a /run of its own, so that all commands use
//! their default places.

use crate::common::{Dir, has_tun, is_root, part, script, stderr, stdout};

const MACHINES: &str = r#"
    for node in server laptop other; do
        ip netns add $node; ip -n $node link set lo up
        for place in etc var-lib run; do mkdir -p $node/$place; done
        cp -a /etc/. $node/etc/ 2>/dev/null; mkdir -p $node/run/weft
    done
    for i in 1 2; do
        ip link add eth$i netns laptop type veth peer name eth$i netns server
        ip -n laptop addr add 192.0.2.$((i * 16 + 1))/28 dev eth$i; ip -n laptop link set eth$i up
        ip -n server addr add 192.0.2.$((i * 16 + 2))/28 dev eth$i; ip -n server link set eth$i up
    done
    ip link add eth1 netns other type veth peer name eth3 netns server
    ip -n other addr add 192.0.2.49/28 dev eth1; ip -n other link set eth1 up; ip -n other route add default via 192.0.2.50
    ip -n server addr add 192.0.2.50/28 dev eth3; ip -n server link set eth3 up
    mkdir -p bin; ln -sf $WEFT bin/weft; export PATH=$PWD/bin:$PATH
    here=$PWD
    at() { machine=$1; shift; ip netns exec $machine unshare -m sh -c '
        mount --bind $0/etc /etc && mount --bind $0/var-lib /var/lib && mount --bind $0/run /run && exec "$@"' $here/$machine "$@"; }
    code() { for _ in $(seq 100); do grep -q weft1- $1 && return; sleep 0.1; done; }
    now() { date +%s%3N; }
"#;

/// Returns true if a test may create network namespaces on this machine.
fn is_possible() -> bool {
    if !is_root() {
        eprintln!("skipped: this takes root");
    }
    is_root() && has_tun()
}

#[test]
fn a_server_and_a_laptop_become_a_network_by_three_commands() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    let text = format!(
        r#"{MACHINES}
        began=$(now)
        echo "== init"; at server weft init --hub --endpoint 192.0.2.18:51900 --endpoint 192.0.2.34:51900
        at server weft up 2>server.log & up=$!
        at server weft invite laptop >code 2>invite.log & invite=$!
        code code
        # A stranger at the port receives nothing, and holds up nobody.
        echo "== stranger"; (printf '\000\140'; head -c 96 /dev/urandom) | at other timeout 3 bash -c 'cat >/dev/tcp/192.0.2.50/51900; cat </dev/tcp/192.0.2.50/51900' | wc -c
        sleep 5 | at other timeout 5 bash -c 'cat >/dev/tcp/192.0.2.50/51900' & slow=$!
        # An attempt that fails after the answer does not use the code up: the same machine may try again.
        echo "== refused"; at laptop weft join --exit <code; echo "status $?"
        echo "== join"; at laptop weft join <code
        wait $invite; echo "== invited"; echo "status $?"; cat invite.log
        at laptop weft up 2>laptop.log & laptop=$!
        echo "== ping"; for _ in $(seq 100); do at laptop ping -c1 -W0.2 10.77.0.1 >/dev/null 2>&1 && break; sleep 0.05; done
        echo "$(($(now) - began))"
        sleep 1
        echo "== paths"; at laptop weft paths
        echo "== modes"; for file in weft.key ca/root.key; do stat -c '%a %n' server/etc/weft/$file; done; stat -c '%a %n' laptop/etc/weft/weft.key
        echo "== again"; mkdir -p other/etc/weft; at other weft join --dir /etc/weft <code; echo "status $?"
        echo "== twice"; at laptop weft join <code; echo "status $?"
        echo "== own name"; at server weft invite hub; echo "status $?"
        echo "== expired"; at server weft invite branch --prefix 192.168.7.0/24 --for 1s >code2; echo "status $?"
        echo "== listed"; at server weft ca list --ca /etc/weft/ca
        at laptop weft down; at server weft down; wait $up $laptop"#
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let logs: String = ["server.log", "laptop.log", "invite.log"]
        .map(|log| std::fs::read_to_string(dir.path(log)).unwrap_or_default())
        .join("\n");
    let all = format!("{text}\n{}\n{logs}", stderr(&out));
    assert!(part(&text, "init").contains("invite a node: weft invite"), "{all}");
    assert_eq!(part(&text, "stranger"), "0", "{all}");
    assert!(part(&text, "refused").contains("status 1"), "{all}");
    assert!(part(&text, "join").contains("joined as laptop, 10.77.0.2/24 and fd"), "{all}");
    assert!(
        part(&text, "invited").contains("status 0") && part(&text, "invited").contains("laptop has joined"),
        "{all}"
    );
    let took_ms: u64 = part(&text, "ping").parse().unwrap_or(u64::MAX);
    eprintln!("from the first command to the first ping: {took_ms} ms");
    assert!(took_ms < 30_000, "{all}");
    assert_eq!(part(&text, "paths").matches("good").count(), 2, "{all}");
    assert_eq!(part(&text, "modes").matches("600 ").count(), 3, "{all}");
    assert!(part(&text, "again").contains("status 1") && !dir.path("other/etc/weft/weft.toml").exists(), "{all}");
    assert!(part(&text, "twice").contains("status 1"), "{all}");
    assert!(part(&text, "own name").contains("status 2"), "{all}");
    assert!(part(&text, "expired").contains("status 1"), "{all}");
    assert!(!part(&text, "listed").contains("branch") && part(&text, "listed").contains("laptop"), "{all}");
}

#[test]
fn a_code_belongs_to_the_first_node_that_shows_it() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    let text = format!(
        r#"{MACHINES}
        at server weft init --hub --endpoint 192.0.2.18:51900 --endpoint 192.0.2.50:51900 >/dev/null
        at server weft invite shared >code 2>invite.log & invite=$!
        code code
        # Both show the code at the same time: one becomes a member.
        at laptop weft join <code >joined.laptop 2>&1 & a=$!
        at other weft join <code >joined.other 2>&1 & b=$!
        wait $a; echo "$?"; wait $b; echo "$?"; wait $invite; echo "invite $?"
        at server weft ca list --ca /etc/weft/ca | grep -c shared"#
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[..2].sort_unstable();
    assert_eq!(lines, ["0", "1", "invite 0", "1"], "{text}{}", stderr(&out));
}

#[test]
fn a_member_that_wants_it_reaches_the_internet_through_the_hub_and_nowhere_else() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    let text = format!(
        r#"{MACHINES}
        # A host of the Internet that has no route to the network; the laptop's own way there is through its provider at eth1.
        ip netns add world; ip -n world link set lo up
        for machine in server laptop; do
            ip link add world netns $machine type veth peer name $machine netns world
            ip -n $machine link set world up; ip -n world link set $machine up
        done
        ip -n world addr add 198.51.100.9/32 dev lo; ip -n world addr add 203.0.113.1/30 dev server; ip -n world addr add 203.0.113.5/30 dev laptop
        ip -n server addr add 203.0.113.2/30 dev world; ip -n server route add default via 203.0.113.1
        ip -n laptop addr add 203.0.113.6/30 dev world; ip -n laptop route add default via 203.0.113.5
        # Counts what comes to the world by the laptop's own provider.
        ip netns exec world nft 'table inet seen {{ chain in {{ type filter hook prerouting priority -300; iifname laptop ip daddr 198.51.100.9 counter; iifname laptop meta nfproto ipv6 icmpv6 type echo-request counter; }}; }}'
        clear() {{ ip netns exec world nft list table inet seen | grep -o 'packets [0-9]*' | tr '\n' ' '; }}
        at server cat /proc/sys/net/ipv4/ip_forward >before
        at server weft init --hub --exit --endpoint 192.0.2.18:51900 --endpoint 192.0.2.34:51900 >/dev/null
        at server weft up 2>server.log & up=$!
        at server weft invite laptop >code 2>invite.log & invite=$!
        code code
        at laptop weft join --exit <code; wait $invite
        echo "== own"; at laptop ping -c1 -W1 198.51.100.9 >/dev/null; echo "status $?"; clear
        at laptop weft up 2>laptop.log & laptop=$!
        for _ in $(seq 100); do at laptop ip route get 198.51.100.9 2>/dev/null | grep -q weft0 && at laptop ping -c1 -W0.2 10.77.0.1 >/dev/null 2>&1 && break; sleep 0.1; done
        echo "== through"; at laptop ping -c3 -i0.2 -W1 198.51.100.9 | grep -o '[0-9]* received'; clear
        echo "== ipv6"; at laptop ping -c1 -W1 2001:db8::9 2>&1 | grep -ciE 'no route|unreachable'; clear
        echo "== lan"; at laptop ip route get 192.0.2.18 | head -1
        at server weft down; for _ in $(seq 50); do at server ip link show weft0 >/dev/null 2>&1 || break; sleep 0.1; done
        echo "== after"; at server cat /proc/sys/net/ipv4/ip_forward before; at server nft list tables | grep -c weft_exit
        at laptop weft down; wait $up $laptop"#
    );
    let out = script(&dir, &text);
    let text = stdout(&out);
    let logs: String =
        ["server.log", "laptop.log"].map(|log| std::fs::read_to_string(dir.path(log)).unwrap_or_default()).join("\n");
    let all = format!("{text}\n{}\n{logs}", stderr(&out));
    assert!(
        part(&text, "own").contains("status 0") && part(&text, "own").contains("packets 1"),
        "the world answers: {all}"
    );
    assert!(part(&text, "through").contains("3 received"), "{all}");
    assert!(part(&text, "through").contains("packets 1 "), "nothing more by the laptop's own provider: {all}");
    assert_eq!(part(&text, "ipv6").lines().next(), Some("1"), "IPv6 is refused at once: {all}");
    assert!(part(&text, "lan").contains("dev eth1"), "{all}");
    assert_eq!(part(&text, "after"), "0\n0\n0", "the machine is as before: {all}");
}

#[test]
fn a_name_is_looked_up_until_it_has_an_address_and_the_peer_is_reached_there() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    let text = format!(
        r#"{MACHINES}
        # Names come from the machine's hosts file alone.
        for file in nsswitch.conf hosts resolv.conf; do rm -f laptop/etc/$file; : >laptop/etc/$file; done
        echo 'hosts: files' >laptop/etc/nsswitch.conf
        at server weft init --hub --endpoint 192.0.2.18:51900 >/dev/null
        at server weft up 2>server.log & up=$!
        at server weft invite laptop >code 2>/dev/null & invite=$!
        code code; at laptop weft join <code >/dev/null; wait $invite
        sed -i 's/@192.0.2.18:51900/@hub.example.org:51900/' laptop/etc/weft/weft.toml
        at laptop weft check; echo "check $?"
        at laptop weft up 2>laptop.log & laptop=$!
        for _ in $(seq 50); do grep -q 'cannot look up' laptop.log && break; sleep 0.1; done
        at laptop ping -c1 -W0.5 10.77.0.1 >/dev/null 2>&1; echo "before $?"
        echo '192.0.2.18 hub.example.org' >laptop/etc/hosts
        for _ in $(seq 150); do at laptop ping -c1 -W0.2 10.77.0.1 >/dev/null 2>&1 && break; sleep 0.1; done
        at laptop ping -c1 -W0.5 10.77.0.1 >/dev/null; echo "after $?"
        at laptop weft reload; sleep 0.5; at laptop ping -c1 -W0.5 10.77.0.1 >/dev/null; echo "reloaded $?"
        at laptop weft down; at server weft down; wait $up $laptop"#
    );
    let out = script(&dir, &text);
    let log = std::fs::read_to_string(dir.path("laptop.log")).unwrap_or_default();
    let all = format!("{}\n{}\n{log}", stdout(&out), stderr(&out));
    for line in ["check 0", "before 1", "after 0", "reloaded 0"] {
        assert!(stdout(&out).lines().any(|found| found == line), "{line}: {all}");
    }
    assert_eq!(log.matches("cannot look up the host name hub.example.org").count(), 1, "told once: {all}");
    assert!(log.contains("the name hub.example.org resolves to 192.0.2.18"), "{all}");
}
