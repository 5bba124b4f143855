//! Property: strangers fill neither disk nor log of two nodes, and do not stop their flow.
//!
//! They send 10,000 datagrams a second each to a hub and to a site.
//!
//! The datagrams are of all kinds that need no key. The test runs itself again in namespaces of its own. This process
//! is the strangers there, for ten seconds, or for ten minutes with `WEFT_CHECK=1`. Only then it judges the goodput.

mod common;

use common::flow::TcpFlow;
use common::inside::{self, Daemon};
use common::segment::{CENTRE, HERE, HOME, HUB, Segment, address, identity};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use weft_session::{Cipher, Identity, SessionPeerConfig, Sessions};
use weft_units::{PeerId, Rng};

/// Datagrams per second to each node.
const RATE: u64 = 10_000;
/// Maximum growth of disks and logs, in bytes.
const MOST_WRITTEN: u64 = 10_000_000;
/// Minimum goodput of the flow among strangers, as a fraction of that without them.
const LEAST_SHARE: f64 = 0.95;
/// Number of strangers with a key of their own who know the hub's key.
const STRANGERS: u64 = 500;

#[test]
fn strangers_cost_neither_disk_nor_goodput() {
    inside::or_again("strangers_cost_neither_disk_nor_goodput", among_strangers);
}

fn among_strangers() {
    let long = std::env::var_os("WEFT_CHECK").is_some();
    let time = Duration::from_secs(if long { 600 } else { 10 });
    let segment = Segment::start();
    let flow = TcpFlow::start("home", "hub", address(CENTRE));
    thread::sleep(Duration::from_secs(2));
    let alone = flow.goodput(|| thread::sleep(Duration::from_secs(6)));
    let before = written(&segment.dir.0);
    let targets = [(HUB.parse().unwrap(), CENTRE), (port_of(&segment.home), HOME)];
    let mut strangers = targets.map(|(target, node)| Strangers::new(target, node));
    let mut sent = 0;
    let beside = flow.goodput(|| sent = send_for(time, &mut strangers));
    let (grown, share) = (written(&segment.dir.0) - before, beside / alone);
    println!(
        "{:.1} Mbit/s alone, {:.1} beside {:.0} datagrams/s ({share:.3}); {grown} bytes written; {} lost in the hub's socket",
        alone / 1e6,
        beside / 1e6,
        sent as f64 / time.as_secs_f64(),
        segment.hub.sockets().1
    );
    let log = segment.hub_log();
    assert!(!log.contains("panicked") && !log.contains("session lost"), "{log}");
    assert!(grown < MOST_WRITTEN, "{grown} bytes");
    assert!(!long || share >= LEAST_SHARE, "{share}");
}

/// Returns the bytes of all files: keys, configuration, logs and state.
fn written(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries
        .map(|entry| if entry.path().is_dir() { written(&entry.path()) } else { entry.metadata().unwrap().len() })
        .sum()
}

/// Returns the address at which the site receives. Its port is any.
fn port_of(home: &Daemon) -> SocketAddr {
    let table = |name: &str| fs::read_to_string(format!("/proc/{}/net/{name}", home.id())).unwrap();
    let table = ["udp", "udp6"].map(table).join("\n");
    let local = table.lines().filter_map(|line| line.split_whitespace().nth(1)?.split_once(':'));
    let ports: Vec<u16> = local.filter_map(|(_, port)| u16::from_str_radix(port, 16).ok()).collect();
    SocketAddr::from(([192, 0, 2, 35], *ports.first().expect("a UDP socket")))
}

/// The strangers that send to one node.
struct Strangers {
    socket: UdpSocket,
    rng: Rng,
    /// Well-formed initiations with a valid MAC1, by keys that the node does not know.
    initiations: Vec<Vec<u8>>,
}

impl Strangers {
    fn new(target: SocketAddr, node: usize) -> Strangers {
        let socket = UdpSocket::bind(HERE).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(target).unwrap();
        let now = weft_units::Instant::from_millis(1);
        let initiation = |n: u64| {
            let mut seed = [0x5a; 32];
            seed[..8].copy_from_slice(&n.to_le_bytes());
            let peers = [SessionPeerConfig::from(identity(node).public_key())];
            let mut sessions =
                Sessions::new(Identity::from_secret(seed), &peers, Cipher::Aes256Gcm, seed, now).unwrap();
            let mut out = vec![0; 512];
            let len = sessions.initiate(now, PeerId(0), n + 1, &mut out).unwrap();
            out.truncate(len);
            out
        };
        Strangers { socket, rng: Rng::new(node as u64), initiations: (0..STRANGERS).map(initiation).collect() }
    }

    /// Sends a datagram of a stranger.
    ///
    /// It is a well-formed initiation, one with a changed byte, noise, or noise that begins like a datagram of a
    /// session.
    fn send(&mut self) {
        let rng = &mut self.rng;
        let mut datagram = self.initiations[rng.below(STRANGERS) as usize].clone();
        match rng.below(4) {
            0 => {}
            1 => {
                let at = rng.below(datagram.len() as u64) as usize;
                datagram[at] ^= 1 << rng.below(8);
            }
            kind => {
                datagram.resize(1 + rng.below(1_472) as usize, 0);
                datagram.fill_with(|| rng.next_u64() as u8);
                datagram[0] = if kind == 2 { datagram[0] } else { 0x10 + rng.below(8) as u8 };
            }
        }
        let _ = self.socket.send(&datagram);
        let mut buffer = [0; 2_048];
        while self.socket.recv(&mut buffer).is_ok() {}
    }
}

/// Sends at the rate for some time. Returns the number of datagrams to each node.
fn send_for(time: Duration, strangers: &mut [Strangers; 2]) -> u64 {
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < time {
        let due = (start.elapsed().as_secs_f64() * RATE as f64) as u64;
        // Overdue datagrams are sent at most 10 ms worth at once.
        for _ in 0..(due - sent).min(RATE / 100) {
            strangers.iter_mut().for_each(Strangers::send);
            sent += 1;
        }
        thread::sleep(Duration::from_micros(500));
    }
    sent
}
