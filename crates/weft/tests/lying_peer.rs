//! An authentic peer sends a running hub 100 Mbit/s of whatever it likes. A second peer keeps its goodput and its session.
//!
//! The test runs itself again in namespaces of its own. This process is the lying peer there; it holds a true session key. It runs for eight
//! seconds of each way to lie, and with `WEFT_CHECK=1` for sixty.

mod common;
#[path = "../../weft-engine/tests/lies/mod.rs"]
mod lies;

use common::Dir;
use common::inside::{self, Daemon, run, status, wait_for, within};
use lies::{CONTROL, DATA, Draw, ROOM};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use weft_session::{Cipher, Identity, Outcome, PeerConfig, Sessions};
use weft_units::{PathId, PeerId, Rng};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};
use weft_wire::relay::{LABEL_LEN, Label, Way};

/// Bytes a second, IP headers included.
const LIAR_RATE: f64 = 12.5e6;
/// IPv4 and UDP.
const OUTER_HEADERS: usize = 28;
const HUB: &str = "192.0.2.34:51900";
const HUB_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const LIAR_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 3);
const TCP_PORT: u16 = 5_001;
/// Least share of its goodput that the second peer keeps, and that it keeps on any machine, however busy.
const LEAST_SHARE: f64 = 0.8;
const LEAST_SHARE_WHEN_BUSY: f64 = 0.2;

/// All are in one network, so that the hub has one socket for both peers. The second peer has an access link of 40 Mbit/s, as a site may have.
const TOPOLOGY: &str = "set -eu
    ip link add br0 type bridge; ip addr add 192.0.2.33/28 dev br0; ip link set br0 up
    for node in home hub; do
        ip netns add $node; ip -n $node link set lo up
        ip link add to-$node type veth peer name link1 netns $node
        ip link set to-$node master br0 up
    done
    ip -n home addr add 192.0.2.35/28 dev link1; ip -n home link set link1 up
    ip -n hub addr add 192.0.2.34/28 dev link1; ip -n hub link set link1 up
    tc -n home qdisc add dev link1 root tbf rate 40mbit burst 32k latency 40ms";

#[test]
fn a_second_peer_keeps_its_goodput() {
    inside::or_again("a_second_peer_keeps_its_goodput", beside_a_liar);
}

/// A way to lie: how long the datagrams are, and which kinds are drawn.
struct Manner {
    name: &'static str,
    rooms: &'static [usize],
    kinds: fn(&mut Rng) -> &'static lies::Kind,
}

fn any_of(rng: &mut Rng, kinds: &'static [lies::Kind]) -> &'static lies::Kind {
    &kinds[rng.below(kinds.len() as u64) as usize]
}

fn any(rng: &mut Rng) -> &'static lies::Kind {
    if rng.chance(0.5) { any_of(rng, DATA) } else { any_of(rng, CONTROL) }
}

const MANNERS: &[Manner] = &[
    Manner { name: "of any size", rooms: &[40, 60, 100, 400, 1_000, ROOM], kinds: any },
    Manner { name: "full", rooms: &[ROOM], kinds: |rng| any_of(rng, CONTROL) },
    Manner { name: "small control", rooms: &[40], kinds: |rng| any_of(rng, CONTROL) },
    Manner { name: "small units", rooms: &[80], kinds: |rng| any_of(rng, DATA) },
];

fn configure(dir: &Dir) {
    let names = ["home", "hub", "liar"];
    let keys = [1, 2, 3].map(|n| Identity::from_secret([n; 32]));
    let peer = |at: usize, more: &str| {
        let (name, key) = (names[at], keys[at].public_key());
        format!("[[peer]]\nname = \"{name}\"\npublic-key = \"{key}\"\nprefixes = [\"10.9.0.{}/32\"]\n{more}", at + 1)
    };
    let peers = [peer(1, "endpoints = [\"192.0.2.34:51900\"]\n"), peer(0, "") + &peer(2, "")];
    for (at, peers) in peers.iter().enumerate() {
        let (node, more) = (names[at], ["", "listen = 51900\nrelay = true\n"][at]);
        let key_file = dir.write(&format!("{node}.key"), &format!("{}\n", keys[at].secret_to_base64()));
        common::chmod(&key_file, 0o600);
        let path = |suffix: &str| dir.path(&format!("{node}.{suffix}")).display().to_string();
        let text = format!(
            "[node]\nkey = \"{}\"\nstate = \"{}\"\ncontrol = \"{}\"\n{more}[tun]\naddress = [\"10.9.0.{}/24\"]\n{peers}",
            path("key"),
            path("state"),
            path("sock"),
            at + 1,
        );
        dir.write(&format!("{node}.toml"), &text);
    }
}

/// One TCP flow from home to the hub; gives the count of bytes that have arrived.
fn tcp_flow() -> Arc<AtomicU64> {
    let arrived = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&arrived);
    let listener = within("hub", || TcpListener::bind((HUB_INSIDE, TCP_PORT)).unwrap()).join().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 65_536];
        while let Ok(len @ 1..) = stream.read(&mut buffer) {
            count.fetch_add(len as u64, Ordering::Relaxed);
        }
    });
    within("home", || {
        let mut stream = TcpStream::connect((HUB_INSIDE, TCP_PORT)).unwrap();
        let block = vec![0; 65_536];
        while stream.write_all(&block).is_ok() {}
    });
    arrived
}

/// Bits a second that arrive during `time`.
fn goodput(arrived: &AtomicU64, time: impl FnOnce()) -> f64 {
    let (before, start) = (arrived.load(Ordering::Relaxed), Instant::now());
    time();
    (arrived.load(Ordering::Relaxed) - before) as f64 * 8.0 / start.elapsed().as_secs_f64()
}

/// A peer with a session, which says whatever it likes.
struct Liar {
    socket: UdpSocket,
    sessions: Sessions,
    draw: Draw,
    start: Instant,
}

const TO_HUB: PeerId = PeerId(0);

impl Liar {
    /// Shakes hands with the hub.
    fn new() -> Liar {
        let start = Instant::now();
        let [hub, me] = [2, 3].map(|n| Identity::from_secret([n; 32]));
        let now = weft_units::Instant::from_millis(1);
        let hub = PeerConfig::from(hub.public_key());
        let mut sessions = Sessions::new(me, &[hub], Cipher::Aes256Gcm, [7; 32], now).unwrap();
        let socket = UdpSocket::bind("192.0.2.33:0").unwrap();
        socket.connect(HUB).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let stamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        let (mut out, mut reply) = ([0; 512], [0; 2_048]);
        let len = sessions.initiate(now, TO_HUB, stamp, &mut out).unwrap();
        socket.send(&out[..len]).unwrap();
        let len = socket.recv(&mut reply).expect("an answer to a true initiation");
        let outcome = sessions.handle(now, &reply[..len], &[], false, &mut out).unwrap();
        assert!(matches!(outcome, Outcome::Established { .. }));
        socket.set_nonblocking(true).unwrap();
        let draw = Draw { rng: Rng::new(5), n: 0, largest: 1, room: ROOM, ends: [LIAR_INSIDE, HUB_INSIDE] };
        Liar { socket, sessions, draw, start }
    }

    fn seal(&mut self, manner: &Manner) -> Vec<u8> {
        self.draw.n = (self.draw.n + 1) % 100_000;
        self.draw.room = manner.rooms[self.draw.rng.below(manner.rooms.len() as u64) as usize];
        let (packet_type, plaintext) = ((manner.kinds)(&mut self.draw.rng).make)(&mut self.draw);
        let mut datagram = vec![0; HOP_HEADER_LEN];
        datagram.extend(plaintext);
        if self.draw.rng.chance(0.02) {
            let way = Way::new(&[Label(self.draw.rng.next_u64() as u32)]).unwrap();
            datagram.resize(datagram.len() + LABEL_LEN + TAG_LEN, 0);
            self.sessions.seal_relayed(TO_HUB, &way, &mut datagram).unwrap();
            return datagram;
        }
        datagram.resize(datagram.len() + TAG_LEN, 0);
        let path = PathId(if self.draw.rng.chance(0.98) { 0 } else { self.draw.rng.below(256) as u8 });
        self.sessions.seal(TO_HUB, path, packet_type, &mut datagram).unwrap();
        datagram
    }

    /// What the hub says back, and which numbers it has used.
    fn listen(&mut self) {
        let mut buffer = [0; 2_048];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            if let Ok(opened) = self.sessions.open(&mut buffer[..len])
                && opened.path == PathId(0)
            {
                self.draw.largest = self.draw.largest.max(opened.packet_number);
            }
        }
    }

    /// Lies for some time, and gives the bits and datagrams a second that it sent.
    fn lie(&mut self, manner: &Manner, time: Duration) -> [f64; 2] {
        let (start, mut sent, mut datagrams, mut paid) = (Instant::now(), 0.0, 0u64, 0.0);
        while start.elapsed() < time {
            let due = start.elapsed().as_secs_f64() * LIAR_RATE;
            // What it had no time to send is not made up for.
            paid = f64::max(paid, due - LIAR_RATE / 50.0);
            if paid >= due {
                thread::sleep(Duration::from_micros(200));
                continue;
            }
            for _ in 0..16 {
                let datagram = self.seal(manner);
                let bytes = (datagram.len() + OUTER_HEADERS) as f64;
                paid += bytes;
                if self.socket.send(&datagram).is_ok() {
                    (sent, datagrams) = (sent + bytes, datagrams + 1);
                }
            }
            self.listen();
        }
        let seconds = start.elapsed().as_secs_f64();
        [sent * 8.0 / seconds, datagrams as f64 / seconds]
    }
}

/// Processor seconds that a process has used, all its threads.
fn cpu_of(process: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Datagrams of the liar that the hub dropped because it was behind.
fn unserved(hub: &serde_json::Value) -> u64 {
    let liar = hub["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == "liar");
    liar.and_then(|liar| liar["unserved_datagrams"].as_u64()).unwrap_or(0)
}

fn beside_a_liar() {
    assert!(run(Command::new("bash").args(["-c", TOPOLOGY])), "no namespaces");
    let long = std::env::var_os("WEFT_CHECK").is_some();
    let time = Duration::from_secs(if long { 60 } else { 8 });
    let dir = Dir::new();
    configure(&dir);
    let hub = Daemon::start(&dir, "hub");
    wait_for("hub", &dir, || dir.path("hub.sock").exists());
    let home = Daemon::start(&dir, "home");
    let ping = || run(Command::new("ip").args(["netns", "exec", "home", "ping", "-q", "-c1", "-W1", "10.9.0.2"]));
    wait_for("way through the tunnel", &dir, ping);
    let arrived = tcp_flow();
    thread::sleep(Duration::from_secs(2));
    let alone = goodput(&arrived, || thread::sleep(Duration::from_secs(4)));
    println!("alone: {:.1} Mbit/s", alone / 1e6);
    let mut liar = Liar::new();
    let mut shares = Vec::new();
    for manner in MANNERS {
        let cpu = || [hub.id().to_string(), home.id().to_string(), "self".into()].map(|process| cpu_of(&process));
        let (before, lost) = (cpu(), hub.sockets().1);
        let mut said = [0.0; 2];
        let beside = goodput(&arrived, || said = liar.lie(manner, time));
        let used = std::array::from_fn::<f64, 3, _>(|at| (cpu()[at] - before[at]) / time.as_secs_f64() * 100.0);
        let share = beside / alone;
        println!(
            "{}: {:.1} Mbit/s, {share:.2} of it; the liar sent {:.0} Mbit/s in {:.0} datagrams/s, {} lost in the hub's socket; CPU: hub {:.0} %, home {:.0} %, liar and TCP {:.0} %",
            manner.name,
            beside / 1e6,
            said[0] / 1e6,
            said[1],
            hub.sockets().1 - lost,
            used[0],
            used[1],
            used[2]
        );
        shares.push((manner.name, share));
    }
    let seen = status(&dir, "hub");
    let session = seen["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == "home").unwrap();
    let lasted = session["established_s"].as_f64().unwrap_or(0.0);
    println!("the second peer's session lasts for {lasted} s; liar's time {:.0} s", liar.start.elapsed().as_secs_f64());
    let log = fs::read_to_string(dir.path("hub.log")).unwrap();
    println!("the hub logged {} lines; {} datagrams of the liar's had no share", log.lines().count(), unserved(&seen));
    assert!(!log.contains("panicked"), "{log}");
    assert!(log.lines().count() < 200 + 4 * liar.start.elapsed().as_secs() as usize, "the liar fills the log");
    assert!(lasted >= time.as_secs_f64() * MANNERS.len() as f64, "{session}");
    let least = if long { LEAST_SHARE } else { LEAST_SHARE_WHEN_BUSY };
    let poor: Vec<_> = shares.iter().filter(|(_, share)| *share < least).collect();
    assert!(poor.is_empty(), "{poor:?}");
}
