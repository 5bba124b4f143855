//! Property: exactly those interfaces become links that lead to an endpoint, on a real kernel.

use crate::common::{Dir, has_tun, script, stderr, stdout, two_nodes};
use std::fs;
use weft_units::Rng;

/// A router `home` with three uplinks to networks of their own.
///
/// Through each of them it reaches `hub` at one address.
///
/// It also has a LAN bridge, a bridge as Docker makes it, without traffic, and a plain tunnel. Besides `home`, another
/// weft has a tunnel with a default route.
const ROUTER: &str = r#"
    ip netns add home; ip netns add hub; ip netns add lan; ip netns add docker
    on() { ip netns exec "$@"; }
    for i in 1 2 3; do
        ip link add dev up$i netns home type veth peer name up$i netns hub
        ip -n home addr add 10.1.$i.2/24 dev up$i; ip -n home link set up$i up
        ip -n hub addr add 10.1.$i.1/24 dev up$i; ip -n hub link set up$i up
        ip -n home route add default via 10.1.$i.1 dev up$i metric $((i * 100))
    done
    ip -n hub link set lo up; ip -n hub addr add 203.0.113.1/32 dev lo
    bridge() {
        ip -n home link add $1 type bridge; ip -n home addr add $2.1/24 dev $1; ip -n home link set $1 up
        ip link add dev port-$1 netns home type veth peer name eth0 netns $3
        ip -n home link set port-$1 master $1 up
        ip -n $3 addr add $2.5/24 dev eth0; ip -n $3 link set lo up; ip -n $3 link set eth0 up
    }
    bridge br-lan 192.168.1 lan; bridge docker0 172.17.0 docker
    on home ip tuntap add dev tun9 mode tun; ip -n home addr add 10.77.0.1/24 dev tun9; ip -n home link set tun9 up
    run() { node=$1; shift; on $node $WEFT "$@" --control $node.sock; }
    up() { : >$1.log; on ${2:-$1} $WEFT up -v -c $1.toml 2>>$1.log & eval "$1=$!"; }
    logged() { for _ in $(seq 100); do grep -q "$2" $1.log && return; sleep 0.1; done; echo "not logged: $2"; cat $1.log; }
    settled() { for _ in $(seq 100); do run $1 status >/dev/null && return; sleep 0.1; done; echo "not settled: $1"; run $1 status; }
    used() { run home status --json | python3 -c 'import json,sys; print(*sorted(l["name"] for l in json.load(sys.stdin)["links"]))'; }
    paths() { run home status --json | python3 -c 'import json,sys; print(*sorted(p["link"] for p in json.load(sys.stdin)["peers"][0]["paths"]))'; }
    eventually() { for _ in $(seq 80); do [ "$($1)" = "$2" ] && return; sleep 0.1; done; echo "$1: $($1) instead of $2"; }
"#;

/// Counts an interface's packets that are weft's or that ask for the hub's address, until it is killed.
const CAPTURE: &str = r#"
import socket, sys, signal
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind((sys.argv[1], 0))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
hub, only_arp = socket.inet_aton(sys.argv[2]), "arp" in sys.argv
while True:
    frame = s.recv(65535)
    kind, rest = frame[12:14], frame[14:]
    arp = kind == b"\x08\x06" and rest[24:28] == hub
    udp = kind == b"\x08\x00" and rest[9] == 17 and 51900 in (int.from_bytes(rest[20:22], "big"), int.from_bytes(rest[22:24], "big"))
    if arp or not only_arp and (udp or hub in rest):
        print("arp" if arp else "packet", frame.hex(), flush=True)
"#;

fn configure(dir: &Dir, endpoints: &str) {
    two_nodes(dir, None);
    let file = dir.path("home.toml");
    let text = fs::read_to_string(&file).unwrap();
    let rest = text.split("endpoints = ").next().unwrap();
    fs::write(&file, format!("{rest}endpoints = {endpoints}\n")).unwrap();
    let key = dir.key("other.key");
    dir.write(
        "other.toml",
        &format!(
            "[node]\nkey = \"other.key\"\nstate = \"other.state\"\ncontrol = \"other.sock\"\n\
             [tun]\nname = \"other0\"\naddress = [\"10.8.0.1/24\"]\n\
             [[peer]]\nname = \"far\"\npublic-key = \"{}\"\nendpoints = [\"203.0.113.99:9\"]\nprefixes = [\"0.0.0.0/0\"]\n",
            dir.key("far.key")
        ),
    );
    assert!(!key.is_empty());
    dir.write("capture.py", CAPTURE);
}

fn run(commands: &str) -> Option<(Dir, String)> {
    if !has_tun() {
        return None;
    }
    let dir = Dir::new();
    configure(&dir, "[\"203.0.113.1:51900\"]");
    let out = script(&dir, &[ROUTER, commands].concat());
    let text = stdout(&out) + &stderr(&out);
    Some((dir, text))
}

#[test]
fn a_router_uses_its_uplinks_and_reports_no_other_interface() {
    let Some((_dir, text)) = run(r#"
        for of in br-lan docker0 tun9; do
            on home python3 capture.py $of 203.0.113.1 >$of.seen 2>&1 & captures="${captures:-} $!"
        done
        for of in br-lan docker0 tun9; do until grep -qs ready $of.seen; do sleep 0.05; done; done
        up other home; logged other "up, public key"
        up hub; up home; settled home; eventually paths "up1 up2 up3"
        on home ping -c 3 -i 0.2 -W 2 10.9.0.2 >/dev/null; echo "ping: $?"
        run home status >/dev/null; echo "status: $?"
        run hub status >/dev/null; echo "status of the hub: $?"
        echo "links: $(used)"
        ip -n home link del up3
        eventually paths "up1 up2"; settled home; settled hub
        run home paths | grep -c up3
        echo "hub has $(run hub status --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["peers"][0]["paths"]))')"
        sleep 1; kill $captures; cat br-lan.seen docker0.seen tun9.seen | grep -v ready
        kill $home $hub $other; wait $home $hub $other; echo end
    "#) else {
        return;
    };
    // The script queries the node before its socket exists, too.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("weft: no node is running")).collect();
    assert_eq!(
        lines,
        ["ping: 0", "status: 0", "status of the hub: 0", "links: up1 up2 up3", "0", "hub has 2", "end"],
        "{text}"
    );
}

#[test]
fn the_links_in_use_are_those_that_the_kernel_routes_to_the_hub_whatever_changes() {
    let seed = std::env::var("WEFT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(29);
    let (mut rng, mut commands) = (Rng::new(seed), String::from("up hub; up home; settled home\n"));
    for step in 0..40 {
        let n = rng.below(3) + 1;
        let change = match rng.below(9) {
            0 => format!("ip -n home route del default dev up{n}"),
            1 => format!("ip -n home route add default via 10.1.{n}.1 dev up{n} metric {n}00"),
            2 => format!("ip -n home route add 203.0.113.0/24 via 10.1.{n}.1 dev up{n} metric 5"),
            3 => format!("ip -n home route del 203.0.113.0/24 dev up{n}"),
            4 => format!("ip -n home route add unreachable 203.0.113.0/2{n}"),
            5 => format!("ip -n home route del unreachable 203.0.113.0/2{n}"),
            6 => format!(
                "ip -n home rule add oif up{n} lookup 7 priority {n}; ip -n home route add default via 10.1.{n}.1 dev up{n} table 7"
            ),
            7 => format!("ip -n home rule del oif up{n} lookup 7"),
            _ => format!(
                "ip -n home link del up{n} || {{ ip link add dev up{n} netns home type veth peer name up{n} netns hub; \
                 ip -n home addr add 10.1.{n}.2/24 dev up{n}; ip -n home link set up{n} up; \
                 ip -n hub addr add 10.1.{n}.1/24 dev up{n}; ip -n hub link set up{n} up; \
                 ip -n home route add default via 10.1.{n}.1 dev up{n} metric {n}00; }}"
            ),
        };
        commands +=
            &format!("({change}) 2>/dev/null; eventually used \"$(kernel)\" || echo 'after {step}: {change}'\n");
    }
    commands += "kill $home $hub; wait $home $hub; echo end\n";
    let kernel = r#"
        kernel() {
            list=
            for of in br-lan docker0 tun9 up1 up2 up3; do
                ip -n home route get fibmatch 203.0.113.1 oif $of >/dev/null 2>&1 && list="$list $of"
            done
            echo $list
        }
        eventually() { for _ in $(seq 50); do [ "$($1)" = "$2" ] && return; sleep 0.05; done; echo "$1: $($1) instead of $2"; return 1; }
    "#;
    let Some((dir, text)) = run(&[kernel, &commands].concat()) else { return };
    let no_node = "weft: no node is running at the control socket home.sock: start one with: weft up -c FILE\n";
    let text = text.replace(no_node, "");
    assert_eq!(text, "end\n", "seed {seed}\n{}", fs::read_to_string(dir.path("home.log")).unwrap_or_default());
}

#[test]
fn a_link_that_is_named_and_leads_nowhere_is_reported_at_once() {
    let Some((_dir, text)) = run(r#"
        printf '[links]\nuse = ["up1", "br-lan", "wwan*", "nonesuch0"]\n' >>home.toml
        on home $WEFT check home.toml; echo "check: $?"
        up hub; up home; logged home "session established"
        sleep 0.5; grep -h "not used" home.log | cut -d' ' -f2-
        run home status | grep "not used"; run home status >/dev/null; echo "status: $?"
        sed -i 's/, "br-lan", "wwan\*", "nonesuch0"/, "wwan*"/' home.toml; run home reload; echo "reload: $?"
        settled home; run home status | grep "not used"; echo "links: $(used)"
        kill $home $hub; wait $home $hub; echo end
    "#) else {
        return;
    };
    for expected in [
        "home.toml:14:25: warning: no interface on this machine matches the entry `wwan*` in `use`: check this \
         entry",
        "home.toml:14:34: warning: no interface on this machine matches the entry `nonesuch0` in `use`: check this \
         entry",
        "check: 0",
        "link br-lan not used: no route over the link leads to a peer's address (203.0.113.1): add one, or leave it \
         out of [links] use",
        "link nonesuch0 not used: no such interface",
        "link wwan* not used: no interface matches",
        "status: 3",
        "reload: 0",
        "links: up1",
        "end",
    ] {
        assert!(text.lines().any(|line| line.ends_with(expected)), "{expected:?} is missing in\n{text}");
    }
    assert!(text.matches("link br-lan not used").count() == 2, "in the log and in status\n{text}");
    assert!(!text.contains("not settled"), "{text}");
}

#[test]
fn a_hub_sends_no_answer_to_where_no_route_leads() {
    let Some((_dir, text)) = run(r#"
        for of in all default up1 up2 up3; do echo 0 | on hub tee /proc/sys/net/ipv4/conf/$of/rp_filter >/dev/null; done
        up hub; up home; settled home; eventually paths "up1 up2 up3"
        on hub python3 capture.py up3 10.1.3.2 arp >hub.seen & capture=$!
        until grep -qs ready hub.seen; do sleep 0.05; done
        # What comes by up3 has no way back there any more.
        ip -n hub route del 10.1.3.0/24 dev up3; ip -n hub route add 10.1.3.0/24 via 10.1.1.2 dev up1
        ip -n hub neigh flush dev up3
        sleep 3; kill $capture; grep -c arp hub.seen
        kill $home $hub; wait $home $hub; echo end
    "#) else {
        return;
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("weft: no node is running")).collect();
    assert_eq!(lines, ["0", "end"], "{text}");
}
