//! Requests in band over three nodes in transit, on a kernel: datagrams are lost, an attacker forges requests, and
//! signals are repeated and late.
//!
//! Each node lowers a request to the rate that it can guarantee toward the next one. The middle one has the least.

mod common;

use common::Dir;
use common::inside::{Daemon, or_again, status};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use weft_config::keys::load_signal_key;
use weft_units::{Rate, Rng};
use weft_wire::er_sig::{
    BurstTolerance, DelayVariance, Message, Rate16, Rates, Signal, SignalKey, SignalService, carriage,
    carriage::ADDED_LEN,
};
use weft_wire::ip::FlowKey;

/// The nodes, in order: an edge, three in transit, an edge.
const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
/// Rate of the link from the middle node onward, in Mbit/s.
const NARROW: u64 = 10;
/// Rate of all other links, in Mbit/s.
const WIDE: u64 = 40;
/// Ports of a flow that asks for little, of one that asks for more than there is, and of bulk that asks for nothing.
const LITTLE: u16 = 5_001;
const MUCH: u16 = 5_002;
const BULK: u16 = 6_000;
/// Source port of the flow whose signals are repeated and late.
const REPEATED: u16 = 19_000;

/// Joins the nodes in a row. On arrival 2 % of the datagrams are lost.
const ROW: &str = r#"
    for node in 0 1 2 3 4; do ip netns add n$node; ip -n n$node link set lo up; done
    for node in 0 1 2 3; do
        ip link add next netns n$node type veth peer name back netns n$((node + 1))
        ip -n n$node addr add 192.0.2.$((node * 16 + 1))/28 dev next; ip -n n$node link set next up
        ip -n n$((node + 1)) addr add 192.0.2.$((node * 16 + 2))/28 dev back; ip -n n$((node + 1)) link set back up
    done
    for node in 0 1 2 3 4; do
        ip netns exec n$node nft "table inet faults {
            chain in {
                type filter hook input priority 0
                udp dport 51900 numgen random mod 100 < 2 drop
            }
        }"
    done
"#;

#[test]
fn the_least_along_the_path_is_granted_and_a_forger_gets_nothing() {
    or_again("the_least_along_the_path_is_granted_and_a_forger_gets_nothing", inside);
}

#[test]
fn repeated_and_late_signals_leave_the_last_grant_and_end_with_it() {
    or_again("repeated_and_late_signals_leave_the_last_grant_and_end_with_it", inside_repeated);
}

/// Returns the nodes, once they are connected and have measured the links' capacity.
fn start(dir: &Dir) -> Vec<Daemon> {
    assert!(Command::new("bash").args(["-c", &format!("set -eu\n{ROW}")]).status().unwrap().success());
    configure(dir);
    let daemons: Vec<Daemon> = NODES.iter().map(|node| Daemon::start(dir, node)).collect();
    wait_for("tunnel", dir, || {
        let ping = ["netns", "exec", "n0", "ping", "-c1", "-W1", "10.9.0.5"];
        Command::new("ip").args(ping).output().is_ok_and(|out| out.status.success())
    });
    let bulk = send(0, BULK, Rate::from_mbps(60), Duration::from_secs(4));
    bulk.join().unwrap();
    daemons
}

/// Signals of one flow with right tags: sent in any order, repeated, and late.
fn inside_repeated() {
    let dir = Dir::new();
    let daemons = start(&dir);
    let key = load_signal_key(&dir.path("signal.key")).unwrap();
    let mut rng = Rng::new(7);
    let shuffled = |rng: &mut Rng, nonce: u32, mbps: u64| -> Vec<Signal> {
        let all = [Message::Request, Message::Update, Message::Confirm];
        let any = (0..60).map(|_| signal(all[rng.below(3) as usize], mbps, nonce));
        any.chain([signal(Message::Update, mbps, nonce), signal(Message::Confirm, mbps, nonce)]).collect()
    };
    let expect = |what: &str, mbps: f64| {
        wait_for(what, &dir, || NODES[..4].iter().all(|node| (guaranteed(&dir, node) - mbps).abs() < 0.05));
        sleep(Duration::from_millis(500));
        let now = NODES[..4].iter().map(|node| guaranteed(&dir, node)).collect::<Vec<_>>();
        assert!(now.iter().all(|rate| (rate - mbps).abs() < 0.05), "{what}: {now:?}\n{}", log(&dir));
    };
    say(&key, shuffled(&mut rng, 1, 1));
    expect("first grant", 1.0);
    // Messages that end or confirm another request arrive late.
    say(&key, shuffled(&mut rng, 2, 2));
    let late = [Message::Release, Message::Confirm, Message::Reject].map(|message| signal(message, 1, 1));
    say(&key, late.repeat(10));
    expect("second grant", 2.0);
    let ends = [Message::Release, Message::Confirm, Message::Release].map(|message| signal(message, 2, 2));
    say(&key, ends.repeat(5));
    expect("end of the grant", 0.0);
    // A late request holds its rate for 3 s only, because no confirmation follows.
    say(&key, vec![signal(Message::Request, 2, 2); 5]);
    expect("late request", 2.0);
    expect("end of what nobody confirms", 0.0);
    drop(daemons);
}

fn inside() {
    let dir = Dir::new();
    let mut daemons = start(&dir);
    let flow_time = Duration::from_secs(7);
    let answers = [LITTLE, MUCH].map(|port| answer(port, flow_time));
    let forged = forge(Duration::from_secs(5));
    // The flow with the larger request begins first. The other one has a higher precedence, and takes what it needs.
    let much_flow = send(0, MUCH, Rate::from_mbps(3), flow_time);
    wait_for("grant", &dir, || granted(&dir, MUCH).is_some());
    let little_flow = send(0, LITTLE, Rate::from_mbps(1), flow_time);
    wait_for("second grant", &dir, || granted(&dir, LITTLE) > Some(0.5));
    sleep(Duration::from_secs(2));
    let (little, much) = (granted(&dir, LITTLE).unwrap_or(0.0), granted(&dir, MUCH).unwrap_or(0.0));
    let most = NARROW as f64 / 2.0;
    assert!((little - 1.008).abs() < 0.02, "asked 1 Mbit/s, granted {little}\n{}", log(&dir));
    assert!(
        much > 0.5 * most && much + little <= most,
        "of {most} Mbit/s {much} granted beside {little}\n{}",
        log(&dir)
    );
    // The grant follows the narrow link's measured capacity, so it may change between two readings.
    wait_for("the same rate at each node", &dir, || {
        let granted = [LITTLE, MUCH].map(|port| granted(&dir, port).unwrap_or(0.0)).iter().sum::<f64>();
        granted > 1.0 && NODES[..4].iter().all(|node| (guaranteed(&dir, node) - granted).abs() < 0.05)
    });
    assert!(forged.join().unwrap() > 50);
    assert!(status(&dir, "n1")["signal"]["forged_tags"].as_u64() > Some(50), "{}", status(&dir, "n1")["signal"]);
    [much_flow, little_flow].into_iter().chain(answers).for_each(|thread| thread.join().unwrap());

    if std::env::var_os("WEFT_CHECK").is_some() {
        // A flow that ends without a word is forgotten everywhere: 30 s after its last signal.
        wait_for("end of the guarantees", &dir, || NODES[..4].iter().all(|node| guaranteed(&dir, node) == 0.0));
    }
    daemons.clear();
}

/// Writes the configurations. All nodes beyond a neighbour are the neighbour's prefixes.
fn configure(dir: &Dir) {
    let keys = NODES.map(|node| dir.key(&format!("{node}.key")));
    dir.key("signal.key");
    for (number, node) in NODES.iter().enumerate() {
        let is_edge = number == 0 || number == NODES.len() - 1;
        let links = match number {
            0 => "\"next\"",
            4 => "\"back\"",
            _ => "\"back\", \"next\"",
        };
        let mut text = format!(
            "[links]\nuse = [{links}]\n[node]\nkey = \"{node}.key\"\nlisten = 51900\nstate = \"{node}.state\"\ncontrol = \"{node}.sock\"\n\
             [tun]\naddress = [\"10.9.0.{}/24\"]\n[router]\ntransit = {}\n[signal]\nkey = \"signal.key\"\n\
             reservable = \"50 %\"\nanswers = {is_edge}\n",
            number + 1,
            !is_edge
        );
        if number == 0 {
            for (port, rate, priority) in [(LITTLE, 1, 5), (MUCH, 20, 0)] {
                text += &format!(
                    "[[signal.rule]]\nname = \"r{port}\"\nprotocol = \"udp\"\nports = \"{port}\"\n\
                     guaranteed = \"{rate} Mbit/s\"\navailable = \"8 kbit/s\"\nreverse = false\n\
                     priority = {priority}\n"
                );
            }
        }
        let neighbours = [number.checked_sub(1), Some(number + 1).filter(|next| *next < NODES.len())];
        for (other, link) in
            neighbours.into_iter().zip(["back", "next"]).filter_map(|(other, link)| Some((other?, link)))
        {
            let rate = if (number, link) == (2, "next") { NARROW } else { WIDE };
            text += &format!("[[link]]\nname = \"{link}\"\nmax-rate-up = \"{rate} Mbit/s\"\n");
            let beyond = if other > number { other..=NODES.len() - 1 } else { 0..=other };
            let prefixes: Vec<String> = beyond.map(|node| format!("\"10.9.0.{}/32\"", node + 1)).collect();
            text += &format!(
                "[[peer]]\nname = \"{}\"\npublic-key = \"{}\"\nprefixes = [{}]\n",
                NODES[other],
                keys[other],
                prefixes.join(", ")
            );
            if other > number {
                text += &format!("endpoints = [\"192.0.2.{}:51900\"]\n", number * 16 + 2);
            }
        }
        dir.write(&format!("{node}.toml"), &text);
    }
}

/// Runs `act` in a node's network namespace.
fn within<T: Send + 'static>(node: usize, act: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    common::inside::within(NODES[node], act)
}

/// Answers datagrams at the last node for a while. The answer to a signal travels in them.
fn answer(port: u16, time: Duration) -> JoinHandle<()> {
    within(4, move || {
        let socket = UdpSocket::bind(("10.9.0.5", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let begin = Instant::now();
        while begin.elapsed() < time {
            if let Ok((_, from)) = socket.recv_from(&mut [0; 2_048]) {
                socket.send_to(b"heard", from).unwrap();
            }
        }
    })
}

/// Sends datagrams of 1,000 bytes from a node to the last one.
fn send(node: usize, port: u16, rate: Rate, time: Duration) -> JoinHandle<()> {
    within(node, move || {
        let socket = UdpSocket::bind(("10.9.0.1", 0)).unwrap();
        let (begin, mut sent) = (Instant::now(), 0);
        while begin.elapsed() < time {
            let due = rate.bps() as f64 / 8.0 * begin.elapsed().as_secs_f64();
            while (sent as f64) < due {
                // No program listens there, so the kernel reports an error at times.
                let _ = socket.send_to(&[0; 972], ("10.9.0.5", port));
                sent += 1_000;
            }
            sleep(Duration::from_millis(2));
        }
    })
}

/// Sends requests with wrong tags through the first node. Returns how many.
fn forge(time: Duration) -> JoinHandle<usize> {
    within(0, move || {
        let (begin, mut sent) = (Instant::now(), 0);
        while begin.elapsed() < time {
            let message = [Message::Request, Message::Update, Message::Release][sent % 3];
            let forged = Signal { preemption: 15, tag: 1 + sent as u16, ..signal(message, 4, sent as u32) };
            put(&[(20_000 + sent as u16, forged)]);
            sent += 1;
            sleep(Duration::from_millis(50));
        }
        sent
    })
}

/// Sends signals of the flow from the port [`REPEATED`] with right tags, one every 10 ms.
fn say(key: &SignalKey, signals: Vec<Signal>) {
    let (source, destination) = ([10, 9, 0, 1].into(), [10, 9, 0, 5].into());
    let flow =
        FlowKey { src: source, dst: destination, protocol: 17, src_port: REPEATED, dst_port: BULK, flow_label: 0 };
    let signed: Vec<_> = signals.into_iter().map(|signal| (REPEATED, key.sign(&flow, signal))).collect();
    let saying = within(0, move || {
        signed.chunks(1).for_each(|one| {
            put(one);
            sleep(Duration::from_millis(10));
        });
    });
    saying.join().unwrap();
}

/// Sends packets with signals from these ports of the first node to the last one.
fn put(signals: &[(u16, Signal)]) {
    let (kind, flags) = (SockType::Raw, SockFlag::empty());
    let socket = socket(AddressFamily::Inet, kind, flags, SockProtocol::Raw).unwrap();
    for (port, signal) in signals {
        let to = SockaddrIn::new(10, 9, 0, 5, 0);
        sendto(socket.as_raw_fd(), &packet(*port, signal), &to, MsgFlags::empty()).unwrap();
    }
}

/// Returns a signal that asks for a guaranteed rate.
fn signal(message: Message, mbps: u64, nonce: u32) -> Signal {
    let rates = Rates { available: Rate16::ZERO, guaranteed: Rate16::floor(Rate::from_mbps(mbps)) };
    Signal {
        message,
        service: SignalService::Guaranteed,
        receiver_pays: false,
        is_lowered: false,
        preemption: 5,
        delay_priority: 0,
        burst: BurstTolerance::default(),
        delay_variance: DelayVariance::default(),
        forward: rates,
        reverse: Rates::default(),
        echoed: rates,
        nonce,
        hops: 0,
        qttl: 64,
        lowered_by: 0,
        must_be_met: false,
        is_overlay: false,
        tag: 0,
    }
}

/// Returns a UDP packet that carries a signal.
fn packet(from_port: u16, signal: &Signal) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 48, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 5];
    packet.extend([from_port.to_be_bytes(), BULK.to_be_bytes(), 28u16.to_be_bytes(), [0; 2]].concat());
    packet.extend([0; 20]);
    let mut out = vec![0; packet.len() + ADDED_LEN];
    let len = carriage::insert(&packet, signal, &mut out).unwrap();
    out.truncate(len);
    out
}

/// Returns the rate that the first node was granted for the flow to a port, in Mbit/s.
fn granted(dir: &Dir, port: u16) -> Option<f64> {
    let status = status(dir, "n0");
    let flows = status["signal"]["flows"].as_array()?;
    let flow = flows.iter().find(|flow| flow["rule"] == format!("r{port}"))?;
    flow["rate_bps"].as_f64().map(|bps| bps / 1e6)
}

/// Returns the total rate that a node guarantees toward the next one, in Mbit/s.
fn guaranteed(dir: &Dir, node: &str) -> f64 {
    let status = status(dir, node);
    let peers = status["signal"]["peers"].as_array().unwrap();
    peers.iter().map(|peer| peer["guaranteed_bps"].as_f64().unwrap()).sum::<f64>() / 1e6
}

fn wait_for(what: &str, dir: &Dir, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(50), "no {what}\n{}", log(dir));
        thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the log of each node, and its state of signalling.
fn log(dir: &Dir) -> String {
    let log = |node: &&str| {
        let text = std::fs::read_to_string(dir.path(&format!("{node}.log"))).unwrap_or_default();
        format!("{node}: {}\n{text}", status(dir, node)["signal"])
    };
    NODES.iter().map(log).collect()
}
