//! Property: every example in help texts and documents succeeds, word for word.
//!
//! The examples run against a node with the names that they use.
//!
//! `weft lab` and `weft sim` take too long for that; `src/examples` checks their arguments and scenarios.

mod collect;
#[path = "../common/mod.rs"]
mod common;

use collect::{Example, examples};
use common::{Dir, has_tun, is_root, script, stderr, stdout};
use std::fmt::Write as _;
use std::process::Command;

/// Two nodes with the links `eth0` and `wwan0`.
///
/// The files of the first node are at the default paths of its program, in a private /etc and /var/lib of this script.
const WORLD: &str = r#"
    for over in /etc /var/lib; do
        mkdir -p /run/over$over && cp -a $over/. /run/over$over/ 2>/dev/null; mount --bind /run/over$over $over
    done
    mkdir -p /etc/weft /var/lib/weft /run/weft
    ip netns add laptop; ip netns add hub
    for i in 1 2; do
        name=$([ $i = 1 ] && echo eth0 || echo wwan0)
        ip link add $name netns laptop type veth peer name link$i netns hub
        ip -n laptop addr add 192.0.2.$((i * 16 + 1))/28 dev $name; ip -n laptop link set $name up
        ip -n hub addr add 192.0.2.$((i * 16 + 2))/28 dev link$i; ip -n hub link set link$i up
    done
    ip -n laptop link set lo up; ip netns exec laptop sysctl -qw net.ipv4.ip_forward=1
    # A user and a name that examples have.
    echo 'weft:x:990:990::/:/bin/false' >>/etc/passwd; echo 'weft:x:990:' >>/etc/group; echo '192.0.2.17 vpn.example.org' >>/etc/hosts
    mkdir bin; ln -s $WEFT bin/weft; export PATH=$PWD/bin:$PATH
    weft keygen --out /etc/weft/node.key >node.pub; weft keygen --out hub.key >hub.pub; weft keygen --out home.key >home.pub
    cat >/etc/weft/weft.toml <<END
[node]
key = "node.key"
[tun]
address = ["10.9.0.1/24"]
[users]
by = "host"
[access]
listen = 51820
pool = "10.9.128.0/24"
endpoint = "192.0.2.17:51820"
[access.openvpn]
listen = 1194
pool = "10.9.129.0/24"
endpoint = "192.0.2.17:1194"
[[vpn]]
id = 7
name = "blue"
members = { hub = ["10.1.1.0/24"] }
[[peer]]
name = "hub"
public-key = "$(cat hub.pub)"
prefixes = ["10.9.0.2/32"]
endpoints = ["192.0.2.18:51900", "192.0.2.34:51900"]
END
    cp /etc/weft/weft.toml weft.toml; sed -i 's,"node.key","/etc/weft/node.key",' weft.toml
    cat >hub.toml <<END
[node]
key = "hub.key"
listen = 51900
state = "hub.state"
control = "hub.sock"
[tun]
address = ["10.9.0.2/24"]
[[vpn]]
id = 7
name = "blue"
members = { laptop = ["10.1.2.0/24"] }
[[peer]]
name = "laptop"
public-key = "$(cat node.pub)"
prefixes = ["10.9.0.1/32", "10.9.128.0/24", "10.9.129.0/24"]
END
    : >node.log # The shell that runs the node in the background opens it later than grep does, now and then.
    ip netns exec hub weft up -c hub.toml 2>hub.log & ip netns exec laptop weft up 2>node.log &
    for _ in $(seq 100); do grep -q 'session established' node.log && grep -q 'OpenVPN: running' node.log && break; sleep 0.1; done
    ip netns exec laptop ping -i 0.2 -c 200 -q 10.9.0.2 >/dev/null &
    sleep 1
"#;

/// Runs the examples in bash, because some use its redirections.
///
/// Returns the script's output: the status of each example.
fn run_all(dir: &Dir, examples: &[Example]) -> String {
    let mut text = WORLD.to_owned();
    for (number, example) in examples.iter().enumerate() {
        dir.write(&format!("example{number}"), &example.text);
        let _ = writeln!(
            text,
            "{}; ip netns exec laptop timeout -k 1 {} bash -o pipefail example{number} >out{number} 2>err{number} </dev/null; \
             echo \"{number} $?\"",
            example.before(),
            example.seconds()
        );
    }
    let out = script(dir, &text);
    assert!(stderr(&out).is_empty(), "{}", stderr(&out));
    stdout(&out)
}

#[test]
fn every_short_example_does_what_it_says_word_for_word() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_root() || !has_tun() || !has("openvpn") || !has("jq") {
        eprintln!("skipped: this takes root, a TUN device, openvpn and jq");
        return;
    }
    let dir = Dir::new();
    let examples = examples(&dir);
    assert!(examples.len() > 40, "{} examples are too few: they are not found", examples.len());
    let said = run_all(&dir, &examples);
    let mut faults = String::new();
    for (number, example) in examples.iter().enumerate() {
        let status = said.lines().find_map(|line| line.strip_prefix(&format!("{number} ")));
        if !status.is_some_and(|status| example.may_end_with(status)) {
            let read = |what: &str| std::fs::read_to_string(dir.path(&format!("{what}{number}"))).unwrap_or_default();
            let _ = writeln!(
                faults,
                "{}: {}\n  status {status:?}: {}{}",
                example.place,
                example.text,
                read("err"),
                read("out")
            );
        }
    }
    let log = std::fs::read_to_string(dir.path("node.log")).unwrap_or_default();
    assert!(faults.is_empty(), "{faults}\nthe node's log:\n{log}");
}
