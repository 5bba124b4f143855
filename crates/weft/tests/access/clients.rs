//! Unmodified clients at an edge, on a real kernel.
//!
//! Property: with wg-quick(8), or with openvpn(8), a client reaches a host behind another site until it is removed.

use crate::common::{Dir, has_tun, mode, part, script, stderr, stdout, weft};
use std::path::PathBuf;
use std::process::Command;

/// Topology: client – edge – site – host. The client and the host run no weft.
const SITES: &str = r#"
    for node in client edge site host; do ip netns add $node; ip -n $node link set lo up; done
    join() {
        ip link add $1$2 netns $1 type veth peer name $2$1 netns $2
        ip -n $1 addr add $3.1/24 dev $1$2; ip -n $1 link set $1$2 up
        ip -n $2 addr add $3.2/24 dev $2$1; ip -n $2 link set $2$1 up
    }
    join edge client 192.0.2; join edge site 198.51.100; join site host 192.168.5
    ip -n host route add default via 192.168.5.1
    for node in edge site; do ip netns exec $node sysctl -qw net.ipv4.ip_forward=1; done
    mkdir -p /run/wireguard
    edge() { ip netns exec edge $WEFT access "$@" -c edge.toml; }
    in_client() { ip netns exec client "$@"; }
    pings() { in_client ping -c1 -W1 "$@" 192.168.5.2 >/dev/null 2>&1 && echo yes || echo no; }
    comes() { for _ in $(seq 20); do [ "$(pings)" = yes ] && break; sleep 0.2; done; pings; }
    quick() { in_client env WG_QUICK_USERSPACE_IMPLEMENTATION=$WIREGUARD wg-quick "$@" 2>>quick.log; }
    for node in edge site; do ip netns exec $node $WEFT up -c $node.toml 2>$node.log & eval "$node=$!"; done
    for _ in $(seq 100); do ip netns exec edge ping -c1 -W1 10.9.0.2 >/dev/null && break; sleep 0.1; done
"#;

/// Returns the path of wireguard-go, installed or built by the benches.
///
/// The tool wg-quick prefers the kernel's own WireGuard.
fn wireguard() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|directory| directory.join("wireguard-go"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let is_there = |program: &PathBuf| program.is_file();
    let found = installed.chain(cache.map(|cache| cache.join("weft-lab/wireguard"))).find(is_there);
    let has_quick = Command::new("wg-quick").arg("--help").output().is_ok();
    if found.is_none() || !has_quick {
        eprintln!("skipped: wg-quick (Debian package wireguard-tools) or wireguard-go is missing here");
    }
    found.filter(|_| has_quick)
}

fn has_openvpn() -> bool {
    Command::new("openvpn").arg("--version").output().is_ok()
}

fn sites(dir: &Dir) {
    let (edge, site) = (dir.key("edge.key"), dir.key("site.key"));
    let node = |name: &str, host: u8, rest: &str| {
        let text = format!(
            "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
             [tun]\naddress = [\"10.9.0.{host}/24\"]\n{rest}\n"
        );
        dir.write(&format!("{name}.toml"), &text);
    };
    let openvpn = match has_openvpn() {
        true => "[access.openvpn]\nlisten = 1194\npool = \"10.9.129.0/24\"\nendpoint = \"192.0.2.1:1194\"",
        false => "",
    };
    let access =
        format!("[access]\nlisten = 51820\npool = \"10.9.128.0/24\"\nendpoint = \"192.0.2.1:51820\"\n{openvpn}");
    let peer =
        |name: &str, key: &str, rest: &str| format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\n{rest}");
    let behind = "prefixes = [\"10.9.0.2/32\", \"192.168.5.0/24\"]\nendpoints = [\"198.51.100.2:51900\"]";
    node("edge", 1, &format!("{access}\n{}", peer("site", &site, behind)));
    node("site", 2, &peer("edge", &edge, "prefixes = [\"10.9.0.1/32\", \"10.9.128.0/23\"]"));
}

#[test]
fn a_client_reaches_what_is_behind_another_site_until_it_is_put_out() {
    let Some(wireguard) = wireguard().filter(|_| has_tun()) else { return };
    let dir = Dir::new();
    sites(&dir);
    let wireguard = wireguard.display();
    let text = format!(
        r#"WIREGUARD={wireguard}
        {SITES}
        umask 077; edge add phone > phone.conf 2> qr.txt
        quick up ./phone.conf
        echo "== there"; comes
        echo "== whole packets"; pings -M do -s 1392
        echo "== back"; ip netns exec host ping -c1 -W1 10.9.128.2 >/dev/null && echo yes
        ip netns exec host iperf3 -s > server.log & server=$!; sleep 0.3
        for way in "" -R; do
            echo "== much$way"; in_client timeout 20 iperf3 -c 192.168.5.2 $way -n 20M -J | jq .end.sum_received.bytes
        done
        kill $server
        in_client ip addr add 10.9.128.77/32 dev phone
        echo "== as another"; pings -I 10.9.128.77
        edge list --json > list.json
        echo "== list"; jq -c '[(.clients[] | .name, .address, .remote != null, .handshake_s_ago < 60, .received_bytes > 0), .refused.strays > 0]' list.json
        wg genkey > stranger.key; quick down ./phone.conf
        sed "s|^PrivateKey.*|PrivateKey = $(cat stranger.key)|" phone.conf > stranger.conf
        quick up ./stranger.conf
        echo "== stranger"; pings; in_client wg show stranger transfer | cut -f2
        quick down ./stranger.conf
        sed "s|^PublicKey.*|PublicKey = $(wg pubkey < stranger.key)|" phone.conf > elsewhere.conf
        quick up ./elsewhere.conf
        echo "== for another edge"; pings; edge list | grep -c 'handshakes rejected\|the last handshake'
        quick down ./elsewhere.conf; quick up ./phone.conf
        echo "== again"; comes
        edge remove phone
        echo "== removed"; pings; edge list --json | jq '.clients | length'
        edge add phone --out new.conf 2>/dev/null; quick down ./phone.conf; quick up ./new.conf
        echo "== new key"; comes
        kill $edge $site; wait $edge $site"#
    );
    let out = script(&dir, &text);
    let read = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap_or_default();
    let text = stdout(&out);
    let log = [stderr(&out), read("edge.log"), read("quick.log")].concat();
    for (what, expected) in [
        ("there", "yes"),
        ("whole packets", "yes"),
        ("back", "yes"),
        ("as another", "no"),
        ("list", "[\"phone\",\"10.9.128.2\",true,true,true,true]"),
        ("stranger", "no\n0"),
        ("for another edge", "no\n3"),
        ("again", "yes"),
        ("own key", "1"),
        ("old profile", "yes"),
        ("removed", "no\n0"),
        ("new key", "yes"),
    ] {
        assert_eq!(part(&text, what), expected, "{what}\n{text}\n{log}");
    }
    // Packets still in transit when the sender ends are not counted.
    for way in ["much\n", "much-R\n"] {
        assert!(part(&text, way).parse::<u64>().is_ok_and(|bytes| bytes >= 10 << 20), "{way}{text}\n{log}");
    }
    assert!(read("qr.txt").contains('█'), "{}", read("qr.txt"));
    let private =
        read("phone.conf").lines().find_map(|line| line.strip_prefix("PrivateKey = ").map(str::to_owned)).unwrap();
    let kept = Command::new("grep").args(["-rl", &private]).arg(dir.path("edge.state")).output().unwrap();
    assert!(kept.stdout.is_empty(), "the client's private key is kept on the edge: {}", stdout(&kept));
    assert_eq!((mode(&dir.path("edge.state/access.key")), mode(&dir.path("new.conf"))), (0o600, 0o600));
}

#[test]
fn clients_are_listed_without_a_node_and_mistakes_are_reported() {
    let dir = Dir::new();
    sites(&dir);
    let config = dir.path("edge.toml");
    let access = |args: &[&str]| {
        let out = weft(&[&["access"], args, &["-c", config.to_str().unwrap()]].concat());
        (out.status.code(), stdout(&out) + &stderr(&out))
    };
    let (code, text) = access(&["add", "phone"]);
    assert!(code == Some(0) && text.contains("AllowedIPs = 10.9.0.0/24, 10.9.128.0/24, "), "{text}");
    assert!(access(&["list"]).1.contains("10.9.128.2"));
    for (args, expected, message) in [
        (&["add", "phone"][..], 1, "weft access remove phone"),
        (&["add", "a b"], 2, "`a b`"),
        (&["add", "laptop", "--edge", "nowhere"], 2, "HOST:PORT"),
        (&["remove", "phon"], 1, "phone"),
    ] {
        let (code, text) = access(args);
        assert!(code == Some(expected) && text.contains(message), "{args:?}: {code:?} {text}");
    }
    assert_eq!(access(&["remove", "phone"]).0, Some(0));
    assert!(!access(&["list"]).1.contains("phone"));
    let other = dir.path("site.toml");
    let out = weft(&["access", "list", "-c", other.to_str().unwrap()]);
    assert!(out.status.code() == Some(1) && stderr(&out).contains("[access]"), "{}", stderr(&out));
}

#[test]
fn a_client_with_openvpn_reaches_what_is_behind_another_site_until_it_is_put_out() {
    if !has_openvpn() {
        return eprintln!("skipped: Debian's package openvpn is missing here");
    }
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    sites(&dir);
    let text = format!(
        r#"{SITES}
        open() {{ ip netns exec client openvpn --config $1 --dev ovpn0 --dev-type tun --log-append client.log --disable-dco & client=$!; }}
        close() {{ kill $client; wait $client; }} 2>/dev/null
        edge add desk --openvpn > desk.ovpn
        open desk.ovpn
        echo "== there"; comes
        echo "== whole packets"; pings -M do -s 1392
        echo "== back"; ip netns exec host ping -c1 -W1 10.9.129.2 >/dev/null && echo yes
        ip netns exec host iperf3 -s > server.log & server=$!; sleep 0.3
        for way in "" -R; do
            echo "== much$way"; in_client timeout 20 iperf3 -c 192.168.5.2 $way -n 20M -J | jq .end.sum_received.bytes
        done
        kill $server
        in_client ip addr add 10.9.129.77/32 dev ovpn0
        echo "== as another"; pings -I 10.9.129.77
        echo "== list"; edge list --json | jq -c '.clients[] | [.name, .address, .with, .remote != null, .received_bytes > 0]'
        echo "== own key"; grep -c '^<tls-crypt-v2>' desk.ovpn
        sed -e '/^<tls-crypt-v2>/,$d' desk.ovpn >old.ovpn
        (echo '<tls-crypt>'; cat edge.state/openvpn/common.key; echo '</tls-crypt>') >>old.ovpn
        close; open old.ovpn
        echo "== old profile"; comes
        edge remove desk; sleep 0.5
        echo "== removed"; pings; edge list --json | jq '.clients | length'
        kill -9 $(cat /proc/$edge/task/$edge/children); sleep 1
        echo "== the server was killed"; pgrep -P $edge -c openvpn
        close; open desk.ovpn; sleep 2
        echo "== refused"; pings; close
        edge add desk --openvpn --out new.ovpn; open new.ovpn
        echo "== new key"; comes
        kill $edge; wait $edge
        echo "== left"; ip -n edge link show weft-openvpn0 2>/dev/null | wc -l
        close; kill $site; wait $site"#
    );
    let out = script(&dir, &text);
    let read = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap_or_default();
    let text = stdout(&out);
    let log = [stderr(&out), read("edge.log"), read("client.log"), read("edge.state/openvpn/server.log")].join("\n");
    for (what, expected) in [
        ("there", "yes"),
        ("whole packets", "yes"),
        ("back", "yes"),
        ("as another", "no"),
        ("list", "[\"desk\",\"10.9.129.2\",\"openvpn\",true,true]"),
        ("removed", "no\n0"),
        ("the server was killed", "1"),
        ("refused", "no"),
        ("new key", "yes"),
        ("left", "0"),
    ] {
        assert_eq!(part(&text, what), expected, "{what}\n{text}\n{log}");
    }
    for way in ["much\n", "much-R\n"] {
        assert!(part(&text, way).parse::<u64>().is_ok_and(|bytes| bytes >= 10 << 20), "{way}{text}\n{log}");
    }
    for file in ["ca.key", "server.key", "common.key", "server-v2.key", "server.conf", "server.log"] {
        assert_eq!(mode(&dir.path(&format!("edge.state/openvpn/{file}"))), 0o600, "{file}");
    }
}

#[test]
fn contradictions_in_the_configuration_are_reported() {
    let dir = Dir::new();
    sites(&dir);
    let good = std::fs::read_to_string(dir.path("edge.toml")).unwrap();
    let start = good.find("[access]").unwrap()..good.find("[[peer]]").unwrap();
    let said = |access: &str| {
        let mut text = good.clone();
        text.replace_range(start.clone(), access);
        let out = weft(&["check", dir.write("bad.toml", &text).to_str().unwrap()]);
        (out.status.code(), stdout(&out) + &stderr(&out))
    };
    let access = |port: u16, pool: &str| format!("[access]\nlisten = {port}\npool = \"{pool}\"\n");
    let both = |port: u16, pool: &str| {
        let openvpn = access(port, pool).replace("[access]", "[access.openvpn]");
        access(51820, "10.9.128.0/24") + &openvpn
    };
    let (code, text) = said(&both(1194, "10.9.129.0/24"));
    assert!(code == Some(0) && text.contains("10.9.128.0/24") && text.contains("10.9.129.0/24"), "{text}");
    for (access, message) in [
        (access(51900, "10.9.128.0/24"), "port 51900 is the `listen` port of both [node] and [access]"),
        (access(51820, "192.168.0.0/16"), "`192.168.5.0/24`, which is behind peer `site`"),
        (access(51820, "10.9.0.0/16"), "this node's own address"),
        (access(51820, "10.9.128.1/24"), "write 10.9.128.0/24"),
        (both(51820, "10.9.129.0/24"), "is the `listen` port of both [access] and [access.openvpn]"),
        (both(1194, "10.9.128.0/25"), "overlaps with 10.9.128.0/24, the `pool` of [access]"),
        ("[access]\nlisten = 51820\n".to_owned(), "pool"),
        (
            access(51820, "10.9.128.0/24") + "dns = [\"fd00::1\"]\n",
            "bad.toml:11:8: error: `dns` cannot be `fd00::1`: a name server for clients",
        ),
        (access(51820, "10.9.128.0/24") + "dns = [\"127.0.0.53\"]\n", "they can reach through the tunnel"),
        (access(51820, "10.9.128.0/24") + "dns = [\"192.0.2.53\"]\n", "add 192.0.2.53/32 to `routes`"),
        (access(51820, "10.9.128.0/24") + "isolate = \"yes\"\n", "`isolate` must be true or false"),
        (access(51820, "10.9.128.0/24") + "isolated = true\n", "unknown key `isolated`"),
    ] {
        let (code, text) = said(&access);
        assert!(code == Some(1) && text.contains(message), "{access}: {code:?} {text}");
    }
}
