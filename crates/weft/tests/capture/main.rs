//! Property: a capture has the node's packets, all of them and no others, in a file that only its owner can read.

#[path = "../common/mod.rs"]
mod common;
mod file;
mod wireshark;

use common::{Dir, TWO_NODES, has_tun, mode, on_two_nodes, part, script, stderr, stdout, two_nodes};
use file::{INBOUND, OUTBOUND, Packet, read};

/// Starts the nodes and defines `captured NAME ARGUMENT…`, which captures until the function `traffic` ends.
const CAPTURE: &str = r#"
    up hub; up home; settled
    # Waits until the capture has begun, because it announces that.
    begun() { for _ in $(seq 100); do grep -q capturing $1.err && return; sleep 0.1; done; echo "not begun"; cat $1.err; }
    # A shell without terminal starts background programs deaf to Ctrl-C's signal.
    home_capture() { exec ip netns exec home env --default-signal=INT $WEFT capture --control home.sock --json "$@"; }
    captured() {
        name=$1; shift
        home_capture -w $name.pcapng "$@" >$name.json 2>$name.err & capture=$!
        begun $name; traffic
        kill -INT $capture; wait $capture; echo "$name: $?"
    }
    pings() { ip netns exec home ping -q -c 5 -i 0.2 -W 2 -p 77656674 10.9.0.2 >/dev/null; }
"#;

fn is_of_weft(packet: &Packet) -> bool {
    packet.protocol() == 17 && packet.ports().contains(&51_900)
}

#[test]
fn datagrams_of_all_links_are_captured_and_nothing_else() {
    let traffic = r#"
        traffic() {
            run home status --json >$name-before.json
            # Sparse packets take the fastest path alone; this takes each.
            for _ in 1 2 3 4 5; do run home ping hub >/dev/null; done
            pings
            for _ in $(seq 20); do
                ip netns exec home bash -c 'echo secret-of-others >/dev/udp/192.0.2.18/9999'
                ip netns exec home bash -c 'echo secret-of-others >/dev/tcp/192.0.2.34/9998' 2>/dev/null
            done
            ip netns exec home ping -q -c 2 -i 0.2 192.0.2.18 >/dev/null
            run home status --json >$name-after.json
        }
        captured all
        captured one --link link2
        traffic() { for _ in $(seq 100); do kill -0 $capture 2>/dev/null || return; sleep 0.1; done; }
        captured some --count 7
        captured short --for 1s --snap 40
        kill $home $hub; wait
    "#;
    let Some((dir, out)) = on_two_nodes(&[CAPTURE, traffic].concat()) else { return };
    let told = format!("{}\n{}", stdout(&out), stderr(&out));
    let all = read(&dir.path("all.pcapng"));
    assert_eq!(all.interfaces, ["link1", "link2"], "{told}");
    assert!(all.packets.iter().all(is_of_weft), "{told}");
    for (interface, direction) in [(0, INBOUND), (0, OUTBOUND), (1, INBOUND), (1, OUTBOUND)] {
        let of = all.packets.iter().filter(|packet| (packet.interface, packet.direction) == (interface, direction));
        assert!(of.count() >= 1, "interface {interface}, direction {direction}: {told}");
    }
    // The node's own counters say how many datagrams passed meanwhile.
    for (direction, counter) in [(OUTBOUND, "sent_datagrams"), (INBOUND, "received_datagrams")] {
        let [before, after] = ["all-before.json", "all-after.json"].map(|file| counted(&dir, file, counter));
        let captured = all.packets.iter().filter(|packet| packet.direction == direction).count() as u64;
        assert!(
            captured >= after - before && after > before + 10,
            "{counter}: {captured} of {}: {told}",
            after - before
        );
    }
    let bytes = std::fs::read(dir.path("all.pcapng")).unwrap();
    assert!(!contains(&bytes, b"secret-of-others") && !contains(&bytes, &[0x77, 0x65, 0x66, 0x74].repeat(4)));
    let key = std::fs::read(dir.path("home.key")).unwrap();
    assert!(!contains(&bytes, &key[..20]) && !contains(&bytes, b"hostname"), "metadata has no secret");
    assert_eq!(mode(&dir.path("all.pcapng")), 0o600);
    assert!(stdout(&out).contains("all: 0\n"), "Ctrl-C ends it in order: {told}");
    // The summary, the counters in the file and the packets agree.
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path("all.json")).unwrap()).unwrap();
    assert_eq!(summary["packets"], all.packets.len(), "{summary}");
    assert_eq!((&summary["dropped"], &summary["ended_by"]), (&0.into(), &"signal".into()), "{summary}");
    assert_eq!(all.counted, all.packets.len() as u64);
    let one = read(&dir.path("one.pcapng"));
    assert_eq!(one.interfaces, ["link2"]);
    assert!(!one.packets.is_empty() && one.packets.iter().all(is_of_weft));
    assert_eq!(read(&dir.path("some.pcapng")).packets.len(), 7, "{told}");
    let short = read(&dir.path("short.pcapng"));
    assert!(!short.packets.is_empty() && short.packets.iter().all(|packet| packet.bytes.len() <= 40), "{told}");
    assert!(short.packets.iter().any(|packet| packet.len > 40), "{told}");
}

/// Returns the sum of a counter over all paths, from a stored status.
fn counted(dir: &Dir, file: &str, counter: &str) -> u64 {
    let status: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path(file)).unwrap()).unwrap();
    let paths = status["peers"][0]["paths"].as_array().unwrap();
    paths.iter().map(|path| path[counter].as_u64().unwrap()).sum()
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[test]
fn packets_in_the_tunnel_are_captured_without_their_payload() {
    let traffic = r#"
        traffic() { pings; ip netns exec home bash -c 'for _ in 1 2 3; do echo a-private-text >/dev/udp/10.9.0.2/9; done'; }
        captured headers --inner
        captured whole --inner --payload
        captured both --inner --outer
        captured peer --inner --peer hub
        kill $home $hub; wait
    "#;
    let Some((dir, out)) = on_two_nodes(&[CAPTURE, traffic].concat()) else { return };
    let told = format!("{}\n{}", stdout(&out), stderr(&out));
    let headers = read(&dir.path("headers.pcapng"));
    assert_eq!(headers.interfaces, ["weft0"], "{told}");
    let udp: Vec<_> = headers.packets.iter().filter(|packet| packet.protocol() == 17).collect();
    assert!(udp.len() >= 3 && udp.iter().all(|packet| packet.bytes.len() == 28 && packet.len == 28 + 15), "{told}");
    let pattern = [0x77, 0x65, 0x66, 0x74].repeat(4);
    let file = |name: &str| std::fs::read(dir.path(name)).unwrap();
    assert!(!contains(&file("headers.pcapng"), b"a-private-text") && !contains(&file("headers.pcapng"), &pattern));
    assert!(contains(&file("whole.pcapng"), b"a-private-text") && contains(&file("whole.pcapng"), &pattern), "{told}");
    let both = read(&dir.path("both.pcapng"));
    assert_eq!(both.interfaces, ["link1", "link2", "weft0"], "{told}");
    let of = |interface: u32| both.packets.iter().filter(move |packet| packet.interface == interface);
    assert!(of(0).chain(of(1)).all(is_of_weft) && of(2).count() >= 10 && !of(2).any(is_of_weft), "{told}");
    assert!(!contains(&file("both.pcapng"), b"a-private-text"));
    let peer = read(&dir.path("peer.pcapng"));
    let ends = [[10, 9, 0, 1], [10, 9, 0, 2]];
    assert!(peer.packets.len() >= 10, "{told}");
    assert!(peer.packets.iter().all(|packet| packet.is_ipv4_between(ends[0], ends[1])), "{told}");
}

#[test]
fn a_capture_follows_a_new_address_and_goes_on_while_the_node_restarts() {
    let traffic = r#"
        traffic() {
            ip -n home addr del 192.0.2.17/28 dev link1; ip -n home addr add 192.0.2.20/28 dev link1
            # A path that carries no data is probed once a second.
            for _ in $(seq 6); do pings; done
            kill $home; wait $home; sleep 2; up home; settled; pings
            for _ in $(seq 50); do grep -q 'answers again' moved.err && break; sleep 0.1; done
            pings
        }
        captured moved
        cat moved.err
        kill $home $hub; wait
    "#;
    let Some((dir, out)) = on_two_nodes(&[CAPTURE, traffic].concat()) else { return };
    let told = format!("{}\n{}", stdout(&out), stderr(&out));
    let moved = read(&dir.path("moved.pcapng"));
    assert!(moved.packets.iter().all(is_of_weft), "{told}");
    let from_new = moved.packets.iter().filter(|packet| packet.source() == [192, 0, 2, 20]);
    assert!(from_new.count() >= 5, "{told}");
    assert!(told.contains("the capture goes on with the last known addresses"), "{told}");
    assert!(told.contains("the node answers again"), "{told}");
    // Each interface is one of the capture, also after the restart.
    assert_eq!(moved.interfaces, ["link1", "link2"], "{told}");
}

#[test]
fn tcp_connections_of_the_node_are_captured_and_those_of_others_are_not() {
    if !has_tun() {
        return;
    }
    let dir = Dir::new();
    two_nodes(&dir, None);
    for (name, more) in [
        (
            "home",
            "tcp = 443\n[[link]]\nname = \"link1\"\ntcp-fallback = \"always\"\n[[link]]\nname = \"link2\"\ntcp-fallback = \"always\"\n",
        ),
        ("hub", "[tcp]\nlisten = 443\n"),
    ] {
        let file = dir.path(&format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + more).unwrap();
    }
    let traffic = r#"
        traffic() {
            pings
            for _ in 1 2 3; do
                ip netns exec home timeout 5 python3 -c "
import socket
client = socket.create_connection(('192.0.2.18', 443), 2)
print('other', client.getsockname()[1])
client.sendall(b'GET / HTTP/1.1\r\n\r\n')
client.close()" | tee -a others
            done
            pings
        }
        captured tcp
        run hub capture -w hub.pcapng --for 1s 2>/dev/null
        kill $home $hub; wait
    "#;
    let out = script(&dir, &[TWO_NODES, CAPTURE, traffic].concat());
    let told = format!("{}\n{}", stdout(&out), stderr(&out));
    let capture = read(&dir.path("tcp.pcapng"));
    assert!(capture.packets.len() > 20, "{told}");
    assert!(capture.packets.iter().all(|packet| packet.protocol() == 6 && packet.ports().contains(&443)), "{told}");
    let others = std::fs::read_to_string(dir.path("others")).unwrap();
    let others: Vec<u16> = others.lines().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect();
    assert_eq!(others.len(), 3, "{told}");
    let foreign = |packet: &&Packet| packet.ports().iter().any(|port| others.contains(port));
    assert_eq!(capture.packets.iter().filter(foreign).count(), 0, "{told}");
    let directions: Vec<u32> = capture.packets.iter().map(|packet| packet.direction).collect();
    assert!(directions.contains(&INBOUND) && directions.contains(&OUTBOUND), "{told}");
}

#[test]
fn mistakes_are_refused_with_advice_and_leave_no_file() {
    let commands = r#"
        up hub; up home; settled
        say() { name=$1; shift; echo "== $name"; run home capture "$@" 2>&1; echo "status $?"; }
        say link -w a.pcapng --link link3
        say peer -w a.pcapng --peer hup
        say vpn -w a.pcapng --inner --vpn defalt
        say inner-link -w a.pcapng --inner --link link1
        say json -w - --json
        echo old >old.pcapng; ln -s elsewhere link.pcapng
        say exists -w old.pcapng
        say symlink -w link.pcapng
        say directory -w nowhere/a.pcapng
        echo "== stopped"; ip netns exec home $WEFT capture -w a.pcapng --control none.sock 2>&1; echo "status $?"
        echo "== namespace"; $WEFT capture -w a.pcapng --control home.sock 2>&1; echo "status $?"
        echo "== privilege"
        ip netns exec home setpriv --bounding-set -net_raw --inh-caps -net_raw \
            $WEFT capture -w a.pcapng --control home.sock 2>&1; echo "status $?"
        ip netns exec home ping -q -c 20 -i 0.2 10.9.0.2 >/dev/null &
        echo "== pipe"; run home capture -w - --count 3 2>pipe.err >piped.pcapng; echo "status $?"
        echo "== reader"; run home capture -w - 2>reader.err | head -c 300 | wc -c; cat reader.err
        echo "== files"; ls a.pcapng elsewhere 2>/dev/null; cat old.pcapng
        kill $home $hub; wait
    "#;
    let Some((dir, out)) = on_two_nodes(commands) else { return };
    let text = stdout(&out);
    let said = |name: &str| part(&text, name).to_owned();
    assert!(said("link\n").contains("no link in use `link3`; did you mean `link"), "{text}");
    assert!(said("peer").contains("no peer `hup`; did you mean `hub`?"), "{text}");
    assert!(said("vpn").contains("no VPN `defalt`; did you mean `default`?"), "{text}");
    assert!(said("inner-link").contains("add --outer\nstatus 2"), "{text}");
    assert!(said("json").contains("use -w FILE\nstatus 2"), "{text}");
    assert!(
        said("exists").contains("old.pcapng: the file exists already: choose another name") && said("files") == "old",
        "{text}"
    );
    assert!(said("symlink").contains("link.pcapng: the file exists already"), "{text}");
    assert!(said("directory").contains("does not exist: create it"), "{text}");
    assert!(said("stopped").contains("start one with: weft up") && said("stopped").ends_with("status 4"), "{text}");
    assert!(said("namespace").contains("not in this network namespace"), "{text}");
    assert!(said("privilege").contains("CAP_NET_RAW") && said("privilege").ends_with("status 1"), "{text}");
    assert!(said("pipe").ends_with("status 0"), "{text}");
    assert_eq!(read(&dir.path("piped.pcapng")).packets.len(), 3);
    assert!(said("reader").starts_with("300") && said("reader").contains("packets in"), "{text}");
}
