//! `weft signal` on hosts in network namespaces, without a node.
//!
//! The tests need root, nft, and iptables if the kernel's nftables has no queue.

#[path = "../common/mod.rs"]
mod common;
mod ends;

use common::{Dir, WEFT, stderr, stdout, weft};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};
use std::sync::Mutex;

/// Two hosts at a router, or at a link, with 40 Mbit/s from the first to the second.
///
/// `up HOST` starts its agent, and `end HOST ROLE…` an end of connections there.
const NETWORK: &str = r#"set -u; export PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up
    for node in h1 r h2; do ip netns add $node; ip -n $node link set lo up; done
    join() { # node, addresses, node, addresses
        ip link add eth0 netns $1 type veth peer name ${5:-eth0} netns $3
        for a in $2; do ip -n $1 addr add $a dev eth0 $(case $a in *:*) echo nodad;; esac); done; ip -n $1 link set eth0 up
        for a in $4; do ip -n $3 addr add $a dev ${5:-eth0} $(case $a in *:*) echo nodad;; esac); done; ip -n $3 link set ${5:-eth0} up
    }
    narrow() { tc -n $1 qdisc add dev $2 root tbf rate 40mbit burst 32k latency 40ms; }
    direct() { join h1 "10.5.1.1/24 fd00:5::1/64" h2 "10.5.1.2/24 fd00:5::2/64"; narrow h1 eth0; }
    routed() {
        join h1 10.5.1.1/24 r 10.5.1.9/24 r1; join h2 10.5.2.2/24 r 10.5.2.9/24 r2
        narrow r r2; ip -n h1 route add default via 10.5.1.9; ip -n h2 route add default via 10.5.2.9
        ip netns exec r sysctl -qw net.ipv4.ip_forward=1
    }
    up() { : >$1.log; ip netns exec $1 $WEFT signal -v -c $1.toml 2>>$1.log & eval "$1=$!"; ready $1.log "rate signalling is active"; }
    end() { node=$1; shift; WEFT_SIGNAL_TEST_END="$*" ip netns exec $node $END --exact an_end --nocapture; }
    ready() { for _ in $(seq 100); do grep -q "$2" $1 2>/dev/null && return; sleep 0.05; done; echo "$1: no $2"; cat $1; }
    sink() { end h2 sink $1 >$2 & ready $2 listening; }
    left() { ip netns exec $1 nft list tables | grep -c weft_signal; ip netns exec $1 iptables-save 2>/dev/null | grep -c NFQUEUE; }
"#;

/// Returns true if this machine allows these tests; prints the missing requirement.
fn is_possible() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let has = |name: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin"].iter().any(|at| fs::exists(format!("{at}/{name}")).unwrap_or(false))
    };
    let (nft, iptables) = (has("nft"), has("iptables"));
    let possible = is_root && nft && iptables;
    if !possible {
        eprintln!("skipped: signalling on a host needs root ({is_root}), nft ({nft}) and iptables ({iptables})");
    }
    possible
}

/// Runs one script at a time.
///
/// The first process that loads `weft_er` holds it for the whole machine, and unloads it at its end.
fn script(dir: &Dir, text: &str) -> Output {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    let end = std::env::current_exe().unwrap();
    let text = format!("cd {}\nWEFT={WEFT}\nEND={}\n{NETWORK}\n{text}", dir.0.display(), end.display());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "-nm"]);
    command.args(["bash", "-c", &text]).output().unwrap()
}

/// Writes both hosts' configurations. `more` is in both, and the first host requests rates.
fn hosts(dir: &Dir, more: &str) {
    let out = weft(&["keygen", "--out", dir.path("signal.key").to_str().unwrap()]);
    assert!(out.status.success(), "{}", stderr(&out));
    for (name, rate, rule) in [("h1", 40, "[[signal.rule]]\nname = \"bulk\"\nports = \"80-81\"\n"), ("h2", 20, "")] {
        let text =
            format!("[signal]\ninterface = \"eth0\"\nrate = \"{rate} Mbit/s\"\nkey = \"signal.key\"\n{more}\n{rule}");
        dir.write(&format!("{name}.toml"), &text);
    }
}

/// Returns all output, for a failure message.
fn logs(dir: &Dir, out: &Output) -> String {
    let log = |name| fs::read_to_string(dir.path(name)).unwrap_or_default();
    format!("{}\n{}\nh1:\n{}\nh2:\n{}", stdout(out), stderr(out), log("h1.log"), log("h2.log"))
}

/// Returns the words after this first word, for each line that begins with it.
fn said(text: &str, word: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    text.lines().map(words).filter(|line| line.first().is_some_and(|first| first == word)).collect()
}

/// Returns the goodput of the connections, in Mbit/s, in the order in which they ended.
fn goodputs(dir: &Dir) -> Vec<f64> {
    let text = fs::read_to_string(dir.path("sink")).unwrap();
    said(&text, "received").iter().map(|line| line[2].parse().unwrap()).collect()
}

/// Asserts that every sent byte was received. Returns the connection times in ms.
fn connects(dir: &Dir, out: &Output) -> Vec<u64> {
    let received = said(&fs::read_to_string(dir.path("sink")).unwrap(), "received");
    let sent = said(&stdout(out), "sent");
    let bytes = |lines: &[Vec<String>]| lines.iter().map(|line| line[1].parse::<u64>().unwrap()).sum::<u64>();
    assert_eq!((bytes(&received), received.len()), (bytes(&sent), sent.len()), "{}", logs(dir, out));
    assert!(sent.iter().all(|line| line.last().is_some_and(|end| end == "1")), "{}", logs(dir, out));
    sent.iter().map(|line| line[3].parse().unwrap()).collect()
}

/// Returns true if the kernel had `weft_er` at first.
///
/// Without it rates are granted, but senders ignore them.
fn is_obeyed(out: &Output) -> bool {
    let obeyed = said(&stdout(out), "sent").first().is_some_and(|line| line[5] == "true");
    if !obeyed {
        eprintln!("skipped: that senders go at the rate granted; this kernel does not take weft_er");
    }
    obeyed
}

/// Not a test: the program that the other tests start in a namespace.
#[test]
fn an_end() {
    ends::run();
}

#[test]
fn a_grant_comes_is_kept_to_and_nothing_is_left_behind() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    hosts(&dir, "");
    let out = script(
        &dir,
        r#"direct; up h2; up h1; sink [::]:80 sink
        end h1 send 10.5.1.2:80 1500; end h1 send [fd00:5::2]:80 1500
        grep -c "may send flow .* at 19" h1.log | sed 's/^/grants: /'; grep -c "10.5.1.2:80 → 10.5.1.1:.* at 19" h2.log | sed 's/^/back: /'
        end h1 send 10.5.1.2:80 1500 & sender=$!; sleep 0.5; kill -9 $h2; sleep 0.2; echo "killed:" $(left h2)
        wait $sender; end h1 send 10.5.1.2:80 300
        up h2; end h1 send 10.5.1.2:80 1000
        end h1 send 10.5.1.2:80 1200 & sender=$!; sleep 0.5; kill -9 $h1; wait $sender; up h1; end h1 send 10.5.1.2:80 1000
        kill $h1 $h2; wait $h1; echo "ended:" $? $(left h1); wait $h2; echo "again:" $? $(left h2)
        end h1 send 10.5.1.2:80 300; wait $h2"#,
    );
    let text = stdout(&out);
    let late = connects(&dir, &out).into_iter().max();
    assert!(late < Some(900), "no SYN was lost: {late:?}\n{}", logs(&dir, &out));
    let number = |word: &str| said(&text, word).first().map_or(0, |line| line[1].parse::<u32>().unwrap());
    assert!(number("grants:") >= 2 && number("back:") >= 1, "{}", logs(&dir, &out));
    for line in ["ended: 0 0 0", "again: 0 0 0"] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing\n{}", logs(&dir, &out));
    }
    assert!(text.contains("killed: 0 "), "the table is gone with its owner\n{}", logs(&dir, &out));
    if !is_obeyed(&out) {
        return;
    }
    let rates = goodputs(&dir);
    println!("Mbit/s: {rates:?}");
    // Headers take 3.5 % of 19 Mbit/s, and 5 % in IPv6.
    for at in [0, 1, 4, 6] {
        assert!((17.0..19.1).contains(&rates[at]), "{rates:?}\n{}", logs(&dir, &out));
    }
}

#[test]
fn legacy_routers_are_trusted_only_if_the_operator_configures_it() {
    if !is_possible() {
        return;
    }
    for (plain_routers, is_granted) in [(false, false), (true, true)] {
        let dir = Dir::new();
        hosts(&dir, &format!("plain-routers = {plain_routers}"));
        let out =
            script(&dir, "routed; up h2; up h1; sink 0.0.0.0:80 sink; end h1 send 10.5.2.2:80 1200; kill $h1 $h2");
        let granted = fs::read_to_string(dir.path("h1.log")).unwrap();
        let granted = granted.lines().any(|line| line.contains("may send flow") && line.contains(" at 19"));
        assert_eq!(granted, is_granted, "{}", logs(&dir, &out));
        assert!(connects(&dir, &out)[0] < 900);
        if is_obeyed(&out) {
            let rate = goodputs(&dir)[0];
            println!("Mbit/s: {rate}");
            assert_eq!((17.0..19.1).contains(&rate), is_granted, "{rate}\n{}", logs(&dir, &out));
        }
    }
}

#[test]
fn where_packets_with_options_are_dropped_only_the_first_connection_is_late() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    hosts(&dir, "plain-routers = true");
    let out = script(
        &dir,
        r#"routed; up h2; up h1; sink 0.0.0.0:80 sink
        ip netns exec r nft 'table ip t { chain c { type filter hook forward priority 0; ip hdrlength > 5 drop; }; }'
        for _ in 1 2 3; do end h1 send 10.5.2.2:80 400; done
        ip netns exec r nft delete table ip t; end h1 send 10.5.2.2:80 2500
        grep -q "may send flow .* at 19" h1.log && echo mended; kill $h1 $h2"#,
    );
    let connects = connects(&dir, &out);
    println!("connects: {connects:?} ms, Mbit/s: {:?}", goodputs(&dir));
    assert!(connects[1..].iter().all(|ms| *ms < 900), "{connects:?}\n{}", logs(&dir, &out));
    assert!(stdout(&out).lines().any(|line| line == "mended"), "{}", logs(&dir, &out));
}

/// Property: the number of packets that pass the agents does not grow with the data.
///
/// With `WEFT_CHECK` set the test measures longer.
#[test]
fn data_does_not_pass_the_agent() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    hosts(&dir, "");
    let (ms, count) = if std::env::var_os("WEFT_CHECK").is_some() { (5_000, 5_000) } else { (700, 300) };
    let out = script(
        &dir,
        &format!(
            r#"join h1 10.5.1.1/24 h2 10.5.1.2/24; sink 0.0.0.0:80 sink; end h2 sink 0.0.0.0:90 >sink90 & ready sink90 listening
            handed() {{ ip netns exec h1 awk '{{ s += $8 }} END {{ print s + 0 }}' /proc/net/netfilter/nfnetlink_queue; }}
            cpu() {{ cut -d' ' -f1 /proc/$h1/schedstat; }}
            packets() {{ ip netns exec h1 cat /sys/class/net/eth0/statistics/tx_packets; }}
            run() {{ before="$(handed) $(cpu) $(packets)"; label=$1; shift; "$@" | grep "^sent\|^connected" | sed "s/^/$label /"
                set -- $before; echo "$label handed $(($(handed) - $1)) agent $((($(cpu) - $2) / 1000)) µs packets $(($(packets) - $3))"; }}
            h1=$$; run none:flood end h1 flood 10.5.1.2:80 {ms}; run none:connects end h1 connect 10.5.1.2:80 {count}
            up h2; up h1
            run idle sleep 1; run other:flood end h1 flood 10.5.1.2:90 {ms}; run other:connects end h1 connect 10.5.1.2:90 {count}
            run rule:flood end h1 flood 10.5.1.2:80 {ms}; run rule:connects end h1 connect 10.5.1.2:80 {count}
            kill $h2; wait $h2; run alone:flood end h1 flood 10.5.1.2:80 {ms}; kill $h1"#
        ),
    );
    let text = stdout(&out);
    println!("{text}");
    let said = |label: &str, word: &str| {
        let line = said(&text, label).into_iter().find(|line| line[1] == "handed").unwrap_or_default();
        let at = line.iter().position(|of| of == word).map_or(0, |at| at + 1);
        line.get(at)
            .and_then(|number| number.parse::<u64>().ok())
            .unwrap_or_else(|| panic!("{label}\n{}", logs(&dir, &out)))
    };
    assert_eq!((said("other:flood", "handed"), said("other:connects", "handed")), (0, 0), "no rule names them");
    // SYN, SYN/ACK and FIN, and the answers to confirmations and updates, at most 20 a second.
    assert!(said("rule:flood", "handed") <= 100 + ms / 1_000 * 50, "{text}");
    assert!(said("rule:connects", "handed") >= 2 * count, "{text}");
    // The last packet, with the FIN, may be a super-packet, whose segments are counted.
    assert!(said("alone:flood", "handed") <= 64, "{text}");
}
