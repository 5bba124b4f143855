//! Property: nodes with one contact find the rest of their network through it, on a real kernel.

use crate::common::{Dir, has_tun, part, script, stderr, stdout, weft};

/// Three nodes on one network: a and c have the contact b, and b has none.
///
/// Their configurations and certificates exist.
const NETWORK: &str = r#"
    ip netns add s; ip -n s link add br0 type bridge; ip -n s link set br0 up
    n=0
    for node in a b c; do
        n=$((n + 1)); ip netns add $node
        ip link add eth0 netns $node type veth peer name $node netns s
        ip -n s link set dev $node master br0 up
        ip -n $node addr add 192.0.2.$n/24 dev eth0; ip -n $node link set lo up; ip -n $node link set eth0 up
    done
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    up() { ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }
    pings() { ip netns exec $1 ping -c1 -W0.2 $2 >/dev/null 2>&1; }
    now() { date +%s%3N; }
    # Milliseconds until a ping from $1 to $2 is answered.
    comes() { from=$(now); for _ in $(seq 200); do pings $1 $2 && break; sleep 0.05; done; echo $(($(now) - from)); }
"#;

fn done(args: &[&str]) -> String {
    let out = weft(args);
    assert!(out.status.success(), "{args:?}: {}", stderr(&out));
    stdout(&out).trim().to_owned()
}

/// Writes a node's key, certificate and configuration. Returns its public key.
fn node(dir: &Dir, root: &str, name: &str, host: u8, rest: &str) -> String {
    let key = dir.key(&format!("{name}.key"));
    let (ca, cert) = (dir.path("ca"), dir.path(&format!("{name}.cert")));
    let (ca, cert) = (ca.to_str().unwrap(), cert.to_str().unwrap());
    let prefix = format!("10.9.0.{host}/32");
    done(&["ca", "sign", "--ca", ca, "--name", name, "--public-key", &key, "--prefix", &prefix, "--out", cert]);
    let text = format!(
        "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
         [tun]\naddress = [\"10.9.0.{host}/24\"]\n\
         [network]\nroot = \"{root}\"\ncertificate = \"{name}.cert\"\n{rest}"
    );
    dir.write(&format!("{name}.toml"), &text);
    key
}

/// Writes the network's files. Returns b's public key.
fn network(dir: &Dir) -> String {
    let root = done(&["ca", "init", "--out", dir.path("ca").to_str().unwrap()]);
    let b = node(dir, &root, "b", 2, "");
    for (name, host) in [("a", 1), ("c", 3)] {
        node(dir, &root, name, host, &format!("contacts = [\"{b}@192.0.2.2:51900\"]\n"));
    }
    b
}

#[test]
fn two_nodes_that_know_a_third_talk_to_each_other_without_it() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    network(&dir);
    let text = format!(
        r#"{NETWORK}
        up b; up a; comes a 10.9.0.2 >/dev/null; up c
        echo "== met"; comes a 10.9.0.3
        for _ in $(seq 100); do [ "$(run a status | grep -c "member, leaf")" = 2 ] && break; sleep 0.1; done
        echo "== status"; run a status
        echo "== paths"; run a paths; echo "== routes"; ip -n a route show table 51900
        kill -STOP $b
        echo "== alone"; ip netns exec a ping -c 40 -i 0.05 -W 1 10.9.0.3 | grep received
        kill -CONT $b; kill $c; wait $c
        for _ in $(seq 150); do ip -n a route show table 51900 | grep -q "10.9.0.3 " || break; sleep 0.1; done
        echo "== left"; run a status; ip -n a route show table 51900
        kill $a $b; wait"#
    );
    let out = script(&dir, &text);
    let logs: String =
        ["a", "b", "c"].map(|n| std::fs::read_to_string(dir.path(&format!("{n}.log"))).unwrap_or_default()).join("\n");
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{logs}", stderr(&out));
    let took_ms: u64 = part(&text, "met").parse().unwrap_or(u64::MAX);
    eprintln!("a ping from a to c was answered {took_ms} ms after c's start");
    assert!(took_ms <= 1_000, "{all}");
    assert!(part(&text, "paths").contains("192.0.2.3:51900"), "directly: {all}");
    assert!(part(&text, "routes").contains("10.9.0.3"), "{all}");
    assert!(part(&text, "alone").contains("40 packets transmitted, 40 received"), "{all}");
    let status = part(&text, "status");
    assert!(status.contains("has its place") && status.matches("member, leaf").count() == 2, "{all}");
    let left = part(&text, "left");
    assert!(left.contains("member, leaf") && !left.contains("10.9.0.3 "), "{all}");
}

/// Moves a and c behind routers of their own.
///
/// These translate addresses and admit only answers, as home routers do.
const HOMES: &str = r#"
    for home in "a 1" "c 3"; do
        set -- $home; router=r$1
        ip netns add $router; ip link add wan netns $router type veth peer name $router netns s
        ip -n s link set dev $router master br0 up
        ip -n $1 addr flush dev eth0; ip -n s link set dev $1 nomaster; ip -n s link set dev $1 netns $router name lan
        ip -n $router addr add 192.0.2.1$2/24 dev wan; ip -n $router addr add 10.$2.0.1/24 dev lan
        for device in lo wan lan; do ip -n $router link set $device up; done
        ip -n $1 addr add 10.$2.0.2/24 dev eth0; ip -n $1 route add default via 10.$2.0.1
        ip netns exec $router sh -c "echo 1 >/proc/sys/net/ipv4/ip_forward"
        ip netns exec $router nft -f - <<EOF
table ip home {
    chain out { type nat hook postrouting priority 100; oifname wan masquerade; }
    chain in { type filter hook input priority 0; policy drop; }
    chain through { type filter hook forward priority 0; iifname wan ct state != established drop; }
}
EOF
    done
"#;

#[test]
fn two_nodes_behind_home_routers_meet_over_a_relay_and_go_on_without_it() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    let key = network(&dir);
    let relay = std::fs::read_to_string(dir.path("b.toml")).unwrap().replace("[node]\n", "[node]\nrelay = true\n");
    dir.write("b.toml", &relay);
    let [ca, cert] = ["ca", "b.cert"].map(|file| dir.path(file));
    std::fs::remove_file(&cert).unwrap();
    let signed = ["--public-key", &key, "--prefix", "10.9.0.2/32", "--relay", "--out", cert.to_str().unwrap()];
    done(&[&["ca", "sign", "--ca", ca.to_str().unwrap(), "--name", "b"][..], &signed].concat());
    let text = format!(
        r#"{NETWORK}{HOMES}
        up b; up a; comes a 10.9.0.2 >/dev/null; up c
        echo "== met"; comes a 10.9.0.3
        for _ in $(seq 200); do run a paths | grep "192.0.2.13:51900" | grep -q good && break; sleep 0.1; done
        echo "== paths"; run a paths
        kill -STOP $b
        echo "== alone"; ip netns exec a ping -c 40 -i 0.05 -W 1 10.9.0.3 | grep received
        kill -CONT $b; kill $a $b $c; wait"#
    );
    let out = script(&dir, &text);
    let logs: String =
        ["a", "b", "c"].map(|n| std::fs::read_to_string(dir.path(&format!("{n}.log"))).unwrap_or_default()).join("\n");
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{logs}", stderr(&out));
    let took_ms: u64 = part(&text, "met").parse().unwrap_or(u64::MAX);
    eprintln!("a ping from home to home was answered {took_ms} ms after the second one's start");
    assert!(took_ms <= 5_000, "{all}");
    assert!(part(&text, "paths").contains("192.0.2.13:51900"), "as the relay saw it: {all}");
    let received: u32 =
        part(&text, "alone").split(", ").nth(1).and_then(|t| t.split(' ').next()?.parse().ok()).unwrap_or(0);
    assert!(received >= 35, "{all}");
}

#[test]
fn a_contact_that_is_not_there_is_named_with_its_cause() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    network(&dir);
    let text = format!(
        r#"{NETWORK}
        up a; for _ in $(seq 100); do run a status 2>/dev/null | grep -q "not reached" && break; sleep 0.1; done
        echo "== status"; run a status; echo "exit $?"; echo "== json"; run a status --json
        up b; echo "== met"; comes a 10.9.0.2
        kill $a $b; wait"#
    );
    let out = script(&dir, &text);
    let log = std::fs::read_to_string(dir.path("a.log")).unwrap_or_default();
    let text = stdout(&out);
    let all = format!("{text}\n{}\n{log}", stderr(&out));
    let status = part(&text, "status");
    assert!(status.contains("contact at 192.0.2.2:51900 was not reached: no answer"), "{all}");
    assert!(status.contains("exit 3"), "degraded: {all}");
    let json: serde_json::Value = serde_json::from_str(part(&text, "json")).unwrap();
    assert!(json["overlay"]["contacts"][0]["why_not"].as_str().unwrap().starts_with("no answer"), "{all}");
    assert!(log.contains("not reached: no answer"), "{all}");
    let took_ms: u64 = part(&text, "met").parse().unwrap_or(u64::MAX);
    assert!(took_ms < 15_000, "{all}");
}

#[test]
fn invalid_settings_are_reported_with_place_and_fix() {
    let dir = Dir::new();
    let b = network(&dir);
    let good = std::fs::read_to_string(dir.path("a.toml")).unwrap();
    let said = |text: &str| {
        let out = weft(&["check", dir.write("bad.toml", text).to_str().unwrap()]);
        (out.status.code(), stdout(&out) + &stderr(&out))
    };
    let (code, text) = said(&good);
    assert!(code == Some(0) && !text.contains("warning"), "{text}");
    let own = done(&["pubkey", dir.path("a.key").to_str().unwrap()]);
    let peer = format!(
        "{good}[[peer]]\nname = \"b\"\npublic-key = \"{b}\"\nendpoints = [\"192.0.2.9:51900\"]\nprefixes = [\"10.9.0.2/32\"]\n"
    );
    for (text, code, message) in [
        (good.replace(&b, &own), 1, "this public key is this node's own"),
        (good.replace(&format!("{b}@"), ""), 1, "expected a node's public key, @, and its address and port"),
        (good.replace(&b, "key"), 1, "a public key is 44 characters of base64"),
        (good.replace("@192.0.2.2:51900", "@b..example:51900"), 1, "an IP address or a host name"),
        (good.replace("certificate = \"a.cert\"", "overlay = true"), 1, "`overlay` needs a `certificate`"),
        (good.replace("contacts", "overlay = false\ncontacts"), 0, "this node calls no `contacts`"),
        (
            good.replace("contacts", "overlay = false\nprefixes = [\"10.0.0.0/8\"]\n#"),
            0,
            "other nodes cannot learn the owner of these prefixes",
        ),
        (peer, 0, "do not contain the address 192.0.2.2:51900"),
        (good.replace("listen = 51900\n", "").replace("contacts", "# "), 0, "has no contact to call"),
    ] {
        let (found, said) = said(&text);
        assert!(found == Some(code) && said.contains(message), "{message}: {found:?} {said}");
        assert!(said.contains("bad.toml:"), "{said}");
    }
}
