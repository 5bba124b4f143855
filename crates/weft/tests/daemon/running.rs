//! The daemon on a real kernel, in network namespaces of its own.
//!
//! The tests run as root, or as any user in a user namespace.

use crate::common::{Dir, TWO_NODES, WEFT, has_tun, is_root, on_two_nodes, script, stderr, stdout, two_nodes};
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[test]
fn two_nodes_make_a_network_and_answer_questions() {
    let Some((dir, out)) = on_two_nodes(
        r#"
            up hub; up home; logged home "session established"
            ip netns exec home ping -c 3 -i 0.2 -W 2 10.9.0.2 >ping.txt || echo "no ping"
            stat -c 'socket %a' home.sock
            run home status --json >status.json; run home flows >flows.txt
            run home ping hub --json >pong.json
            run home ping nobody; echo "unknown peer: $?"
            run home weights set nolink=3; echo "unknown link: $?"
            run home weights set link1=3 link2=1; echo "weights: $?"
            cp home.toml good.toml; echo 'typo = 1' >>home.toml
            kill -HUP $home; logged home "nothing changed"
            ip netns exec home ping -c 1 -W 2 10.9.0.2 >/dev/null; echo "after a rejected reload: $?"
            sed -e '/^\[node\]/a cipher = "chacha20-poly1305"' good.toml >home.toml
            kill -HUP $home; logged home "needs a restart"
            sed -e '/^\[tun\]/a mtu = 1300' good.toml >home.toml
            kill -HUP $home; logged home "weft0: the MTU is now 1300 B"
            (cat good.toml; echo '[links]'; echo 'use = ["link1"]') >home.toml
            kill -HUP $home; logged home "reloaded"; logged home "link2 out of use"
            $WEFT up -c home.toml; echo "second node: $?"
            run home down; echo "down: $?"; logged hub "closed"
            run home status; echo "status afterwards: $?"
            ls home.sock 2>/dev/null; stat -c '%n %a' home.state home.state/stamp hub.state/accepted"#,
    ) else {
        return;
    };
    let (text, errors) = (stdout(&out), stderr(&out));
    let show = || format!("{text}\n{errors}\nhome:\n{}", fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    for line in [
        "socket 600",
        "unknown peer: 1",
        "unknown link: 1",
        "weights: 0",
        "after a rejected reload: 0",
        "second node: 1",
        "down: 0",
        "status afterwards: 4",
        "home.state 700",
        "home.state/stamp 600",
        "hub.state/accepted 600",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is missing\n{}", show());
    }
    assert!(!text.lines().any(|l| l == "home.sock"), "{}", show());
    assert!(!text.contains("not logged") && !text.contains("no ping"), "{}", show());
    assert!(errors.contains("another node is running"), "{}", show());
    let status: serde_json::Value = serde_json::from_slice(&fs::read(dir.path("status.json")).unwrap()).unwrap();
    assert_eq!(status["peers"][0]["name"], "hub", "{status}");
    assert_eq!(status["links"].as_array().map(Vec::len), Some(2), "{status}");
    let pong: serde_json::Value = serde_json::from_slice(&fs::read(dir.path("pong.json")).unwrap()).unwrap();
    assert!(pong["paths"].as_array().unwrap().iter().any(|path| path["rtt_us"].is_u64()), "{pong}");
    assert!(fs::read_to_string(dir.path("flows.txt")).unwrap().contains("10.9.0.2"), "{}", show());
    let log = fs::read_to_string(dir.path("home.log")).unwrap();
    let secret = fs::read_to_string(dir.path("home.key")).unwrap();
    assert!(!log.contains(secret.trim()));
    assert!(log.contains("home.toml:") && log.contains("unknown key `typo`"), "{log}");
}

#[test]
fn memory_is_locked_where_all_of_it_may_be() {
    let Some((dir, out)) = on_two_nodes(
        r#"
            locked() { [ "$(awk '/^VmLck/ { print $2 }' /proc/$1/status)" -gt 1000 ]; }
            echo "may lock: $((0x$(awk '/^CapEff/ { print $2 }' /proc/self/status) >> 14 & 1))"
            up hub; logged hub "weft0 up"; locked $hub; echo "as root: $?"
            ip netns exec home setpriv --bounding-set=-ipc_lock $WEFT up -v -c home.toml 2>>home.log & home=$!
            logged home "session established"; locked $home; echo "with a limit: $?""#,
    ) else {
        return;
    };
    let log = fs::read_to_string(dir.path("home.log")).unwrap_or_default();
    let (text, errors) = (stdout(&out), stderr(&out));
    assert!(
        text.contains("with a limit: 1\n") && log.contains("so the kernel may swap it to disk"),
        "{text}{errors}{log}"
    );
    // CAP_IPC_LOCK has an effect only outside of user namespaces.
    assert!(!is_root() || text.contains("may lock: 0\n") || text.contains("as root: 0\n"), "{text}{errors}{log}");
}

/// Configures two VPNs with the same prefixes at both nodes, each in a routing table of its own.
fn two_vpns(dir: &Dir) {
    let vpns = |peer: &str, own: u8, theirs: u8, behind: [&str; 2]| {
        let vpn = |id: u8, name: &str| {
            format!(
                "[[vpn]]\nid = {id}\nname = \"{name}\"\ndevice = \"{name}0\"\ntable = {}\n\
                 address = [\"10.1.0.{}/32\"]\nprefixes = [\"{}\"]\nmembers = {{ {peer} = [\"{}\"] }}\n",
                1000 + u16::from(id),
                own + id,
                behind[usize::from(own / 128)],
                behind[usize::from(theirs / 128)],
            )
        };
        vpn(1, "red") + &vpn(2, "blue")
    };
    let behind = ["10.1.0.0/25", "10.1.0.128/25"];
    for (node, text) in [("home", vpns("hub", 0, 128, behind)), ("hub", vpns("home", 128, 0, behind))] {
        let file = dir.path(&format!("{node}.toml"));
        let plain = fs::read_to_string(&file).unwrap();
        fs::write(file, plain + &text).unwrap();
    }
}

#[test]
fn damaged_state_does_not_keep_a_node_from_its_peers() {
    let Some((_dir, out)) = on_two_nodes(
        r#"
            files() { for name in stamp accepted revoked; do echo "$1/$name"; done; }
            text() { for file in $(files $1); do printf 'no state\n' >$file; done; }
            noise() { for file in $(files $1); do printf '\377\n\376 7\0' >$file; done; }
            huge() { for file in $(files $1); do truncate -s 1G $file; done; }
            highest() { echo 18446744073709551615 >$1/stamp; }
            directories() { mkdir $(files $1); }
            fifos() { mkfifo $(files $1); }
            full() { mount -t tmpfs -o size=4k none $1; ! head -c 9000 /dev/zero >$1/fill 2>/dev/null; }
            readonly() { mount -t tmpfs -o ro none $1; }
            nodirectory() { rmdir $1; echo >$1; }
            for damage in text noise huge highest directories fifos full readonly nodirectory; do
                for node in home hub; do
                    umount $node.state 2>/dev/null; rm -rf $node.state; mkdir $node.state; $damage $node.state
                done
                up hub; up home; logged home "session established"
                ip netns exec home ping -c 1 -W 2 10.9.0.2 >/dev/null; pings=$?
                kill $home $hub; wait $home $hub
                echo "$damage: ping $pings, said $(grep -c 'the node continues without' home.log hub.log | tr '\n' ' ')"
                ! grep panicked home.log hub.log
            done"#,
    ) else {
        return;
    };
    let text = stdout(&out);
    for damage in ["text", "noise", "huge", "highest", "directories", "fifos", "full", "readonly", "nodirectory"] {
        let expected = format!("{damage}: ping 0, said home.log:1 hub.log:1");
        assert!(text.lines().any(|line| line.trim_end() == expected), "{expected} in\n{text}\n{}", stderr(&out));
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn vpns_with_the_same_addresses_have_devices_and_tables_of_their_own() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    two_vpns(&dir);
    let out = script(
        &dir,
        &format!(
            r#"{TWO_NODES}
            up hub; up home; logged home "session established"
            ip netns exec home ping -c 2 -i 0.2 -W 2 10.9.0.2 >/dev/null; echo "default: $?"
            ip netns exec home ping -I red0 -c 3 -i 0.2 -W 2 10.1.0.129 >/dev/null; echo "red: $?"
            ip netns exec home ping -I blue0 -c 5 -i 0.2 -W 2 10.1.0.130 >/dev/null; echo "blue: $?"
            ip -n home route show 10.1.0.128/25; ip -n home route show 10.1.0.128/25 table 51900; ip -n home route show table 1002 | sed 's/^/table: /'
            run hub vpns --json >vpns.json; run home vpns >vpns.txt
            run home vpns set red weight=3; echo "weight: $?"
            run home vpns set rde weight=3; echo "no such vpn: $?"
            run home vpns --json >weights.json
            cp hub.toml both.toml; sed -i -e '/name = "blue"/,$d' -e '/^id = 2/d' hub.toml; sed -i '$d' hub.toml
            kill -HUP $hub; logged hub "reloaded"
            ip netns exec home ping -I blue0 -c 2 -i 0.2 -W 1 10.1.0.130 >/dev/null; echo "blue without hub: $?"
            ip netns exec home ping -I red0 -c 2 -i 0.2 -W 2 10.1.0.129 >/dev/null; echo "red still: $?"
            ip -n hub link show blue0 2>/dev/null; cp both.toml hub.toml; kill -HUP $hub; sleep 3
            ip netns exec home ping -I blue0 -c 3 -i 0.5 -W 2 10.1.0.130 >/dev/null; echo "blue again: $?"
            sed -i 's/weight = 1/weight = 0/; s/^name = "blue"/name = "blue"\nweight = 0/' hub.toml
            kill -HUP $hub; logged hub "nothing changed"
            run home down; ip -n home rule show | grep -c 'lookup 100'; cat hub.log >&2"#
        ),
    );
    let (text, errors) = (stdout(&out), stderr(&out));
    for line in [
        "default: 0",
        "red: 0",
        "blue: 0",
        "weight: 0",
        "no such vpn: 1",
        "blue without hub: 1",
        "red still: 0",
        "blue again: 0",
        "0",
    ] {
        assert!(text.lines().any(|l| l.trim() == line), "{line:?} is missing\n{text}\n{errors}");
    }
    assert!(!text.lines().any(|l| l.starts_with("10.1.0.128/25")), "a route in the main table\n{text}");
    assert!(text.contains("table: 10.1.0.128/25 dev blue0"), "{text}");
    assert!(!text.contains("blue0:") && !text.contains("not logged"), "{text}\n{errors}");
    assert!(errors.contains("no VPN `rde`; did you mean `red`?"), "{errors}");
    assert!(!errors.contains("cannot open a UDP socket on"), "a device is no link, not even when it goes\n{errors}");
    assert!(errors.contains("`weight` must be a whole number from 1"), "{errors}");
    let read = |name| serde_json::from_slice::<serde_json::Value>(&fs::read(dir.path(name)).unwrap()).unwrap();
    let (vpns, weights) = (read("vpns.json"), read("weights.json"));
    let packets = |vpn: usize| vpns["vpns"][vpn]["received_packets"].as_u64().unwrap();
    assert_eq!((vpns["vpns"][1]["name"].as_str(), vpns["vpns"][2]["device"].as_str()), (Some("red"), Some("blue0")));
    assert_eq!((packets(1), packets(2)), (3, 5), "{vpns}");
    assert_eq!(vpns["vpns"][2]["members"][0]["peer"], "home", "{vpns}");
    assert_eq!((weights["vpns"][1]["weight"].as_u64(), weights["vpns"][2]["weight"].as_u64()), (Some(3), Some(1)));
    assert!(fs::read_to_string(dir.path("vpns.txt")).unwrap().contains("hub*"));
}

/// Checks an answer to `GET /metrics` against Prometheus's format, and returns its lines.
fn samples(answer: &str) -> Vec<String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let mut told = Vec::new();
    for line in body.lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(!told.contains(&name), "twice: {line}");
            told.push(name);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next(), told.last().copied(), "{line}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    body.lines().map(str::to_owned).collect()
}

#[test]
fn metrics_agree_with_the_status() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    two_vpns(&dir);
    for (node, listen) in [("home", "127.0.0.1:9469"), ("hub", "unix:hub.metrics")] {
        let file = format!("{node}.toml");
        let plain = fs::read_to_string(dir.path(&file)).unwrap();
        dir.write(&file, &format!("{plain}[metrics]\nlisten = \"{listen}\"\n"));
    }
    dir.write("metrics.request", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    dir.write("other.request", "GET / HTTP/1.1\r\n\r\n");
    let out = script(
        &dir,
        &format!(
            r#"{TWO_NODES}
            ask() {{ ip netns exec home bash -c "exec 3<>/dev/tcp/127.0.0.1/9469; cat $1 >&3; timeout 5 cat <&3"; }}
            ip -n home link set lo up; up hub; up home; logged home "session established"
            ip netns exec home ping -I red0 -c 3 -i 0.2 -W 2 10.1.0.129 >/dev/null || echo "no ping"
            ask metrics.request >metrics.txt; ask other.request | head -1
            stat -c '%n %a' hub.metrics
            sed -i 's/9469/9470/' home.toml; kill -HUP $home; logged home "needs a restart"
            ask metrics.request | head -1
            run hub down; for _ in $(seq 50); do [ -e hub.metrics ] || break; sleep 0.1; done; ls hub.metrics"#
        ),
    );
    let (text, errors) = (stdout(&out), stderr(&out));
    let log = fs::read_to_string(dir.path("home.log")).unwrap_or_default();
    let show = || format!("{text}\n{errors}\nhome:\n{log}");
    assert!(!text.contains("not logged") && !text.contains("no ping"), "{}", show());
    assert!(text.contains("HTTP/1.1 404") && text.contains("hub.metrics 660"), "{}", show());
    assert!(text.contains("HTTP/1.1 200"), "still served after a refused reload\n{}", show());
    assert!(!text.lines().any(|line| line == "hub.metrics"), "{}", show());
    let answer = fs::read_to_string(dir.path("metrics.txt")).unwrap();
    let samples = samples(&answer);
    let value = |series: &str| {
        let found = samples.iter().find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok());
        found.unwrap_or_else(|| panic!("no {series} in\n{answer}\n{}", show()))
    };
    assert_eq!(value("weft_peer_up{peer=\"hub\"}"), 1.0);
    assert!(value("weft_vpn_sent_packets_total{vpn=\"red\",id=\"1\"}") >= 3.0);
    assert_eq!(value("weft_vpn_queue_bytes{vpn=\"red\",id=\"1\",peer=\"hub\"}"), 0.0);
    let states: Vec<_> = samples.iter().filter(|line| line.starts_with("weft_path_state{")).collect();
    let is_in = states.iter().filter(|line| line.ends_with(" 1")).count();
    assert!(is_in >= 2 && states.len() == 5 * is_in, "each path is in one of five states\n{answer}");
}

#[test]
fn a_peer_with_the_wrong_key_gets_no_answer() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    let stranger = dir.key("stranger.key");
    two_nodes(&dir, Some(&stranger));
    let out = script(
        &dir,
        &format!(
            r#"{TWO_NODES}
            up hub; up home; logged home "link2 in use"; logged hub "link2 in use"; sleep 2
            run home status --json >status.json; echo "home: $?"
            run hub status --json >hub.json; echo "hub: $?""#
        ),
    );
    let text = stdout(&out);
    assert!(text.contains("home: 3") && text.contains("hub: 3"), "{text}{}", stderr(&out));
    let read = |name| serde_json::from_slice::<serde_json::Value>(&fs::read(dir.path(name)).unwrap()).unwrap();
    let (home, hub) = (read("status.json"), read("hub.json"));
    assert!(home["peers"][0]["established_s"].is_null() && hub["peers"][0]["established_s"].is_null(), "{home} {hub}");
    assert!(hub["rejected_datagrams"].as_u64() > Some(0), "{hub}");
    let received: u64 = home["peers"][0]["paths"]
        .as_array()
        .map_or(0, |paths| paths.iter().filter_map(|path| path["received_datagrams"].as_u64()).sum());
    assert_eq!((received, home["rejected_datagrams"].as_u64()), (0, Some(0)), "a stranger got an answer: {home}");
}

fn lonely(dir: &Dir, name: &str, tun: &str) {
    dir.key(&format!("{name}.key"));
    let text = format!(
        "[node]\nkey = \"{name}.key\"\nlisten = 51900\nstate = \"{name}.state\"\ncontrol = \"{name}.sock\"\n\
         [tun]\nname = \"{tun}\"\naddress = [\"10.8.0.1/24\"]\n[links]\nuse = [\"lo\"]\n"
    );
    dir.write(&format!("{name}.toml"), &text);
}

#[test]
fn an_address_in_use_is_named_with_its_owner() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    lonely(&dir, "first", "weft0");
    lonely(&dir, "second", "weft1");
    let out = script(
        &dir,
        r#"$WEFT up -c first.toml 2>first.log & first=$!
        for _ in $(seq 100); do grep -q "weft0 up" first.log && break; sleep 0.1; done
        echo "first $first"
        timeout 10 $WEFT up -c second.toml; echo "status $?"
        kill $first; wait $first; echo "stopped $?""#,
    );
    let (text, errors) = (stdout(&out), stderr(&out));
    let first = text.lines().find_map(|line| line.strip_prefix("first ")).unwrap();
    assert!(text.contains("status 1") && text.contains("stopped 0"), "{text}{errors}");
    assert!(errors.contains("UDP port 51900 is in use on interface lo"), "{errors}");
    assert!(errors.contains(&format!("by process weft (pid {first})")) && errors.contains("`listen`"), "{errors}");
}

#[test]
fn without_permission_it_prints_how_to_get_it() {
    if !Path::new("/dev/net/tun").exists() {
        eprintln!("skipped: no /dev/net/tun here");
        return;
    }
    let dir = Dir::new();
    lonely(&dir, "node", "weft0");
    let mut command = Command::new("timeout");
    if is_root() {
        for file in [dir.0.clone(), dir.path("node.key"), dir.path("node.toml")] {
            chown(file, Some(65_534), Some(65_534)).unwrap();
        }
        command.args(["10", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    } else {
        command.arg("10");
    }
    let out = command.args([WEFT, "up", "-c"]).arg(dir.path("node.toml")).output().unwrap();
    let errors = stderr(&out);
    assert_eq!(out.status.code(), Some(1), "{errors}");
    assert!(errors.contains("not allowed to open a TUN device"), "{errors}");
    assert!(errors.contains("run as root") && errors.contains("setcap cap_net_admin"), "{errors}");
}

#[test]
fn the_service_manager_is_notified() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    lonely(&dir, "node", "weft0");
    let manager = UnixDatagram::bind(dir.path("notify")).unwrap();
    // It reads all the time, as a service manager does: the kernel queues ten messages, and the eleventh blocks its sender.
    manager.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&has_ended);
    let reader = thread::spawn(move || {
        let (mut told, mut buffer) = (Vec::new(), [0; 256]);
        loop {
            match manager.recv(&mut buffer) {
                Ok(len) => told.extend(String::from_utf8_lossy(&buffer[..len]).lines().map(str::to_owned)),
                Err(_) if ended.load(Ordering::Relaxed) => return told,
                Err(_) => {}
            }
        }
    });
    let out = script(
        &dir,
        r#"export NOTIFY_SOCKET=$PWD/notify WATCHDOG_USEC=400000
        (export WATCHDOG_PID=$BASHPID; exec $WEFT up -c node.toml 2>node.log) & node=$!
        for _ in $(seq 100); do grep -q "weft0 up" node.log && break; sleep 0.1; done
        sleep 0.5; kill -HUP $node
        for _ in $(seq 100); do grep -q "reloaded" node.log && break; sleep 0.1; done
        kill $node; wait $node; echo "stopped $?""#,
    );
    let log = fs::read_to_string(dir.path("node.log")).unwrap_or_default();
    assert!(stdout(&out).contains("stopped 0"), "{}{}{log}", stdout(&out), stderr(&out));
    has_ended.store(true, Ordering::Relaxed);
    let told = reader.join().unwrap();
    let order: Vec<&str> =
        told.iter().map(String::as_str).filter(|line| !line.starts_with("MONOTONIC_USEC=")).collect();
    let states: Vec<&str> = order.iter().copied().filter(|line| *line != "WATCHDOG=1").collect();
    assert_eq!(states, ["FDSTORE=1", "FDNAME=weft0", "READY=1", "RELOADING=1", "READY=1", "STOPPING=1"], "{told:?}");
    assert!(order.contains(&"WATCHDOG=1"), "{told:?}");
}

/// Property: the node requests a rate for a real TCP connection, gets at most `max-rate-up`, and shows it.
///
/// The two hosts receive no packet with the IP option of the request.
#[test]
fn a_signalled_connection_is_granted_and_shown() {
    let has_iperf = Command::new("iperf3").arg("--version").output().is_ok();
    if !has_tun() || !has_iperf {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    dir.key("signal.key");
    let capped = |link: u8| format!("[[link]]\nname = \"link{link}\"\nmax-rate-up = \"20 Mbit/s\"\n");
    let signal = format!("[signal]\nkey = \"signal.key\"\n{}{}", capped(1), capped(2));
    let rule = "[[signal.rule]]\nname = \"bulk\"\nports = \"5201\"\n";
    for (node, rest) in [("home", signal.clone() + rule), ("hub", signal)] {
        let file = format!("{node}.toml");
        let text = fs::read_to_string(dir.path(&file)).unwrap();
        dir.write(&file, &(text + &rest));
    }
    let out = script(
        &dir,
        &format!(
            r#"{TWO_NODES}
            up hub; up home; logged home "session established"
            ip netns exec hub iperf3 -s -D -p 5201 >/dev/null; sleep 0.5
            ip netns exec home iperf3 -c 10.9.0.2 -p 5201 -t 6 >iperf.txt &
            sleep 5; run home status --json >home.json; run hub status --json >hub.json
            wait $!; echo "transfer: $?""#
        ),
    );
    let show = || {
        format!("{}{}\n{}", stdout(&out), stderr(&out), fs::read_to_string(dir.path("iperf.txt")).unwrap_or_default())
    };
    assert!(stdout(&out).contains("transfer: 0"), "{}", show());
    let status = |node: &str| -> serde_json::Value {
        let text = fs::read_to_string(dir.path(&format!("{node}.json"))).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let (home, hub) = (&status("home")["signal"], &status("hub")["signal"]);
    let flows = home["flows"].as_array().unwrap();
    let granted = |flow: &&serde_json::Value| flow["rule"] == "bulk" && flow["rate_bps"].is_u64();
    let flow = flows.iter().find(granted).unwrap_or_else(|| panic!("{home:#}\n{hub:#}\n{}", show()));
    let rate = flow["rate_bps"].as_u64().unwrap();
    assert!((20_000_000..=40_000_000).contains(&rate), "{rate}");
    assert!(flow["flow"].as_str().unwrap().ends_with("10.9.0.2:5201"), "{flow}");
    assert!(home["peers"][0]["granted_bps"].as_u64().unwrap() >= rate);
    assert_eq!((&home["forged_tags"], &hub["forged_tags"]), (&0.into(), &0.into()));
}

/// Another test that ends may unload `weft_er` for the whole machine. A node then loads it again within a second, so
/// the test waits until status and kernel agree.
#[test]
fn status_shows_the_method_of_explicit_rates_and_the_reason() {
    let Some((dir, out)) = on_two_nodes(
        r#"
            printf '[[tcp-er.grant]]\nto = "10.9.0.0/24"\nrate = "20 Mbit/s"\n' >>home.toml
            up hub; up home; logged home "session established"
            offered() { ip netns exec home cat /proc/sys/net/ipv4/tcp_available_congestion_control; }
            for n in $(seq 50); do
                run home status --json >status.json; run home status >status.txt; offered >offered.txt
                naming=$(grep -l weft_er status.json status.txt offered.txt | wc -l)
                if [ $naming = 0 ] || [ $naming = 3 ]; then break; fi
                sleep 0.1
            done
            grep -i rates status.txt; echo "offered: $(cat offered.txt)"
            run home down"#,
    ) else {
        return;
    };
    let text = stdout(&out);
    let show = || format!("{text}\n{}", fs::read_to_string(dir.path("home.log")).unwrap_or_default());
    let status: serde_json::Value = serde_json::from_slice(&fs::read(dir.path("status.json")).unwrap()).unwrap();
    let tcp_er = &status["tcp_er"];
    let congestion = tcp_er["congestion"].as_str().unwrap_or("the kernel's own");
    let offered = text.lines().find_map(|line| line.strip_prefix("offered: ")).unwrap_or_default();
    match congestion {
        "weft_er" => {
            assert!(offered.split(' ').any(|name| name == "weft_er"), "{}", show());
            assert_eq!(tcp_er["grants"], 1, "{tcp_er}");
        }
        _ => assert!(tcp_er["because"].as_str().is_some_and(|why| !why.is_empty()), "{tcp_er}\n{}", show()),
    }
    assert!(text.lines().any(|line| line.contains(congestion)), "status names {congestion}\n{}", show());
}
