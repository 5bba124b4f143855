//! Properties under attack on a running node.
//!
//! A million forged and replayed datagrams get no answer beyond cookies, its memory does not grow, and its true peer is
//! still served. A million packets with broken options from a host behind it cause no grant, and all other packets are
//! still forwarded.
//!
//! The test is part of `make check`; elsewhere it is skipped, because it takes a minute. It runs itself again in a
//! network namespace. This process is the network between two nodes there, and the attacker in it.

mod common;

use common::Dir;
use common::inside::{self, Daemon, run, status, wait_for};
use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use weft_session::{Cipher, Identity, PublicKey, SessionPeerConfig, Sessions};
use weft_units::{PeerId, Rng};

/// Name of the test with forged datagrams.
const FORGED: &str = "a_million_forged_datagrams_cost_nothing";
/// Name of the test with broken options.
const BROKEN: &str = "a_million_broken_options_grant_nothing";
/// Environment variable with the test's task when it runs itself again within its namespaces.
const SENDER: &str = "WEFT_TEST_SENDER";
/// Number of datagrams or packets of an attack.
const DATAGRAMS: u64 = 1_000_000;
/// Maximum backlog in the node's socket, in bytes.
///
/// With a larger one the kernel would drop datagrams before the node receives them.
const BACKLOG_BYTES: u64 = 50_000;
/// Number of datagrams between two checks of the backlog and of the answers.
const BATCH: u64 = 32;
/// First byte of a handshake initiation.
const INITIATION: u8 = 0x11;
/// First byte of a handshake response.
const RESPONSE: u8 = 0x12;
/// First byte of a cookie reply.
const COOKIE_REPLY: u8 = 0x13;
/// Maximum growth of the node's resident memory during an attack, in KiB.
const RSS_GROWTH_KIB: i64 = 1_024;

/// Address of this process toward home.
const RELAY_TO_HOME: &str = "192.0.2.18:51900";
/// Address of this process toward the hub.
const RELAY_TO_HUB: &str = "192.0.2.33:51900";
/// Address at which the hub listens.
const HUB: &str = "192.0.2.34:51900";

#[test]
fn a_million_forged_datagrams_cost_nothing() {
    inside_or_again(FORGED, inside);
}

#[test]
fn a_million_broken_options_grant_nothing() {
    match std::env::var_os(SENDER) {
        Some(options) => send_syns(&options == "broken"),
        None => inside_or_again(BROKEN, inside_of_options),
    }
}

fn inside_or_again(name: &str, inside: fn()) {
    if std::env::var_os("WEFT_CHECK").is_none() {
        eprintln!("skipped: takes a minute; set WEFT_CHECK=1, or run `make check`");
        return;
    }
    inside::or_again(name, inside);
}

/// Topology: `home` and `hub` with this process between them.
const TOPOLOGY: &str = "set -eu
    for node in home hub; do ip netns add $node; ip -n $node link set lo up; done
    ip link add to-home type veth peer name link1 netns home
    ip link add to-hub type veth peer name link1 netns hub
    ip addr add 192.0.2.18/28 dev to-home; ip link set to-home up
    ip addr add 192.0.2.33/28 dev to-hub; ip link set to-hub up
    ip -n home addr add 192.0.2.17/28 dev link1; ip -n home link set link1 up
    ip -n hub addr add 192.0.2.34/28 dev link1; ip -n hub link set link1 up";

fn in_home(args: &[&str]) -> bool {
    run(Command::new("ip").args(["netns", "exec", "home"]).args(args))
}

fn rejected(dir: &Dir) -> u64 {
    status(dir, "hub")["rejected_datagrams"].as_u64().unwrap()
}

fn configure(dir: &Dir, more: &str) -> PublicKey {
    let keys = ["home", "hub"].map(|node| Identity::from_secret([node.len() as u8; 32]));
    for (at, (node, other)) in [("home", "hub"), ("hub", "home")].into_iter().enumerate() {
        let key_file = dir.write(&format!("{node}.key"), &format!("{}\n", keys[at].secret_to_base64()));
        common::chmod(&key_file, 0o600);
        let path = |suffix: &str| dir.path(&format!("{node}.{suffix}")).display().to_string();
        let (listen, endpoints) = match node {
            "hub" => ("listen = 51900", String::new()),
            _ => ("", format!("endpoints = [\"{RELAY_TO_HOME}\"]")),
        };
        let text = format!(
            "[node]\nkey = \"{}\"\nstate = \"{}\"\ncontrol = \"{}\"\n{listen}\n[tun]\naddress = [\"10.9.0.{}/24\"]\n\
             [[peer]]\nname = \"{other}\"\npublic-key = \"{}\"\nprefixes = [\"10.9.0.{}/32\"]\n{endpoints}\n{more}",
            path("key"),
            path("state"),
            path("sock"),
            at + 1,
            keys[1 - at].public_key(),
            2 - at,
        );
        dir.write(&format!("{node}.toml"), &text);
    }
    keys[1].public_key()
}

type Captured = Arc<Mutex<Vec<Vec<u8>>>>;

/// Forwards datagrams between home and hub, and captures the first ones from home.
fn relay() -> Captured {
    let to_home = UdpSocket::bind(RELAY_TO_HOME).unwrap();
    let to_hub = UdpSocket::bind(RELAY_TO_HUB).unwrap();
    to_hub.connect(HUB).unwrap();
    let captured = Captured::default();
    let home = Arc::new(Mutex::new(None));
    let (keep, from_home, answer_to) = (Arc::clone(&captured), to_home.try_clone().unwrap(), Arc::clone(&home));
    let forward = to_hub.try_clone().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok((len, source)) = from_home.recv_from(&mut buffer) {
            *answer_to.lock().unwrap() = Some(source);
            let mut keep = keep.lock().unwrap();
            if keep.len() < 5_000 {
                keep.push(buffer[..len].to_vec());
            }
            let _ = forward.send(&buffer[..len]);
        }
    });
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        loop {
            // If the hub is not yet running, the receive call returns an error.
            let Ok(len) = to_hub.recv(&mut buffer) else { continue };
            if let Some(home) = *home.lock().unwrap() {
                let _ = to_home.send_to(&buffer[..len], home);
            }
        }
    });
    captured
}

/// Answers that the attacker received.
#[derive(Default, Debug, Clone, Copy)]
struct Replies {
    cookies: u64,
    responses: u64,
    others: u64,
    bytes: u64,
    longest: usize,
}

struct Attacker {
    socket: UdpSocket,
    rng: Rng,
}

impl Attacker {
    fn new() -> Attacker {
        let socket = UdpSocket::bind("192.0.2.33:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(HUB).unwrap();
        Attacker { socket, rng: Rng::new(1) }
    }

    fn collect(&self, replies: &mut Replies) {
        let mut buffer = [0; 2_048];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            match buffer[0] {
                COOKIE_REPLY => replies.cookies += 1,
                RESPONSE => replies.responses += 1,
                _ => replies.others += 1,
            }
            replies.bytes += len as u64;
            replies.longest = replies.longest.max(len);
        }
    }

    /// Sends `count` datagrams of one kind as fast as `hub` receives them, and returns the answers.
    fn flood(&mut self, hub: &Daemon, count: u64, mut make: impl FnMut(&mut Rng, &mut Vec<u8>)) -> Replies {
        let (mut replies, mut datagram) = (Replies::default(), Vec::new());
        for number in 0..count {
            datagram.clear();
            make(&mut self.rng, &mut datagram);
            while self.socket.send(&datagram).is_err() {
                thread::sleep(Duration::from_micros(50));
            }
            if number % BATCH == 0 {
                self.collect(&mut replies);
                hub.let_catch_up(BACKLOG_BYTES);
            }
        }
        hub.let_catch_up(0);
        thread::sleep(Duration::from_millis(300));
        self.collect(&mut replies);
        replies
    }
}

/// Material of the attacker.
struct Arsenal {
    initiation: Vec<u8>,
    sealed: Vec<Vec<u8>>,
    /// Initiations with a valid MAC1, by keys that the hub does not know.
    strangers: Vec<Vec<u8>>,
}

impl Arsenal {
    fn new(captured: &Captured, hub: PublicKey) -> Arsenal {
        let captured = captured.lock().unwrap();
        let initiation = captured.iter().find(|d| d[0] == INITIATION).expect("home began with an initiation").clone();
        let sealed: Vec<_> = captured.iter().filter(|d| matches!(d[0], 0x14 | 0x15)).cloned().collect();
        assert!(sealed.len() > 300, "only {} datagrams to replay", sealed.len());
        let now = weft_units::Instant::from_millis(1);
        let stranger = |n: u64| {
            let mut seed = [0x5a; 32];
            seed[..8].copy_from_slice(&n.to_le_bytes());
            let identity = Identity::from_secret(seed);
            let mut sessions =
                Sessions::new(identity, &[SessionPeerConfig::from(hub)], Cipher::Aes256Gcm, seed, now).unwrap();
            let mut out = vec![0; 512];
            let len = sessions.initiate(now, PeerId(0), n + 1, &mut out).unwrap();
            out.truncate(len);
            out
        };
        Arsenal { initiation, sealed, strangers: (0..2_000).map(stranger).collect() }
    }

    fn any_sealed(&self, rng: &mut Rng) -> &[u8] {
        &self.sealed[rng.below(self.sealed.len() as u64) as usize]
    }
}

/// Performs all kinds of attack with `total` datagrams in all.
///
/// Prints the answers, and returns the longest one in bytes.
fn attack(hub: &Daemon, attacker: &mut Attacker, arsenal: &Arsenal, total: u64) -> usize {
    let request = arsenal.initiation.len();
    let show = |kind: &str, sent: u64, r: Replies| {
        println!(
            "{kind:34} {sent:8} sent, {:6} cookies, {} responses, {} others, {} bytes back",
            r.cookies, r.responses, r.others, r.bytes
        );
        assert_eq!((r.others, r.responses), (0, 0), "{kind}: {r:?}");
        assert!(r.cookies <= sent && r.longest <= request, "{kind}: {r:?} for {request} bytes each");
        r
    };
    let silent = |kind: &str, sent: u64, r: Replies| assert_eq!(show(kind, sent, r).bytes, 0, "{kind} was answered");

    let sent = total / 5;
    silent(
        "noise",
        sent,
        attacker.flood(hub, sent, |rng, out| {
            (0..1 + rng.below(200)).for_each(|_| out.extend(rng.next_u64().to_le_bytes()))
        }),
    );
    silent("true datagrams again", sent, attacker.flood(hub, sent, |rng, out| out.extend(arsenal.any_sealed(rng))));
    let bad_tag = |rng: &mut Rng, out: &mut Vec<u8>| {
        out.extend(arsenal.any_sealed(rng));
        // A number that the hub has not yet seen, so that only the tag is wrong.
        let number = rng.next_u64() as u32 % 1_000_000 + 100_000;
        out[6..10].copy_from_slice(&number.to_be_bytes());
    };
    silent("true headers, wrong tags", sent, attacker.flood(hub, sent, bad_tag));
    let wrong_mac = |rng: &mut Rng, out: &mut Vec<u8>| {
        out.extend(&arsenal.initiation);
        out[8 + rng.below(request as u64 - 24) as usize] ^= 1 << rng.below(8);
    };
    silent("initiations, wrong MAC1", sent, attacker.flood(hub, sent, wrong_mac));
    let sent = total / 10;
    let first = show(
        "strangers' initiations, right MAC1",
        sent,
        attacker.flood(hub, sent, |rng, out| out.extend(&arsenal.strangers[rng.below(2_000) as usize])),
    );
    let again =
        show("the true initiation again", sent, attacker.flood(hub, sent, |_, out| out.extend(&arsenal.initiation)));
    first.longest.max(again.longest)
}

fn inside() {
    assert!(run(Command::new("bash").args(["-c", TOPOLOGY])), "no namespaces");
    let dir = Dir::new();
    let hub_key = configure(&dir, "");
    let captured = relay();
    let hub = Daemon::start(&dir, "hub");
    wait_for("hub", &dir, || dir.path("hub.sock").exists());
    let _home = Daemon::start(&dir, "home");
    let ping = |count: &str| in_home(&["ping", "-q", "-c", count, "-i", "0.01", "-W", "2", "10.9.0.2"]);
    wait_for("way through the tunnel", &dir, || ping("1"));
    assert!(ping("400"));
    let arsenal = Arsenal::new(&captured, hub_key);
    let mut attacker = Attacker::new();
    // For five seconds the hub answers the true initiation with the same response again, because the first may have
    // been lost.
    thread::sleep(Duration::from_secs(6));

    println!("warm-up");
    attack(&hub, &mut attacker, &arsenal, DATAGRAMS / 10);
    let (rss_before, rejected_before, drops_before) = (hub.rss_kib(), rejected(&dir), hub.sockets().1);
    println!("attack");
    let start = Instant::now();
    let longest = attack(&hub, &mut attacker, &arsenal, DATAGRAMS);
    let elapsed = start.elapsed();
    let (rss_after, seen, dropped) = (hub.rss_kib(), rejected(&dir) - rejected_before, hub.sockets().1 - drops_before);
    println!(
        "{DATAGRAMS} datagrams in {:.1} s, {dropped} lost before the node; it rejected {seen} and asked the rest for proof",
        elapsed.as_secs_f64()
    );
    println!("an initiation is {} bytes long, the longest answer {longest}", arsenal.initiation.len());
    println!("resident set {rss_before} KiB before, {rss_after} KiB after");
    assert!(rss_after - rss_before <= RSS_GROWTH_KIB, "it grew by {} KiB", rss_after - rss_before);
    assert!(seen > DATAGRAMS / 2, "it saw only {seen} of them");

    assert!(ping("100"), "the true peer is not served any more");
    assert!(status(&dir, "hub")["peers"][0]["established_s"].is_u64());
    let log = fs::read_to_string(dir.path("hub.log")).unwrap();
    assert!(!log.contains("panicked") && !log.contains("session lost"), "{log}");
}

/// Signalling without a key, so that the node processes any signal, and answers it.
const SIGNALLING: &str = "[signal]\nquick-start = true\n";

fn inside_of_options() {
    assert!(run(Command::new("bash").args(["-c", TOPOLOGY])), "no namespaces");
    let dir = Dir::new();
    configure(&dir, SIGNALLING);
    let _captured = relay();
    let hub = Daemon::start(&dir, "hub");
    wait_for("hub", &dir, || dir.path("hub.sock").exists());
    let home = Daemon::start(&dir, "home");
    let ping = |count: &str| in_home(&["ping", "-q", "-c", count, "-i", "0.01", "-W", "2", "10.9.0.2"]);
    wait_for("way through the tunnel", &dir, || ping("1"));
    let own = std::env::current_exe().unwrap();
    let send = |options: &str| {
        let mut sender = Command::new("ip");
        sender.args(["netns", "exec", "home"]).arg(&own).args(["--exact", BROKEN, "--nocapture"]);
        assert!(sender.env(SENDER, options).status().unwrap().success());
    };
    // The queues and flows of a flood take memory whatever the packets contain, so they are filled before the
    // comparison.
    send("none");
    let (before, start) = (home.rss_kib(), Instant::now());
    send("broken");
    println!("{DATAGRAMS} packets with broken options in {:.1} s", start.elapsed().as_secs_f64());
    for (node, daemon) in [("home", &home), ("hub", &hub)] {
        let signal = &status(&dir, node)["signal"];
        println!("{node}: {signal}, {} KiB resident", daemon.rss_kib());
        assert_eq!((&signal["granted"], &signal["flow_count"]), (&0.into(), &0.into()), "{node}");
        let log = fs::read_to_string(dir.path(&format!("{node}.log"))).unwrap();
        assert!(!log.contains("panicked"), "{log}");
    }
    println!("home: {before} KiB after as many without options");
    assert!(home.rss_kib() - before <= 8 * RSS_GROWTH_KIB, "it grew by {} KiB", home.rss_kib() - before);
    // Each flow of the flood is new, and is served before the next new one.
    wait_for("service of others", &dir, || ping("1"));
}

/// Sends SYNs without options, or with broken ones.
///
/// A broken option begins like those of ER-SIG or Quick-Start and continues at random.
fn send_syns(is_broken: bool) {
    // SAFETY: the call takes no pointers; it creates a new descriptor that nothing else uses.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) };
    assert!(raw >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor was just created; only calls for datagram sockets are used on it.
    let socket = unsafe { <UdpSocket as std::os::fd::FromRawFd>::from_raw_fd(raw) };
    let mut rng = Rng::new(1);
    let mut packet = Vec::new();
    for _ in 0..DATAGRAMS {
        packet.clear();
        let words = if is_broken { 1 + rng.below(10) as u8 } else { 0 };
        packet.extend([0x45 + words, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        let options = packet.len();
        let any = rng.next_u64() as u8;
        packet.extend([[30, 30], [25, 8], [30, any], [25, any]][rng.below(4) as usize].iter().filter(|_| is_broken));
        while packet.len() < options + usize::from(words) * 4 {
            packet.push(rng.next_u64() as u8);
        }
        // By chance one in 4,096 is a signal of the present version, and some of those request a rate.
        if let Some(version) = packet.get_mut(options + 26).filter(|_| words >= 8) {
            *version |= 0x80;
        }
        // A SYN, possibly truncated.
        let port = (1_024 + rng.below(60_000) as u16).to_be_bytes();
        packet.extend([port[0], port[1], 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
        packet.truncate(packet.len() - if rng.below(8) == 0 { rng.below(20) as usize } else { 0 });
        let _ = socket.send_to(&packet, "10.9.0.2:0");
    }
}
