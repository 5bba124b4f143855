//! Relays on a real kernel: four daemons in a diamond.
//!
//! The ends reach each other only over the two nodes in the middle.

mod common;

use common::{Dir, has_tun, script, stderr, stdout};

/// Four namespaces and four links: a – b, a – c, b – d, c – d.
const DIAMOND: &str = r#"
    for node in a b c d; do ip netns add $node; done
    join() {
        ip link add $1$2 netns $1 type veth peer name $2$1 netns $2
        ip -n $1 addr add 192.0.2.$(($3 * 16 + 1))/28 dev $1$2; ip -n $1 link set $1$2 up
        ip -n $2 addr add 192.0.2.$(($3 * 16 + 2))/28 dev $2$1; ip -n $2 link set $2$1 up
    }
    join a b 1; join a c 2; join b d 3; join c d 4
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    for node in a b c d; do ip netns exec $node $WEFT up -c $node.toml 2>$node.log & eval "$node=$!"; done
    for _ in $(seq 100); do ip netns exec a ping -c1 -W1 10.9.0.4 >/dev/null && break; sleep 0.1; done
"#;

fn diamond(dir: &Dir) {
    let keys: Vec<String> = ["a", "b", "c", "d"].iter().map(|name| dir.key(&format!("{name}.key"))).collect();
    let node = |name: &str, host: u8, rest: &str| {
        format!(
            "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n{rest}\n\
             [tun]\naddress = [\"10.9.0.{host}/24\"]\n"
        )
    };
    let peer = |name: &str, rest: &str| {
        let number = name.as_bytes()[0] - b'a';
        let (key, host) = (&keys[usize::from(number)], number + 1);
        format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nprefixes = [\"10.9.0.{host}/32\"]\n{rest}\n")
    };
    let at = |host: u8| format!("endpoints = [\"192.0.2.{host}:51900\"]");
    let ends = [
        ("a", 1, [peer("b", &at(18)), peer("c", &at(34)), peer("d", "via = [\"b\", \"c\"]")]),
        ("d", 4, [peer("b", &at(49)), peer("c", &at(65)), peer("a", "")]),
    ];
    for (name, host, peers) in ends {
        dir.write(&format!("{name}.toml"), &(node(name, host, "") + &peers.concat()));
    }
    for (name, host) in [("b", 2), ("c", 3)] {
        dir.write(&format!("{name}.toml"), &(node(name, host, "relay = true") + &peer("a", "") + &peer("d", "")));
    }
}

#[test]
fn ends_reach_each_other_over_relays_and_outlive_one_of_them() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    diamond(&dir);
    let text = format!(
        r#"{DIAMOND}
        for _ in $(seq 100); do
            run a sense | grep -q "^b *d .*reported" && [ "$(run a paths | grep -c "^d .*via.* good ")" = 2 ] && break
            sleep 0.1
        done
        echo "== paths"; run a paths
        echo "== passed on"; run b status; run c status
        for _ in $(seq 50); do run a sense | grep -q "^b  *d .*reported" && break; sleep 0.1; done
        echo "== sense"; run a sense
        for _ in $(seq 50); do run a sense --history b | grep -Eq "RTT .*(▂|▃|▄|▅|▆|▇|█)" && break; sleep 0.1; done
        echo "== history"; run a sense --history b; run a sense --history b --json
        echo "== nobody"; run a sense --history nobody 2>&1
        ip netns exec a ping -i 0.01 -c 300 10.9.0.4 > ping.log & ping=$!
        sleep 1; kill -9 $b; wait $ping
        echo "== ping"; tail -2 ping.log
        echo "== afterwards"; run a paths; run a ping d
        kill $a $c $d; wait"#
    );
    let out = script(&dir, &text);
    let (text, log) = (stdout(&out), stderr(&out));
    let part = |name: &str| text.split("== ").find_map(|part| part.strip_prefix(name)).unwrap_or_default();
    let paths = part("paths");
    assert!(paths.contains("via b → 1 relay") && paths.contains("via c → 1 relay"), "{text}\n{log}");
    assert!(part("passed on").contains("datagrams forwarded"), "{text}\n{log}");
    let said = |line: &&str| line.split_whitespace().take(2).eq(["b", "d"]) && line.contains("reported");
    assert!(part("sense").lines().any(|line| said(&line)), "{text}\n{log}");
    let history = part("history");
    let is_drawn = |line: &&str| line.contains(" RTT ") && line.contains(|bar| ('▂'..='█').contains(&bar));
    assert!(history.lines().any(|line| is_drawn(&line)), "{text}\n{log}");
    assert!(history.contains("\"rtt_us\":") && history.contains("\"minutes\":[]"), "{text}\n{log}");
    assert!(part("nobody").contains("there is no such peer: the peers are b, c, d"), "{text}\n{log}");
    let received = part("ping").split(',').find_map(|part| part.trim().strip_suffix(" received"));
    let received: u32 = received.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(received >= 290, "{text}\n{log}");
    assert!(part("afterwards").lines().any(|line| line.contains("via b") && line.contains("down")), "{text}\n{log}");
}

#[test]
fn a_route_that_leads_nowhere_is_reported_with_its_place() {
    let dir = Dir::new();
    diamond(&dir);
    let good = std::fs::read_to_string(dir.path("a.toml")).unwrap();
    let said = |via: &str| {
        let file = dir.write("bad.toml", &good.replace("via = [\"b\", \"c\"]", via));
        let out = common::weft(&["check", file.to_str().unwrap()]);
        (out.status.code(), stdout(&out) + &stderr(&out))
    };
    assert_eq!(said("via = [\"b > c\"]").0, Some(0));
    for (via, message) in [
        ("via = [\"bb\"]", "the relay `bb` on the route to peer"),
        ("via = [\"b > b\"]", "contains the node `b` twice"),
        ("via = [\"b > d\"]", "contains the node `d` twice"),
        ("via = [\"b >\"]", "the name of a relay is missing"),
        ("via = [\"b > c > b > c > b > c > b\"]", "at most 6"),
        ("via = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]", "is not a peer of this node"),
    ] {
        let (code, text) = said(via);
        assert!(code == Some(1) && text.contains(message), "{via}: {code:?} {text}");
    }
}
