//! Property: if a session does not come up, both ends report the cause within 15 seconds.
//!
//! They report it in the log, in `weft status` and in `weft doctor`.

use crate::common::{Dir, TWO_NODES, has_tun, script, stderr, stdout, two_nodes};
use std::fs;

/// `both` prints the views of both nodes after 14 s: `NODE VIEW: line`.
const BOTH: &str = r#"
    said() { sed "s/^/$1 $2: /"; }
    views() {
        said $1 log <$1.log
        run $1 status | said $1 status
        run $1 status --json | said $1 json
        run $1 doctor --peer $2 | said $1 doctor
        run $1 doctor --json --peer $2 | said $1 doctor-json
    }
    both() { sleep ${1:-12}; views home hub; views hub home; }
    all_up() { up hub; up home; both; }
"#;

/// Output of both nodes in a case.
struct Said {
    text: String,
    show: String,
}

impl Said {
    /// Returns true if one line of a node's view contains all of these words.
    fn says(&self, node: &str, view: &str, words: &[&str]) -> bool {
        let start = format!("{node} {view}: ");
        let mut lines = self.text.lines().filter_map(|line| line.strip_prefix(&start));
        lines.any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Asserts that all views of a node name a cause with these words.
    fn name(&self, node: &str, cause: &str, words: &[&str]) {
        for view in ["log", "status", "doctor"] {
            assert!(self.says(node, view, words), "{node} {view} lacks {words:?}:\n{}", self.show);
        }
        for view in ["json", "doctor-json"] {
            let named = format!("\"cause\":\"{cause}\"");
            assert!(self.says(node, view, &[named.as_str()]), "{node} {view} lacks {named}:\n{}", self.show);
        }
    }

    fn says_nowhere(&self, node: &str, words: &str) {
        let has = ["log", "status", "doctor"].iter().any(|view| self.says(node, view, &[words]));
        assert!(!has, "{node} says {words:?}:\n{}", self.show);
    }
}

/// Runs commands with configured `home` and `hub`. `change` may change their files first.
fn case(change: impl FnOnce(&Dir), commands: &str) -> Option<Said> {
    if !has_tun() {
        return None;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    change(&dir);
    let out = script(&dir, &format!("{TWO_NODES}{BOTH}{commands}\nkill $home $hub 2>/dev/null; wait"));
    let text = stdout(&out);
    let show = format!("{text}\n{}", stderr(&out));
    Some(Said { text, show })
}

/// Replaces text in a file.
fn edit(dir: &Dir, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(dir.path(file)).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(dir.path(file), text.replace(from, to)).unwrap();
}

fn public_key(dir: &Dir, name: &str) -> String {
    let out = crate::common::weft(&["pubkey", dir.path(&format!("{name}.key")).to_str().unwrap()]);
    stdout(&out).trim().to_owned()
}

#[test]
fn a_wrong_key_of_the_hub() {
    let mut hub = String::new();
    let change = |dir: &Dir| {
        hub = public_key(dir, "hub");
        edit(dir, "home.toml", &hub, &dir.key("other.key"));
    };
    let Some(said) = case(change, "all_up") else { return };
    said.name(
        "home",
        "silent",
        &["192.0.2.18:51900 over link link1", "no answer", "`public-key` of the peer here is wrong"],
    );
    said.name("hub", "other-key", &["a handshake from 192.0.2.", "is for another key than this node's", &hub]);
}

#[test]
fn a_wrong_key_of_home_which_is_a_peer_unknown_at_the_hub() {
    let mut home = String::new();
    let change = |dir: &Dir| {
        home = public_key(dir, "home");
        edit(dir, "hub.toml", &home, &dir.key("other.key"));
    };
    let Some(said) = case(change, "all_up") else { return };
    said.name("home", "silent", &["no answer", "the peer does not know this node's key"]);
    said.name(
        "hub",
        "unknown-key",
        &["a node with the key", &home, "calls from 192.0.2.", "no peer of this node has that key"],
    );
}

#[test]
fn a_preshared_key_that_differs() {
    let change = |dir: &Dir| {
        for name in ["home", "hub"] {
            let out = crate::common::weft(&["genpsk"]);
            let key = stdout(&out).trim().to_owned();
            dir.write(&format!("{name}.psk"), &key);
            crate::common::chmod(&dir.path(&format!("{name}.psk")), 0o600);
            let peer = if name == "home" { "hub" } else { "home" };
            edit(
                dir,
                &format!("{name}.toml"),
                &format!("name = \"{peer}\""),
                &format!("name = \"{peer}\"\npreshared-key = \"{name}.psk\""),
            );
        }
    };
    let Some(said) = case(change, "all_up") else { return };
    said.name(
        "home",
        "preshared-key",
        &["this node cannot decrypt the answers from", "preshared keys of the two nodes differ"],
    );
    said.name(
        "hub",
        "answer-lost",
        &["but then received no packet from there", "preshared keys of the two nodes differ"],
    );
}

#[test]
fn a_hub_that_is_not_running() {
    let Some(said) = case(|_| (), "up home; sleep 12; views home hub; hub=") else { return };
    said.name(
        "home",
        "not-running",
        &["192.0.2.18:51900 over link link1", "ICMP port unreachable received", "weft is not running there"],
    );
}

#[test]
fn a_port_that_is_blocked() {
    let blocked = "ip netns exec hub nft 'add table inet f; add chain inet f i { type filter hook input priority 0; }; add rule inet f i udp dport 51900 drop'; all_up";
    let Some(said) = case(|_| (), blocked) else { return };
    said.name(
        "home",
        "silent",
        &["192.0.2.34:51900 over link link2", "no answer", "a firewall drops UDP to this port"],
    );
    said.name("hub", "no-call", &["none of its handshakes arrived", "open this node's UDP port"]);
}

#[test]
fn firewalls_that_say_so() {
    let rejected = "ip netns exec hub nft 'add table inet f; add chain inet f i { type filter hook input priority 0; }; add rule inet f i udp dport 51900 reject with icmpx type admin-prohibited'; all_up";
    let Some(said) = case(|_| (), rejected) else { return };
    said.name(
        "home",
        "rejected",
        &["ICMP administratively prohibited received", "a firewall rejects UDP to this port"],
    );
    let own = "ip netns exec home nft 'add table inet f; add chain inet f o { type filter hook output priority 0; }; add rule inet f o udp dport 51900 reject'; all_up";
    let Some(said) = case(|_| (), own) else { return };
    said.name("home", "filtered", &["the kernel did not send: not permitted", "this machine's own firewall"]);
}

#[test]
fn a_peer_that_is_unknown_at_the_hub() {
    let change = |dir: &Dir| {
        let text = fs::read_to_string(dir.path("hub.toml")).unwrap();
        let (before, _) = text.split_once("[[peer]]").unwrap();
        let other = dir.key("other.key");
        fs::write(
            dir.path("hub.toml"),
            format!("{before}[[peer]]\nname = \"home\"\npublic-key = \"{other}\"\nendpoints = [\"192.0.2.30:9\", \"192.0.2.46:9\"]\n"),
        )
        .unwrap();
    };
    let Some(said) = case(change, "all_up") else { return };
    said.name("home", "silent", &["the peer does not know this node's key"]);
    for view in ["log", "status", "doctor"] {
        assert!(
            said.says("hub", view, &["a node with the key", "or the node was never added here"]),
            "{view}: {}",
            said.show
        );
    }
}

#[test]
fn a_path_that_carries_only_small_packets() {
    let narrow = "for n in home hub; do ip netns exec $n nft 'add table inet f; add chain inet f o { type filter hook output priority 0; }; add rule inet f o udp length > 800 drop'; done; up hub; up home; both 14";
    let Some(said) = case(|_| (), narrow) else { return };
    for node in ["home", "hub"] {
        said.name(
            node,
            "small-mtu",
            &["the network drops long datagrams: at most", "B", "drops longer packets without an error"],
        );
    }
}

#[test]
fn a_session_that_is_well_has_nothing_to_tell() {
    let Some(said) = case(|_| (), "all_up") else { return };
    for node in ["home", "hub"] {
        said.says_nowhere(node, "likely cause");
        assert!(said.says(node, "doctor", &["session", "good"]), "{}", said.show);
    }
}

/// Builds a library that shifts the wall clock of programs that load it by `SHIFT` seconds.
///
/// Returns `None` without a C compiler.
fn shifted_clock(dir: &Dir) -> Option<()> {
    let source = dir.write(
        "shift.c",
        "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <time.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
         int clock_gettime(clockid_t clock, struct timespec *at) {\n\
         int result = syscall(SYS_clock_gettime, clock, at); const char *shift = getenv(\"SHIFT\");\n\
         if (shift && clock == CLOCK_REALTIME) at->tv_sec += atol(shift);\n return result; }\n",
    );
    let out = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(dir.path("shift.so"))
        .arg(source)
        .output();
    match out {
        Ok(out) if out.status.success() => Some(()),
        other => {
            eprintln!("skipped: no C compiler: {other:?}");
            None
        }
    }
}

/// Starts `home`, deletes its state, and starts it again with a clock that is `shift` seconds off.
fn with_clock(shift: i64) -> Option<Said> {
    let mut has_clock = None;
    let commands = format!(
        "up hub; up home; logged home 'session established'; kill $home; wait $home; rm -rf home.state; sleep 2
         : >home.log; SHIFT={shift} LD_PRELOAD=$PWD/shift.so ip netns exec home $WEFT up -c home.toml 2>>home.log & home=$!
         logged home 'session established'; echo 'home log: came up'; both 8"
    );
    let said = case(|dir| has_clock = shifted_clock(dir), &commands)?;
    has_clock?;
    assert!(said.says("home", "log", &["session established"]), "{}", said.show);
    Some(said)
}

#[test]
fn a_clock_that_is_behind_with_state_lost_is_a_refused_stamp() {
    let Some(said) = with_clock(-30 * 86_400) else { return };
    said.name("home", "stamp-behind", &["refused this node's handshake", "its stamp is", "clock was set back"]);
    said.name("hub", "stamp-behind", &["handshake", "refused", "its stamp is", "clock was set back"]);
    assert!(
        said.says("home", "status", &["its stamp is 29 d below"])
            || said.says("home", "status", &["its stamp is 30 d below"]),
        "{}",
        said.show
    );
}

#[test]
fn a_clock_that_is_ahead() {
    let Some(said) = with_clock(30 * 86_400) else { return };
    said.name(
        "home",
        "clock-ahead",
        &["refused this node's handshake", "its stamp is", "set the clocks of both nodes"],
    );
    said.name("hub", "clock-ahead", &["handshake", "refused", "its stamp is", "set the clocks of both nodes"]);
}

#[test]
fn links_without_a_route() {
    // The kernel takes every IPv4 address to be on the device's link, and refuses an IPv6 address without a route.
    for endpoint in ["203.0.113.77:51900", "[2001:db8:9::1]:51900"] {
        let change = |dir: &Dir| {
            edit(dir, "home.toml", "\"192.0.2.18:51900\", \"192.0.2.34:51900\"", &format!("\"{endpoint}\""));
        };
        let addresses = "for i in 1 2; do ip -n home -6 addr add 2001:db8:$i::1/64 dev link$i nodad; done; up hub; up home; both 13";
        let Some(said) = case(change, addresses) else { return };
        said.name("home", "no-route", &[endpoint, "this machine has no route to it over the link"]);
        said.name("hub", "no-call", &["none of its handshakes arrived"]);
    }
}

/// `home` calls a hub behind two NATs; in the second case a node behind two NATs calls.
const TWO_NATS: &str = r#"
    for node in home hub a b out; do ip netns add $node; ip -n $node link set lo up; done
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    up() { : >$1.log; ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }
    wire() { ip link add $2 netns $1 type veth peer name $5 netns $4; ip -n $1 addr add $3 dev $2; ip -n $1 link set $2 up; ip -n $4 addr add $6 dev $5; ip -n $4 link set $5 up; }
    wire hub wan 192.168.1.2/24 a lan 192.168.1.1/24
    wire a wan 100.64.0.2/24 b lan 100.64.0.1/24
    wire b wan 198.51.100.2/24 out left 198.51.100.1/24
    wire home wan 203.0.113.2/24 out right 203.0.113.1/24
    ip -n hub route add default via 192.168.1.1; ip -n a route add default via 100.64.0.1
    ip -n b route add default via 198.51.100.1; ip -n home route add default via 203.0.113.1
    for node in a b out; do ip netns exec $node sysctl -qw net.ipv4.ip_forward=1; done
    for node in a b; do ip netns exec $node nft 'add table ip n; add chain ip n p { type nat hook postrouting priority 100; }; add rule ip n p oifname wan masquerade'; done
"#;

#[test]
fn a_hub_behind_two_nats_and_a_node_behind_two_nats() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    edit(&dir, "home.toml", "\"192.0.2.18:51900\", \"192.0.2.34:51900\"", "\"198.51.100.2:51900\"");
    let run = |commands: &str| {
        let out = script(&dir, &format!("{TWO_NATS}{BOTH}{commands}\nkill $home $hub; wait"));
        let text = stdout(&out);
        Said { show: format!("{text}\n{}", stderr(&out)), text }
    };
    let said = run("all_up");
    said.name("home", "not-running", &["ICMP port unreachable received", "a NAT there does not forward the port"]);
    said.name("hub", "no-call-behind-nat", &["private addresses only", "each NAT in front of it drops calls"]);
    // Now the node behind the NATs calls. The session comes up, and `weft doctor` reports both NATs.
    edit(&dir, "home.toml", "endpoints = [\"198.51.100.2:51900\"]", "");
    edit(&dir, "home.toml", "[node]", "[node]\nlisten = 51900");
    edit(&dir, "hub.toml", "name = \"home\"", "name = \"home\"\nendpoints = [\"203.0.113.2:51900\"]");
    let said = run("up hub; up home; both 4");
    assert!(said.says("hub", "log", &["session established"]), "{}", said.show);
    assert!(said.says("hub", "doctor", &["double NAT is likely", "192.168.1.1 and 100.64.0.1"]), "{}", said.show);
}
