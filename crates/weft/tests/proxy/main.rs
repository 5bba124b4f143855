//! Transparent proxies at both edges of a real tunnel, in network namespaces; needs root and nft.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod plan;

use common::{Dir, WEFT, stderr, stdout};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Output};

/// Four namespaces in a row: `lan` is behind `home`, `srv` behind `hub`.
///
/// `end NODE ROLE…` runs an end of transfers there.
const NETWORK: &str = r#"set -u; export PATH=$PATH:/usr/sbin:/sbin
    mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/netns && ip link set lo up
    for node in home hub lan srv; do ip netns add $node; ip -n $node link set lo up; done
    nodad() { case $1 in *:*) echo nodad;; esac; }
    join() { # link, node, addresses, node, addresses
        ip link add $1 netns $2 type veth peer name $1 netns $4
        for a in $3; do ip -n $2 addr add $a dev $1 $(nodad $a); done; ip -n $2 link set $1 up
        for a in $5; do ip -n $4 addr add $a dev $1 $(nodad $a); done; ip -n $4 link set $1 up
    }
    join l1 home 192.0.2.1/28 hub 192.0.2.2/28
    join e0 lan "10.5.0.7/24 fd00:5::7/64" home "10.5.0.1/24 fd00:5::1/64"
    join e1 srv "10.6.0.7/24 fd00:6::7/64" hub "10.6.0.1/24 fd00:6::1/64"
    ip -n lan route add default via 10.5.0.1; ip -n lan route add default via fd00:5::1
    ip -n srv route add default via 10.6.0.1; ip -n srv route add default via fd00:6::1
    for node in home hub; do ip netns exec $node sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1; done
    run() { node=$1; shift; ip netns exec $node $WEFT "$@" --control $node.sock; }
    up() { : >$1.log; ip netns exec $1 $WEFT up -c $1.toml 2>>$1.log & eval "$1=$!"; }
    logged() { for _ in $(seq 100); do grep -q "$2" $1.log && return; sleep 0.1; done; echo "not logged: $2"; cat $1.log; }
    end() { node=$1; shift; WEFT_PROXY_TEST_END="$*" ip netns exec $node $END --exact an_end --nocapture; }
    ready() { for _ in $(seq 100); do grep -q "$2" $1 2>/dev/null && return; sleep 0.1; done; echo "$1: no $2"; }
    proxies() { logged home "connections between proxies"; logged hub "connections between proxies"; logged home "session established"; }
    pid_of() { run $1 status --json | sed 's/.*"proxy":{[^}]*"pid":\([0-9]*\).*/\1/'; }
    left() { ip netns exec $1 nft list tables | grep -c weft_proxy; ip -n $1 rule | grep -c fwmark; ip -n $1 route show table all | grep -c 'proto 119'; }
"#;

/// Returns true if this machine allows these tests; prints the missing requirement.
fn is_possible() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let tun = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let nft = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"].iter().any(|nft| fs::exists(nft).unwrap_or(false));
    let possible = is_root && tun.is_ok() && nft;
    if !possible {
        eprintln!("skipped: proxies need root ({is_root}), a TUN device ({tun:?}) and nft ({nft})");
    }
    possible
}

fn script(dir: &Dir, text: &str) -> Output {
    let end = std::env::current_exe().unwrap();
    let text = format!("cd {}\nWEFT={WEFT}\nEND={}\n{NETWORK}\n{text}", dir.0.display(), end.display());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "280", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "-nm"]);
    command.args(["bash", "-c", &text]).output().unwrap()
}

/// Writes both configurations. `proxies` is the text about proxies in both.
fn nodes(dir: &Dir, proxies: &str) {
    let keys = [dir.key("home.key"), dir.key("hub.key")];
    for (name, host, peer, theirs, behind, key) in
        [("home", 1, "hub", 2, 6, &keys[1]), ("hub", 2, "home", 1, 5, &keys[0])]
    {
        dir.write(
            &format!("{name}.toml"),
            &format!(
                "[node]\nkey = \"{name}.key\"\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\nlisten = 51900\n\
                 [tun]\naddress = [\"10.9.0.{host}/24\", \"fd00:9::{host}/64\"]\n[links]\nuse = [\"l1\"]\n\
                 [[peer]]\nname = \"{peer}\"\npublic-key = \"{key}\"\nendpoints = [\"192.0.2.{theirs}:51900\"]\n\
                 prefixes = [\"10.9.0.{theirs}/32\", \"fd00:9::{theirs}/128\", \"10.{behind}.0.0/24\", \"fd00:{behind}::/64\"]\n\
                 {proxies}\n"
            ),
        );
    }
}

/// Returns both nodes' logs, for a failure message.
fn logs(dir: &Dir, out: &Output) -> String {
    let log = |name| fs::read_to_string(dir.path(name)).unwrap_or_default();
    format!("{}\n{}\nhome:\n{}\nhub:\n{}", stdout(out), stderr(out), log("home.log"), log("hub.log"))
}

fn is_checking() -> bool {
    std::env::var_os("WEFT_CHECK").is_some()
}

/// Not a test: the program that the other tests start in a namespace.
#[test]
fn an_end() {
    ends::run();
}

#[test]
fn every_byte_every_end_and_every_reset_come_through() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[[proxy]]\nports = [80, \"8000-8010\"]");
    let each = if is_checking() { 250 } else { 60 };
    let out = script(
        &dir,
        &format!(
            r#"up hub; up home; proxies
            go() {{ # name, client, server, address, seed
                end $3 serve $4 {each} >$1.served & pids="$pids $!"; ready $1.served ready
                end $2 transfer $4 {each} $5 16 >$1.made & pids="$pids $!"; }}
            pids=; go a lan srv 10.6.0.7:80 1000; go b home hub 10.9.0.2:8000 2000
            go c lan srv [fd00:6::7]:80 3000; go d srv home 10.9.0.1:8010 4000
            wait $pids; cat ?.served ?.made; sleep 1.2
            run home status --json >home.json; run hub status --json >hub.json"#
        ),
    );
    let text = stdout(&out);
    let well = |line: String| text.lines().filter(|l| *l == line).count();
    assert_eq!(well(format!("served {each}, bad 0")), 4, "{}", logs(&dir, &out));
    assert_eq!(well(format!("made {each}, bad 0")), 4, "{}", logs(&dir, &out));
    for node in ["home.json", "hub.json"] {
        let status: serde_json::Value = serde_json::from_slice(&fs::read(dir.path(node)).unwrap()).unwrap();
        let proxy = &status["proxy"];
        assert_eq!(proxy["taken"].as_u64(), Some(4 * each), "all went through the proxy: {proxy}");
        assert_eq!(proxy["connections"].as_u64(), Some(0), "none is left: {proxy}");
        assert_eq!(proxy["pipes"].as_u64(), Some(0), "no pipe is left: {proxy}");
        println!("{node}: {proxy}");
    }
}

/// The answers to the first SYN are lost. Its server has meanwhile reset the connection.
#[test]
fn a_repeated_syn_of_a_reset_connection_opens_no_other() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[[proxy]]\nports = [80]");
    dir.write("server.py", RESETTING_SERVER);
    dir.write("client.py", LONE_CLIENT);
    let out = script(
        &dir,
        r#"up hub; up home; proxies
        lose='table inet lose { chain out { type filter hook output priority 0; oifname "weft0" tcp sport 80 counter drop; }; }'
        for server in 10.6.0.7 fd00:6::7; do
            ip netns exec srv python3 server.py $server >served.$server & ready served.$server ready
            ip netns exec hub nft "$lose"
            ip netns exec lan timeout 10 python3 client.py $server >client & client=$!
            # The answer to the SYN and the reset.
            for _ in $(seq 200); do ip netns exec hub nft list table inet lose | grep -q 'packets [2-9]' && break; sleep 0.02; done
            ip netns exec hub nft delete table inet lose; wait $client
            echo "$server: $(cat client), opened $(grep -c opened served.$server)"
        done
        repeated() { ip netns exec home awk '/^TcpExt/ { if (n++) print $i; else for (i = 1; $i != "TCPSynRetrans"; i++); }' /proc/net/netstat; }
        [ "$(repeated)" -ge 2 ] && echo "repeated"
        # The proxy reports once a second. One more report shows that no more than two came.
        for _ in $(seq 50); do run hub status --json | grep -q '"taken":2' && break; sleep 0.1; done
        sleep 1.2; run hub status --json >hub.json"#,
    );
    let text = stdout(&out);
    for line in ["10.6.0.7: reset, opened 1", "fd00:6::7: reset, opened 1", "repeated"] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing\n{}", logs(&dir, &out));
    }
    let status: serde_json::Value = serde_json::from_slice(&fs::read(dir.path("hub.json")).unwrap()).unwrap();
    assert_eq!(status["proxy"]["taken"].as_u64(), Some(2), "{}", status["proxy"]);
}

/// Reports each connection, reads its first bytes and resets it.
const RESETTING_SERVER: &str = r#"
import socket, struct, sys
server = socket.create_server((sys.argv[1], 80), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(100)
    print("opened", flush=True)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
"#;

/// Sends a request and reports the answer.
const LONE_CLIENT: &str = r#"
import socket, sys
connection = socket.create_connection((sys.argv[1], 80))
connection.sendall(b"once")
try:
    print("answer", connection.recv(100))
except ConnectionResetError:
    print("reset")
"#;

#[test]
fn a_killed_proxy_resets_its_flows_and_leaves_nothing_behind() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[[proxy]]\nports = [80]");
    let out = script(
        &dir,
        r#"up hub; up home; proxies
        end hub echo 10.9.0.2:80 >echo & ready echo ready
        end hub echo 10.9.0.2:81 >other & ready other ready
        echo "port 80: $(end home ask 10.9.0.2:80 | grep -x 'plain\|proxied')"
        echo "port 81: $(end home ask 10.9.0.2:81 | grep -x 'plain\|proxied')"
        for node in home hub; do
            end home hold 10.9.0.2:80 100 15000 >held.$node & held=$!; ready held.$node "held 100"
            victim=$(pid_of $node); at=$(date +%s%6N); kill -9 $victim; sleep 0.08
            echo "$node left:" $(left $node)
            wait $held; set -- $(grep ^reset held.$node); echo "$node reset $2"; echo "$node: last reset $(($4 - at)) µs after the kill"
            logged $node "next start in"; for _ in $(seq 50); do [ $(grep -c "connections between proxies" $node.log) = 2 ] && break; sleep 0.1; done
            echo "$node again: $(end home ask 10.9.0.2:80 | grep -x 'plain\|proxied')"
        done
        run home status | grep ^proxy
        victim=$(pid_of home); kill -9 $home; for _ in $(seq 50); do [ -d /proc/$victim ] || break; sleep 0.1; done
        echo "daemon killed:" $(left home)
        kill $hub; wait $hub; echo "hub ended:" $(left hub)"#,
    );
    let text = stdout(&out);
    for line in [
        "port 80: proxied",
        "port 81: plain",
        "home left: 0 0 0",
        "hub left: 0 0 0",
        "home reset 100",
        "hub reset 100",
        "home again: proxied",
        "hub again: proxied",
        "daemon killed: 0 0 0",
        "hub ended: 0 0 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing\n{}", logs(&dir, &out));
    }
    println!("{text}");
}

#[test]
fn excess_connections_pass_unproxied_and_refused_ones_are_reset() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[proxies]\ncapacity = 10\ncongestion = [\"none_such\", \"reno\"]\n[[proxy]]\nports = [80, 82]");
    let out = script(
        &dir,
        r#"up hub; up home; proxies
        ask() { end home ask 10.9.0.2:$1 | grep -x 'plain\|proxied\|Conn.*'; }
        end hub echo 10.9.0.2:80 >echo & ready echo ready
        echo "refused: $(ask 82)"
        end home hold 10.9.0.2:80 10 4000 >held & held=$!; ready held "held 10"
        echo "full: $(ask 80)"; sleep 1.2; run home status | grep ^proxy; run hub status | grep ^proxy
        sed -i 's/ports = .*/ports = [82]/' home.toml; kill -HUP $home; logged home "reloaded"
        sed -i 's/ports = .*/ports = [82]/' hub.toml; kill -HUP $hub; logged hub "reloaded"; sleep 0.3
        wait $held; grep ^reset held
        echo "after the reload: $(ask 80)"
        sed -i 's/ports = .*/ports = [80]/' home.toml; kill -HUP $home; sleep 0.5; echo "and another: $(ask 80)""#,
    );
    let text = stdout(&out);
    for line in
        ["refused: ConnectionReset", "full: plain", "reset 0 by 0", "after the reload: plain", "and another: proxied"]
    {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing\n{}", logs(&dir, &out));
    }
    assert!(text.contains("FULL: new connections are not proxied") && text.contains("; reno"), "{}", logs(&dir, &out));
    assert!(text.contains("1 without server"), "{}", logs(&dir, &out));
}

#[test]
fn a_denied_connection_is_reset_counted_and_logged_once() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    let rules = "[proxies]\n[[proxies.rule]]\nfrom = [\"10.5.0.7/32\"]\nallow = [\"10.6.0.7/32\"]\nports = [81]\n\
                 [[proxies.rule]]\ndeny = [\"10.6.0.0/24\", \"fd00:6::/64\"]\nports = [\"81-82\"]\n[[proxy]]";
    // One edge has no rules: a connection that the other edge denies is refused there.
    nodes(&dir, rules);
    let hub = fs::read_to_string(dir.path("hub.toml")).unwrap().replace(rules, "[[proxy]]");
    dir.write("hub.toml", &hub);
    let out = script(
        &dir,
        r#"up hub; up home; proxies
        for at in 10.6.0.7:80 10.6.0.7:81 10.6.0.7:82 [fd00:6::7]:80 [fd00:6::7]:81; do
            end srv echo $at >echo.$at & ready echo.$at ready
        done
        ask() { echo "$1 $2: $(end $1 ask $2 | grep -x 'plain\|proxied\|Conn.*')"; }
        ask lan 10.6.0.7:80; ask lan 10.6.0.7:81; ask lan 10.6.0.7:82; ask lan [fd00:6::7]:80; ask lan [fd00:6::7]:81
        ask home 10.6.0.7:81; for try in 1 2 3 4 5; do ask lan 10.6.0.7:82 >/dev/null; done
        sleep 1.3; run home status --json >home.json; run home status | grep ^proxy
        run home explain 10.6.0.7:82 --from 10.5.0.7:4000 2>&1 | grep proxy
        echo "logged: $(grep -c refused: home.log)""#,
    );
    let text = stdout(&out);
    for line in [
        "lan 10.6.0.7:80: plain",
        "lan 10.6.0.7:81: plain",
        "lan 10.6.0.7:82: ConnectionReset",
        "lan [fd00:6::7]:80: plain",
        "lan [fd00:6::7]:81: ConnectionReset",
        "home 10.6.0.7:81: ConnectionReset",
        "logged: 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing\n{}", logs(&dir, &out));
    }
    let status: serde_json::Value = serde_json::from_slice(&fs::read(dir.path("home.json")).unwrap()).unwrap();
    // A host's source port stays the same through the proxies, so the echo calls those connections plain.
    assert_eq!(status["proxy"]["taken"].as_u64(), Some(3), "{}", status["proxy"]);
    assert_eq!(status["proxy"]["refused"].as_u64(), Some(8), "{}", status["proxy"]);
    assert!(text.contains("8 refused"), "{}", logs(&dir, &out));
    let log = fs::read_to_string(dir.path("home.log")).unwrap();
    let said = "to 10.6.0.7:82 refused: [[proxies.rule]] number 2 denies the connection; weft status counts all";
    assert!(log.contains("proxy: connection from 10.5.0.7:") && log.contains(said), "{log}");
}

#[test]
fn legs_between_proxies_are_paced_at_their_share_of_what_the_paths_carry() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[[link]]\nname = \"l1\"\nmax-rate-up = \"50 Mbit/s\"\n[[proxy]]\nports = [80]");
    let out = script(
        &dir,
        r#"up hub; up home; proxies
        end hub echo 10.9.0.2:80 >echo & ready echo ready
        end home hold 10.9.0.2:80 1 3000 >held & held=$!; ready held "held 1"
        for try in $(seq 25); do
            ip netns exec home ss -tinH 'src 10.9.0.1 and dst 10.9.0.2:80' | grep -o 'pacing_rate [0-9]*bps/[0-9]*bps' && break; sleep 0.1
        done
        wait $held"#,
    );
    let text = stdout(&out);
    // The client's own connection to the proxy has no limit.
    let limits = text.lines().filter_map(|line| line.rsplit_once('/')?.1.strip_suffix("bps")?.parse::<u64>().ok());
    let limits: Vec<u64> = limits.collect();
    assert!(matches!(limits[..], [40_000_000..=50_000_000]), "{limits:?}\n{}", logs(&dir, &out));
}

#[test]
fn path_capacity_is_shared_among_the_connections_of_all_workers() {
    if !is_possible() {
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[[link]]\nname = \"l1\"\nmax-rate-up = \"50 Mbit/s\"\n[[proxy]]\nports = [80]");
    // With so few descriptors per process the default capacity needs several workers on every machine.
    let out = script(
        &dir,
        r#"ulimit -n 8000; up hub; up home; proxies
        end srv drain 10.6.0.7:80 >drained & ready drained ready
        end lan pour 10.6.0.7:80 12 6000 >poured & pouring=$!; ready poured "poured on 12"; sleep 2
        for task in /proc/$(pid_of home)/task/*; do
            grep -q worker $task/comm && echo "legs of $(cat $task/comm): $(($(ls -l $task/fd | grep -c socket:) - $(ls -l /proc/$(pid_of home)/fd | grep -c socket:)))"
        done
        ip netns exec home ss -tinH 'dst 10.6.0.7:80' | grep -o 'pacing_rate [0-9]*bps/[0-9]*bps'
        wait $pouring"#,
    );
    let text = stdout(&out);
    let legs = |line: &str| line.strip_prefix("legs of worker ")?.split_once(": ")?.1.parse::<u64>().ok();
    let legs: Vec<u64> = text.lines().filter_map(legs).collect();
    let busy = legs.iter().filter(|legs| **legs > 0).count();
    assert!(
        busy > 1 && legs.iter().sum::<u64>() == 24,
        "both legs of twelve, not at one worker: {legs:?}\n{}",
        logs(&dir, &out)
    );
    let limits = text.lines().filter_map(|line| line.rsplit_once('/')?.1.strip_suffix("bps")?.parse::<u64>().ok());
    let limits: Vec<u64> = limits.collect();
    assert_eq!(limits.len(), 12, "{}", logs(&dir, &out));
    let (sum, least, most) = (limits.iter().sum::<u64>(), limits.iter().min().unwrap(), limits.iter().max().unwrap());
    assert!((40_000_000..=60_000_000).contains(&sum), "{legs:?}, {limits:?}\n{}", logs(&dir, &out));
    assert!(most * 100 <= least * 105, "{legs:?}, {limits:?}\n{}", logs(&dir, &out));
    println!("legs by worker {legs:?}, limits {limits:?}");
}

/// Measures the figures of `docs/operate/proxies.md`.
///
/// They are at most 10,000 connections, 2,000 new ones a second, and the cost of a gigabyte.
#[test]
fn many_connections_and_what_they_cost() {
    if !is_checking() || !is_possible() {
        eprintln!("skipped: takes a minute; set WEFT_CHECK=1, or run `make check`");
        return;
    }
    let dir = Dir::new();
    nodes(&dir, "[[proxy]]\nports = [80, 5202]");
    let out = script(
        &dir,
        r#"for node in home hub lan srv; do
            ip netns exec $node sysctl -qw net.core.somaxconn=4096; done
        ulimit -n $(ulimit -Hn); up hub; up home; proxies
        end hub echo 10.9.0.2:80 >echo & ready echo ready
        end srv echo 10.6.0.7:80 >other & ready other ready
        rss() { grep VmRSS /proc/$1/status | tr -dc 0-9; }
        kernel() { echo $(($(ip netns exec $1 awk '/^TCP:/{print $NF}' /proc/net/sockstat) * 4)); }
        slab() { awk '/^Slab:/{print $2}' /proc/meminfo; }
        cpu() { awk '{print $14+$15}' /proc/$1/stat; }
        proxy_home=$(pid_of home); proxy_hub=$(pid_of hub)
        many=$(($(run home status --json | sed 's/.*"proxy":{[^}]*"capacity":\([0-9]*\).*/\1/') - 100)); [ $many -gt 10000 ] && many=10000
        before="$(rss $proxy_home) $(rss $proxy_hub) $(kernel home) $(kernel hub) $(slab)"; start=$(date +%s%N)
        end home hold 10.9.0.2:80 $many 25000 >held & held=$!
        for _ in $(seq 600); do grep -q "held $many" held && break; sleep 0.1; done
        echo "held $many after $((($(date +%s%N) - start) / 1000000)) ms"
        set -- $before
        echo "per connection: $((($(rss $proxy_home) - $1) * 1024 / many)) B and $((($(rss $proxy_hub) - $2) * 1024 / many)) B of process," \
            "buffers of TCP $((($(kernel home) - $3) * 1024 / many)) B at home and $((($(kernel hub) - $4) * 1024 / many)) B at hub," \
            "and for all six sockets of it $((($(slab) - $5) * 1024 / many)) B of the kernel's objects"
        for task in /proc/$proxy_home/task/*; do echo "$(cat $task/comm): $(ls $task/fd | wc -l) descriptors"; done
        at=$(cpu $proxy_home); sleep 2; echo "idle: $(($(cpu $proxy_home) - at)) ticks of 10 ms in 2 s"
        at=$(cpu $proxy_home); end lan pace 10.6.0.7:80 10000 5000 | grep ^connected
        echo "that cost the proxy at home $(($(cpu $proxy_home) - at)) ticks of 10 ms"
        wait $held; grep ^reset held
        ip netns exec srv iperf3 -s -p 5201 -D; ip netns exec srv iperf3 -s -p 5202 -D; sleep 0.5
        for round in 1 2 3; do for flows in 1 4; do for port in 5201 5202; do
            all() { echo $(($(cpu $proxy_home) + $(cpu $proxy_hub))) $(($(cpu $home) + $(cpu $hub))); }
            set -- $(all) $(awk '/^cpu /{print $2+$3+$4+$7+$8}' /proc/stat)
            sent=$(ip netns exec lan iperf3 -c 10.6.0.7 -p $port -P $flows -t 4 -J | sed -n '/"end"/,$p' | grep -m1 -A6 sum_received | grep bytes | tr -dc 0-9)
            set -- $* $(all) $(awk '/^cpu /{print $2+$3+$4+$7+$8}' /proc/stat)
            awk -v p=$port -v n=$flows -v s=$sent -v a=$1 -v b=$2 -v c=$3 -v d=$4 -v e=$5 -v f=$6 'BEGIN {g=s/1e9;
                printf "port %d, flows %d: %.2f Gbit/s; CPU s/GB: proxies %.2f, nodes %.2f, machine %.2f\n", p, n, s*8/4e9, (d-a)/100/g, (e-b)/100/g, (f-c)/100/g}'
        done; done; done"#,
    );
    let text = stdout(&out);
    println!("{text}");
    assert!(text.contains("reset 0 by 0"), "none of those held was lost\n{}", logs(&dir, &out));
    assert!(text.contains("connected 10000 failed 0"), "{}", logs(&dir, &out));
    assert_eq!(text.lines().filter(|line| line.starts_with("port 5202, ")).count(), 6, "{}", logs(&dir, &out));
}
