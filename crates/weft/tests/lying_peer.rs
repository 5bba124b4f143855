//! Property: a second peer keeps its goodput and its session while another peer lies.
//!
//! The lying peer is authentic, and sends a running hub 100 Mbit/s of arbitrary frames.
//!
//! The test runs itself again in namespaces of its own. This process is the lying peer there. It has a true session
//! key. It sends each kind of lie for four seconds, or for sixty with `WEFT_CHECK=1`.

mod common;
#[path = "../../weft-engine/tests/lies/mod.rs"]
mod lies;

use common::flow::TcpFlow;
use common::inside;
use common::segment::{CENTRE, HERE, HUB, Segment, THIRD, address, identity};
use lies::{CONTROL, DATA, Draw, ROOM};
use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use weft_session::{Cipher, Outcome, SessionPeerConfig, Sessions};
use weft_units::{PathId, PeerId, Rng};
use weft_wire::hop::{HOP_HEADER_LEN, TAG_LEN};
use weft_wire::relay::{LABEL_LEN, Label, Way};

/// Rate of the lying peer, in bytes per second including IP headers.
const LIAR_RATE: f64 = 12.5e6;
/// Length of the IPv4 and UDP headers, in bytes.
const OUTER_HEADERS: usize = 28;
/// Fraction of its goodput that the second peer must keep.
const LEAST_SHARE: f64 = 0.8;
/// Fraction that the second peer must keep on any machine, however busy.
const LEAST_SHARE_WHEN_BUSY: f64 = 0.2;

#[test]
fn a_second_peer_keeps_its_goodput() {
    inside::or_again("a_second_peer_keeps_its_goodput", beside_a_liar);
}

/// A kind of lie: the lengths of its datagrams, and its frames.
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

/// The kinds of lies that the test tries.
const MANNERS: &[Manner] = &[
    Manner { name: "of any size", rooms: &[40, 60, 100, 400, 1_000, ROOM], kinds: any },
    Manner { name: "full", rooms: &[ROOM], kinds: |rng| any_of(rng, CONTROL) },
    Manner { name: "small control", rooms: &[40], kinds: |rng| any_of(rng, CONTROL) },
    Manner { name: "small units", rooms: &[80], kinds: |rng| any_of(rng, DATA) },
];

/// A peer with a session that sends arbitrary frames.
struct Liar {
    socket: UdpSocket,
    sessions: Sessions,
    draw: Draw,
    start: Instant,
}

/// Id of the hub as the lying peer's only peer.
const TO_HUB: PeerId = PeerId(0);

impl Liar {
    /// Performs a handshake with the hub.
    fn new() -> Liar {
        let start = Instant::now();
        let now = weft_units::Instant::from_millis(1);
        let hub = SessionPeerConfig::from(identity(CENTRE).public_key());
        let mut sessions = Sessions::new(identity(THIRD), &[hub], Cipher::Aes256Gcm, [7; 32], now).unwrap();
        let socket = UdpSocket::bind(HERE).unwrap();
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
        let draw = Draw { rng: Rng::new(5), n: 0, largest: 1, room: ROOM, ends: [THIRD, CENTRE].map(address) };
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

    /// Receives the hub's datagrams, and records which packet numbers they have.
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

    /// Sends lies for some time, and returns the bits and datagrams sent per second.
    fn lie(&mut self, manner: &Manner, time: Duration) -> [f64; 2] {
        let (start, mut sent, mut datagrams, mut paid) = (Instant::now(), 0.0, 0u64, 0.0);
        while start.elapsed() < time {
            let due = start.elapsed().as_secs_f64() * LIAR_RATE;
            // Datagrams that are overdue by more than 20 ms are not sent later.
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

/// Returns the processor time that all threads of a process have used, in seconds.
fn cpu_of(process: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Returns the commonest kinds of lines of a log. Lines of one kind differ in numbers only.
fn commonest(log: &str) -> String {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for line in log.lines() {
        *kinds.entry(line.replace(|c: char| c.is_ascii_digit(), "")).or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().map(|(kind, count)| format!("\n{count:6} {kind}")).collect();
    kinds.sort_by(|one, other| other.cmp(one));
    kinds.into_iter().take(5).collect()
}

fn beside_a_liar() {
    let long = std::env::var_os("WEFT_CHECK").is_some();
    let time = Duration::from_secs(if long { 60 } else { 4 });
    let segment = Segment::start();
    let Segment { hub, home, .. } = &segment;
    let flow = TcpFlow::start("home", "hub", address(CENTRE));
    thread::sleep(Duration::from_secs(2));
    let alone = flow.goodput(|| thread::sleep(Duration::from_secs(4)));
    println!("alone: {:.1} Mbit/s", alone / 1e6);
    let mut liar = Liar::new();
    let mut shares = Vec::new();
    for manner in MANNERS {
        let cpu = || [hub.id().to_string(), home.id().to_string(), "self".into()].map(|process| cpu_of(&process));
        let (before, lost) = (cpu(), hub.sockets().1);
        let mut said = [0.0; 2];
        let beside = flow.goodput(|| said = liar.lie(manner, time));
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
    let lasted = segment.seen_by_hub("home")["established_s"].as_f64().unwrap_or(0.0);
    println!("the second peer's session lasts for {lasted} s; liar's time {:.0} s", liar.start.elapsed().as_secs_f64());
    // Datagrams of the lying peer that the hub dropped because it was overloaded.
    let unserved = segment.seen_by_hub("third")["unserved_datagrams"].as_u64().unwrap_or(0);
    let log = segment.hub_log();
    println!("the hub logged {} lines; {unserved} datagrams of the liar's had no share", log.lines().count());
    assert!(!log.contains("panicked"), "{log}");
    let is_short = log.lines().count() < 200 + 4 * liar.start.elapsed().as_secs() as usize;
    assert!(is_short, "the liar fills the log: {}", commonest(&log));
    assert!(lasted >= time.as_secs_f64() * MANNERS.len() as f64, "{lasted} s");
    let least = if long { LEAST_SHARE } else { LEAST_SHARE_WHEN_BUSY };
    let poor: Vec<_> = shares.iter().filter(|(_, share)| *share < least).collect();
    assert!(poor.is_empty(), "{poor:?}");
}
